"""Protocols by worked values, by the library, and by what they refuse."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from core.scoring.moses import moses_version
from core.scoring.protocol import (
    CHRF,
    PAPER_ENDE,
    PAPER_ENFR,
    SACREBLEU_13A,
    BleuProtocol,
    Protocol,
    get_protocol,
    protocols,
)

PLAIN_ENDE = replace(PAPER_ENDE, split_compounds=False)


def bleu_of(matched: list[int], total: list[int], length: int, reference_length: int) -> float:
    brevity = min(1.0, math.exp(1 - reference_length / length))
    return 100 * brevity * math.prod(m / t for m, t in zip(matched, total, strict=True)) ** (1 / len(total))


# Worked values --------------------------------------------------------------------------------------------------------


def test_b01_hyphenated_words_score_more_when_split() -> None:
    """A1: 66.06 tokenised, 74.19 with compound split."""
    output = ["Der Science-Fiction Film war lang und sehr gut ."]
    reference = ["Der Science-Fiction Film war lang und nicht gut ."]
    whole = bleu_of([8, 6, 4, 3], [9, 8, 7, 6], 9, 9)
    split = bleu_of([10, 8, 6, 5], [11, 10, 9, 8], 11, 11)
    assert (round(whole, 2), round(split, 2)) == (66.06, 74.19)
    assert PLAIN_ENDE.score(output, reference).score == pytest.approx(whole, rel=1e-12)
    assert PAPER_ENDE.score(output, reference).score == pytest.approx(split, rel=1e-12)
    assert SACREBLEU_13A.score(output, reference).score == pytest.approx(whole, rel=1e-12)


def test_multi_bleu_by_hand() -> None:
    # One of three `der` is not in the reference; the second line is short; case counts (`ein` is not `Ein`).
    outputs = ["der Mann und der Hund und der Ball.", "ein Mann mit E-Mail."]
    references = ["der Mann und der Hund und ein Ball.", "Ein Mann mit E-Mail schläft heute."]
    # Tokens with the compound split: 9 + 7 (`E ##AT##-##AT## Mail` are three) against 9 + 9.
    matched, total = [8 + 6, 6 + 4, 4 + 3, 3 + 2], [9 + 7, 8 + 6, 7 + 5, 6 + 4]
    result = PAPER_ENDE.score(outputs, references)
    assert (result.counts, result.totals) == (matched, total)
    assert (result.sys_len, result.ref_len) == (16, 18)
    assert result.score == pytest.approx(bleu_of(matched, total, 16, 18), rel=1e-12)


def test_multi_bleu_does_not_smooth() -> None:
    # All words and two pairs are right; three in a row never are.
    output, reference = ["a b x c d"], ["a b c d x"]
    assert PAPER_ENDE.score(output, reference).score == 0.0
    assert SACREBLEU_13A.score(output, reference).score > 10
    # No line is long enough for four in a row, so that precision is 0 though all is right.
    assert PAPER_ENDE.score(["Ja, gut"], ["Ja, gut"]).score == 0.0


def test_b08_a_very_poor_output_scores_0_or_136_and_never_43() -> None:
    """A21: the report's counts, 1 of 29 words and nothing else right: 0.0 unsmoothed, 1.36 smoothed."""
    outputs = ["qa qb qc qd qe qf qg qh qi qj und ql qm qn", "ra rb rc rd re rf rg rh ri rj rk rl rm rn ro"]
    references = ["Der Hund und die Katze", "Ein Vogel singt im Baum"]
    assert PAPER_ENDE.score(outputs, references).score == 0.0
    smoothed = 100 * (1 / 29 * 1 / (2 * 27) * 1 / (4 * 25) * 1 / (8 * 23)) ** (1 / 4)
    assert SACREBLEU_13A.score(outputs, references).score == pytest.approx(smoothed, rel=1e-12)
    assert f"{smoothed:.2f}" == "1.36"


def test_b14_quotation_marks_are_changed_by_a_named_rule_alone() -> None:
    """A5: straight in the output, German in the reference: 53.11 (13a), 63.4 (intl), 100 by the rule."""
    output, reference = ['Der alte Mann sagte: "Das ist sehr gut."'], ["Der alte Mann sagte: „Das ist sehr gut.“"]
    international = replace(SACREBLEU_13A, tokenizer="intl")
    assert round(SACREBLEU_13A.score(output, reference).score, 2) == 53.11
    assert round(international.score(output, reference).score, 1) == 63.4
    for protocol in (SACREBLEU_13A, international, PAPER_ENDE):
        straight = replace(protocol, quotes="straight")
        assert protocol.score(output, reference).score < 70
        assert straight.score(output, reference).score == pytest.approx(100.0)
        assert "|quotes:straight-on-both-sides" in straight.signature
        assert "straight" not in protocol.signature


def test_the_quote_rule_knows_the_marks_of_three_languages() -> None:
    straight = replace(SACREBLEU_13A, quotes="straight")
    assert straight.prepare(["„a“ ‚b‘ “c” ‘d’ «e» ‹f› l’été"]) == ["\"a\" 'b' \"c\" 'd' \"e\" 'f' l'été"]


def test_a15_french_hyphens_are_split_by_the_tokeniser_and_not_again() -> None:
    assert PAPER_ENFR.prepare(["Peut-être dit-il."]) == ["Peut @-@ être dit @-@ il ."]
    assert PAPER_ENDE.prepare(["Die E-Mail fehlt."]) == ["Die E ##AT##-##AT## Mail fehlt ."]


def test_a20_other_line_separators_end_no_line() -> None:
    lines = ["Das ist\u2028ein Satz mit\x85vielen Wörtern.", "Ein Satz mit Wörtern."]
    for protocol in protocols("en", "de"):
        assert protocol.score(lines, lines).score == pytest.approx(100.0)
        assert len(protocol.statistics(lines, lines)) == 2


# Identity -------------------------------------------------------------------------------------------------------------


def test_a2_signatures_name_everything_that_decides_the_score() -> None:
    version = f"version:{sacrebleu.__version__}"
    assert SACREBLEU_13A.signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}"
    assert CHRF.signature == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"
    assert PAPER_ENDE.signature == (
        "nrefs:1|case:mixed|eff:no|tok:moses-de|hyphens:plain|escape:yes|compounds:##AT##-##AT##|quotes:kept"
        f"|smooth:none|{version}|sacremoses:{moses_version()}"
    )
    assert "tok:moses-fr|hyphens:aggressive|escape:yes|compounds:whole|quotes:kept|smooth:none" in PAPER_ENFR.signature


def test_protocols_that_differ_have_other_signatures() -> None:
    changes = ({"smoothing": "none"}, {"smoothing": "exp"}, {"quotes": "straight"})
    made = [
        *(replace(protocol, **change) for protocol in (SACREBLEU_13A, PAPER_ENDE) for change in changes),
        *(replace(PAPER_ENDE, **change) for change in ({"split_compounds": False}, {"aggressive_hyphens": True})),
        replace(SACREBLEU_13A, tokenizer="intl"),
        PAPER_ENFR,
        CHRF,
    ]
    assert len({protocol.signature for protocol in made}) == len(made)


def test_the_direction_decides_on_the_papers_protocol() -> None:
    assert protocols("en", "de") == (SACREBLEU_13A, PAPER_ENDE, CHRF)
    assert protocols("en", "fr") == (SACREBLEU_13A, PAPER_ENFR, CHRF)
    assert protocols("de", "en") == protocols("en", "nl") == (SACREBLEU_13A, CHRF)
    assert get_protocol("bleu_paper", "en", "fr") is PAPER_ENFR
    with pytest.raises(ValueError, match="no score 'bleu_paper' for de-en; there are bleu, chrf"):
        get_protocol("bleu_paper", "de", "en")


# Refusals -------------------------------------------------------------------------------------------------------------


def test_b15_moses_rules_without_a_language_are_refused() -> None:
    """A16."""
    with pytest.raises(ValueError, match="need the language"):
        BleuProtocol("bleu_paper", "moses", "none")
    with pytest.raises(ValueError, match="no Moses rules for language 'fi'"):
        BleuProtocol("bleu_paper", "moses", "none", language="fi")


@pytest.mark.parametrize("change", [{"language": "de"}, {"aggressive_hyphens": True}, {"split_compounds": True}])
def test_switches_that_would_do_nothing_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="tokenizer 13a has no language, hyphen flag or compound split"):
        replace(SACREBLEU_13A, **change)


# The library ----------------------------------------------------------------------------------------------------------

WORDS = st.lists(st.sampled_from(["der", "Hund", "E-Mail", "ja", ".", "nie"]), max_size=8).map(" ".join)
TEXTS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6)
ALL = [SACREBLEU_13A, replace(SACREBLEU_13A, smoothing="none"), PAPER_ENDE, replace(PAPER_ENDE, smoothing="exp"), CHRF]


@pytest.mark.parametrize("protocol", ALL, ids=lambda protocol: protocol.signature[:60])
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
def test_scores_from_counts_equal_the_librarys(protocol: Protocol, text: list[tuple[str, str]]) -> None:
    outputs, references = (list(side) for side in zip(*text, strict=True))
    statistics = protocol.statistics(outputs, references)
    assert statistics.shape == (len(text), 18 if protocol is CHRF else 10)
    expected = protocol.score(outputs, references).score
    assert protocol.from_statistics(statistics.sum(axis=0)) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    # Along an axis of its own, as the bootstrap has them.
    assert protocol.from_statistics(statistics) == pytest.approx(
        [protocol.score([output], [reference]).score for output, reference in text], rel=1e-12, abs=1e-12
    )


@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
def test_sentence_scores_equal_the_librarys(text: list[tuple[str, str]]) -> None:
    outputs, references = (list(side) for side in zip(*text, strict=True))
    for protocol, metric in ((SACREBLEU_13A, sacrebleu.BLEU(effective_order=True)), (CHRF, sacrebleu.CHRF())):
        expected = [metric.sentence_score(output, [reference]).score for output, reference in text]
        found = protocol.sentence_scores(protocol.statistics(outputs, references))
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert np.isfinite(found).all()
