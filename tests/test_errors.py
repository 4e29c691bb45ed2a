"""Where errors end: whose fault one is, and what a command does with closed streams, devices and narrow terminals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

import aiayn
from core.config import DecodeConfig
from core.data.treebanks.export import write_lines
from results.errors import QueryError
from results.output import write
from results.run_folder import RunFolder
from results.store import Store
from studies.registry import get_study
from studies.runs import MOST_SEEDS, Workspace, plan_runs
from studies.scales import get_scale
from studies.scheduling import ray_session as ray_session_module
from studies.scheduling.ray_session import ClusterError, ray_session

SCRIPT = Path(sys.executable).with_name("aiayn")


def raised_by(call: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any kind is what it is about
        call()
    return caught.value


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: DecodeConfig(beam_size=0), 2),
        (lambda: get_study("table9"), 2),
        (lambda: json.loads("{"), 1),
        (lambda: pyarrow.array([1], type="no such type"), 1),
        # A call inside our own code that nobody expected to fail:
        (lambda: exec("int('many')", {"__name__": "core.batching"}), 1),
        (lambda: exec("raise ValueError('give a number')", {"__name__": "core.batching"}), 2),
        (lambda: exec("raise ValueError('not ours')", {"__name__": "numpy.core"}), 1),
    ],
)
def test_value_error_is_the_users_fault_only_where_this_project_raised_it(call: Callable, code: int) -> None:
    assert aiayn._exit_code(raised_by(call)) == code


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ('"$0" query - <&-', 2, "no workspace"),
        ('"$0" list >&-', 0, ""),
        ('"$0" list nonsense >&- <&-', 2, "no study 'nonsense'"),
        ('"$0" list nonsense 2>&-', 2, ""),
    ],
)
def test_closed_streams_are_taken_as_empty(command: str, code: int, message: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        ["bash", "-c", command, str(SCRIPT)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == code
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) <= 1


@pytest.mark.parametrize("kind", ["query", "treebank"])
def test_device_or_pipe_is_written_and_never_replaced_by_a_file(kind: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    if kind == "query":
        write(pyarrow.table({"a": [1]}), "csv", pipe)
    else:
        write_lines(["(TOP x)"], pipe)
    reader.join(timeout=10)
    assert read == ["a\n1\n" if kind == "query" else "(TOP x)\n"]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


Main = Callable[..., tuple[int, str, str]]


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path) -> Main:
    """Runs a command in this process, in a folder of its own; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AIAYN_HOME", raising=False)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["aiayn", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            aiayn.main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out, said.err

    return run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A workspace with one run that has not begun, its database, and something in its data."""
    workspace = Workspace(tmp_path / "home")
    (planned, *_) = plan_runs(get_study("section3"), get_scale("smoke"), 1, workspace)
    RunFolder.create(workspace.runs, planned.record)
    workspace.data.mkdir()
    Store(workspace.home).ingest()
    return workspace.home


def files(home: Path) -> dict[str, bytes]:
    """All that a workspace holds but its database, which every look brings up to date."""
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not path.name.startswith("results.duckdb")
    }


@pytest.mark.parametrize(
    "command",
    [
        ["query", "SELECT 1 AS x", "--format", "csv", "-o"],
        ["report", "-o"],
        ["data", "export", "grammar", "--split", "test", "-o"],
        ["translate", "table3/base", "-o"],
        ["parse", "table4/wsj_only", "-o"],
        ["parse", "table4/wsj_only", "--draw"],
        ["attend", "table3/base", "A law.", "-o"],
    ],
    ids=lambda command: " ".join((*command[:2], command[-1])),
)
def test_nothing_is_written_over_what_a_workspace_keeps(command: list[str], main: Main, home: Path) -> None:
    (run,) = (home / "runs").iterdir()
    link = home.parent / "link"
    link.symlink_to(home / "runs")
    before = files(home)
    for place in (
        *(home / "results.duckdb", home / "results.duckdb.lock", run / "result.json", run / "run.json"),
        *(home / "runs" / "x.svg", home / "data" / "x", link / "x"),
    ):
        code, told, said = main(*command, place, "--home", home)
        assert (code, told, len(said.splitlines())) == (2, "", 1), said
        assert str(place) in said
    assert files(home) == before
    assert Store(home).fetch("SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 1}]


def test_answer_may_lie_beside_what_a_workspace_keeps(main: Main, home: Path) -> None:
    assert main("query", "SELECT 1 AS x", "-o", home / "x.csv", "--home", home) == (0, "", "")
    assert (home / "x.csv").read_text() == "x\n1\n"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-o", "x.xyz"], "what to write into x.xyz?"),
        (["-o", "x.json", "--format", "csv"], "x.json is named as json, and --format says csv"),
    ],
)
def test_file_whose_name_promises_something_else_is_refused(arguments: list[str], part: str, main: Main, home: Path):
    code, told, said = main("query", "SELECT 1 AS x", *arguments, "--home", home)
    assert (code, told, len(said.splitlines())) == (2, "", 1)
    assert part in said
    assert not Path(arguments[1]).exists()


@pytest.mark.parametrize("command", [["report"], ["reproduce"]], ids=" ".join)
def test_site_that_cannot_be_written_is_refused_before_any_work(
    command: list[str], main: Main, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.scheduling.campaign.carry_out", lambda *_: pytest.fail("it must not come so far"))
    (home / "site").write_text("in the way")
    code, told, said = main(*command, "--home", home)
    assert (code, told, len(said.splitlines())) == (2, "", 1)
    assert f"{home / 'site'} is a file where a folder is meant" in said
    assert (home / "site").read_text() == "in the way"


@pytest.mark.parametrize(
    "command",
    [["query", "SELECT 1"], ["query", "--rebuild"], ["claims"], ["report"], ["status"], ["clean", "--yes"]],
    ids=" ".join,
)
def test_reading_refuses_what_is_no_workspace_and_makes_none(command: list[str], main: Main, tmp_path: Path) -> None:
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "project" / "letter.txt").write_text("mine")
    for place in ("absent", "project"):
        code, told, said = main(*command, "--home", place)
        assert (code, told) == (2, "")
        assert said == f"no workspace at {tmp_path / place}; start one with aiayn run, or name another with --home\n"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["data", "letter.txt", "project"]


@pytest.mark.parametrize("present", [[], ["data", "site"], ["results.duckdb.lock"]], ids=" ".join)
def test_workspace_before_its_first_run_is_one(present: list[str], main: Main, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    for name in present:
        (tmp_path / "new" / name).touch() if "." in name else (tmp_path / "new" / name).mkdir()
    assert main("query", "SELECT count(*) AS n FROM runs", "--format", "csv", "--home", "new")[:2] == (0, "n\n0\n")


@pytest.mark.parametrize("command", [["status"], ["clean"]], ids=" ".join)
def test_default_workspace_need_not_be_there_yet(command: list[str], main: Main, tmp_path: Path) -> None:
    assert main(*command)[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["query", "SELECT 1"], ["run", "table3"], ["data", "list"], ["doctor"]])
def test_empty_home_is_refused(command: list[str], main: Main, tmp_path: Path) -> None:
    code, told, said = main(*command, "--home", "")
    assert (code, told, len(said.splitlines())) == (2, "", 1)
    assert "--home" in said
    assert "empty" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize(
    "arguments",
    [["list", "--claims"], ["plan", "table3"], ["data", "list"], ["claims"], ["query", "-"]],
    ids=lambda arguments: arguments[0],
)
def test_output_is_utf8_whatever_the_locale(arguments: list[str], encoding: str, home: Path) -> None:
    ended = subprocess.run(
        [str(SCRIPT), *arguments, *(["--home", str(home)] if arguments[0] != "list" else [])],
        input="SELECT 'ä–√' AS text".encode(),
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding},
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert not ended.stdout.decode("utf-8").isascii()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["query", "FROM claims"]], ids=" ".join)
def test_output_that_cannot_be_written_is_one_line(arguments: list[str], unbuffered: str, home: Path) -> None:
    arguments = [*arguments, "--home", str(home)] if arguments[0] == "query" else arguments
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [str(SCRIPT), *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            check=False,
            timeout=60,
        )
    assert ended.returncode == 1
    assert ended.stderr == b"cannot write the output (No space left on device); make room, or write elsewhere\n"


def test_message_that_nobody_can_hear_changes_no_exit_code() -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([str(SCRIPT), "list", "nonsense"], stderr=full, check=False, timeout=60)
    assert ended.returncode == 2


def test_name_that_is_too_long_for_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="File name too long"):
        write(pyarrow.table({"a": [1]}), "csv", tmp_path / ("n" * 254))


def test_more_seeds_than_anyone_can_plan_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at most 1,000"):
        plan_runs(get_study("table3"), get_scale("smoke"), MOST_SEEDS + 1, Workspace(tmp_path))


@pytest.mark.parametrize("option", [["plan", "--price", "inf"], ["compare", "a", "b", "--samples", "100000000000"]])
def test_numbers_without_end_are_refused(option: list[str], capsys: pytest.CaptureFixture, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["aiayn", *option])
    with pytest.raises(SystemExit) as end:
        aiayn.main()
    assert end.value.code == 2
    assert "less than or equal to" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:1", "127.0.0.1:99999"])
def test_cluster_that_is_not_there_is_refused_at_once(address: str) -> None:
    with pytest.raises(ClusterError, match=f"no Ray cluster at '{address}' .*HOST:PORT"), ray_session(address):
        pass


def test_a_server_that_is_no_cluster_is_refused_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would wait for minutes."""
    monkeypatch.setattr(ray_session_module, "LISTEN_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"no Ray cluster at '{address}' .timed out"), ray_session(address):
            pass
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        answer = threading.Thread(target=lambda: other.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n"))
        answer.start()
        with pytest.raises(ClusterError, match="what listens there is no Ray"), ray_session(address):
            pass
        answer.join()


def test_rays_client_is_not_used() -> None:
    with pytest.raises(ClusterError, match=r"ray://.* is of Ray's client, .* aiayn submit"):  # noqa: SIM117
        with ray_session("ray://10.0.0.1:10001"):
            pass


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize(
    "arguments", [["list"], ["list", "table3"], ["plan", "table3", "--seeds", "3"], ["data", "list"]]
)
def test_table_fits_the_terminal_and_breaks_no_number(
    arguments: list[str], width: int, capsys: pytest.CaptureFixture, monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["aiayn", *arguments])
    monkeypatch.setenv("AIAYN_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(SystemExit):
        aiayn.main()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    tables = [line for line in lines if "  " in line]  # sentences below may wrap
    headings = [line for line in lines if line.startswith(("smoke scale", "what 3 seeds", "the same on"))]
    assert len(headings) == (3 if arguments[0] == "plan" else 0)
    assert all(len(line) <= width for line in headings)
    assert tables
    assert max(map(len, tables)) <= width
    if arguments == ["list", "table3"]:
        assert any("63,045,632" in line and line.startswith("base") for line in lines)


def test_library_that_cannot_be_loaded_because_of_ctrl_c_is_an_interruption(
    main: Main, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ImportError("a module's beginning was not reached") from None

    monkeypatch.setattr("studies.scheduling.survey.survey", load)
    code, told, said = main("status", "--home", home)
    assert (code, told) == (130, "")
    assert said.startswith("stopped; ")


@pytest.mark.parametrize("after", [1.0, 3.0])
def test_question_without_end_is_stopped_from_the_keyboard(after: float, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    endless = "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT count(*) FROM r"
    command = subprocess.Popen(
        [SCRIPT, "query", endless, "--home", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (tmp_path / "results.duckdb").exists():
        time.sleep(0.05)
    time.sleep(after)
    command.send_signal(signal.SIGINT)
    out, message = command.communicate(timeout=15)
    assert (command.returncode, out) == (130, ""), message
    assert message.strip() == "stopped; what is done is kept, and the same command does the rest"
