"""What trials are given: the scale's, or what a person asked for, trial by trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from studies.registry import get_study
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import Scale
from studies.scheduling.resources import Resources, Sizes

Plan = Callable[..., list[PlannedRun]]


@pytest.fixture
def on_gpus(tiny: Scale) -> Scale:
    """`tiny`, but its trials ask for 8 GPUs, as the paper's do."""
    return replace(tiny, gpus_per_trial=8)


def test_resources_are_the_scales_unless_told_otherwise(
    workspace: Workspace, plan: Plan, tiny: Scale, on_gpus: Scale
) -> None:
    (run,) = plan(workspace, "base")
    assert Sizes().of(run, on_gpus) == Resources(1, 8)
    assert Sizes(gpus=0).of(run, on_gpus) == Resources(1, 0)
    assert Sizes(gpus=1).of(run, tiny) == Resources(1, 1)
    assert Sizes(cpu_ranks=2).of(run, tiny) == Resources(1, 0, cpu_ranks=2)


def test_each_rank_has_a_gpu_or_cores_of_its_own() -> None:
    assert (Resources(2, 4).ranks, Resources(2, 4).bundle) == (4, {"CPU": 2, "GPU": 1})
    assert (Resources(2, 0).ranks, Resources(2, 0).bundle) == (1, {"CPU": 2})
    assert (Resources(1, 0, 3).ranks, Resources(1, 0, 3).bundle) == (3, {"CPU": 1})


def test_one_trial_may_be_larger_than_the_others(workspace: Workspace, plan: Plan, on_gpus: Scale) -> None:
    sizes = Sizes.parse(["1", "big=8"])
    assert [sizes.of(run, on_gpus).gpus for run in plan(workspace, "base", "big")] == [1, 8]
    only_big = Sizes.parse(["big=2"])
    assert [only_big.of(run, on_gpus).gpus for run in plan(workspace, "base", "big")] == [8, 2]


def test_what_trains_nothing_has_one_rank_on_cores(workspace: Workspace, tiny: Scale, on_gpus: Scale) -> None:
    probe = plan_runs(get_study("figure3"), tiny, 1, workspace)[0]
    assert Sizes().of(probe, on_gpus) == Resources(1, 0)
    assert Sizes(cpu_ranks=2).of(probe, tiny) == Resources(1, 0)


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        (["two"], "'two': give a number for all trials, or TRIAL=NUMBER"),
        (["-1"], "'-1': give a number"),
        (["big="], "'big=': give a number"),
        (["1", "2"], "two numbers for all trials"),
        (["big=1", "big=2"], "two numbers for big"),
    ],
)
def test_sizes_that_say_nothing_are_refused(texts: list[str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Sizes.parse(texts)


def test_ranks_on_gpus_and_on_cores_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="on 8 GPUs has as many ranks, not 2 on cores"):
        Resources(1, 8, cpu_ranks=2)
