"""A cluster of several nodes on this machine: connecting, shipping the source, the check before the start, packing.

GPUs are counted and not there, as `ray.cluster_utils` allows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from studies.runs import PlannedRun
from studies.scheduling.resources import Resources

pytestmark = pytest.mark.slow

Plan = Callable[..., list[PlannedRun]]
ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 600.0

# In a process of its own, as a session of Ray's is one a process. Answers as JSON on its last line.
COMMAND = """
import json, sys
from pathlib import Path
from results.records import RunRecord
from studies.scheduling import preflight, schedule
from studies.scheduling.ray_session import ray_session
from studies.scheduling.resources import Resources
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import SMOKE
from studies.table3 import STUDY
address, home, gpus, act = sys.argv[1:]
workspace = Workspace(Path(home))
runs = plan_runs(STUDY, SMOKE, 1, workspace, ["base", "h1", "h4", "h16", "N2", "N4"])
with ray_session(address):
    import ray
    if act == "check":
        try:
            preflight.check_nodes([(runs[0], Resources(1, int(gpus)))], workspace, preflight.nodes())
            answer = []
        except preflight.ScheduleError as error:
            answer = str(error).splitlines()
    elif act == "source":
        def where():
            import os, studies
            return [studies.__file__, sorted(path.name for path in Path(studies.__file__).parents[1].iterdir())]
        answer = ray.get(ray.remote(where).remote())
    else:
        def hold(config):
            import ray, time
            from ray.util.placement_group import placement_group_table
            group = ray.util.get_current_placement_group()
            nodes = set(placement_group_table(group)["bundles_to_node_id"].values())
            begun = time.time()
            time.sleep(6.0)
            job = config["job"]
            (Path(config["home"]) / job["record"]["trial"]).write_text(
                json.dumps([begun, time.time(), job["gpus"], sorted(nodes)]))
        schedule.carry_out = hold
        jobs = [(run, Resources(0, number)) for run, number in zip(runs, [4, 2, 2, 1, 1, 4])]
        schedule._fit(jobs, workspace, None, 0)
        answer = [json.loads((workspace.home / run.record.trial).read_text()) for run in runs]
print(json.dumps(answer))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """The address of a cluster of a head and two nodes with 4 GPUs each, by count."""
    folder = tempfile.mkdtemp(prefix="aiayn-", dir="/tmp")  # paths of sockets must stay short
    environment = {
        "RAY_TMPDIR": folder,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "disabled",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_agent_register_timeout_ms": "300000",
    }
    code = (
        "import sys\n"
        "from ray.cluster_utils import Cluster\n"
        "cluster = Cluster(initialize_head=True, head_node_args={'num_cpus': 1, 'include_dashboard': False})\n"
        "for _ in range(2):\n"
        "    cluster.add_node(num_cpus=1, num_gpus=4, object_store_memory=80 * 2**20)\n"
        "print(cluster.address, flush=True)\n"
        "sys.stdin.read()\n"
        "cluster.shutdown()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
        start_new_session=True,
    )
    try:
        address = process.stdout.readline().strip()
        assert address, "the cluster did not start"
        yield address
    finally:
        process.communicate(timeout=120)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def ask(cluster: str, tmp_path: Path) -> Callable[..., list]:
    """What a command on the cluster answers."""

    def asked(act: str, gpus: int = 0) -> list:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", COMMAND, cluster, str(home), str(gpus), act],
            cwd=ROOT,
            env=os.environ | {"RAY_AUTH_MODE": "disabled"},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return asked


def test_nodes_that_share_the_home_are_accepted(ask: Callable) -> None:
    assert ask("check") == []


def test_gpus_that_torch_does_not_see_are_told_of_each_node(ask: Callable) -> None:
    lines = ask("check", gpus=4)
    assert len(lines) == 2
    assert all("has 4 GPUs by Ray and 0 by torch" in line for line in lines)
    assert len(set(lines)) == 2  # by name


def test_workers_run_the_source_that_was_shipped_and_nothing_beside_it(ask: Callable) -> None:
    file, names = ask("source")
    assert "runtime_resources/working_dir_files" in file
    assert names == ["aiayn.py", "core", "reports", "results", "studies"]


def test_trials_of_several_sizes_lie_side_by_side_each_on_one_node(ask: Callable) -> None:
    held = ask("pack")
    assert all(len(nodes) == 1 for *_, nodes in held)
    moments = {moment for begun, ended, *_ in held for moment in (begun, ended)}
    for node in {nodes[0] for *_, nodes in held}:
        for moment in moments:
            there = [number for begun, ended, number, nodes in held if nodes[0] == node and begun <= moment < ended]
            assert sum(there) <= 4
    together = max(sum(begun <= moment < ended for begun, ended, *_ in held) for moment in moments)
    assert together >= 3
    assert Resources(0, 4).bundle == {"CPU": 0, "GPU": 1}
