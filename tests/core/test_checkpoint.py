from __future__ import annotations

import contextlib
import math
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from core.checkpoint import (
    Checkpoint,
    CheckpointError,
    DamagedCheckpointError,
    list_checkpoints,
    load_checkpoint,
    load_payload,
    newest_first,
    pass_over,
    save_checkpoint,
    stale_checkpoints,
    write_atomically,
)


@pytest.fixture
def checkpoint() -> Checkpoint:
    weight = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    weight.square().sum().backward()
    optimizer.step()
    return Checkpoint(
        run="0123456789ab",
        step=7,
        config={"model": {"d_model": 16}, "optim": {"eps": 1e-9}},
        model={"weight": weight.detach()},
        optimizer=optimizer.state_dict(),
        progress={"seconds": 1.5, "data": {"epoch": 2, "update": 3}},
        random={"cpu": torch.get_rng_state()},
    )


def test_a_checkpoint_survives_the_disk_random_state_included(tmp_path: Path, checkpoint: Checkpoint):
    """Pitfall C15. B34: random states pass safe loading."""
    path = save_checkpoint(tmp_path / "new" / "folder", checkpoint)
    loaded = load_checkpoint(path, run=checkpoint.run)
    assert path.name == "step-00000007.pt"
    for name in ("run", "step", "config", "progress"):
        assert getattr(loaded, name) == getattr(checkpoint, name)
    assert_close(loaded.model["weight"], checkpoint.model["weight"], rtol=0, atol=0)
    assert_close(loaded.optimizer["state"], checkpoint.optimizer["state"], rtol=0, atol=0)
    assert loaded.optimizer["param_groups"] == checkpoint.optimizer["param_groups"]
    expected = torch.rand(3)
    torch.set_rng_state(loaded.random["cpu"])
    assert torch.equal(torch.rand(3), expected)


def test_steps_are_ordered_by_number(tmp_path: Path, checkpoint: Checkpoint):
    # As another program may name them: without the zeros that would make the order of letters right by chance.
    content = save_checkpoint(tmp_path / "elsewhere", checkpoint).read_bytes()
    for step in (100, 99, 1_000, 9, 123_456_789):
        (tmp_path / f"step-{step}.pt").write_bytes(content)
    names = [path.name for path in list_checkpoints(tmp_path)]
    assert names == ["step-9.pt", "step-99.pt", "step-100.pt", "step-1000.pt", "step-123456789.pt"]
    assert newest_first([tmp_path])[0].name == "step-123456789.pt"


def test_only_the_newest_two_are_kept(tmp_path: Path, checkpoint: Checkpoint):
    for step in (98, 99, 100, 101):
        save_checkpoint(tmp_path, replace(checkpoint, step=step))
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000100.pt", "step-00000101.pt"]
    save_checkpoint(tmp_path, replace(checkpoint, step=102), keep=1)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step-00000102.pt"]


def test_the_newest_is_found_across_folders_and_the_later_folder_wins_a_tie(tmp_path: Path, checkpoint: Checkpoint):
    first, second, third = (tmp_path / name for name in ("attempt-001", "attempt-002", "attempt-003"))
    for folder, step in ((first, 100), (first, 200), (second, 99), (third, 200)):
        save_checkpoint(folder, replace(checkpoint, step=step))
    missing = tmp_path / "attempt-004"
    assert newest_first([first, second])[0] == first / "step-00000200.pt"
    assert newest_first([first, second, third, missing])[0] == third / "step-00000200.pt"
    assert newest_first([missing]) == []
    assert newest_first([]) == []


def test_the_best_is_kept_beside_the_newest_and_older_attempts_are_cleared(tmp_path: Path, checkpoint: Checkpoint):
    first, second = tmp_path / "attempt-001", tmp_path / "attempt-002"
    nll = {10: 2.0, 20: 1.0, 30: 1.5, 40: math.nan, 50: 1.2, 60: 1.1}
    for step in (10, 20, 30):
        save_checkpoint(first, replace(checkpoint, step=step), scores=nll)
    assert [path.name for path in list_checkpoints(first)] == ["step-00000020.pt", "step-00000030.pt"]
    for step in (40, 50, 60):
        save_checkpoint(second, replace(checkpoint, step=step), earlier=[first], scores=nll)
    assert list_checkpoints(first) == [first / "step-00000020.pt"]
    assert [path.name for path in list_checkpoints(second)] == ["step-00000050.pt", "step-00000060.pt"]


@given(
    st.lists(st.lists(st.integers(0, 50), unique=True), max_size=4),
    st.dictionaries(st.integers(0, 50), st.floats(allow_nan=True), max_size=20),
    st.integers(0, 3),
)
def test_what_is_needed_is_never_stale(attempts: list[list[int]], nll: dict[int, float], keep: int):
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / f"attempt-{number:03d}" for number in range(len(attempts))]
        for folder, steps in zip(folders, attempts, strict=True):
            folder.mkdir()
            for step in steps:
                (folder / f"step-{step:08d}.pt").touch()
            (folder / "member-00000001.pt").touch()
        present = [path for folder in folders for path in folder.glob("step-*.pt")]
        stale = stale_checkpoints(folders, nll, keep)
        kept = set(present) - set(stale)
        assert set(stale) <= set(present)
        assert set(newest_first(folders)[:keep]) <= kept
        scores = [score for path in present if math.isfinite(score := nll.get(int(path.stem[5:]), math.nan))]
        if scores:
            assert min(scores) in {nll.get(int(path.stem[5:])) for path in kept}
        assert len(kept) <= keep + 1


def test_a_damaged_one_is_taken_out_of_the_way_and_stays(tmp_path: Path, checkpoint: Checkpoint):
    older, newer = (save_checkpoint(tmp_path, replace(checkpoint, step=step)) for step in (10, 20))
    newer.write_bytes(newer.read_bytes()[:100])
    with pytest.raises(DamagedCheckpointError, match=r"step-00000020\.pt is not a checkpoint"):
        load_checkpoint(newer, checkpoint.run)
    pass_over(newer)
    assert newest_first([tmp_path]) == [older]
    assert newer.with_name("step-00000020.pt.damaged").stat().st_size == 100


def test_a_write_that_breaks_off_leaves_the_old_file_whole(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
):
    path = save_checkpoint(tmp_path, checkpoint)
    whole = path.read_bytes()

    def torn_save(_payload, file) -> None:
        file.write(b"half a checkpoi")
        raise OSError("no space left on device")

    monkeypatch.setattr(torch, "save", torn_save)
    for step in (checkpoint.step, checkpoint.step + 1):
        with pytest.raises(OSError, match="no space left"):
            save_checkpoint(tmp_path, replace(checkpoint, step=step))
    assert path.read_bytes() == whole
    assert list_checkpoints(tmp_path) == [path]


def test_a_reader_sees_the_old_file_or_the_new_one_and_bytes_are_on_disk_before_the_rename(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
):
    path = save_checkpoint(tmp_path, checkpoint)
    old, events = path.read_bytes(), []
    fsync, rename = os.fsync, os.replace

    def watched_fsync(descriptor: int) -> None:
        events.append("flushed")
        fsync(descriptor)

    def watched_rename(source: Path, target: Path) -> None:
        assert target.read_bytes() == old
        load_checkpoint(source, checkpoint.run)
        events.append("renamed")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_rename)
    write_atomically(path, load_payload(path) | {"step": 8})
    assert events == ["flushed", "renamed"]
    assert load_checkpoint(path, checkpoint.run).step == 8
    assert list(tmp_path.iterdir()) == [path]


def test_another_runs_checkpoint_is_refused(tmp_path: Path, checkpoint: Checkpoint):
    path = save_checkpoint(tmp_path, checkpoint)
    with pytest.raises(CheckpointError, match="belongs to run 0123456789ab, not to ffffffffffff"):
        load_checkpoint(path, run="ffffffffffff")


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"model\.pt is missing; put it back"):
        load_payload(tmp_path / "model.pt", remedy="put it back")


def test_a_torn_file_is_refused_wherever_it_was_torn(tmp_path: Path, checkpoint: Checkpoint):
    whole = save_checkpoint(tmp_path, checkpoint).read_bytes()
    torn = tmp_path / "step-8.pt"
    for length in (0, 1, 2, 100, len(whole) // 3, len(whole) // 2, len(whole) - 100, len(whole) - 1):
        torn.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"step-8\.pt is not a checkpoint"):
            load_checkpoint(torn, checkpoint.run)


def test_a_damaged_file_is_refused_or_loads_whole(tmp_path: Path, checkpoint: Checkpoint):
    whole = save_checkpoint(tmp_path, checkpoint).read_bytes()
    damaged = tmp_path / "step-8.pt"
    for start in range(0, len(whole), max(1, len(whole) // 40)):
        damaged.write_bytes(
            whole[:start] + bytes(byte ^ 0xFF for byte in whole[start : start + 8]) + whole[start + 8 :]
        )
        with contextlib.suppress(CheckpointError):  # no other error
            load_checkpoint(damaged, checkpoint.run)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"\x80\x04.", b"PK\x03\x04" + bytes(50), bytes(range(256))])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "step-1.pt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"\((\S+ )+\S+\); go on from an older one"):
        load_checkpoint(path, run="0123456789ab")


class Payload:
    """Touches a file when it is unpickled, as hostile code would."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("as_zip", [True, False])
def test_a_checkpoint_with_code_in_it_is_refused_and_the_code_not_run(tmp_path: Path, as_zip: bool):
    trace, path = tmp_path / "code-has-run", tmp_path / "step-1.pt"
    torch.save({"run": "0123456789ab", "step": Payload(trace)}, path, _use_new_zipfile_serialization=as_zip)
    with pytest.raises(CheckpointError, match="can be loaded safely"):
        load_checkpoint(path, run="0123456789ab")
    assert not trace.exists()


@pytest.mark.parametrize("field", ["random", "optimizer", "run"])
def test_an_incomplete_checkpoint_is_never_silently_without_state(tmp_path: Path, checkpoint: Checkpoint, field: str):
    path = save_checkpoint(tmp_path, checkpoint)
    payload = load_payload(path)
    del payload[field]
    write_atomically(path, payload)
    with pytest.raises(CheckpointError, match=f"lacks {field}"):
        load_checkpoint(path, run=checkpoint.run)


@pytest.mark.parametrize("content", [torch.zeros(()), [1, 2], "text", 7])
def test_a_saved_thing_that_is_no_checkpoint_is_refused(tmp_path: Path, content):
    path = tmp_path / "step-1.pt"
    torch.save(content, path)
    with pytest.raises(CheckpointError, match=r"step-1\.pt"):
        load_checkpoint(path, run="0123456789ab")
