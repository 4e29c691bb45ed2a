"""How long commands take on a large workspace: 1,000 runs and 10 million metric rows.

    python tests/benchmarks/large_workspace.py HOME [--runs 1000] [--rows 100] [--all-rows 10000000]

Makes HOME, where it is not there, of made-up finished runs of Table 3 with `--rows` lines of metrics each, lets the
database be built from them, fills its metrics up to `--all-rows`, and then times `aiayn status` and `aiayn query` as a
person would start them. (Rows of the table count, not lines of the files: those of a finished run are not read again.)
Processor seconds stand beside those on the clock, because only they do not depend on what else the machine does. The
goals: each command below a second, and less than 1 GiB of memory for building the database.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from results.database import transaction
from results.records import RunResult, Score
from results.run_folder import RunFolder
from results.store import Store
from studies.registry import get_study
from studies.runs import Workspace, plan_runs
from studies.scales import SMOKE

ROOT = Path(__file__).parent.parent.parent
NAMES = ("loss", "nll", "learning_rate", "tokens_per_second")
COMMANDS: dict[str, Sequence[str]] = {
    "status": ["status"],
    "query runs": ["query", "SELECT study, status, count(*) FROM runs GROUP BY ALL"],
    "query table3": ["query", "SELECT trial, measured_bleu FROM table3 WHERE scale = 'smoke'"],
    "query curve": ["query", "SELECT step, value FROM curves WHERE trial = 'base' AND seed = 1 AND name = 'loss'"],
    "query all metrics": ["query", "SELECT name, avg(value), count(*) FROM metrics GROUP BY name"],
    "claims": ["claims", "table3", "--scale", "smoke", "--json"],
}


def make(workspace: Workspace, num_runs: int, num_rows: int) -> None:
    """Finished runs whose metrics files are one file under many names."""
    study = get_study("table3")
    seeds = -(-num_runs // len(study.trials))
    planned = plan_runs(study, SMOKE, seeds, workspace)[:num_runs]
    workspace.runs.mkdir(parents=True)
    lines = workspace.home / "metrics.jsonl"
    with lines.open("w", encoding="utf-8") as file:
        for number in range(num_rows):
            step, name = 1 + number // len(NAMES), NAMES[number % len(NAMES)]
            value = 7.5 / step**0.25 + 0.01 * (number % 7)
            row = {"step": step, "split": "train", "name": name, "value": value, "seconds": step * 0.125}
            file.write(json.dumps(row) + "\n")
    for run in planned:
        folder = RunFolder.create(workspace.runs, run.record)
        attempt = folder.claim_attempt()
        os.link(lines, attempt.metrics_file)
        score = Score("dev_bleu_paper", 20.0 + run.record.seed % 5, "made up", "grammar/dev/en-de", 300)
        folder.finish(RunResult(seconds=20.0, params=100_000, phases={"train": 20.0}, scores=(score,)))


def fill(home: Path, all_rows: int) -> None:
    """More steps of every run, made by the database itself, up to so many rows."""
    with transaction(home / "results.duckdb") as connection:
        (have, runs, last) = connection.execute(
            "SELECT count(*), count(DISTINCT run), max(step) FROM metrics"
        ).fetchone()
        steps = (all_rows - have) // (runs * len(NAMES))
        connection.execute(
            "INSERT INTO metrics SELECT run, ? + step, 'train', name, 7.5 / sqrt(step), step / 8.0, 1 "
            "FROM runs, range(1, ? + 1) AS steps (step), unnest(?) AS names (name)",
            [last, steps, list(NAMES)],
        )


def build_database(home: Path) -> None:
    """Read all run folders, and say what it took."""
    started, used = time.perf_counter(), time.process_time()
    report = Store(home).ingest()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"ingest of {report.read} runs: {time.perf_counter() - started:.1f} s on the clock, "
        f"{time.process_time() - used:.1f} s of a processor, {memory:.2f} GiB at most"
    )


def time_command(arguments: Sequence[str], home: Path, repeats: int = 3) -> tuple[float, float]:
    """Seconds on the clock and of a processor of `aiayn ARGUMENTS`, the best of some starts."""
    best = []
    for _ in range(repeats):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-m", "aiayn", *arguments, "--home", str(home)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        elapsed, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        best.append((elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(elapsed for elapsed, _ in best), min(used for _, used in best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=100, help="lines of each run's file")
    parser.add_argument("--all-rows", type=int, default=10_000_000, help="of the table")
    parser.add_argument("--again", action="store_true", help="build the database anew")
    chosen = parser.parse_args()
    workspace = Workspace(chosen.home)
    if not workspace.runs.exists():
        make(workspace, chosen.runs, chosen.rows)
    if chosen.again:
        for file in workspace.home.glob("results.duckdb*"):
            file.unlink()
    # In a process of its own, whose memory is then that of this work alone.
    code = "import sys; from pathlib import Path; from large_workspace import *; build_database(Path(sys.argv[1]))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])}
    subprocess.run([sys.executable, "-c", code, str(workspace.home)], env=environment, check=True)
    fill(workspace.home, chosen.all_rows)
    subprocess.run(
        [sys.executable, "-m", "aiayn", "claims", "--home", str(workspace.home)],
        cwd=ROOT,
        check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip - decides the verdicts, once
    print(f"{'command':20} {'clock':>8} {'processor':>10}")
    for name, arguments in COMMANDS.items():
        elapsed, used = time_command(arguments, workspace.home)
        print(f"{name:20} {elapsed:7.2f}s {used:9.2f}s")
    print(f"database: {workspace.database.stat().st_size / 2**20:.0f} MiB; free disk "
          f"{shutil.disk_usage(workspace.home).free / 2**30:.0f} GiB")  # fmt: skip


if __name__ == "__main__":
    main()
