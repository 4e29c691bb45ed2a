"""Kill a study at random moments, round after round, and compare every row with those of one that nobody touched.

    python tests/benchmarks/kill_rounds.py --rounds 30 --log kill_rounds.log

Each round carries out one run of Table 3, at a size that trains in seconds, on a real Ray cluster: a head and a node,
as processes of this machine. At a random moment it kills with SIGKILL, in turn: the worker that trains; the node's
raylet; the command; and, as a power cut does, the command, the worker and the whole cluster. Every other round kills
again after the restart. Then the command is repeated until the run is done. In the end all rows of `metrics`, `scores`
and `runs` are compared, columns apart that tell of time; a row that is lost, doubled or changed is a difference.

With --plain there is no Ray: one process trains, evaluates instead of scoring, and keeps the database up to date, and
is killed and started again. That takes seconds a round, also where a cluster would take minutes.

The log has a line for each round and a last one with the sums. A round's number is its seed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from results.query import query
from results.store import Store
from studies.runs import Workspace, plan_runs
from studies.scales import SMOKE, Scale
from studies.scheduling import ray_session, schedule
from studies.scheduling.progress import Progress
from studies.scheduling.resources import Sizes
from studies.table3 import STUDY
from studies.trials import execution, trial

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

VICTIMS = ("worker", "raylet", "command", "everything")
PATIENCE_SECONDS = 900.0
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["ray.tune", "torch", "studies.scheduling.schedule", "studies.scheduling.progress"])


def small_scale() -> Scale:
    """The smoke scale at a size that trains in a second or two, with many checkpoints and averaged weights."""
    base = SMOKE.base
    return replace(
        SMOKE,
        base=replace(
            base,
            model=replace(base.model, vocab_size=600, d_model=32, d_ff=32, d_k=4, d_v=4),
            data=replace(base.data, vocab_size=600),
            train=replace(
                base.train,
                train_steps=60,
                micro_batch_tokens=2_048,
                log_every_steps=2,
                eval_every_steps=30,
                checkpoint_every_steps=7,
                average_last=5,
                average_every_steps=6,
            ),
            decode=replace(base.decode, beam_size=1, max_extra_pieces=1, batch_sentences=300),
        ),
    )


class Nodes:
    """A head that carries out nothing, and a node with a core; what was killed of them is replaced."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None

    @property
    def address(self) -> str:
        """Where the cluster is now, whole again."""
        for tries_left in range(9, -1, -1):
            try:
                self._mend()
                break
            except Exception as error:  # Ray gives a busy machine half a minute, and raises just that
                if not tries_left:
                    raise
                print(f"the cluster did not start ({error}); again", flush=True)
                self.close()
        return self._cluster.address

    def _mend(self) -> None:
        from ray.cluster_utils import Cluster

        if self._cluster is None:
            Path("/tmp/ray").mkdir(exist_ok=True)  # where Cluster, unlike Ray, writes its address unasked
            self._folder = tempfile.mkdtemp(prefix="kr-", dir="/tmp")
            self._cluster = Cluster()
            self._cluster.add_node(num_cpus=0, include_dashboard=False, temp_dir=self._folder)
            self._cluster.add_node(num_cpus=1)
        elif not self._raylets()[-1].is_running():
            self._cluster.remove_node(self._cluster.list_all_nodes()[-1], allow_graceful=False)
            self._cluster.add_node(num_cpus=1)

    def _raylets(self) -> list[_Process]:
        return [_Process(node.all_processes["raylet"][0].process.pid) for node in self._cluster.list_all_nodes()]

    def kill_raylet(self) -> None:
        raylet = self._raylets()[-1]
        raylet.kill()
        while raylet.is_running():  # for a moment more, in which nobody would replace it
            time.sleep(0.01)

    def kill_all(self) -> None:
        for node in self._cluster.list_all_nodes():
            for processes in node.all_processes.values():
                for process in processes:
                    _Process(process.process.pid).kill()
        self.close()

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.shutdown()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._cluster = None


class _Process:
    """A process of ours, by number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.number, signal.SIGKILL)

    def is_running(self) -> bool:
        try:
            state = Path(f"/proc/{self.number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        return state != "Z"


def carry_out_at(home: Path, address: str) -> None:
    """What `aiayn run` does, in a process of its own: the run, and the database kept up to date meanwhile.

    Left out is what costs more than the work and writes none of the rows that are compared: verdicts, a look at each
    node, and the shipping of the source, which is here already.
    """
    os.setsid()
    with (home / "command.log").open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    schedule.check_nodes = lambda *_: None
    ray_session.worker_environment = lambda _: {}
    workspace, scale, store = Workspace(home), small_scale(), Store(home)
    (run,) = plan_runs(STUDY, scale, 1, workspace, ["base"])
    progress = Progress("a round", [run], store.ingest)
    try:
        schedule.run_on_ray([(run, Sizes().of(run, scale))], workspace, address, None, progress.start)
    finally:
        progress.stop()
    store.ingest()
    sys.exit(0 if run.folder.status().status == "done" else 1)


def carry_out_plainly(home: Path, _: str) -> None:
    """The same without Ray, in this very process, with perplexities as the only scores."""
    os.setsid()
    trial.score_output, trial.training_costs = lambda *_: ([], []), lambda *_: []
    workspace, scale, store = Workspace(home), small_scale(), Store(home)
    (run,) = plan_runs(STUDY, scale, 1, workspace, ["base"])
    store.ingest()
    stop = threading.Event()

    def keep_up_to_date() -> None:
        while not stop.wait(1.0):
            store.ingest()

    threading.Thread(target=keep_up_to_date, daemon=True).start()
    execution.execute(run.record, workspace, num_threads=1, device=torch.device("cpu"))
    stop.set()
    store.ingest()
    sys.exit(0 if run.folder.status().status == "done" else 1)


def start(home: Path, nodes: Nodes | None) -> BaseProcess:
    """The command, forked from a process that has loaded what it needs and has no threads."""
    target, address = (carry_out_plainly, "") if nodes is None else (carry_out_at, nodes.address)
    process = _FORKING.Process(target=target, args=(home, address))
    process.start()
    return process


def wait(command: BaseProcess) -> int:
    """Its exit code; negative is a signal."""
    command.join(PATIENCE_SECONDS)
    if command.exitcode is None:
        command.kill()
        raise TimeoutError(f"a command did not end in {PATIENCE_SECONDS:.0f} s")
    return command.exitcode


def worker_of(home: Path) -> _Process | None:
    """The process of the attempt that was begun last."""
    started = sorted(home.glob("runs/*/attempt-*/started.json"))
    return _Process(json.loads(started[-1].read_bytes())["pid"]) if started else None


def lines_of(home: Path) -> int:
    """Lines of metrics so far: a clock that runs with the work and not with the machine's load."""
    return sum(path.read_bytes().count(b"\n") for path in home.glob("runs/*/attempt-*/metrics.jsonl"))


def rows_of(home: Path) -> dict[str, list[tuple]]:
    """All that must not depend on what was killed."""
    store = Store(home)
    store.ingest()
    questions = {
        "metrics": "SELECT run, step, split, name, value FROM metrics "
        "WHERE name <> 'tokens_per_second' AND NOT starts_with(name, 'seconds_') ORDER BY ALL",
        "scores": "SELECT run, name, value, signature, dataset, num_items, details::VARCHAR AS details "
        "FROM scores WHERE name <> 'timed_flops' ORDER BY ALL",
        "runs": "SELECT run, study, trial, seed, scale, status, reason, config::VARCHAR AS config, params, "
        "code_version, data_fingerprint FROM runs ORDER BY ALL",
        "problems": "SELECT * FROM problems ORDER BY ALL",
    }
    return {table: [tuple(row.values()) for row in query(store, sql).to_pylist()] for table, sql in questions.items()}


def differences(ours: dict[str, list[tuple]], theirs: dict[str, list[tuple]]) -> int:
    """Rows that only one of the two has; a row that one of them has twice counts as well."""
    count = 0
    for table, rows in ours.items():
        left = list(theirs[table])
        for row in rows:
            if row in left:
                left.remove(row)
            else:
                count += 1
        count += len(left)
    return count


def kill(victim: str, command: BaseProcess, home: Path, nodes: Nodes | None) -> None:
    if nodes is None:
        command.kill()
        return
    worker = worker_of(home)
    if victim in ("command", "everything"):
        command.kill()
    if victim in ("worker", "everything") and worker is not None:
        worker.kill()
    if victim == "raylet":
        nodes.kill_raylet()
    if victim == "everything":
        nodes.kill_all()


def one_round(number: int, home: Path, nodes: Nodes | None, lines: int) -> str:
    """Kill once or twice at random moments, and repeat the command until the run is done; what happened, in words."""
    generator = random.Random(number)
    told, starts = [], 0
    victims = [VICTIMS[number % 4], *([VICTIMS[(number // 2 + 1) % 4]] if number % 2 else [])]
    if nodes is None:
        victims = ["process"] * len(victims)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        command = start(home, nodes)
        starts += 1
        if victims:
            begun = lines_of(home)
            moment = begun + generator.randrange(1, max(2, lines - begun))
            pause = generator.uniform(0.0, 0.5)
            while command.exitcode is None and lines_of(home) < moment:
                time.sleep(0.01)
            time.sleep(pause)
            if command.exitcode is None:
                victim = victims.pop(0)
                told.append(f"{victim} at line {lines_of(home)}")
                kill(victim, command, home, nodes)
                if victim == "raylet":
                    assert nodes.address  # a node comes back, and the same command may go on there
        if wait(command) == 0:
            return f"{', then '.join(told) or 'nothing'}; {starts} start(s)"
    raise TimeoutError(f"round {number} did not end in {PATIENCE_SECONDS:.0f} s")


@contextmanager
def _log(path: Path) -> Iterator:
    with path.open("a", encoding="utf-8") as file:

        def tell(line: str) -> None:
            print(line, flush=True)
            file.write(line + "\n")
            file.flush()

        yield tell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--first", type=int, default=1, help="Number, and seed, of the first round.")
    parser.add_argument("--log", type=Path, default=Path("kill_rounds.log"), help="Lines are added to it.")
    parser.add_argument("--data", type=Path, help="The folder data of a workspace that has the corpus prepared.")
    parser.add_argument("--plain", action="store_true", help="Without Ray.")
    given = parser.parse_args()
    ray_session.set_environment()
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - so Ray calls it; by default all else comes first
    nodes = None if given.plain else Nodes()
    sums = {"kills": 0, "differences": 0}
    with tempfile.TemporaryDirectory(prefix="kill-rounds-") as place, _log(given.log) as tell:
        try:
            untouched, began = Path(place) / "untouched", time.monotonic()
            untouched.mkdir()
            if given.data:
                (untouched / "data").symlink_to(given.data.absolute())
            if wait(start(untouched, nodes)):
                raise RuntimeError(f"the run that nobody kills did not end well; see {untouched}")
            expected, lines = rows_of(untouched), lines_of(untouched)
            counts = {table: len(rows) for table, rows in expected.items()}
            tell(f"unbroken: {counts} rows, {time.monotonic() - began:.0f} s")
            for number in range(given.first, given.first + given.rounds):
                home, began = Path(place) / f"round-{number}", time.monotonic()
                home.mkdir()
                (home / "data").symlink_to(untouched / "data")
                happened = one_round(number, home, nodes, lines)
                found, attempts = differences(rows_of(home), expected), len(list(home.glob("runs/*/attempt-*")))
                took = time.monotonic() - began
                tell(f"round {number}: {happened}, {attempts} attempts, {found} differences, {took:.0f} s")
                sums["kills"] += happened.count(" at line ")
                sums["differences"] += found
                if not found:
                    shutil.rmtree(home)
            tell(f"{given.rounds} rounds, {sums['kills']} kills, {sums['differences']} differences")
        finally:
            if nodes is not None:
                nodes.close()
    sys.exit(1 if sums["differences"] else 0)


if __name__ == "__main__":
    main()
