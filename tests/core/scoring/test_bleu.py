from __future__ import annotations

import hashlib
import math

import pytest
import sacrebleu

from core.scoring.bleu import ScoringError, TextScore, check_scorable, score_text

REFERENCES = [
    "Der Hund schläft heute auf dem Sofa.",
    "Eine Frau liest ein Buch im Garten.",
    "Zwei Kinder spielen Ball.",
]


def bleu(hypotheses: list[str], references: list[str]) -> TextScore:
    (score,) = (score for score in score_text(hypotheses, references) if score.name == "bleu")
    return score


def chrf(hypotheses: list[str], references: list[str]) -> TextScore:
    (score,) = (score for score in score_text(hypotheses, references) if score.name == "chrf")
    return score


# --- values


def test_equal_texts_score_100_and_disjoint_ones_0():
    assert [score.value for score in score_text(REFERENCES, REFERENCES)] == pytest.approx([100.0, 100.0], abs=1e-9)
    assert chrf(["xyz"], ["abc"]).value == 0.0
    assert bleu(["xyz"], ["abc"]).value == 0.0


def test_bleu_by_hand():
    # In the first line the second `the` is one too many, and breaks two pairs; the second line is right but short.
    hypotheses = ["the cat sat on the mat", "a dog ran to the park"]
    references = ["the cat sat on a mat", "a dog ran to the park quickly today"]
    matched, counted = (5 + 6, 3 + 5, 2 + 4, 1 + 3), (12, 10, 8, 6)
    precision = math.prod(m / c for m, c in zip(matched, counted, strict=True)) ** (1 / 4)
    brevity = math.exp(1 - 14 / 12)
    score = bleu(hypotheses, references)
    assert score.value == pytest.approx(100 * brevity * precision, rel=1e-9)
    assert score.details["precisions"] == pytest.approx([100 * m / c for m, c in zip(matched, counted, strict=True)])
    assert score.details["brevity_penalty"] == pytest.approx(brevity)
    assert (score.details["output_length"], score.details["reference_length"]) == (12, 14)
    assert score.details["length_ratio"] == pytest.approx(12 / 14)


def test_chrf_by_hand():
    # Characters: 2 of 2 and of 3; pairs: 1 of 1 and of 2; longer ones are missing in the output and not counted.
    precision, recall = (1 + 1) / 2, (2 / 3 + 1 / 2) / 2
    assert chrf(["ab"], ["abc"]).value == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))


def test_a_very_poor_output_scores_by_exponential_smoothing_and_not_43():
    # 29 tokens in two lines, of which one word is right, and no pair of words. The precisions are 1/29, and then
    # 1/2, 1/4, 1/8 of a match among 27, 25 and 23.
    hypotheses = ["qa qb qc qd qe qf qg qh qi qj und ql qm qn", "ra rb rc rd re rf rg rh ri rj rk rl rm rn ro"]
    references = ["Der Hund und die Katze", "Ein Vogel singt im Baum"]
    expected = 100 * (1 / 29 * 1 / (2 * 27) * 1 / (4 * 25) * 1 / (8 * 23)) ** (1 / 4)
    assert bleu(hypotheses, references).value == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx(1.365, abs=5e-4)


def test_13a_tokens_know_straight_quotes_and_not_german_ones():
    # 12 tokens against 10: „das and gut“ stay whole, and the straight quotes stand alone.
    score = bleu(['Er sagte "das ist gut" und ging nach Hause.'], ["Er sagte „das ist gut“ und ging nach Hause."])
    expected = 100 * (8 / 12 * 5 / 11 * 3 / 10 * 2 / 9) ** (1 / 4)
    assert score.value == pytest.approx(expected, rel=1e-9)
    assert expected == pytest.approx(37.70, abs=5e-3)


def test_punctuation_is_split_off_before_scoring_and_case_counts():
    assert bleu(["Der Hund schläft heute auf dem Sofa ."], REFERENCES[:1]).value == pytest.approx(100.0)
    assert bleu(["der hund schläft heute auf dem sofa."], REFERENCES[:1]).value < 60.0


def test_one_wrong_line_does_not_score_100():
    # Nested the wrong way, as one list of references a sentence, these lines would.
    hypotheses = [REFERENCES[0], "völlig anders und falsch gesagt .", "nichts davon stimmt ."]
    assert bleu(hypotheses, REFERENCES).value < 70.0


def test_order_of_lines_matters():
    assert bleu([*REFERENCES[1:], REFERENCES[0]], REFERENCES).value < 10.0


# --- identity


def test_scores_carry_the_signature_that_makes_them_comparable():
    signatures = {score.name: score.signature for score in score_text(REFERENCES, REFERENCES)}
    assert set(signatures["bleu"].split("|")) > {"nrefs:1", "case:mixed", "eff:no", "tok:13a", "smooth:exp"}
    assert set(signatures["chrf"].split("|")) > {"nrefs:1", "case:mixed", "nc:6", "nw:0"}
    assert all(f"|version:{sacrebleu.__version__}" in signature for signature in signatures.values())


def test_the_references_are_named_by_their_hash_and_count():
    scores = score_text(REFERENCES, REFERENCES)
    expected = hashlib.sha256("\n".join(REFERENCES).encode()).hexdigest()
    assert {score.details["reference_sha256"] for score in scores} == {expected}
    assert {score.num_items for score in scores} == {3}
    assert bleu(REFERENCES[:2], REFERENCES[:2]).details["reference_sha256"] != expected


# --- what is not scored


@pytest.mark.parametrize(("outputs", "references"), [(1, 2), (9, 10), (10, 9), (0, 3), (3, 0)])
def test_unequal_counts_are_refused_with_both_numbers(outputs: int, references: int):
    with pytest.raises(ScoringError, match=f"{outputs} output lines against {references} reference lines"):
        score_text(["x"] * outputs, ["x"] * references)


def test_nothing_is_no_score():
    with pytest.raises(ScoringError, match="nothing to score: 0 lines"):
        score_text([], [])


@pytest.mark.parametrize(
    "line", ["Er ist tot@@", "Er ist to@@ t", "to@@ t .", "▁Er ▁ist ▁tot", "Er▁ist tot", "Er ist to@@\tt"]
)
def test_an_output_with_sub_word_marks_is_refused_and_its_line_named(line: str):
    with pytest.raises(ScoringError, match="output line 2 still holds sub-word marks"):
        score_text(["Alles gut.", line, line], REFERENCES)


@pytest.mark.parametrize("line", ["schreib an a@@b.de", "@@home ist ein Name", "die E-Mail @ home"])
def test_an_at_sign_of_the_text_itself_is_scored(line: str):
    check_scorable([line], ["irgendwas"])


@pytest.mark.parametrize(
    "line", ['<seg id="1"> Der Hund </seg>', "<DOC sysid='ref'>", "</refset>", "<tstset>", '<srcset setid="newstest">']
)
def test_a_reference_with_markup_is_refused_and_its_line_named(line: str):
    with pytest.raises(ScoringError, match="reference line 3 holds sgm markup"):
        score_text(["x"] * 3, ["Der Hund", "a < b und c > d", line])


# --- empty lines


def test_an_all_empty_output_scores_0_and_says_so():
    for empty in ("", "   "):
        scores = score_text([empty] * 3, REFERENCES)
        assert [score.value for score in scores] == [0.0, 0.0]
        assert all(score.details["warning"] == "all outputs empty" for score in scores)
        assert all(score.details["empty_outputs"] == 3 for score in scores)


def test_an_empty_reference_among_ten_is_counted_and_keeps_its_place():
    references = [f"Satz Nummer {number} ist hier zu lesen ." for number in range(10)]
    with_gap = [*references[:4], "", *references[5:]]
    score = bleu(references, with_gap)
    assert (score.details["empty_references"], score.details["empty_outputs"]) == (1, 0)
    assert "warning" not in score.details
    # The nine other lines match in full; the tenth adds 8 tokens, 7 pairs, 6 triples and 5 fours that match nothing.
    assert score.value == pytest.approx(100 * (72 / 80 * 63 / 70 * 54 / 60 * 45 / 50) ** (1 / 4), rel=1e-9)


def test_an_empty_output_line_is_not_dropped():
    score = bleu([REFERENCES[0], "", REFERENCES[2]], REFERENCES)
    assert score.details["empty_outputs"] == 1
    # 8 and 5 of 13 tokens against 8 + 8 + 5 = 21: all n-grams are right, and the text is too short.
    assert score.value == pytest.approx(100 * math.exp(1 - 21 / 13), rel=1e-9)
