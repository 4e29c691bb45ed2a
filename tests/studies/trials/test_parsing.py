"""Parsing from a treebank to F1: runs of Table 4 in this process, silver trees, other settings, baselines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from core.data.corpora import get_treebank
from core.data.tree_sequences import VINYALS, linearise
from core.data.trees import parse_line
from core.scoring.bracketing import score_trees
from core.scoring.parses import read_parse
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.scales import PAPER, SMOKE, Scale
from studies.table4 import STUDY
from studies.trained.loading import load_run
from studies.trials import self_training
from studies.trials.self_training import _Candidate
from studies.work import TRAINING, SelfTraining

Plan = Callable[..., list[PlannedRun]]
Execute = Callable[[PlannedRun, Workspace], RunFolder]


def scores(folder: RunFolder) -> dict:
    assert folder.status().status == "done", folder.status().reason
    return {score.name: score for score in folder.result().scores}


def lines(folder: RunFolder, kind: str) -> list[str]:
    (path,) = (
        folder.path / artifact.path
        for artifact in folder.result().artifacts
        if artifact.kind == kind and Path(artifact.path).name.startswith("test.")
    )
    return path.read_text(encoding="utf-8").splitlines()


def test_a_run_ends_in_f1_with_the_identity_that_the_claims_want(parser_run: RunFolder) -> None:
    found = {name: score for name, score in scores(parser_run).items() if name.startswith(("dev_", "test_"))}
    names = ("ppl", "f1", "f1_40", "f1_unrepaired")
    assert list(found) == [f"{split}_{name}" for split in ("dev", "test") for name in names]
    for score in found.values():
        assert score.dataset == f"few-trees/{score.name.partition('_')[0]}/en-trees"
        assert score.num_items == 30
        assert score.value is not None
    wanted = STUDY.claims[0].identity.protocol.split("|")
    assert set(wanted) <= set(found["test_f1"].signature.split("|"))


def test_b44_what_a_hardly_trained_model_writes_is_repaired_counted_and_scored(parser_run: RunFolder) -> None:
    found = scores(parser_run)
    details = found["test_f1"].details
    assert details["all"]["errors"] == details["all"]["skipped"] == 0
    assert details["repaired"] > 0
    assert found["test_f1_unrepaired"].value <= found["test_f1"].value
    gold, made = (lines(parser_run, kind) for kind in ("gold", "trees"))
    assert gold == [str(tree) for tree in get_treebank("few-trees").read_trees("test", parser_run.path)]
    again = score_trees([parse_line(line) for line in gold], [parse_line(line) for line in made])
    assert again.value == pytest.approx(found["test_f1"].value)


def test_silver_trees_are_made_by_the_first_model_and_trained_on(
    plan_parsing: Plan, execute: Execute, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first model, hardly trained, writes no tree; so its output is made up: gold trees, a third broken."""
    workspace = Workspace(tmp_path)
    (semi,) = plan_parsing(workspace, "semi")
    assert semi.trains
    assert semi.needs.record.trial == "part"
    assert "which was not begun" in execute(semi, workspace).status().reason
    execute(semi.needs, workspace)

    def pretend(_first, gold, _device):
        for number, tree in enumerate(gold):
            tags, words = zip(*tree.tagged(), strict=True)
            symbols = linearise(tree)[: None if number % 3 else -1]
            yield _Candidate(read_parse(" ".join(symbols), words, VINYALS, tags), tree, -number)

    monkeypatch.setattr(self_training, "_parse", lambda *given: list(pretend(*given)))
    silver = scores(execute(semi, workspace))["silver_f1"]
    kept = (semi.folder.path / "silver.trees.txt").read_text(encoding="utf-8").splitlines()
    gold = [str(tree) for tree in get_treebank("few-trees").read_trees("train", tmp_path)]
    # Of 150 sentences that the first model did not see, 100 are right, and the surest 75 of these are kept.
    assert kept == [line for number, line in enumerate(gold[150:]) if number % 3][:75]
    assert (silver.value, silver.num_items) == (100.0, 75)
    assert [silver.details[name] for name in ("sentences", "valid", "kept")] == [150, 100, 75]
    assert load_run(semi.folder).record.trial == "semi"


def test_a_first_model_that_writes_no_tree_leaves_gold_trees_alone(
    plan_parsing: Plan, parser_run: RunFolder, execute: Execute
) -> None:
    workspace = Workspace(parser_run.path.parent.parent)
    (semi,) = plan_parsing(workspace, "semi")
    execute(semi.needs, workspace)
    silver = scores(execute(semi, workspace))["silver_f1"]
    assert silver.details["kept"] <= silver.details["valid"] <= silver.details["sentences"] == 150


def test_silver_trees_are_made_below_the_papers_scale_alone() -> None:
    semi = STUDY.trial("semi")
    assert isinstance(semi.work_at(SMOKE), SelfTraining)
    assert semi.work_at(PAPER) is TRAINING
    assert semi.config(PAPER).data.more_trees == "berkeley-parses"


def test_other_beams_score_the_development_split_of_the_same_run(
    plan_parsing: Plan, parser_run: RunFolder, execute: Execute
) -> None:
    workspace = Workspace(parser_run.path.parent.parent)
    (beam,) = plan_parsing(workspace, "beam1")
    assert beam.needs.record.run == parser_run.path.name
    found = scores(execute(beam, workspace))
    assert list(found) == ["dev_f1", "dev_f1_40", "dev_f1_unrepaired"]
    # The tiny scale searches greedily too.
    assert found["dev_f1"].value == scores(parser_run)["dev_f1"].value
    with pytest.raises(ValueError, match="table4/beam1 measures a run and has no model; name that run"):
        load_run(beam.folder)


def test_a_grammar_beats_right_branching_trees(plan_parsing: Plan, execute: Execute, tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    found = {
        run.record.trial: scores(execute(run, workspace)) for run in plan_parsing(workspace, "pcfg", "right_branching")
    }
    assert found["pcfg"]["test_f1"].value > 80.0 > found["right_branching"]["test_f1"].value
    assert found["pcfg"]["test_f1"].dataset == "few-trees/test/en-trees"
    assert "repair:none" in found["pcfg"]["test_f1"].signature


def test_b74_without_treebank_files_table4_is_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Scale
) -> None:
    from studies.runs import plan_runs

    monkeypatch.delenv("AIAYN_DATA", raising=False)
    wsj_only, semi = plan_runs(STUDY, PAPER, 1, Workspace(tmp_path), ["wsj_only", "semi"])
    for run in (wsj_only, semi):
        assert run.status.status == "blocked"
        assert "wsj is not here; it needs a licence" in run.status.reason


def test_every_trial_of_a_run_stores_what_it_is(plan_parsing: Plan, tmp_path: Path) -> None:
    for run in plan_parsing(Workspace(tmp_path)):
        assert json.loads(json.dumps(run.record.config)) == run.record.config
