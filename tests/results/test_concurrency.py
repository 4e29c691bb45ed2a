"""Many processes, and processes killed at any moment: no rows lost, no lock error for anybody, no half database."""

from __future__ import annotations

import random
import shutil
import threading
import time

import pytest

from results.database import connect, transaction, writer_lock
from results.errors import BusyError
from results.query import query

INGEST = "import sys; from results.store import Store; print(Store(sys.argv[1]).ingest())"
INGEST_UNTIL_TOLD = """
import sys, os, time
from pathlib import Path
from results.store import Store
store, longest = Store(Path(sys.argv[1])), 0.0
while not Path(sys.argv[2]).exists():
    began = time.monotonic()
    assert store.ingest().problems == ()
    longest = max(longest, time.monotonic() - began)
print(longest)
"""
ASK_MUCH_UNTIL_TOLD = """
import sys
from pathlib import Path
from results.store import Store
from results.query import query
store, answered = Store(Path(sys.argv[1])), 0
while not Path(sys.argv[2]).exists():
    sql = "SELECT count(*) AS pairs FROM metrics a JOIN metrics b USING (step, name) WHERE a.value + b.value > 0"
    query(store, sql)
    answered += 1
print(answered)
"""
READ_UNTIL_TOLD = """
import sys
from pathlib import Path
from results.store import Store
from results.query import query
store, last, reads = Store(Path(sys.argv[1])), 0, 0
while True:
    done = "SELECT run FROM runs WHERE status = 'done'"
    counts = query(store, f"SELECT count(DISTINCT run) AS runs, count(*) AS metrics FROM metrics WHERE run IN ({done})")
    runs, metrics = counts.to_pylist()[0].values()
    assert metrics == 2 * runs, (runs, metrics)  # a transaction is seen whole or not at all
    assert runs >= last
    last, reads = runs, reads + 1
    if Path(sys.argv[2]).exists():
        break
print(reads)
"""


def finish(*processes) -> list[str]:
    outputs = [process.communicate(timeout=90) for process in processes]
    assert all(process.returncode == 0 for process in processes), [err for _, err in outputs]
    # That a process says whom it waits for, on a busy machine, is no error.
    assert all(line.startswith("waiting up to ") for _, err in outputs for line in err.splitlines()), outputs
    return [out for out, _ in outputs]


def test_eight_processes_at_once_create_one_schema(workspace) -> None:
    """B70."""
    workspace.add_run()
    finish(*(workspace.start_python(INGEST) for _ in range(8)))
    assert workspace.rows("SELECT count(*) FROM internal.meta WHERE key = 'schema_version'") == [(1,)]
    assert workspace.rows("SELECT count(*) FROM runs") == [(1,)]


def test_two_writers_and_a_reader_lose_nothing_and_see_no_lock(workspace, tmp_path) -> None:
    """B58."""
    workspace.store.ingest()
    stop = tmp_path / "stop"
    processes = [workspace.start_python(code, stop) for code in (INGEST_UNTIL_TOLD, INGEST_UNTIL_TOLD, READ_UNTIL_TOLD)]
    for seed in range(40):
        workspace.add_run(seed=seed)
        time.sleep(0.05)
    stop.touch()
    *_, reads = finish(*processes)
    assert int(reads) >= 1
    workspace.store.ingest()
    assert workspace.rows("SELECT count(*), count(DISTINCT run) FROM runs") == [(40, 40)]
    incremental = workspace.dump()
    assert workspace.dump_after_rebuild() == incremental


@pytest.mark.slow
def test_eight_readers_with_heavy_questions_lose_no_row_and_keep_no_writer_out(workspace, tmp_path) -> None:
    for seed in range(40):
        workspace.add_run(seed=seed, losses=dict.fromkeys(range(500), 1.0))
    workspace.store.ingest()
    stop = tmp_path / "stop"
    readers = [workspace.start_python(ASK_MUCH_UNTIL_TOLD, stop) for _ in range(8)]
    writer = workspace.start_python(INGEST_UNTIL_TOLD, stop)
    for seed in range(40, 80):
        workspace.add_run(seed=seed)
        time.sleep(0.25)
    stop.touch()
    longest, *answers = finish(writer, *readers)
    assert float(longest) < 40.0  # within what one question may take, though there is always another
    assert all(int(answered) >= 1 for answered in answers)
    workspace.store.ingest()
    assert workspace.rows("SELECT count(*), count(DISTINCT run) FROM runs") == [(80, 80)]
    assert workspace.rows("SELECT count(*) FROM metrics") == [(40 * 500 + 40 * 2,)]
    incremental = workspace.dump()
    assert workspace.dump_after_rebuild() == incremental


def test_threads_of_one_process_wait_for_each_other(workspace) -> None:
    workspace.add_run()
    workspace.store.ingest()
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in range(5):
                workspace.add_run(seed=100 * seed + step)
                workspace.store.ingest()
                query(workspace.store, "SELECT count(*) FROM runs")
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert workspace.rows("SELECT count(*) FROM runs") == [(16,)]


@pytest.mark.parametrize("call", ["ingest", "rebuild"])
def test_kill_9_at_any_moment_costs_no_row(workspace, call: str) -> None:
    workspace.register()
    template = workspace.add_run(losses=dict.fromkeys(range(50), 1.0))
    for seed in range(2, 120):
        folder = workspace.create(seed=seed)
        shutil.copytree(template.path / "attempt-001", folder.path / "attempt-001")
    code = f"import sys; from results import ingest, store; ingest.BATCH_RUNS = 10; store.Store(sys.argv[1]).{call}()"
    generator = random.Random(5)
    for _ in range(4):
        process = workspace.start_python(code)
        time.sleep(generator.uniform(0.1, 0.9))
        process.kill()
        process.communicate()
        assert workspace.rows("SELECT count(*) FROM table3") == [(60,)]
    workspace.store.ingest()
    assert workspace.rows("SELECT count(*) FROM metrics") == [(119 * 50,)]
    incremental = workspace.dump()
    assert workspace.dump_after_rebuild() == incremental


def test_torn_log_of_a_killed_writer_loses_nothing_for_good(workspace) -> None:
    """A writer dies after COMMIT, before the log is folded into the file; then half of the log is lost as well."""
    workspace.store.ingest()
    workspace.add_run()
    code = (
        "import sys, os\nfrom results import store\n"
        "class Stop:\n"
        "    def __init__(self, connection): self.connection = connection\n"
        "    def __getattr__(self, name): return getattr(self.connection, name)\n"
        "    def close(self): os._exit(0)\n"
        "from results import database\n"
        "real = database.connect\n"
        "database.connect = lambda *a, **k: Stop(real(*a, **k)) if not k['read_only'] else real(*a, **k)\n"
        "store.Store(sys.argv[1]).ingest()"
    )
    finish(workspace.start_python(code))
    log = workspace.store.database.with_name("results.duckdb.wal")
    content = log.read_bytes()
    assert content
    log.write_bytes(content[: len(content) // 2])
    workspace.store.ingest()
    incremental = workspace.dump()
    assert len(incremental["runs"]) == 1
    assert workspace.dump_after_rebuild() == incremental


def test_log_of_a_deleted_database_is_not_replayed_into_the_new_one(workspace) -> None:
    workspace.add_run()
    workspace.store.ingest()
    workspace.store.database.unlink()
    workspace.store.database.with_name("results.duckdb.wal").write_bytes(b"left by the old one")
    workspace.store.ingest()
    assert workspace.rows("SELECT count(*) FROM runs") == [(1,)]


def test_failed_transaction_leaves_nothing(workspace) -> None:
    workspace.register()

    def fail_half_way() -> None:
        with transaction(workspace.store.database) as connection:
            connection.execute("DELETE FROM published_table3")
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    assert workspace.rows("SELECT count(*) FROM published_table3") == [(20,)]


def test_holder_of_a_lock_is_named_when_waiting_ends(workspace) -> None:
    workspace.store.ingest()
    database = workspace.store.database
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom results.database import connect, writer_lock\n"
        "with writer_lock(Path(sys.argv[1]) / 'results.duckdb') as lock:\n"
        "    connection = connect(Path(sys.argv[1]) / 'results.duckdb', read_only=False)\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    holder = workspace.start_python(code)
    try:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(BusyError, match=f"held by writing process {holder.pid} "),
            writer_lock(database, seconds=0.2),
        ):
            pass
        with pytest.raises(BusyError, match=f"PID {holder.pid}"):
            connect(database, read_only=True, seconds=0.2)
    finally:
        holder.kill()
        holder.communicate()
    assert workspace.store.ingest().read == 0
