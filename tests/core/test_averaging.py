"""The average of the last checkpoints: its members, its arithmetic, and what it refuses (pitfalls D1 to D5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from core.averaging import average_members, find_members, member_steps, save_member
from core.checkpoint import CheckpointError
from core.config import TrainConfig
from core.transformer import Transformer

RUN = "0123456789ab"


def members(folder: Path, values: dict[int, float], run: str = RUN) -> list[Path]:
    return [save_member(folder, run, step, {"w": torch.full((2,), value)}) for step, value in values.items()]


def test_d1_members_are_spaced_and_end_with_the_last_update():
    base = TrainConfig(train_steps=100_000, average_last=5, average_every_steps=1_500)
    assert member_steps(base) == (94_000, 95_500, 97_000, 98_500, 100_000)
    big = TrainConfig(train_steps=300_000, average_last=20, average_every_steps=600)
    assert (len(member_steps(big)), member_steps(big)[0], member_steps(big)[-1]) == (20, 288_600, 300_000)
    assert member_steps(TrainConfig()) == ()


def test_members_that_do_not_fit_into_the_training_are_refused():
    with pytest.raises(
        ValueError, match="average_last=5 checkpoints, 30 updates apart, do not fit into train_steps=120"
    ):
        TrainConfig(train_steps=120, average_last=5, average_every_steps=30)
    assert member_steps(TrainConfig(train_steps=121, average_last=5, average_every_steps=30))[0] == 1


def test_the_mean_is_worked_by_hand_and_names_its_members(tmp_path):
    average = average_members(members(tmp_path, {1: 1.0, 2: 2.0, 3: 6.0}), RUN)
    assert average.weights["w"].tolist() == [3.0, 3.0]
    assert [member.step for member in average.members] == [1, 2, 3]
    assert len({member.sha256 for member in average.members}) == 3


def test_d3_members_are_found_by_number_and_a_missing_one_is_an_error(tmp_path):
    members(tmp_path, {99: 1.0, 100: 2.0, 101: 3.0})
    assert [path.name for path in find_members([tmp_path], (99, 100, 101))] == [
        "member-00000099.pt",
        "member-00000100.pt",
        "member-00000101.pt",
    ]
    with pytest.raises(CheckpointError, match=r"after update 98, 102 are missing, so the last 3 checkpoints cannot be"):
        find_members([tmp_path], (98, 100, 102))


def test_an_update_that_was_done_twice_counts_once_and_the_later_attempt_stands(tmp_path):
    first, second = tmp_path / "attempt-001", tmp_path / "attempt-002"
    members(first, {1: 1.0, 2: 2.0})
    members(second, {2: 20.0, 3: 30.0})
    found = find_members([first, second], (1, 2, 3))
    assert [path.parent for path in found] == [first, second, second]
    assert average_members(found, RUN).weights["w"].tolist() == [17.0, 17.0]


def test_d2_members_of_two_runs_are_not_mixed(tmp_path):
    paths = [*members(tmp_path, {1: 1.0}), *members(tmp_path, {2: 1.0}, run="f" * 12)]
    with pytest.raises(CheckpointError, match="belongs to run ffffffffffff, not to 0123456789ab"):
        average_members(paths, RUN)


def test_members_of_other_shapes_are_not_mixed(tmp_path):
    paths = members(tmp_path, {1: 1.0})
    paths.append(save_member(tmp_path, RUN, 2, {"w": torch.zeros(3)}))
    with pytest.raises(CheckpointError, match="has other weights than"):
        average_members(paths, RUN)


def test_d4_precision_is_kept_and_what_is_no_floating_number_is_the_last_ones(tmp_path):
    values = torch.tensor([1.0, 1.0 + 2**-23, 16_777_216.0])
    paths = [
        save_member(tmp_path, RUN, step, {"w": values, "half": values[:1].bfloat16(), "count": torch.tensor([step])})
        for step in range(1, 21)
    ]
    weights = average_members(paths, RUN).weights
    assert torch.equal(weights["w"], values)  # a running mean in float32 loses the last bit
    assert weights["half"].dtype == torch.bfloat16
    assert weights["count"].tolist() == [20]


def test_b28_d5_tied_matrices_stay_tied_and_are_the_average_of_each(
    build_model: Callable[..., Transformer], tmp_path: Path
):
    models = [build_model() for _ in range(3)]
    for number, model in enumerate(models):
        with torch.no_grad():
            model.embedding.weight.add_(number)
    paths = [save_member(tmp_path, RUN, step, model.state_dict()) for step, model in enumerate(models, start=1)]
    average = average_members(paths, RUN)
    averaged = build_model()
    averaged.load_state_dict(average.weights)
    expected = torch.stack([model.embedding.weight for model in models]).mean(dim=0)
    assert_close(averaged.embedding.weight, expected)
    pieces = torch.tensor([[3, 4]])
    # The one matrix embeds the source, embeds the target, and projects.
    assert_close(averaged.embedding(pieces)[0], expected[pieces[0]] * averaged.embedding.scale)
    hidden = torch.randn(1, averaged.config.d_model, dtype=expected.dtype)
    assert_close(averaged.logits(hidden), hidden @ expected.T)


def test_averaging_nothing_changes_no_configuration():
    assert replace(TrainConfig(), average_every_steps=7).average_last == 1
