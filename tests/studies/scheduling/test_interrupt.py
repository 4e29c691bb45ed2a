"""Stopping a command with the real Ray: one line, the exit code of the signal, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from studies.runs import Workspace
from studies.scheduling.in_use import SESSION_PREFIX

pytestmark = pytest.mark.slow

SCRIPT = Path(sys.executable).with_name("aiayn")
STOPPED = "stopped; what is done is kept, and the same command does the rest"
PATIENCE_SECONDS = 240.0


def marked(mark: str) -> list[int]:
    """Processes whose environment has the mark: the command's, and all that came of it."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:  # ended, or another person's
            continue
    return found


def sessions_of(mark: str) -> set[Path]:
    """The temporary folders of the Ray that these processes make up."""
    lines = []
    for process in marked(mark):
        with suppress(OSError):
            lines.append(Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8", errors="replace"))
    return {Path(found) for line in lines for found in re.findall(rf"/[^\0=]*?{SESSION_PREFIX}\w+", line)}


def wait_until(true, command: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [("start", signal.SIGINT, 130), ("run", signal.SIGINT, 130), ("run", signal.SIGTERM, 143)],
    ids=["Ctrl-C while Ray starts", "Ctrl-C in a run", "SIGTERM in a run"],
)
def test_stopped_command_ends_with_one_line_and_leaves_nothing(
    moment: str, number: int, code: int, tmp_path: Path
) -> None:
    workspace, mark = Workspace(tmp_path / "home"), uuid.uuid4().hex
    command = subprocess.Popen(
        [str(SCRIPT), "run", "table3", "--trial", "base", "--home", str(workspace.home)],
        env=os.environ | {"AIAYN_TEST_MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    if moment == "start":
        wait_until((workspace.home / "ray.log").exists, command)
        wait_until(lambda: sessions_of(mark), command)
    else:
        wait_until(lambda: list(workspace.runs.glob("*/attempt-001/metrics.jsonl")), command)
    sessions = sessions_of(mark)
    assert len(sessions) == 1
    # The terminal sends it to whatever shares the command's group, `kill` to the command alone.
    (os.killpg if number == signal.SIGINT else os.kill)(command.pid, number)
    out, message = command.communicate(timeout=PATIENCE_SECONDS)
    assert command.returncode == code, message
    assert out == ""
    assert message.splitlines()[-1] == STOPPED
    assert not any("Traceback" in line or "Error" in line for line in message.splitlines())
    deadline = time.monotonic() + 30.0  # Ray's helpers take a moment to notice
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert marked(mark) == []
    assert not any(session.exists() for session in sessions)
    assert not workspace.ray.exists() or not list(workspace.ray.iterdir())
