"""aiayn submit and status --dashboard, with the cluster replaced: what is asked of it, and how a person leaves it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

import aiayn
from studies.scheduling import submission
from studies.scheduling.ray_session import ClusterError
from studies.scheduling.submission import Job, JobCluster

URL = "http://head:8265"


class Cluster:
    """Stands in for `JobCluster`: notes what it is asked, and knows two jobs."""

    def __init__(self) -> None:
        self.submitted: list[list[str]] = []
        self.stopped: list[str] = []
        self.state = "SUCCEEDED"
        self.interrupt = False

    def __call__(self, dashboard: str) -> Cluster:
        self.dashboard = dashboard
        return self

    def submit(self, arguments: Sequence[str], python: str) -> str:
        self.submitted.append([python, *arguments])
        return "job-2"

    def jobs(self) -> list[Job]:
        started = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
        return [
            Job("job-2", "aiayn run table3", self.state, "why", started),
            Job("job-1", "aiayn reproduce", "SUCCEEDED", "", started),
        ]

    def find(self, job: str | None) -> Job:
        return next(each for each in self.jobs() if job in (None, each.id))

    def follow(self, job: str, show: Callable[[str], None]) -> Job:
        show("base seed 1 done\n")
        if self.interrupt:
            raise KeyboardInterrupt
        return self.find(job)

    def log(self, job: str) -> str:
        return f"what {job} printed\n"

    def stop(self, job: str) -> None:
        self.stopped.append(job)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    stand_in = Cluster()
    monkeypatch.setattr(submission, "JobCluster", stand_in)
    return stand_in


def call(line: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of `aiayn LINE`."""
    monkeypatch.setattr(sys, "argv", ["aiayn", *shlex.split(line)])
    with pytest.raises(SystemExit) as end:
        aiayn.main()
    return end.value.code or 0


def test_a_request_becomes_the_same_request_on_the_cluster(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    line = (
        f"submit table3 --trial base --scale small --seeds 2 --gpus-per-trial 1 --gpus-per-trial base=2 "
        f"--max-concurrent 3 --rerun --python /opt/python --dashboard {URL} --home /shared/a"
    )
    assert call(line, monkeypatch) == 0
    assert cluster.submitted == [
        shlex.split(
            "/opt/python run table3 --address auto --home /shared/a --scale small --seeds 2 --trial base "
            "--gpus-per-trial 1 --gpus-per-trial base=2 --max-concurrent 3 --rerun"
        )
    ]
    printed = capsys.readouterr()
    assert printed.out == "base seed 1 done\n"
    assert f"aiayn status --dashboard {URL} --job job-2" in printed.err


def test_without_a_study_everything_is_reproduced(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call(f"submit --dashboard {URL} --home /shared/a --detach", monkeypatch) == 0
    (command,) = cluster.submitted
    assert command == shlex.split("python reproduce --address auto --home /shared/a --scale smoke --seeds 1")


def test_the_request_is_one_that_the_command_line_takes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent is parsed there only, long after it was typed here."""
    line = f"submit table3 --cpu-ranks 2 --max-concurrent 1 --rerun --dashboard {URL} --home /shared/a"
    call(line, monkeypatch)
    seen = []
    monkeypatch.setattr(
        "studies.scheduling.campaign.carry_out", lambda *arguments: seen.append(arguments) or sys.exit(7)
    )
    assert call(shlex.join(cluster.submitted[0][1:]), monkeypatch) == 7
    ((_, workspace, scale, sizes, address, max_concurrent, rerun, *_),) = seen
    assert (str(workspace.home), scale.name, sizes.cpu_ranks) == ("/shared/a", "smoke", 2)
    assert (address, max_concurrent, rerun) == ("auto", 1, True)


@pytest.mark.parametrize(("option", "stopped"), [("", []), ("--cancel", ["job-2"])])
def test_ctrl_c_leaves_the_job_unless_it_is_to_be_stopped(
    option: str, stopped: list[str], cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    cluster.interrupt = True
    assert call(f"submit --dashboard {URL} --home /shared/a {option}", monkeypatch) == 130
    assert cluster.stopped == stopped
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert ("was stopped" if stopped else "goes on") in said[1]


def test_a_job_that_failed_is_told_and_ends_with_1(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    cluster.state = "FAILED"
    assert call(f"submit --dashboard {URL} --home /shared/a", monkeypatch) == 1
    assert "job job-2 failed: why" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("submit --dashboard u --home shared", "--home 'shared' is a folder of the cluster"),
        ("submit --dashboard u --home /a --trial base", "--trial is of a study"),
        ("submit nonsense --dashboard u --home /a", "no study 'nonsense'"),
        ("submit table3 --trial nonsense --dashboard u --home /a", "no trial 'nonsense'"),
        ("submit --dashboard u --home /a --scale huge", "no scale 'huge'"),
        ("submit --dashboard u --home /a --gpus-per-trial some", "--gpus-per-trial 'some'"),
        ("submit --dashboard u --home /a --seeds 0", "0 seeds: at least 1 is needed"),
        ("submit --dashboard u --home /a --seeds 99999", "99999 seeds: at most"),
        ("submit --dashboard u --home /a --gpus-per-trial nosuch=3", "--gpus-per-trial names 'nosuch'"),
        ("submit table3 --trial h1 --dashboard u --home /a --gpus-per-trial base=3", "none of the trials asked for"),
        ("status --follow", "--job, --follow and --cancel are about a cluster's jobs"),
    ],
)
def test_what_would_fail_there_is_refused_here(
    line: str, complaint: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert call(line, monkeypatch) == 2
    assert complaint in capsys.readouterr().err
    assert cluster.submitted == []


def test_status_lists_jobs_and_comes_back_to_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    cluster.state = "RUNNING"
    assert call(f"status --dashboard {URL} --json", monkeypatch) == 0
    assert '"state": "RUNNING"' in capsys.readouterr().out
    cluster.interrupt = True
    assert call(f"status --dashboard {URL} --follow", monkeypatch) == 130
    assert "job job-2 goes on" in capsys.readouterr().err
    assert call(f"status --dashboard {URL} --job job-1", monkeypatch) == 0
    assert capsys.readouterr().out == "what job-1 printed\n"
    assert call(f"status --dashboard {URL} --job job-2 --cancel", monkeypatch) == 0
    assert cluster.stopped == ["job-2"]


@pytest.mark.parametrize("address", ["", "ftp://head:8265", "http://", "127.0.0.1:1"])
def test_a_dashboard_that_is_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(ClusterError, match="give the URL of the cluster's dashboard"):
        JobCluster(address)
