from __future__ import annotations

import hashlib
import json
import math

import numpy as np
import pytest
import sacrebleu

from core.scoring.bleu import TextScore, hash_lines, score_text
from core.scoring.bootstrap import Interval, compare_paired, resampled_scores
from core.scoring.checks import ScoringError
from core.scoring.protocol import CHRF, PAPER_ENDE, PAPER_ENFR, SACREBLEU_13A

REFERENCES = [
    "Der Hund schläft heute auf dem Sofa.",
    "Eine Frau liest ein Buch im Garten.",
    "Zwei Kinder spielen Ball.",
]


def score(hypotheses: list[str], references: list[str]) -> dict[str, TextScore]:
    """All scores of an English-German output, by name."""
    return {score.name: score for score in score_text(hypotheses, references, "en", "de")}


def bleu(hypotheses: list[str], references: list[str]) -> TextScore:
    return score(hypotheses, references)["bleu"]


def chrf(hypotheses: list[str], references: list[str]) -> TextScore:
    return score(hypotheses, references)["chrf"]


# --- values


def test_equal_texts_score_100_and_disjoint_ones_0():
    values = {name: found.value for name, found in score(REFERENCES, REFERENCES).items()}
    assert values == pytest.approx(dict.fromkeys(("bleu", "bleu_paper", "chrf"), 100.0), abs=1e-9)
    assert max(values.values()) <= 100.0  # what is stored
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


def test_punctuation_is_split_off_before_scoring_and_case_counts():
    assert bleu(["Der Hund schläft heute auf dem Sofa ."], REFERENCES[:1]).value == pytest.approx(100.0)
    assert bleu(["der hund schläft heute auf dem sofa."], REFERENCES[:1]).value < 60.0


def test_a31_one_wrong_line_does_not_score_100():
    # Nested the wrong way, as one list of references a sentence, these lines would.
    hypotheses = [REFERENCES[0], "völlig anders und falsch gesagt .", "nichts davon stimmt ."]
    assert all(found.value < 70.0 for found in score(hypotheses, REFERENCES).values())


def test_a9_order_of_lines_matters():
    assert bleu([*REFERENCES[1:], REFERENCES[0]], REFERENCES).value < 10.0


# --- identity


def test_a1_both_protocols_score_one_output_and_carry_their_signatures():
    found = score(REFERENCES, REFERENCES)
    assert {name: each.signature for name, each in found.items()} == {
        "bleu": SACREBLEU_13A.signature,
        "bleu_paper": PAPER_ENDE.signature,
        "chrf": CHRF.signature,
    }
    french = score_text(["Oui."] * 3, ["Oui."] * 3, "en", "fr")
    assert [each.signature for each in french] == [SACREBLEU_13A.signature, PAPER_ENFR.signature, CHRF.signature]
    assert [each.name for each in score_text(["Yes."] * 3, ["Yes."] * 3, "de", "en")] == ["bleu", "chrf"]


def test_values_are_the_librarys_own():
    hypotheses = ["Der Hund schläft auf dem Sofa.", "Die Frau liest ein Buch.", "Zwei Kinder spielen."]
    found = score(hypotheses, REFERENCES)
    assert found["bleu"].value == sacrebleu.corpus_bleu(hypotheses, [REFERENCES]).score
    assert found["chrf"].value == sacrebleu.corpus_chrf(hypotheses, [REFERENCES]).score


def test_b01_the_same_output_is_shown_by_each_protocol_with_its_name():
    """A2: what protocols without the compound split, or with another quote rule, say is in the record."""
    output = ["Der Science-Fiction Film war lang und sehr gut ."]
    found = score(output, ["Der Science-Fiction Film war lang und nicht gut ."])
    assert f"{found['bleu_paper'].value:.2f}" == "74.19"
    others = found["bleu_paper"].details["other_protocols"]
    assert {" ".join(signature.split("|")[6:8]): f"{value:.2f}" for signature, value in others.items()} == {
        "compounds:whole quotes:kept": "66.06",
        "compounds:##AT##-##AT## quotes:straight-on-both-sides": "74.19",
    }
    assert [signature.split("|")[3] for signature in found["bleu"].details["other_protocols"]] == ["tok:intl"]


def test_a7_the_references_are_named_by_their_hash_and_count():
    scores = score(REFERENCES, REFERENCES).values()
    expected = hashlib.sha256("\n".join(REFERENCES).encode()).hexdigest()
    assert {each.details["reference_sha256"] for each in scores} == {expected} == {hash_lines(REFERENCES)}
    assert {each.num_items for each in scores} == {3}
    assert bleu(REFERENCES[:2], REFERENCES[:2]).details["reference_sha256"] != expected


def test_each_score_has_the_uncertainty_of_its_test_set():
    references = [f"Satz {number} steht hier und ist lang genug." for number in range(40)]
    hypotheses = [line if number % 3 else "Satz fehlt hier." for number, line in enumerate(references)]
    for name, protocol in (("bleu", SACREBLEU_13A), ("bleu_paper", PAPER_ENDE), ("chrf", CHRF)):
        found = score(hypotheses, references)[name]
        interval = Interval.of(resampled_scores(protocol.statistics(hypotheses, references), protocol))
        stored = dict(found.details["test_set_interval"])
        replicates = stored.pop("replicates")
        assert stored == {"low": interval.low, "high": interval.high, "level": 0.95, "samples": 1_000, "seed": 12_345}
        assert interval.low < found.value < interval.high
        again = Interval.of(np.array(replicates))
        assert (len(replicates), again.low, again.high) == (
            1_000,
            pytest.approx(interval.low),
            pytest.approx(interval.high),
        )
    assert bleu(hypotheses[:9], references[:9]).details["test_set_interval"] is None  # too few to resample


def test_kept_replicates_of_two_outputs_give_their_paired_interval():
    """The draws are those of `compare_paired`, and so sacreBLEU's."""
    references = [f"Satz {number} steht hier und ist lang genug." for number in range(40)]
    outputs = [[line if number % k else "Satz fehlt hier." for number, line in enumerate(references)] for k in (3, 5)]
    for name, protocol in (("bleu", SACREBLEU_13A), ("bleu_paper", PAPER_ENDE)):
        kept = [
            np.array(score(output, references)[name].details["test_set_interval"]["replicates"]) for output in outputs
        ]
        expected = compare_paired(*(protocol.statistics(output, references) for output in outputs), protocol).interval
        found = Interval.of(kept[0] - kept[1])
        assert (found.low, found.high) == (
            pytest.approx(expected.low, abs=2e-4),
            pytest.approx(expected.high, abs=2e-4),
        )


def test_details_can_be_written_as_json():
    for each in score(["", "ja", "nein"], REFERENCES).values():
        assert json.loads(json.dumps(each.details, allow_nan=False)) == each.details


# --- what is not scored


@pytest.mark.parametrize(
    ("outputs", "references", "message"),
    [
        (["x"], ["x", "y"], "1 output lines against 2 reference lines"),
        ([], [], "nothing to score: 0 reference lines"),
        (["Er ist to@@ t"], ["Er ist tot"], "output line 1 still holds sub-word marks"),
        (["Er ist tot"], ["<seg>Er ist tot</seg>"], "reference line 1 holds sgm markup"),
        (["Er"] * 20, ["He is there and it is not the same."] * 20, "should be German and read like English"),
    ],
)
def test_what_would_give_a_wrong_number_is_refused(outputs: list[str], references: list[str], message: str):
    with pytest.raises(ScoringError, match=message):
        score(outputs, references)


# --- empty lines


def test_b10_an_all_empty_output_scores_0_and_says_so():
    """A32, with either of two reference sets."""
    for references in (REFERENCES, REFERENCES[::-1]):
        for empty in ("", "   "):
            found = score([empty] * 3, references)
            assert {name: each.value for name, each in found.items()} == {"bleu": 0.0, "bleu_paper": 0.0, "chrf": 0.0}
            assert all(each.details["warnings"][0] == "all outputs empty" for each in found.values())
            assert all(each.details["empty_outputs"] == 3 for each in found.values())


def test_b11_an_empty_reference_among_ten_is_counted_and_keeps_its_place():
    """A22."""
    references = [f"Satz Nummer {number} ist hier zu lesen." for number in range(10)]
    with_gap = [*references[:4], "", *references[5:]]
    # The nine other lines match in full; the tenth adds 8 tokens, 7 pairs, 6 triples and 5 fours that match nothing.
    expected = 100 * (72 / 80 * 63 / 70 * 54 / 60 * 45 / 50) ** (1 / 4)
    for name in ("bleu", "bleu_paper"):
        found = score(references, with_gap)[name]
        assert (found.details["empty_references"], found.details["empty_outputs"]) == (1, 0)
        assert found.value == pytest.approx(expected, rel=1e-9)
        assert found.details["warnings"] == ["the outputs are 1.11 times as long as the references, outside 0.9 to 1.1"]


def test_a10_length_ratio_is_flagged():
    found = bleu([*REFERENCES[:2], ""], REFERENCES)
    assert found.details["length_ratio"] == pytest.approx(16 / 21)
    assert found.details["warnings"] == ["the outputs are 0.76 times as long as the references, outside 0.9 to 1.1"]
    assert bleu(REFERENCES, REFERENCES).details["warnings"] == []


def test_an_empty_output_line_is_not_dropped():
    found = bleu([REFERENCES[0], "", REFERENCES[2]], REFERENCES)
    assert found.details["empty_outputs"] == 1
    # 8 and 5 of 13 tokens against 8 + 8 + 5 = 21: all n-grams are right, and the text is too short.
    assert found.value == pytest.approx(100 * math.exp(1 - 21 / 13), rel=1e-9)
