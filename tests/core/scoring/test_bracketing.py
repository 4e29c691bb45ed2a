"""The bracketing scorer against EVALB: its published sample, what the program printed, hand-worked cases.

`evalb_pairs.tsv` holds 160 random pairs of trees and, for three sets of rules, what EVALB's program printed for each:
status, length, matched, gold, predicted, crossing, words, correct tags. To compare on thousands of new pairs, build
the program and name it in AIAYN_EVALB.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from core.data.trees import Tree, format_tree, normalise, parse_line
from core.scoring.bracketing import BracketingScore, SentenceScore, score_trees
from core.scoring.checks import ScoringError
from core.scoring.evalb_rules import COLLINS, NEW, NK, EvalbRules, read_rules

PAIRS = Path(__file__).with_name("evalb_pairs.tsv")
ODD_RULES = """\
# rules that no published file has
DELETE_LABEL NP
DELETE_LABEL DT
DELETE_LABEL ''
DELETE_LABEL -NONE-
DELETE_LABEL_FOR_LENGTH CD
QUOTE_LABEL ''
QUOTE_LABEL NN
QUOTE_LABEL POS
EQ_LABEL NP VP
EQ_LABEL ADVP PRT
EQ_LABEL PRT TT
EQ_WORD this This
EQ_WORD a b
LABELED 0
CUTOFF_LEN 8
MAX_ERROR 100000
"""
STATUS = {"valid": 0, "error": 1, "skipped": 2}


def tree(line: str) -> Tree:
    (only,) = parse_line(line)
    return only


def score(gold: str | Sequence[str], predicted: str | Sequence[str], rules: EvalbRules = COLLINS, **options):
    """Scores lines of trees, one sentence or several."""
    sides = [[lines] if isinstance(lines, str) else lines for lines in (gold, predicted)]
    return score_trees(*([parse_line(line) for line in side] for side in sides), rules, **options)


def one(gold: str, predicted: str, rules: EvalbRules = COLLINS, **options) -> SentenceScore:
    (only,) = score(gold, predicted, rules, **options).sentences
    return only


def as_printed(sentence: SentenceScore) -> list[int]:
    """The counts of one row of EVALB's table; of a sentence that is not valid only what it prints in all versions."""
    head = [STATUS[sentence.status], sentence.length]
    if sentence.status != "valid":
        return head
    counts = [sentence.matched, sentence.gold, sentence.predicted, sentence.crossing]
    return [*head, *counts, sentence.words, sentence.correct_tags]


@pytest.fixture(scope="module")
def evalb_folder() -> Path:
    folder = Path(os.environ.get("AIAYN_DATA") or ".") / "evalb"
    if not (folder / "sample.gld").is_file():
        pytest.skip("needs EVALB's sample: set AIAYN_DATA to a folder that holds evalb/sample.gld")
    return folder


def lines_of(path: Path) -> list[str]:
    return path.read_text().removesuffix("\n").split("\n")


# EVALB itself ---------------------------------------------------------------------------------------------------------


def test_the_published_sample_is_scored_to_the_last_count(evalb_folder: Path) -> None:
    rules = read_rules(evalb_folder / "sample.prm")
    found = score(lines_of(evalb_folder / "sample.gld"), lines_of(evalb_folder / "sample.tst"), rules)
    published = (evalb_folder / "sample.rsl").read_text()
    rows = [line.split() for line in published.split("\n") if re.match(r"\s+\d+\s+\d+\s+[012]\s", line)]
    assert len(rows) == 24
    for row, sentence in zip(rows, found.sentences, strict=True):
        printed = [int(row[2]), int(row[1]), *(int(number) for number in row[5:11])]
        assert as_printed(sentence) == printed[: len(as_printed(sentence))]
    assert [(f"{part.recall:.2f}", f"{part.precision:.2f}") for part in (found.all, found.short)] == [
        ("87.76", "90.53"),
        ("81.25", "85.25"),
    ]
    assert f"{found.all.f1:.2f}" == "89.12"
    for part, summary in zip((found.all, found.short), re.split(r"-- .* --", published)[1:], strict=True):
        printed = dict(re.findall(r"^(.+?) +=\s+([\d.]+)$", summary, re.MULTILINE))
        assert printed == {
            "Number of sentence": str(part.sentences),
            "Number of Error sentence": str(part.errors),
            "Number of Skip  sentence": str(part.skipped),
            "Number of Valid sentence": str(part.valid),
            "Bracketing Recall": f"{part.recall:.2f}",
            "Bracketing Precision": f"{part.precision:.2f}",
            "Complete match": f"{part.complete_match:.2f}",
            "Average crossing": f"{part.average_crossing:.2f}",
            "No crossing": f"{part.no_crossing:.2f}",
            "2 or less crossing": f"{part.two_or_less_crossing:.2f}",
            "Tagging accuracy": f"{part.tagging_accuracy:.2f}",
        }


def test_random_pairs_are_scored_as_evalb_printed(tmp_path: Path) -> None:
    (tmp_path / "odd.prm").write_text(ODD_RULES)
    header, *rows = [line.split("\t") for line in lines_of(PAIRS)]
    assert header == ["gold", "predicted", "COLLINS", "new", "odd"]
    gold, predicted, *printed = zip(*rows, strict=True)
    for rules, wanted in zip((COLLINS, NEW, read_rules(tmp_path / "odd.prm")), printed, strict=True):
        found = score(gold, predicted, rules)
        for sentence, row in zip(found.sentences, wanted, strict=True):
            counts = as_printed(sentence)
            assert counts == [int(number) for number in row.split()][: len(counts)]


def random_tree(rng: random.Random, leaves: list[Tree]) -> Tree:
    labels = ["S", "NP", "VP", "ADVP", "PRT", "NP-SBJ", "NP=2", "TOP", "-X-", "PRT|ADVP"]
    if len(leaves) == 1 and rng.random() < 0.7:
        return leaves[0]
    cut = rng.randint(1, len(leaves) - 1) if len(leaves) > 1 and rng.random() < 0.8 else len(leaves)
    parts = [leaves[:cut], leaves[cut:]] if cut < len(leaves) else [leaves]
    return Tree(rng.choice(labels), tuple(random_tree(rng, part) for part in parts))


@pytest.mark.parametrize("name", ["COLLINS", "new", "nk"])
def test_thousands_of_random_pairs_agree_with_the_program(name: str, evalb_folder: Path, tmp_path: Path) -> None:
    program = os.environ.get("AIAYN_EVALB")
    if not program:
        pytest.skip("needs EVALB's program: build evalb.c and set AIAYN_EVALB to it")
    rng = random.Random(name)
    tags = ["NN", "DT", ".", ",", "``", "''", "POS", "VBZ", "?", "-NONE-"]
    gold, predicted = [], []
    for _ in range(3_000):
        words = [rng.choice(["a", "b", '"', "'", "dog"]) for _ in range(rng.randint(1, 30))]
        leaves = [Tree(rng.choice(tags), (word,)) for word in words]
        changed = [leaf if rng.random() < 0.98 else Tree(rng.choice(tags), leaf.children) for leaf in leaves]
        gold.append(format_tree(Tree("S", (random_tree(rng, leaves),))))
        predicted.append(format_tree(Tree("S", (random_tree(rng, changed),))))
    files = [tmp_path / "gold", tmp_path / "predicted"]
    for file, lines in zip(files, (gold, predicted), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines))
    rules = evalb_folder / f"{name}.prm"
    command = [program, "-p", rules, "-e", "100000", *files]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in printed.split("\n") if re.match(r"\s*\d+\s+\d+\s+[012]\s", line)]
    found = score(gold, predicted, read_rules(rules))
    assert len(rows) == 3_000
    for row, sentence in zip(rows, found.sentences, strict=True):
        counts = as_printed(sentence)
        assert counts == [int(row[2]), int(row[1]), *(int(number) for number in row[5:11])][: len(counts)]
    fmeasures = re.findall(r"Bracketing FMeasure += +([\d.]+)", printed)
    assert fmeasures == [f"{found.all.f1:.2f}", f"{found.short.f1:.2f}"]


# Quotation marks whose tags are mistaken, in both ways and in both trees.
QUOTED = [
    """(TOP (S (NP (DT the) (`` ") (NN dog) ('' ")) (VP (VBZ barks)) (. .)))""",
    """(TOP (S (NP (PRP she)) (VP (VBD called) (NP (PRP it)) (NP (`` ") (JJ fine) (NN work) ('' "))) (. .)))""",
    """(TOP (S (`` ") (S (NP (NNP Anna)) (VP (VBZ sleeps))) ('' ") (VP (VBD said) (NP (NNP Paul))) (. .)))""",
    """(TOP (S (NP (DT a) (`` ") (ADJP (RB very) (JJ old)) ('' ") (NN tree)) (VP (VBD fell) """
    """(PP (IN on) (NP (DT a) (NN house)))) (. .)))""",
    """(TOP (NP (`` ') (NN rain) ('' ') (. .)))""",
]
MISTAKEN = [
    """(TOP (S (NP (DT the) (NN ") (NN dog) (POS ")) (VP (VBZ barks)) (. .)))""",
    """(TOP (S (NP (PRP she)) (VP (VBD called) (NP (PRP it) (NN ") (JJ fine) (NN work) ('' "))) (. .)))""",
    """(TOP (S (NP (NN ")) (S (NP (NNP Anna)) (VP (VBZ sleeps) (NP (POS ")))) (VP (VBD said) """
    """(NP (NNP Paul))) (. .)))""",
    """(TOP (S (NP (DT a) (`` ") (ADJP (RB very) (JJ old) (CD ")) (NN tree)) (VP (VBD fell) """
    """(PP (IN on) (NP (DT a)) (NP (NN house)))) (. .)))""",
    """(TOP (NP (POS ') (NN rain) (VBZ ') (. .)))""",
]


def test_b39_e4_mistaken_quotes_are_errors_for_collins_and_mended_by_new() -> None:
    # EVALB prints 5 errors and -nan, and 0 errors and 68.18.
    collins, new = score(QUOTED, MISTAKEN, COLLINS), score(QUOTED, MISTAKEN, NEW)
    assert (collins.all.errors, collins.all.valid, collins.value, collins.all.f1) == (5, 0, None, None)
    assert collins.reason == ("5 of 5 sentences not scored, the first is 1: it has 5 words to score, its gold tree 3")
    assert (new.all.errors, new.reason, f"{new.value:.2f}") == (0, None, "68.18")
    assert [as_printed(sentence)[2:] for sentence in new.sentences] == [
        [3, 3, 3, 0, 5, 3],
        [3, 5, 4, 0, 6, 5],
        [4, 6, 8, 1, 6, 4],
        [4, 6, 7, 0, 9, 8],
        [1, 1, 1, 0, 3, 1],
    ]
    json.dumps(collins.details(), allow_nan=False)


def test_b39_evalbs_own_case(evalb_folder: Path) -> None:
    files = evalb_folder / "bug.gld", evalb_folder / "bug.tst"
    if not all(file.is_file() for file in files):
        pytest.skip("needs EVALB's bug.gld and bug.tst beside its sample in AIAYN_DATA/evalb")
    gold, predicted = map(lines_of, files)
    assert (score(gold, predicted, COLLINS).all.errors, score(gold, predicted, COLLINS).value) == (5, None)
    assert f"{score(gold, predicted, NEW).value:.2f}" == "60.17"


# Holes in a result ----------------------------------------------------------------------------------------------------


FIVE = ["(S (NP (NN a)) (VP (VB b)))"] * 5
ONE_RIGHT = [FIVE[0], "(S (NP (NN a)))", "(S (NP (NN a)) (VP (VB b) (NN c)))", "(S (NN a))", "(S (NN b))"]


def test_b40_e2_wrong_leaf_counts_give_no_value() -> None:
    # https://github.com/nikitakit/self-attentive-parser/issues/21: EVALB prints 100.00 for this
    found = score(FIVE, ONE_RIGHT)
    assert (found.all.errors, found.all.valid, found.all.f1) == (4, 1, 100.0)
    assert found.value is None
    assert found.reason.startswith("4 of 5 sentences not scored, the first is 2: it has 1 words to score")
    assert found.details()["all"]["f1_unscored_as_wrong"] == pytest.approx(100 * 2 * 3 / (15 + 3 + 2 + 3 + 1 + 1))


def test_e2_a_sentence_without_a_tree_is_a_hole_too() -> None:
    found = score_trees([tree(line) for line in FIVE], [None, *(tree(line) for line in FIVE[1:])])
    assert (found.all.skipped, found.all.f1, found.value) == (1, 100.0, None)
    assert found.reason == (
        "1 of 5 sentences not scored, the first is 1: it has no word to score, unlike its gold tree"
    )
    assert found.all.f1_unscored_as_wrong == pytest.approx(100 * 2 * 12 / (15 + 12))


def test_a_gold_tree_without_a_word_to_score_is_skipped_and_no_hole() -> None:
    found = score([*FIVE, "(TOP (NP (: --)))"], [*FIVE, "(TOP (NP (: --)))"])
    assert (found.all.skipped, found.value, found.reason) == (1, 100.0, None)


def test_e3_more_errors_than_evalb_bears() -> None:
    # 12 of 15 wrong: the program ends without a summary at the twelfth, and would not at the eleventh
    for wrong, stops in ((11, False), (12, True)):
        found = score([FIVE[0]] * 15, ["(S (NN a))"] * wrong + [FIVE[0]] * (15 - wrong))
        assert found.details()["evalb_would_stop"] is stops
        assert (found.all.errors, found.all.valid, found.value) == (wrong, 15 - wrong, None)
    assert score([FIVE[0]] * 15, ["(S (NN a))"] * 15, NK).details()["evalb_would_stop"] is False


def test_e4_nothing_to_score_is_missing_with_a_reason() -> None:
    assert score("(TOP (. .))", "(TOP (. .))").reason == "no valid sentence"
    nothing = score("(TOP (NN a))", "(TOP (NN a))")
    assert (nothing.value, nothing.reason) == (None, "no constituents to compare")
    assert (nothing.all.recall, nothing.all.precision) == (None, None)
    json.dumps(nothing.details(), allow_nan=False)


def test_b44_no_match_at_all_is_zero_not_nan() -> None:
    found = score("(S (NP (NN a)) (VB b))", "(X (NN a) (Y (VB b)))")
    assert (found.value, found.all.recall, found.all.precision, found.reason) == (0.0, 0.0, 0.0, None)


def test_unequal_numbers_and_nothing_are_refused() -> None:
    with pytest.raises(ScoringError, match="4 predicted trees against 5 gold ones"):
        score(FIVE, FIVE[:4])
    with pytest.raises(ScoringError, match="nothing to score"):
        score_trees([], [])
    with pytest.raises(ValueError, match="delete_by='gold' is not one of own_tags, gold_tags"):
        score(FIVE, FIVE, delete_by="gold")


# Rules ----------------------------------------------------------------------------------------------------------------


def test_b45_e16_f1_is_of_counts_not_a_mean_of_sentences() -> None:
    # https://github.com/yikangshen/PRPN/issues/3: a short sentence with 0 and a long one with 100
    long = "(S (A (N a)) (B (N b)) (C (N c)) (D (N d)) (E (N e)))"
    found = score(["(X (N a))", long], ["(Y (N a))", long])
    assert found.value == pytest.approx(100 * 6 / 7)  # 6 of 7 constituents, not (0 + 100) / 2


def test_e1_both_lengths_are_told() -> None:
    long = f"(S (NP {' '.join(['(NN a)'] * 41)}))"
    found = score([long, FIVE[0]], [long.replace("NP", "VP"), FIVE[0]])
    assert (found.all.sentences, found.short.sentences) == (2, 1)
    assert (found.value, found.short.f1) == (pytest.approx(80.0), 100.0)
    assert found.details()["up_to_40_words"]["f1"] == 100.0
    # at most 40, punctuation counted and traces not
    forty = f"(S {' '.join(['(NN a)'] * 39)} (. .) (-NONE- *))"
    assert one(forty, forty).length == 40


def test_b47_e1_two_parameter_files_two_results() -> None:
    # https://github.com/nikitakit/self-attentive-parser/issues/100
    gold, predicted = "(TOP (S (NP (NN a)) (? ?)))", "(TOP (S (NP (NN a)) (NP (? ?))))"
    by_rules = {rules.name: score(gold, predicted, rules) for rules in (COLLINS, NK)}
    assert by_rules["COLLINS"].value == pytest.approx(80.0)  # the question mark is a word
    assert by_rules["nk"].value == 100.0
    hashes = {found.details()["rules_sha256"] for found in by_rules.values()}
    assert len(hashes) == 2
    assert len({found.signature for found in by_rules.values()}) == 2
    for name, found in by_rules.items():
        assert found.details()["rules"] == name
        assert found.rules.sha256[:16] in found.signature


def test_the_rules_in_the_code_are_those_of_the_files(evalb_folder: Path) -> None:
    for rules in (COLLINS, NEW, NK):
        assert read_rules(evalb_folder / f"{rules.name}.prm") == rules


def test_a_hash_is_of_the_rules_and_not_of_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.prm").write_text("DELETE_LABEL ,\nEQ_LABEL ADVP PRT\n# note\nMAX_ERROR 3\nMAX_ERROR 10\n")
    (tmp_path / "b.prm").write_text("DEBUG 1\n\nEQ_LABEL\tPRT ADVP  \nDELETE_LABEL ,\nDELETE_LABEL ,\n")
    one, other = read_rules(tmp_path / "a.prm"), read_rules(tmp_path / "b.prm")
    assert one.sha256 == other.sha256
    assert one.sha256 != replace(one, labeled=False).sha256 != replace(one, cutoff_length=10).sha256


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("DELETE_LABELS NP", "line 2: DELETE_LABELS is not a keyword of EVALB; it has DELETE_LABEL, DELETE_LABEL_FOR"),
        ("DELETE_LABEL", "line 2: DELETE_LABEL takes one label, found ''"),
        ("EQ_LABEL ADVP", "line 2: EQ_LABEL takes two values, found 'ADVP'"),
        ("CUTOFF_LEN forty", "line 2: CUTOFF_LEN takes a number, found 'forty'"),
    ],
)
def test_lines_that_evalb_passes_over_are_refused(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.prm").write_text(f"# mine\n{line}\n")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_rules(tmp_path / "x.prm")


def test_deleted_labels_take_words_and_brackets() -> None:
    found = one("(TOP (S (NP (NN a) (, ,)) (VP (VB b)) (. .)))", "(TOP (S (NP (NN a)) (, ,) (VP (VB b)) (. .)))")
    assert as_printed(found) == [0, 4, 3, 3, 3, 0, 2, 2]


def test_e18_function_tags_and_traces_do_not_count() -> None:
    gold = "(TOP (S (NP-SBJ-1 (NN a)) (VP (VB b) (NP (-NONE- *-1)))))"
    assert one(gold, "(TOP (S (NP (NN a)) (VP (VB b))))").matched == 3
    assert one(gold, "(TOP (S (NP (NN a)) (VP (VB b))))").gold == 3


def test_e19_an_unlabelled_bracket_counts_until_it_is_normalised() -> None:
    gold, predicted = "( (S (NN a)))", "(TOP (S (NN a)))"
    assert as_printed(one(gold, predicted))[2:5] == [1, 2, 1]
    both = score_trees([normalise(tree(gold))], [normalise(tree(predicted))])
    assert both.value == 100.0


def test_e6_a_missing_root_and_an_escape_change_nothing() -> None:
    found = score("(TOP (NP (-LRB- -LRB-) (NN a) (-RRB- -RRB-)))", "(NP (-LRB- -LRB-) (NN a) (-RRB- -RRB-))")
    assert found.value == 100.0


def test_equal_labels_and_words_are_equal_either_way_round() -> None:
    assert one("(S (PRT (RP a)))", "(S (ADVP (RP a)))").matched == 2
    assert one("(S (ADVP (RP a)))", "(S (PRT (RP a)))").matched == 2
    rules = replace(COLLINS, equal_words=frozenset({("This", "this")}))
    assert one("(S (DT this))", "(S (DT This))", rules).status == "valid"
    assert (
        one("(S (DT this))", "(S (DT That))", rules).problem == "its word 1 to score is 'That', in its gold tree 'this'"
    )


def test_equal_constituents_over_one_span_are_matched_one_by_one() -> None:
    # EVALB's README 7.5: two of three, and two of two
    assert as_printed(one("(NP (NP (NP (NN a))))", "(NP (NP (NN a)))"))[2:5] == [2, 3, 2]
    assert as_printed(one("(NP (NP (NN a)))", "(NP (NP (NP (NN a))))"))[2:5] == [2, 2, 3]


def test_unlabelled_brackets_match_by_span_alone() -> None:
    rules = replace(COLLINS, labeled=False)
    assert one("(S (NP (NN a)) (VB b))", "(X (Y (NN a)) (VB b))", rules).matched == 2


def test_crossing_brackets_are_counted_in_the_prediction() -> None:
    # (a b) (c d) against a (b c) d: one predicted constituent overlaps both gold ones, and counts once
    gold, predicted = "(S (X (N a) (N b)) (Y (N c) (N d)))", "(S (N a) (Z (N b) (N c)) (N d))"
    assert one(gold, predicted).crossing == 1
    assert one(predicted, gold).crossing == 2
    assert one(gold, gold).crossing == 0


def test_complete_match_needs_all_and_no_more() -> None:
    found = score([FIVE[0]] * 3, [FIVE[0], "(S (NN a) (VP (VB b)))", "(S (NP (NN a)) (VP (VP (VB b))))"])
    assert found.all.complete_match == pytest.approx(100 / 3)


# Tags -----------------------------------------------------------------------------------------------------------------


def test_e15_e22_punctuation_is_found_by_gold_tags_where_a_parser_tells_none() -> None:
    # https://github.com/stanfordnlp/CoreNLP/pull/1344; Vinyals et al. write XX for every tag
    gold = "(TOP (S (NP (NN a) (, ,)) (VP (VB b)) (. .)))"
    predicted = "(TOP (S (NP (XX a)) (XX ,) (VP (XX b)) (XX .)))"
    assert score(gold, predicted).value is None
    by_gold = score(gold, predicted, delete_by="gold_tags")
    assert as_printed(by_gold.sentences[0]) == [0, 4, 3, 3, 3, 0, 2, 0]
    assert by_gold.value == 100.0
    tagged = predicted.replace("XX a", "NN a").replace("XX ,", ", ,").replace("XX b", "VB b").replace("XX .", ". .")
    assert by_gold.value == score(gold, tagged).value == score(gold, tagged, delete_by="gold_tags").value
    assert len({by_gold.signature, score(gold, tagged).signature}) == 2


def test_e14_predicted_tags_change_no_bracket() -> None:
    gold, predicted = FIVE[0], "(S (NP (JJ a)) (VP (NN b)))"
    for delete_by in ("own_tags", "gold_tags"):
        found = score(gold, predicted, delete_by=delete_by)
        assert (found.value, found.all.tagging_accuracy) == (100.0, 0.0)


def test_e15_a_mistaken_comma_is_an_error_by_own_tags_and_none_by_gold_tags() -> None:
    gold, predicted = "(S (NP (NN a)) (, ,) (VP (VB b)))", "(S (NP (NN a)) (NN ,) (VP (VB b)))"
    assert score(gold, predicted).all.errors == 1
    assert score(gold, predicted, delete_by="gold_tags").value == 100.0


def test_by_gold_tags_all_words_must_agree() -> None:
    found = one("(S (NN a) (. .))", "(S (XX a) (XX !))", delete_by="gold_tags")
    assert (found.status, found.problem) == ("error", "its word 2 to score is '!', in its gold tree '.'")


def test_words_without_a_tag_are_scored() -> None:
    found = score_trees([tree("(S (NN a) (VB b))")], [tree("(S a b)")])
    assert (found.value, found.all.tagging_accuracy) == (100.0, 0.0)


# Properties -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def random_pairs() -> tuple[list[Tree], list[Tree]]:
    rng = random.Random(7)
    sides: tuple[list[Tree], list[Tree]] = ([], [])
    for _ in range(300):
        leaves = [Tree("NN", (f"w{number}",)) for number in range(rng.randint(1, 12))]
        for side in sides:
            side.append(Tree("S", (random_tree(rng, leaves),)))
    return sides


def swapped(found: BracketingScore) -> tuple[float | None, float | None]:
    return found.all.precision, found.all.recall


def test_a_tree_against_itself_is_perfect(random_pairs: tuple[list[Tree], list[Tree]]) -> None:
    found = score_trees(random_pairs[0], random_pairs[0])
    assert (found.value, found.all.complete_match, found.all.average_crossing) == (100.0, 100.0, 0.0)


def test_recall_and_precision_change_places(random_pairs: tuple[list[Tree], list[Tree]]) -> None:
    there, back = score_trees(*random_pairs), score_trees(*reversed(random_pairs))
    assert (there.all.recall, there.all.precision) == swapped(back)
    assert there.value == pytest.approx(back.value)
    assert 0 < there.value < 100


def test_e5_deep_trees_are_scored() -> None:
    deep = tree("(X " * 3_000 + "(NN a)" + ")" * 3_000)
    found = score_trees([deep], [Tree("X", (deep,))])
    assert as_printed(found.sentences[0])[2:5] == [3_000, 3_000, 3_001]
