"""Run folders: what a run leaves behind, and the state that follows from it."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from results.errors import ResultsError
from results.run_folder import HEARTBEAT_SECONDS, Attempt, RunFolder, RunStatus


def age(attempt: Attempt, seconds: float) -> None:
    """Make an attempt look as if it had been silent for `seconds`."""
    then = time.time() - seconds
    for path in (attempt.metrics_file, attempt.heartbeat_file, attempt.path):
        if path.exists():
            os.utime(path, (then, then))


def test_record_and_result_come_back(workspace) -> None:
    record = workspace.record(trial="h1", seed=3)
    folder = RunFolder.create(workspace.runs_dir, record)
    assert folder.path == workspace.runs_dir / record.run
    assert folder.record() == record
    result = workspace.result(workspace.score("dev_bleu", 20.5))
    folder.finish(result)
    assert folder.result() == result
    assert folder.status() == RunStatus("done")


def test_creating_again_keeps_the_first_record(workspace) -> None:
    first = workspace.create().record()
    assert workspace.create().record() == first


def test_folder_of_another_run_is_refused(workspace) -> None:
    folder = workspace.create()
    values = json.loads(folder.run_file.read_text())
    folder.run_file.write_text(json.dumps({**values, "seed": 9}))
    with pytest.raises(ResultsError, match=r"of run [0-9a-f]{12}, not of .*--rerun"):
        workspace.create()


def test_many_processes_create_one_folder_and_claim_distinct_attempts(workspace) -> None:
    code = (
        "import sys, json\nfrom pathlib import Path\n"
        "from results.records import RunRecord\nfrom results.run_folder import RunFolder\n"
        "folder = RunFolder.create(Path(sys.argv[1]) / 'runs', RunRecord.from_json(json.loads(sys.argv[2])))\n"
        "print(folder.claim_attempt().number)"
    )
    record = json.dumps(workspace.record().to_json())
    processes = [workspace.start_python(code, record) for _ in range(8)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert sorted(int(out) for out, _ in outputs) == list(range(1, 9)), outputs
    assert len(list(workspace.runs_dir.iterdir())) == 1


def test_states_of_a_run(workspace) -> None:
    folder = workspace.create()
    assert folder.status() == RunStatus("queued")
    attempt = folder.claim_attempt()
    assert folder.status() == RunStatus("running")
    age(attempt, HEARTBEAT_SECONDS + 1)
    assert folder.status() == RunStatus("queued", "interrupted at attempt 1; the same command resumes it")
    attempt.heartbeat()
    assert folder.status() == RunStatus("running")
    age(attempt, HEARTBEAT_SECONDS + 1)
    attempt.log_metrics(1, "train", {"loss": 1.0}, 0.1)
    assert folder.status() == RunStatus("running")
    attempt.fail("out of\nmemory")
    assert folder.status() == RunStatus("failed", "out of memory")
    second = folder.claim_attempt()
    assert folder.status() == RunStatus("running")
    second.fail("loss is NaN at step 7", status="diverged")
    assert folder.status() == RunStatus("diverged", "loss is NaN at step 7")
    folder.finish(workspace.result())
    assert folder.status() == RunStatus("done")


def test_broken_result_is_no_success(workspace) -> None:
    folder = workspace.create()
    folder.result_file.write_text('{"status": "done", "sec')
    assert folder.status().status == "failed"
    assert "result.json cannot be read" in folder.status().reason


def test_result_of_another_run_is_no_result_and_one_that_names_none_is_read(workspace) -> None:
    h1, h16 = workspace.add_run(trial="h1"), workspace.add_run(trial="h16")
    own = json.loads(h16.result_file.read_text())
    h16.result_file.write_bytes(h1.result_file.read_bytes())
    assert h16.status().status == "failed"
    assert h16.status().reason.startswith(f"result.json is of run {h1.path.name}, the folder of {h16.path.name}; put")
    del own["run"]  # as earlier versions wrote it
    h16.result_file.write_text(json.dumps(own))
    assert h16.status() == RunStatus("done")


def _cut(file: str) -> Callable[[RunFolder], object]:
    return lambda folder: (folder.path / file).write_text("{")


def _change_config(folder: RunFolder) -> None:
    values = json.loads(folder.run_file.read_text())
    folder.run_file.write_text(json.dumps(values | {"config": {"vocab": 5}}))


def _file_for_folder(folder: RunFolder) -> None:
    folder.path.rename(folder.path.with_name(".away"))
    folder.path.touch()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_cut("run.json"), "run.json cannot be read"),
        (_cut("result.json"), "result.json cannot be read"),
        (lambda folder: folder.run_file.unlink(), "run.json is missing"),
        (_change_config, "run.json was changed: what it says is of run "),
        (lambda folder: (folder.path / "attempt-002").touch(), "attempt-002 cannot be read (Not a directory)"),
        (_file_for_folder, "cannot be read (Not a directory)"),
    ],
)
def test_whatever_is_amiss_is_a_status_with_what_to_do(workspace, damage, words: str) -> None:
    folder = workspace.add_run()
    damage(folder)
    status = folder.status()
    assert (status.status, status.damaged) == ("failed", True)
    assert words in status.reason
    assert status.reason.endswith("; put the original file back, or run it again with --rerun")


def test_a_folder_that_may_not_be_read_is_a_failed_run(workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = workspace.add_run()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("results.run_folder.os.scandir", refuse)
    assert folder.status().reason.startswith(f"{folder.path.name} cannot be read (Permission denied); put the original")


def test_older_attempt_learns_that_it_was_replaced(workspace) -> None:
    folder = workspace.create()
    first = folder.claim_attempt()
    assert folder.may_commit(first)
    second = folder.claim_attempt()
    assert not folder.may_commit(first)
    assert folder.may_commit(second)


def test_attempts_are_ordered_by_number_beyond_999(workspace) -> None:
    folder = workspace.create()
    for number in (2, 999, 1000, 10):
        (folder.path / f"attempt-{number:03d}").mkdir()
    assert folder.claim_attempt().number == 1001
    assert [attempt.number for attempt in folder.attempts()] == [2, 10, 999, 1000, 1001]


def test_metrics_are_readable_while_the_attempt_goes_on(workspace) -> None:
    attempt = workspace.create().claim_attempt()
    attempt.log_metrics(5, "train", {"loss": 1.5, "nll": math.nan}, seconds=2.0)
    lines = [json.loads(line) for line in attempt.metrics_file.read_text().splitlines()]
    assert lines[0] == {"step": 5, "split": "train", "name": "loss", "value": 1.5, "seconds": 2.0}
    assert math.isnan(lines[1]["value"])


def test_failed_write_leaves_the_old_file_and_no_other(workspace) -> None:
    folder = workspace.create()
    attempt = folder.claim_attempt()
    before = sorted(path.name for path in attempt.path.iterdir())
    with pytest.raises(ValueError, match="status='done'"):
        attempt.fail("no", status="done")
    assert sorted(path.name for path in attempt.path.iterdir()) == before


def test_artifact_is_described_by_size_and_checksum(workspace) -> None:
    folder = workspace.create()
    path = folder.path / "attempt-001" / "hypotheses.txt"
    path.parent.mkdir()
    path.write_bytes(b"abc")
    artifact = folder.artifact("hypotheses", path)
    assert (artifact.path, artifact.bytes) == ("attempt-001/hypotheses.txt", 3)
    # The SHA-256 of "abc" in FIPS 180-2, appendix B.1.
    assert artifact.sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_set_aside_keeps_the_old_run_and_frees_its_id(workspace) -> None:
    folder = workspace.add_run(losses={1: 3.0})
    kept = folder.set_aside()
    assert (kept / "result.json").exists()
    assert workspace.create().status() == RunStatus("queued")
    workspace.store.ingest()
    assert workspace.rows("SELECT count(*) FROM runs") == [(1,)]


def test_home_that_cannot_be_written_is_named(workspace) -> None:
    with pytest.raises(ResultsError, match=r"cannot make /proc/aiayn/runs/.*choose another home"):
        RunFolder.create(Path("/proc/aiayn/runs"), workspace.record())
