"""Who waits for whom at the database, and what is said about it."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from results import database
from results.database import connect, writer_lock
from results.query import query
from results.store import Store

HOLD = """
import sys, time
from pathlib import Path
import duckdb
from results.database import writer_lock
database = Path(sys.argv[1]) / "results.duckdb"
how = sys.argv[2]
with writer_lock(database) if how == "lock" else duckdb.connect(str(database), read_only=how == "read"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def held(workspace):
    """Another process that holds the database: `held("lock")`, `held("read")` or `held("write")`."""
    processes = []

    def hold(how: str) -> int:
        process = workspace.start_python(HOLD, how)
        processes.append(process)
        assert process.stdout.readline() == "held\n"
        return process.pid

    yield hold
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    """What a person is told, who is told so at once."""
    monkeypatch.setattr(database, "_SILENT_SECONDS", 0.05)
    caplog.set_level(logging.WARNING)
    return caplog


def test_a_command_says_once_what_it_waits_for(workspace, held, told) -> None:
    workspace.store.ingest()
    writer = held("write")
    with pytest.raises(database.BusyError):
        query(Store(workspace.home, patience=0.5), "SELECT 1")
    (line,) = told.messages
    assert line.startswith(f"waiting up to 0 s for {workspace.store.database}, held by ")
    assert line.endswith(f"(PID {writer})")


def test_a_writer_says_which_writer_it_waits_for(workspace, held, told) -> None:
    workspace.store.ingest()
    writer = held("lock")
    with pytest.raises(database.BusyError), writer_lock(workspace.store.database, 0.5):
        pass
    (line,) = told.messages
    assert line.endswith(f"held by writing process {writer}")


def test_questions_need_no_writers_lock(workspace, held) -> None:
    workspace.store.ingest()
    held("lock")
    began = time.monotonic()
    assert query(workspace.store, "SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 0}]
    assert time.monotonic() - began < 5


def test_readers_that_overlap_let_a_writer_in_that_has_waited(workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """One reader has the database; while the writer waits for it, the next reader stands behind the writer."""
    monkeypatch.setattr(database, "_PATIENT_SECONDS", 0.1)
    workspace.store.ingest()
    path, order = workspace.store.database, []
    first = connect(path, read_only=True)

    def go(name: str, read_only: bool) -> None:
        connection = connect(path, read_only=read_only)
        order.append(name)
        time.sleep(0.2)
        connection.close()

    writer = threading.Thread(target=go, args=("writer", False))
    writer.start()
    asking = path.with_name("results.duckdb.writer-waits")
    while not asking.exists():
        time.sleep(0.01)
    reader = threading.Thread(target=go, args=("reader", True))
    reader.start()
    time.sleep(0.3)
    assert order == []  # without the rule the reader would be in, and the writer could wait for ever
    first.close()
    writer.join()
    reader.join()
    assert order == ["writer", "reader"]
    assert not asking.exists()


def test_a_writer_that_died_waiting_keeps_no_reader_out(workspace) -> None:
    workspace.store.ingest()
    workspace.store.database.with_name("results.duckdb.writer-waits").touch()
    began = time.monotonic()
    assert query(workspace.store, "SELECT 1 AS a").to_pylist() == [{"a": 1}]
    assert time.monotonic() - began < 10
