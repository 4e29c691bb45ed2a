"""Scores of a parser's sequences: worked by hand, and what they hold whatever a model writes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.corpora import get_treebank
from core.data.tree_sequences import TAGGED, VINYALS, TreeFormat, linearise
from core.data.trees import Tree, parse_line
from core.scoring.bracketing import score_trees
from core.scoring.checks import ScoringError
from core.scoring.evalb_rules import COLLINS, NK
from core.scoring.parses import read_parse, score_baseline, score_parses
from core.scoring.references import TreeReference

GOLD = parse_line("(TOP (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))")[0]
RIGHT = "(TOP (S (NP XX XX )NP (VP XX )VP XX )S )TOP"


def by_name(lines: list[str], gold: list[Tree], form: TreeFormat = VINYALS) -> dict:
    return {score.name: score for score in score_parses(lines, gold, form)}


@pytest.fixture(scope="module")
def gold(few_trees: str, tmp_path_factory: pytest.TempPathFactory) -> list[Tree]:
    return list(get_treebank(few_trees).read_trees("dev", tmp_path_factory.mktemp("data")))


def test_hand_worked_scores_with_and_without_repair() -> None:
    # The second output lacks its end. Repaired, its full stop is in the VP; these are deleted, so S, NP and VP are
    # right. As written it is no tree and has no match.
    scores = by_name([RIGHT, "(TOP (S (NP XX XX )NP (VP XX"], [GOLD, GOLD])
    assert scores["f1"].value == 100.0
    details = scores["f1"].details
    assert (details["repaired"], details["repaired_share"]) == (1, 0.5)
    assert (details["repairs"]["missing_closers"], details["repairs"]["missing_leaves"]) == (3, 1)
    assert details["sentences_with"] == {
        "unbalanced": 1, "wrong leaf count": 1, "wrong leaf": 0, "empty constituent": 0, "too deep": 0,
    }  # fmt: skip
    # Recall 3 of 6, precision 3 of 3.
    assert scores["f1_unrepaired"].value == pytest.approx(2 * 0.5 * 1.0 / 1.5 * 100)
    assert scores["f1_unrepaired"].details["all"]["skipped"] == 1


def test_b40_four_of_five_broken_outputs_are_no_full_score() -> None:
    scores = by_name([RIGHT, "", ")NP", "XX XX XX XX XX XX", "(S"], [GOLD] * 5)
    assert scores["f1"].details["repaired"] == 4
    assert scores["f1"].details["all"]["valid"] == 5
    assert scores["f1_unrepaired"].value == pytest.approx(2 * (3 / 15) / (1 + 3 / 15) * 100)


def test_b47_other_parameter_files_stand_beside_with_their_hashes(gold: list[Tree]) -> None:
    score = by_name([" ".join(linearise(tree)) for tree in gold], gold)["f1"]
    assert f"sha256:{COLLINS.sha256[:16]}" in score.signature
    assert any(
        f"rules:nk|delete:gold_tags|sha256:{NK.sha256[:16]}" in name for name in score.details["other_protocols"]
    )
    assert score.details["rules_sha256"] == COLLINS.sha256


def test_signatures_have_the_claims_protocol_and_say_what_was_repaired() -> None:
    scores = by_name([RIGHT], [GOLD])
    for name, rest in (("f1", "repair:yes"), ("f1_40", "repair:yes|length:<=40"), ("f1_unrepaired", "repair:no")):
        assert scores[name].signature.startswith("f1:evalb|rules:COLLINS|delete:gold_tags|")
        assert rest in scores[name].signature
    assert "repair:none" in score_baseline([GOLD], [GOLD]).signature


@pytest.mark.parametrize("form", [VINYALS, TAGGED, TreeFormat(keep_tags=True, keep_words=True)])
def test_e22_right_sequences_score_100_whatever_they_tell(gold: list[Tree], form: TreeFormat) -> None:
    scores = by_name([" ".join(linearise(tree, form)) for tree in gold], gold, form)
    assert [score.value for score in scores.values()] == [100.0] * 3
    assert scores["f1"].details["repaired"] == 0
    interval = scores["f1"].details["test_set_interval"]
    assert (interval["low"], interval["high"], len(interval["replicates"])) == (100.0, 100.0, 1_000)


def test_parts_add_up_to_the_whole(gold: list[Tree]) -> None:
    drawn = random.Random(7)
    lines = [" ".join(symbol for symbol in linearise(tree) if drawn.random() > 0.1) for tree in gold]
    details = by_name(lines, gold)["f1"].details
    whole = details["all"]
    for side in ("gold", "predicted", "matched"):
        assert sum(counts[side] for counts in details["by_label"].values()) == whole[side]
    assert sum(row["sentences"] for row in details["by_length"]) == len(gold)
    errors = details["constituent_errors"]
    assert errors["wrong label"] + errors["wrong span"] == whole["predicted"] - whole["matched"]
    assert errors["wrong label"] + errors["missed"] == whole["gold"] - whole["matched"]


def test_the_kept_trees_score_what_was_stored(gold: list[Tree]) -> None:
    drawn = random.Random(3)
    lines = [" ".join(symbol for symbol in linearise(tree) if drawn.random() > 0.05) for tree in gold]
    reference = TreeReference(gold, VINYALS)
    kept = reference.readable(lines)
    made = [parse_line(line)[0] for line in kept["trees"]]
    assert [parse_line(line)[0] for line in kept["gold"]] == gold
    assert score_trees(gold, made).value == pytest.approx(by_name(lines, gold)["f1"].value)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(alphabet="(NPX) )S\u2581\u00a0", max_size=80), min_size=3, max_size=3))
def test_b44_garbage_scores_low_and_never_fails(lines: list[str]) -> None:
    scores = by_name(lines, [GOLD] * 3)
    assert 0.0 <= scores["f1"].value < 100.0
    assert scores["f1"].details["all"]["errors"] == 0


def test_unequal_numbers_are_refused() -> None:
    with pytest.raises(ScoringError, match="1 predicted trees against 2 gold ones"):
        score_parses([RIGHT], [GOLD, GOLD], VINYALS)
    assert read_parse(RIGHT, ["the", "dog", "barks", "."], VINYALS).valid
