"""Probes of finished runs: Figures 3 to 5 planned, measured, stored, resumed and skipped like any run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from core.attention_maps import source_side
from core.attention_measures import completions
from core.data.treebanks import TREEBANK_SAMPLE
from core.trainer import Trainer
from results.attention_file import TokenSide, load
from results.run_folder import RunFolder
from studies import figures
from studies.registry import get_study
from studies.runs import PlannedRun, Workspace, needed_runs, plan_runs, with_needed
from studies.scales import PAPER, SCALES, SMALL, SMOKE, Scale
from studies.study import Study
from studies.trained.loading import load_run
from studies.trials import attention_probe
from studies.trials.attention_probe import probe_examples, probe_set, words_of_pieces
from studies.work import AttentionProbe, Training, work_of

Execute = Callable[[PlannedRun, Workspace], RunFolder]
FIGURES = {study.name: study for study in figures.STUDIES}


@pytest.fixture(scope="module")
def few_sentences() -> object:
    """120 of the sentences, which is enough for every measure to have a value, and makes no training corpus."""
    from core.data.grammar import generate_splits

    patch = pytest.MonkeyPatch()
    examples = generate_splits({"attention": 120}, 3)["attention"]
    patch.setattr(attention_probe, "probe_examples", lambda: examples)
    yield examples
    patch.undo()


def bring(unbroken: RunFolder, workspace: Workspace) -> None:
    """The run that is measured, into another workspace."""
    shutil.copytree(unbroken.path, workspace.runs / unbroken.path.name)


@pytest.fixture(scope="module")
def probed(
    new_workspace: Callable[[], Workspace], unbroken: RunFolder, tiny: Scale, execute: Execute, few_sentences: object
) -> dict[tuple[str, str], RunFolder]:
    """The probes of one tiny run, by study and trial."""
    workspace = new_workspace()
    bring(unbroken, workspace)
    planned = [run for study in FIGURES.values() for run in plan_runs(study, tiny, 1, workspace)]
    for run in planned:
        execute(run, workspace)
    return {(run.record.study, run.record.trial): run.folder for run in planned}


def test_a_probe_is_planned_with_the_run_that_it_measures(workspace: Workspace, tiny: Scale) -> None:
    runs = plan_runs(FIGURES["figure4"], tiny, 2, workspace)
    (base, other) = needed_runs(runs)
    assert [(run.record.study, run.record.trial, run.record.seed) for run in (base, other)] == [
        ("table3", "base", 1),
        ("table3", "base", 2),
    ]
    assert [run.needs.record.run for run in runs] == [base.record.run, other.record.run] * 2
    assert not any(run.trains for run in runs)
    assert base.trains


def test_the_id_covers_the_run_that_is_measured(workspace: Workspace, tiny: Scale) -> None:
    (run,) = plan_runs(FIGURES["figure4"], tiny, 1, workspace, ["attention"])
    assert run.record.config["work"]["run"] == run.needs.record.run
    longer = replace(tiny, base=replace(tiny.base, train=replace(tiny.base.train, train_steps=13)))
    (other,) = plan_runs(FIGURES["figure4"], longer, 1, workspace, ["attention"])
    assert other.record.run != run.record.run


def test_a_request_brings_what_it_measures_once_and_only_if_it_is_not_asked_for(
    workspace: Workspace, tiny: Scale
) -> None:
    requested = [(study, plan_runs(study, tiny, 1, workspace)) for study in FIGURES.values()]
    (before, *rest) = with_needed(requested)
    assert (before[0].name, len(before[1])) == ("table3", 1)
    assert rest == requested
    table3 = get_study("table3")
    requested.append((table3, plan_runs(table3, tiny, 1, workspace, ["base"])))
    assert with_needed(requested) == requested


def test_what_a_run_does_is_read_from_its_configuration(workspace: Workspace, tiny: Scale) -> None:
    run, null = plan_runs(FIGURES["figure5"], tiny, 1, workspace)
    assert work_of(run.record.config) == AttentionProbe("table3", "base", 5)
    assert work_of(null.record.config) == AttentionProbe("table3", "base", 5, trained=False)
    assert work_of(run.needs.record.config) == Training()
    with pytest.raises(ValueError, match="does 'Weighing' is not known"):
        work_of({"work": {"kind": "Weighing"}})


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale.name)
@pytest.mark.parametrize("study", FIGURES.values(), ids=list(FIGURES))
def test_every_figure_has_a_probe_at_every_scale(study: Study, scale: Scale, workspace: Workspace) -> None:
    for trial in study.trials:
        assert trial.config(scale) == scale.base
        assert not trial.trains


def test_the_sentences_measured_are_in_no_split() -> None:
    from core.data.grammar import generate_splits

    splits = generate_splits()
    seen = {example.english for examples in splits.values() for example in examples}
    examples = probe_examples()
    assert len(examples) == 1_000
    assert not seen & {example.english for example in examples}


def side(*words: str) -> TokenSide:
    """A sentence whose words are a piece each, and the end symbol."""
    return TokenSide((*words, "</s>"), tuple(range(len(words) + 1)), (*words, "</s>"))


@pytest.mark.parametrize(
    ("read", "analysed", "expected"),
    [
        (["He", "sleeps", "."], ["He", "sleeps", "."], [0, 1, 2, 3]),
        (["U", ".", "S", ".", "did", "n", "'t", "."], ["U.S.", "did", "n't", "."], [*4 * [0], 1, 2, 2, 3, 4]),
        ([], [], [0]),
    ],
)  # fmt: skip
def test_pieces_find_the_word_of_the_analysis_that_they_are_of(read, analysed, expected) -> None:
    assert words_of_pieces(side(*read), analysed) == expected


@pytest.mark.parametrize(
    ("read", "analysed"), [(["a", "c"], ["a", "b"]), (["a", "b"], ["a"]), (["a"], ["a", "b"]), (["ab"], ["a", "b"])]
)
def test_pieces_of_another_text_than_the_analysis_are_refused(read, analysed) -> None:
    with pytest.raises(ValueError, match="the pieces"):
        words_of_pieces(side(*read), analysed)


@pytest.fixture
def put_treebank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[bool], None]:
    """The treebank's sample, there or not, as `AIAYN_DATA` tells."""

    def make(here: bool) -> None:
        monkeypatch.setenv("AIAYN_DATA", str(tmp_path))
        if here:
            (tmp_path / "treebank-sample").mkdir()
            (tmp_path / "treebank-sample" / "treebank.zip").write_bytes(b"its place is enough to plan")

    return make


@pytest.mark.parametrize(("scale", "here", "treebank"), [
    (SMALL, True, "treebank-sample"), (PAPER, True, "treebank-sample"), (SMALL, False, None), (SMOKE, True, None),
])  # fmt: skip
def test_a_treebank_that_is_here_is_measured_on_above_smoke_scale(
    scale: Scale, here: bool, treebank: str | None, put_treebank: Callable[[bool], None], workspace: Workspace
) -> None:
    put_treebank(here)
    for study in FIGURES.values():
        expected = None if study.name == "figure4" else treebank  # none marks what a pronoun stands for
        assert {run.work.treebank for run in plan_runs(study, scale, 1, workspace)} == {expected}


def test_measuring_on_other_sentences_is_another_run(
    put_treebank: Callable[[bool], None], workspace: Workspace
) -> None:
    put_treebank(False)
    before = [run.record.run for run in plan_runs(FIGURES["figure3"], SMALL, 1, workspace)]
    put_treebank(True)
    assert not {run.record.run for run in plan_runs(FIGURES["figure3"], SMALL, 1, workspace)} & {*before}


def test_the_treebanks_sentences_are_told_apart_word_by_word(tmp_path: Path, unbroken: RunFolder) -> None:
    """By pieces that were learned on other text: none of its words begins or ends inside a piece's."""
    if not TREEBANK_SAMPLE.state(tmp_path).usable:
        pytest.skip("needs the treebank's sample: set AIAYN_DATA to a folder that holds treebank-sample/treebank.zip")
    found = probe_set(AttentionProbe("table3", "base", 3, treebank="treebank-sample"), tmp_path)
    assert (found.dataset, len(found.sentences)) == ("treebank-sample/train/en", 1_000)
    vocabulary = load_run(unbroken).vocabulary
    pieces = vocabulary.encode_batch([sentence.text for sentence in found.sentences])
    for sentence, ids in zip(found.sentences, pieces, strict=True):
        read = source_side(vocabulary, ids)
        words = words_of_pieces(TokenSide(read.labels, read.words, read.word_labels), sentence.analysis.english)
        assert words[-1] == len(sentence.analysis.english)
    assert len(completions([sentence.analysis for sentence in found.sentences])) > 500


def test_every_claim_of_a_figure_finds_its_score(probed: dict[tuple[str, str], RunFolder]) -> None:
    for study in FIGURES.values():
        for claim in study.claims:
            for trial in claim.trials:
                scores = {score.name: score for score in probed[study.name, trial].result().scores}
                score = scores[claim.metric]
                assert score.value is not None, (claim.id, score.details)
                if claim.identity is not None:
                    assert (score.dataset, score.num_items) == (claim.identity.dataset, claim.identity.num_items)
                    # Of three layers the last but one is the second: at the paper's size the fields agree.
                    asked = claim.identity.protocol.replace("5 of 6", "2 of 3")
                    assert set(asked.split("|")) <= set(score.signature.split("|"))


def test_scores_have_an_interval_over_sentences(probed: dict[tuple[str, str], RunFolder]) -> None:
    scores = {score.name: score for score in probed["figure4", "attention"].result().scores}
    share = scores["antecedent_share"]
    interval = share.details["test_set_interval"]
    assert interval["low"] <= share.value <= interval["high"]
    assert len(interval["replicates"]) == 1_000
    difference = scores["antecedent_over_shuffled"]
    assert difference.value == pytest.approx(share.value - scores["antecedent_shuffled"].value)


def test_f4_kept_weights_are_those_of_the_run_on_the_sentence_of_that_id(
    probed: dict[tuple[str, str], RunFolder], few_sentences: list
) -> None:
    """F4, B49, B51: read again, sentence by sentence and without a batch, the same numbers come out."""
    from core.attention_maps import attention_maps, source_side

    folder = probed["figure5", "attention"]
    run = load_run(RunFolder(folder.path.parent / folder.record().config["work"]["run"]))
    stored = load(folder.path / "attention.npz")
    assert [sentence.id for sentence in stored.sentences[:3]] == [
        "paper/figure3",
        "paper/figure4",
        "grammar/attention/0",
    ]
    for sentence in stored.sentences[:6]:
        number = sentence.id.rpartition("/")[2]
        if number.isdigit():
            assert sentence.text == few_sentences[int(number)].text("en")
        (pieces,) = run.vocabulary.encode_batch([sentence.text])
        side = source_side(run.vocabulary, pieces)
        assert sentence.sides["source"].pieces == side.labels
        weights = attention_maps(run.model, torch.tensor([side.ids]), kinds=["encoder"]).weights["encoder"]
        for layer in (1, 2, 3):
            np.testing.assert_allclose(sentence.layer("encoder", layer), weights[layer][0], atol=1e-3)


def test_figures_3_and_4_keep_their_layer_alone(probed: dict[tuple[str, str], RunFolder]) -> None:
    for name in ("figure3", "figure4"):
        for sentence in load(probed[name, "attention"].path / "attention.npz").sentences:
            assert sentence.layers == (2,)
            assert set(sentence.weights) == {"encoder"}


def test_the_untrained_null_is_the_run_before_its_first_update(
    probed: dict[tuple[str, str], RunFolder], new_workspace: Callable[[], Workspace], plan: Callable
) -> None:
    from core.attention_maps import attention_maps, source_side
    from core.data.prepare import prepare

    folder = probed["figure4", "untrained"]
    workspace = Workspace(folder.path.parent.parent)
    (run,) = plan(workspace, "base")
    data = prepare(run.config.data, workspace.data)
    trainer = Trainer("x" * 12, run.config, data.split("train"), data.split("dev"), 1, torch.device("cpu"))
    sentence = load(folder.path / "attention.npz").sentence("paper/figure4")
    (pieces,) = data.vocabulary.encode_batch([sentence.text])
    source = torch.tensor([source_side(data.vocabulary, pieces).ids])
    weights = attention_maps(trainer.model, source, layers=[2], kinds=["encoder"]).weights["encoder"][2][0]
    np.testing.assert_allclose(sentence.layer("encoder", 2), weights, atol=1e-3)


def test_a_probe_that_is_done_is_skipped(probed: dict[tuple[str, str], RunFolder], tiny: Scale) -> None:
    folder = probed["figure3", "attention"]
    workspace = Workspace(folder.path.parent.parent)
    (run,) = plan_runs(FIGURES["figure3"], tiny, 1, workspace, ["attention"])
    assert run.folder.path == folder.path
    assert run.status.status == "done"


def test_a_probe_without_its_run_says_what_to_do(
    new_workspace: Callable[[], Workspace], unbroken: RunFolder, tiny: Scale, execute: Execute, few_sentences: object
) -> None:
    workspace = new_workspace()
    (run,) = plan_runs(FIGURES["figure3"], tiny, 1, workspace, ["attention"])
    execute(run, workspace)
    status = run.folder.status()
    assert status.status == "failed"
    assert f"it measures table3/base seed 1 ({run.needs.record.run}), which was not begun" in status.reason
    bring(unbroken, workspace)
    execute(run, workspace)
    assert run.folder.status().status == "done"


def test_a_probe_has_no_model_and_names_the_run_that_has(probed: dict[tuple[str, str], RunFolder]) -> None:
    folder = probed["figure3", "attention"]
    measured = folder.record().config["work"]["run"]
    with pytest.raises(
        ValueError, match=rf"figure3/attention measures a run and has no model; name that run: {measured}"
    ):
        load_run(folder)
