"""The study of one budget: that it is one, at every scale, and what a scale's budget means."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from core.architecture_config import ModelConfig
from core.complexity import num_parameters, training_flops
from results.run_folder import RunFolder
from studies.budget import BLEU_GAP, COST_MARGIN, PARAMETERS_MARGIN, STUDY, TRIALS, nearest
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import BUDGET_EVALUATIONS, SCALES, Scale
from studies.table3 import STUDY as TABLE3

every_scale = pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)


@every_scale
def test_parameters_are_as_many_and_operations_too(scale: Scale) -> None:
    for trial in STUDY.trials:
        config = trial.config(scale)
        assert num_parameters(config.model) == pytest.approx(num_parameters(scale.base.model), rel=PARAMETERS_MARGIN)
        flops = training_flops(config.model, config.train, scale.sentence_pieces)
        assert flops == pytest.approx(scale.budget_flops, rel=COST_MARGIN)


@every_scale
def test_all_but_the_architecture_its_rate_and_its_updates_is_the_same(scale: Scale) -> None:
    configs = [trial.config(scale) for trial in STUDY.trials]
    assert len({(config.data, config.decode) for config in configs}) == 1
    assert len({(config.train.source_tokens, config.train.target_tokens) for config in configs}) == 1
    for config in configs:
        assert config.optim.label_smoothing == scale.base.optim.label_smoothing
        assert config.model.dropout == scale.base.model.dropout
        assert config.train.train_steps / config.train.eval_every_steps == pytest.approx(BUDGET_EVALUATIONS, rel=0.05)


@every_scale
def test_the_transformer_is_base_itself(scale: Scale) -> None:
    assert STUDY.trial("transformer").config(scale).model == TABLE3.trial("base").config(scale).model


def test_the_papers_budget_is_its_base_training() -> None:
    (paper,) = [scale for scale in SCALES if scale.name == "paper"]
    assert STUDY.trial("transformer").config(paper).train.train_steps == 100_000
    assert paper.budget_flops == training_flops(paper.base.model, paper.base.train, paper.sentence_pieces)


def test_the_nearest_size_is_taken_and_the_first_of_equals() -> None:
    def sizes(_: ModelConfig):
        for layers, heads in ((1, 2), (2, 2), (2, 4), (9, 2)):
            yield ModelConfig(
                50, num_layers=layers, d_model=16, d_ff=16, num_heads=heads, d_k=16 // heads, d_v=16 // heads
            )

    wanted = ModelConfig(50, num_layers=2, d_model=16, d_ff=17, num_heads=2, d_k=8, d_v=8)
    found = nearest(sizes, wanted)
    assert (found.num_layers, found.num_heads) == (2, 2)


def test_claims_ask_for_every_rival_and_name_where_the_paper_orders_them() -> None:
    orders = {claim.trials for claim in STUDY.claims if claim.kind == "order" and claim.metric == "test_bleu_paper"}
    assert {worse for better, worse in orders if better == "transformer"} == TRIALS.keys() - {"transformer"}
    gaps = [claim for claim in STUDY.claims if claim.kind == "threshold"]
    assert gaps
    assert {claim.expected for claim in gaps} == {BLEU_GAP} == {2.0}
    assert all(claim.source for claim in STUDY.claims)


@pytest.mark.parametrize(
    "name", ["convs2s", *(pytest.param(name, marks=pytest.mark.slow) for name in TRIALS if name != "convs2s")]
)
def test_an_architecture_is_trained_decoded_and_scored_like_any_other(
    name: str,
    tiny: Scale,
    new_workspace: Callable[[], Workspace],
    execute: Callable[[PlannedRun, Workspace], RunFolder],
) -> None:
    workspace = new_workspace()
    (run,) = plan_runs(STUDY, tiny, 1, workspace, [name])
    folder = execute(run, workspace)
    assert folder.status().status == "done", folder.status().reason
    scores = {score.name: score for score in folder.result().scores}
    assert folder.result().params == num_parameters(run.config.model)
    assert {"dev_ppl", "test_bleu_paper", "counted_flops", "timed_flops"} <= scores.keys()
    # Counted from the tokens that there were; planned from a scale's round numbers.
    assert scores["counted_flops"].value == pytest.approx(tiny.budget_flops, rel=0.25)
    lines = [json.loads(line) for line in folder.attempts()[-1].metrics_file.read_text(encoding="utf-8").splitlines()]
    points = [line for line in lines if line["name"] == "greedy_bleu_paper"]
    assert len(points) == pytest.approx(BUDGET_EVALUATIONS, abs=2)
    assert points[-1]["step"] == run.config.train.train_steps
