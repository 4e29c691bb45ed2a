"""Using a finished run: found by what a person types, and translating line by line."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from core.data.corpus import DataError
from results.errors import ResultsError
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.trained import TrainedRun, find_run, load_run, read_lines, translate_lines

Plan = Callable[..., list[PlannedRun]]
Pretend = Callable[..., RunFolder]


def test_run_is_found_by_id_beginning_or_trial(unbroken: RunFolder) -> None:
    workspace = Workspace(unbroken.path.parent.parent)
    for name in (unbroken.path.name, unbroken.path.name[:4], "table3/base"):
        assert find_run(workspace, name).path == unbroken.path


@pytest.mark.parametrize("name", ["", "zzz", "table3/h1", "table4/base", "/", "../x"])
def test_run_that_is_not_there_is_told(name: str, unbroken: RunFolder) -> None:
    with pytest.raises(ValueError, match=r"no finished run .*aiayn status"):
        find_run(Workspace(unbroken.path.parent.parent), name)


def test_unfinished_run_is_not_used(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    (run,) = plan(workspace, "base")
    pretend(run, failure=("no memory", "failed"))
    with pytest.raises(ValueError, match="no finished run of table3/base"):
        find_run(workspace, "table3/base")


def test_beginning_of_several_ids_is_refused(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    runs = plan(workspace, seeds=1)  # twenty ids begin with sixteen digits at most
    for run in runs:
        pretend(run)
    first = [run.record.run[0] for run in runs]
    shared = next(digit for digit in first if first.count(digit) > 1)
    with pytest.raises(ValueError, match=f"'{shared}' begins {first.count(shared)} runs: .*give more of the id"):
        find_run(workspace, shared)


def test_of_several_runs_of_a_trial_the_newest_is_meant(workspace: Workspace, plan: Plan, pretend: Pretend) -> None:
    one, two = plan(workspace, "base", seeds=2)
    for run, finished in ((one, "2026-01-02T00:00:00+00:00"), (two, "2026-01-01T00:00:00+00:00")):
        folder = pretend(run)
        folder.finish(replace(folder.result(), finished=finished))
    assert find_run(workspace, "table3/base").path == one.folder.path


@pytest.fixture(scope="module")
def trained(unbroken: RunFolder) -> TrainedRun:
    return load_run(unbroken)


def test_every_line_has_its_translation_and_empty_ones_stay_empty(trained: TrainedRun) -> None:
    lines = ["The old teacher sleeps.", "", "A dog sees the red house.", "   ", "The old teacher sleeps."]
    output = translate_lines(trained, lines, trained.config.decode)
    assert len(output) == len(lines)
    assert (output[1], output[3]) == ("", "")
    assert output[0] == output[4] != ""
    assert not any("\n" in line for line in output)


def test_text_that_no_corpus_has_is_translated_too(trained: TrainedRun) -> None:
    assert len(translate_lines(trained, ["🙂 ⟨pad⟩ \u2028 ﷽", "x" * 300], trained.config.decode)) == 2
    assert translate_lines(trained, [], trained.config.decode) == []


def test_weights_of_another_run_are_refused(unbroken: RunFolder, tmp_path: Path) -> None:
    other = tmp_path / unbroken.path.name
    other.mkdir()
    record = unbroken.record()
    for name in ("model.pt", "vocabulary.json"):
        (other / name).symlink_to(unbroken.path / name)
    moved = RunFolder.create(tmp_path / "runs", replace(record, run="0123456789ab"))
    (moved.path / "model.pt").symlink_to(unbroken.path / "model.pt")
    with pytest.raises(ResultsError, match=f"is of run {record.run}, not of 0123456789ab"):
        load_run(moved)


@pytest.mark.parametrize("damage", ["cut", "removed", "changed"])
def test_a_runs_vocabulary_is_put_back_and_never_deleted(unbroken: RunFolder, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / unbroken.path.name
    shutil.copytree(unbroken.path, copy)
    path = copy / "vocabulary.json"
    text = path.read_text(encoding="utf-8")
    if damage == "removed":
        path.unlink()
    else:
        path.write_text(text[: len(text) // 2] if damage == "cut" else text + "\n", encoding="utf-8")
    with pytest.raises(
        DataError, match=r"vocabulary\.json .*; put the original file back, or train the run again"
    ) as caught:
        load_run(RunFolder(copy))
    assert "delete" not in str(caught.value)


def test_lines_are_cut_at_line_feeds_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "source.txt"
    file.write_bytes("one\u2028still one\n\ntwo\x85\x0c".encode())
    assert read_lines(file) == ["one\u2028still one", "", "two\x85\x0c"]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb")))
    assert read_lines(None) == ["a", "b"]


def test_lines_that_cannot_be_read_are_refused_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "source.txt"
    file.write_bytes(b"good\n\xff\xfe\n")
    with pytest.raises(DataError, match=r"source\.txt line 2 is not UTF-8"):
        read_lines(file)
    with pytest.raises(ValueError, match=r"cannot read .*absent\.txt \(No such file"):
        read_lines(tmp_path / "absent.txt")
    with pytest.raises(ValueError, match=r"cannot read .* \(Is a directory\)"):
        read_lines(tmp_path)
