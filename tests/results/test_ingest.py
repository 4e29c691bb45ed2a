"""The database says what the run folders say, however they came about and however often it is asked."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from results.run_folder import HEARTBEAT_SECONDS, Attempt, RunFolder

values = st.floats(allow_nan=True, allow_infinity=True, width=64)
lines = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["train", "dev"]), st.sampled_from(["loss", "ppl"]), values),
    max_size=8,
)
# A run is a few attempts, each a few chunks of lines; the database is brought up to date between the chunks.
runs = st.lists(st.lists(st.lists(lines, min_size=1, max_size=2), max_size=2), min_size=1, max_size=2)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=runs, torn=st.integers(0, 60))
def test_newest_attempt_wins_as_in_a_dictionary(workspace, runs, torn: int) -> None:
    fresh = workspace.another()
    model: dict[tuple, float | None] = {}
    for seed, attempts in enumerate(runs):
        folder = fresh.create(seed=seed)
        for chunks in attempts:
            attempt = folder.claim_attempt()
            for chunk in chunks:
                for step, split, name, value in chunk:
                    attempt.log_metrics(step, split, {name: value}, seconds=1.0)
                    model[folder.path.name, step, split, name] = value if math.isfinite(value) else None
                fresh.store.ingest()
            attempt.close()
            # Killed in mid-write: what stands of the last line is no JSON, and no earlier line is touched.
            with attempt.metrics_file.open("a") as file:
                file.write('{"step": 3, "split": "train", "name": "loss", "value": 0.125, "seconds": 1.0}'[:torn])
    report = fresh.store.ingest()
    stored = {tuple(row[:4]): row[4] for row in fresh.rows("SELECT run, step, split, name, value FROM metrics")}
    assert stored == model
    assert fresh.rows("SELECT count(*) FROM metrics") == [(len(model),)]
    assert report.problems == ()
    incremental = fresh.dump()
    assert fresh.dump_after_rebuild() == incremental


def test_resumed_run_keeps_its_whole_curve_and_doubles_nothing(workspace) -> None:
    # The stops and steps of stack.md 3: attempts 0-12, 10-16 and 15-19, where each resumes from a checkpoint.
    folder = workspace.create()
    for attempt, steps in enumerate([range(13), range(10, 17), range(15, 20)]):
        workspace.add_attempt(folder, dict.fromkeys(steps, attempt + 0.5))
        workspace.store.ingest()
    curve = workspace.rows("SELECT step, value FROM metrics ORDER BY step")
    assert curve == [(step, 0.5 if step < 10 else 1.5 if step < 15 else 2.5) for step in range(20)]


def test_dead_attempt_that_goes_on_writing_changes_nothing(workspace) -> None:
    folder = workspace.create()
    old = folder.claim_attempt()
    workspace.add_attempt(folder, {1: 2.0})
    workspace.store.ingest()
    old.log_metrics(1, "train", {"loss": 99.0}, 0.0)
    workspace.store.ingest()
    assert workspace.rows("SELECT value, attempt FROM metrics") == [(2.0, 2)]


def test_same_key_twice_keeps_the_last_line(workspace) -> None:
    """B60."""
    attempt = workspace.create().claim_attempt()
    attempt.log_metrics(1, "train", {"loss": 1.0}, 0.0)
    attempt.log_metrics(1, "train", {"loss": 2.0}, 0.0)
    workspace.store.ingest()
    assert workspace.rows("SELECT value FROM metrics") == [(2.0,)]
    attempt.log_metrics(1, "train", {"loss": 3.0}, 0.0)
    workspace.store.ingest()
    assert workspace.rows("SELECT value FROM metrics") == [(3.0,)]


def test_nan_and_infinity_become_null_so_that_a_maximum_is_a_number(workspace) -> None:
    workspace.add_run(losses={1: 1.0, 2: math.nan, 3: math.inf, 4: -math.inf})
    workspace.store.ingest()
    assert workspace.rows("SELECT max(value), count(*), count(value) FROM metrics") == [(1.0, 4, 1)]


def test_unchanged_folders_are_not_read_again(workspace) -> None:
    for seed in range(3):
        workspace.add_run(seed=seed)
    assert (workspace.store.ingest().read, workspace.store.ingest().read) == (3, 0)
    workspace.add_run(seed=3)
    report = workspace.store.ingest()
    assert (report.read, report.unchanged, report.removed) == (1, 3, 0)


def test_unchanged_workspace_opens_no_write_connection(workspace, monkeypatch) -> None:
    workspace.add_run()
    workspace.store.ingest()
    before = workspace.store.database.stat().st_mtime_ns
    monkeypatch.setattr("results.store.transaction", pytest.fail)
    workspace.store.ingest()
    assert workspace.store.database.stat().st_mtime_ns == before


def test_silence_alone_turns_running_into_queued(workspace) -> None:
    attempt = workspace.create().claim_attempt()
    workspace.store.ingest()
    assert workspace.rows("SELECT status, reason FROM runs") == [("running", None)]
    then = time.time() - HEARTBEAT_SECONDS - 5
    for path in (attempt.heartbeat_file, attempt.path):
        os.utime(path, (then, then))
    workspace.store.ingest()
    assert workspace.rows("SELECT status, reason FROM runs") == [
        ("queued", "interrupted at attempt 1; the same command resumes it")
    ]


def test_run_row_has_what_the_files_say(workspace) -> None:
    folder = workspace.add_run(losses={1: 1.0}, scores=[workspace.score("dev_bleu", 20.5, lengths=[3])], params=7)
    workspace.store.ingest()
    row = workspace.rows(
        "SELECT run, study, trial, seed, scale, status, seconds, attempts, config->'model'->>'d_model', params,"
        " dirty, hardware->>'cpu', phases->>'decode', started >= created, finished >= started FROM runs"
    )
    name = folder.path.name
    assert row == [(name, "table3", "base", 1, "smoke", "done", 12.5, 1, "64", 7, False, "test", "2.5", True, True)]
    scores = workspace.rows("SELECT run, name, value, signature, dataset, num_items, details->>'lengths' FROM scores")
    assert scores == [(name, "dev_bleu", 20.5, "nrefs:1|tok:13a", "grammar/dev", 100, "[3]")]


def test_failed_and_diverged_runs_say_why(workspace) -> None:
    workspace.add_run(seed=1, failure=("CUDA out of memory", "failed"))
    workspace.add_run(seed=2, failure=("loss is NaN at step 7", "diverged"))
    workspace.store.ingest()
    rows = workspace.rows("SELECT status, reason, finished IS NOT NULL FROM runs ORDER BY seed")
    assert rows == [("failed", "CUDA out of memory", True), ("diverged", "loss is NaN at step 7", True)]


def test_deleted_run_folder_leaves_no_rows(workspace) -> None:
    folder = workspace.add_run(seed=1)
    workspace.add_run(seed=2)
    workspace.store.ingest()
    shutil.rmtree(folder.path)
    assert workspace.store.ingest().removed == 1
    incremental = workspace.dump()
    assert len(incremental["runs"]) == 1
    assert workspace.dump_after_rebuild() == incremental


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "run.json cannot be read"),
        ("[]", "must be a JSON object"),
        ('{"run": "x"}', "missing"),
        (None, "is missing"),
    ],
)
def test_broken_run_folder_is_reported_and_stops_no_other(workspace, content: str | None, complaint: str) -> None:
    broken = workspace.add_run(seed=1)
    healthy = workspace.add_run(seed=2)
    workspace.store.ingest()
    broken.run_file.unlink() if content is None else broken.run_file.write_text(content)
    for _ in range(2):  # unchanged does not mean forgotten
        (problem,) = workspace.store.ingest().problems
        assert problem.startswith(f"{broken.path.name}/run.json: ")
        assert complaint in problem
    assert workspace.rows("SELECT run FROM runs") == [(healthy.path.name,)]
    assert workspace.rows("SELECT run, file FROM problems") == [(broken.path.name, "run.json")]


def test_folder_that_cannot_be_read_is_reported_and_stops_no_other(workspace, monkeypatch) -> None:
    locked, healthy = (workspace.add_run(seed=seed) for seed in (1, 2))

    def attempts(folder: RunFolder) -> list[Attempt]:
        if folder.path.name == locked.path.name:
            raise PermissionError(13, "Permission denied")
        return real(folder)

    real = RunFolder.attempts
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "attempts", attempts)
        for _ in range(2):
            assert workspace.store.ingest().problems == (f"{locked.path.name}/.: cannot be read (Permission denied)",)
    assert workspace.rows("SELECT run FROM runs") == [(healthy.path.name,)]
    assert workspace.store.ingest().problems == ()
    assert workspace.rows("SELECT count(*) FROM runs") == [(2,)]


def test_run_copied_under_another_name_is_reported(workspace) -> None:
    folder = workspace.add_run()
    shutil.copytree(folder.path, folder.path.with_name("copy"))
    (problem,) = workspace.store.ingest().problems
    assert problem.startswith("copy/run.json: run.json is of run")


@pytest.mark.parametrize("odd", ["NaN", "-Infinity", "1e999", '"\\ud800"'])
def test_details_that_no_database_keeps_are_damage_for_every_reader(workspace, odd: str) -> None:
    folder = workspace.add_run(scores=[workspace.score("dev_bleu", 20.5)])
    values = json.loads(folder.result_file.read_text())
    values["scores"][0]["details"] = {"odd": ["HERE"]}
    folder.result_file.write_text(json.dumps(values, indent=1).replace('"HERE"', odd))
    assert len(workspace.store.ingest().problems) == 1
    assert workspace.rows("SELECT status FROM runs") == [("failed",)]
    assert (folder.status().status, folder.status().damaged) == ("failed", True)


def test_result_with_a_refused_score_is_a_failed_run_and_no_score(workspace) -> None:
    folder = workspace.add_run(scores=[workspace.score("dev_bleu", 20.5)])
    values = json.loads(folder.result_file.read_text())
    values["scores"][0]["value"] = math.nan
    folder.result_file.write_text(json.dumps(values))
    (problem,) = workspace.store.ingest().problems
    assert "score dev_bleu: value=nan must be finite" in problem
    assert workspace.rows("SELECT status FROM runs") == [("failed",)]
    assert workspace.rows("SELECT * FROM scores") == []


@pytest.mark.parametrize(
    "line",
    [
        "garbage",
        "5",
        '{"step": 1}',
        '{"step": "1", "split": "train", "name": "loss", "value": 1, "seconds": 1}',
        '{"step": -1, "split": "train", "name": "loss", "value": 1, "seconds": 1}',
        '{"step": 99999999999999999999, "split": "train", "name": "loss", "value": 1, "seconds": 1}',
        '{"step": 1, "split": "train", "name": "loss", "value": "big", "seconds": 1}',
        '{"step": 1, "split": 3, "name": "loss", "value": 1, "seconds": 1}',
        '{"step": 1, "split": "train", "name": "\\ud800", "value": 1, "seconds": 1}',
        "\x00\x00\x00",
        "[" * 100_000,
    ],
)
def test_broken_line_in_the_middle_is_reported_and_the_rest_kept(workspace, line: str) -> None:
    folder = workspace.create()
    attempt = folder.claim_attempt()
    attempt.log_metrics(1, "train", {"loss": 1.0}, 0.0)
    attempt.close()
    with attempt.metrics_file.open("a") as file:
        file.write(line + "\n")
    attempt.log_metrics(2, "train", {"loss": 0.5}, 0.0)
    (problem,) = workspace.store.ingest().problems
    assert problem.startswith(f"{folder.path.name}/attempt-001/metrics.jsonl: line 2 is not a metric (")
    assert len(problem) < 500
    assert "\n" not in problem
    assert workspace.rows("SELECT step FROM metrics ORDER BY step") == [(1,), (2,)]


HALF = "half \ud800 a character"


@pytest.mark.parametrize("place", ["run.json", "result.json", "attempt-001/machine.json"])
def test_half_a_character_in_a_file_is_reported_and_stops_no_other(workspace, place: str) -> None:
    folder, healthy = (workspace.add_run(seed=seed, scores=[workspace.score("dev_bleu", 20.5)]) for seed in (1, 2))
    attempt = folder.attempts()[0]
    attempt.record_machine({"hardware": {"cpu": "fast"}, "gpus": [], "versions": {}})
    values = json.loads((folder.path / place).read_text())
    match place:
        case "run.json":
            values["provenance"] = {"git_commit": HALF}
        case "result.json":
            values["scores"][0]["details"] = {"deep": [HALF]}
        case _:
            values["versions"] = {"torch": HALF}
    (folder.path / place).write_text(json.dumps(values))
    (problem,) = workspace.store.ingest().problems
    assert problem.startswith(f"{folder.path.name}/{place}: ")
    assert problem.endswith("'\\ud800' in it is no character")
    assert folder.status().status == ("done" if place.startswith("attempt") else "failed")
    expected = {"run.json": [], "result.json": ["failed"]}.get(place, ["done"])
    assert workspace.rows(f"SELECT status FROM runs WHERE run = '{folder.path.name}'") == [(s,) for s in expected]
    assert workspace.rows(f"SELECT value FROM scores WHERE run = '{healthy.path.name}'") == [(20.5,)]


def test_half_a_character_in_what_is_told_to_people_is_written_out(workspace) -> None:
    """Such as a byte of a file's name that is no UTF-8, in the message of a failure."""
    folder = workspace.create()
    attempt = folder.claim_attempt()
    attempt.note(HALF)
    attempt.fail(HALF)
    odd = folder.path.with_name("odd\udcff")
    odd.mkdir()
    problems = workspace.store.ingest().problems
    assert problems[0] == f"{folder.path.name}/attempt-001/notes.jsonl: half \\ud800 a character"
    assert problems[1] == "odd\\udcff/run.json: run.json is missing"
    assert workspace.rows("SELECT reason FROM runs") == [("half \\ud800 a character",)]
    assert workspace.store.ingest().unchanged == 2


@pytest.mark.parametrize("odd", ["a\x00b", 10**400, {"a": {"b": None}}, "😀", [1e308, -0.0]])
def test_whatever_json_holds_is_stored(workspace, odd: object) -> None:
    folder = workspace.add_run(config={"odd": odd})
    assert workspace.store.ingest().problems == ()
    assert workspace.rows("SELECT run, status FROM runs") == [(folder.path.name, "done")]


def test_metrics_of_a_finished_run_that_are_cut_off_are_reported(workspace) -> None:
    """An unfinished run may end in half a line; a finished one has named the size of its curve."""
    folder = workspace.create()
    workspace.add_attempt(folder, dict.fromkeys(range(20), 1.0))
    file = folder.attempts()[0].metrics_file
    folder.finish(replace(workspace.result(), artifacts=(folder.artifact("metrics", file),)))
    assert workspace.store.ingest().problems == ()
    whole, (name, size) = file.read_bytes(), (folder.path.name, file.stat().st_size)
    last_line = len(whole) - len(whole.splitlines()[-1]) - 1
    for left in (size - 10, last_line, 0):  # in a line, between two, and all of it
        file.write_bytes(whole[:left])
        (problem,) = workspace.store.ingest().problems
        assert problem == f"{name}/attempt-001/metrics.jsonl: {left:,} bytes are left of {size:,}; the curve has gaps"
    file.unlink()
    assert "0 bytes are left" in workspace.store.ingest().problems[0]
    file.write_bytes(whole + b'{"a process that was taken for dead": "writes on"}\n')
    assert not any("left" in problem for problem in workspace.store.ingest().problems)


def test_what_an_attempt_went_on_without_is_told_until_the_run_is_done(workspace) -> None:
    folder = workspace.create()
    workspace.add_attempt(folder, {1: 2.0})
    folder.attempts()[0].note("step-00000007.pt is damaged;\npassed over")
    (problem,) = workspace.store.ingest().problems
    assert problem == f"{folder.path.name}/attempt-001/notes.jsonl: step-00000007.pt is damaged; passed over"
    folder.finish(workspace.result())
    assert workspace.store.ingest().problems == ()


def test_rewritten_metrics_replace_the_old_ones(workspace) -> None:
    folder = workspace.add_run(losses={1: 1.0, 2: 2.0, 3: 3.0})
    workspace.store.ingest()
    folder.attempts()[0].metrics_file.write_text("")
    workspace.store.ingest()
    assert workspace.rows("SELECT * FROM metrics") == []


def test_growing_run_does_not_bloat_the_database(workspace) -> None:
    attempt = workspace.create().claim_attempt()
    for step in range(0, 1_500, 100):
        for inner in range(100):
            attempt.log_metrics(step + inner, "train", {"loss": 1.0 / (step + inner + 1)}, 0.0)
        workspace.store.ingest()
    grown = workspace.store.database.stat().st_size
    workspace.store.rebuild()
    assert grown <= 3 * workspace.store.database.stat().st_size


def test_a_thousand_runs_are_each_read_once(workspace) -> None:
    """How long that takes, `tests/benchmarks/large_workspace.py` tells."""
    template = workspace.add_run(losses=dict.fromkeys(range(20), 1.0))
    for seed in range(2, 1_001):
        record = workspace.record(seed=seed)
        path = workspace.runs_dir / record.run
        shutil.copytree(template.path, path)
        (path / "run.json").write_text(json.dumps(record.to_json()))
    assert workspace.store.ingest().read == 1_000
    again = workspace.store.ingest()
    assert (again.read, again.unchanged) == (0, 1_000)
    assert workspace.rows("SELECT count(DISTINCT run) FROM metrics") == [(1_000,)]


def test_a_run_is_shown_with_the_machine_that_carried_it_out(workspace) -> None:
    """Not with the one that planned it, whose hardware run.json has; the newest attempt's, where there are several."""
    folder = workspace.create()
    for name in ("first", "second"):
        attempt = folder.claim_attempt()
        machine = {"hardware": {"cpu": name}, "gpus": ["H100"] * 8, "ranks": 8, "versions": {"torch": "2.13"}}
        attempt.record_machine(machine)
    folder.claim_attempt()  # killed before it could tell
    workspace.store.ingest()
    ((hardware, gpus, versions),) = workspace.rows("SELECT hardware, gpus, versions FROM runs")
    assert json.loads(hardware) == {"cpu": "second"}
    assert json.loads(gpus) == ["H100"] * 8
    assert json.loads(versions) == {"torch": "2.13"}
    assert folder.machine()["ranks"] == 8
