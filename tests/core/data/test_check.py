"""The report on a corpus: text of the grammar with one thing made amiss at a time, and what real text shows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from core.config import DataConfig
from core.data.check import LEAKED, MISPLACED, PIECES, REFUSED, SHARED, SWAPPED, UNKNOWN, check, check_pair
from core.data.corpus import DataError, Languages, State
from core.data.generated_corpus import GRAMMAR
from core.data.language import FUNCTION_WORDS, other_language
from core.data.multi30k import MULTI30K
from core.data.prepare import prepare_corpus
from core.data.report import Finding, Report
from core.data.survey import EMPTY, LONG, RATIO, REPEATED, SAME, Sample
from core.data.translation_corpus import Text, TranslationCorpus

Lines = dict[tuple[str, str], list[str]]
SIZES = {"train": 600, "dev": 60, "test": 60}


@dataclass(frozen=True)
class HeldCorpus(TranslationCorpus):
    """A corpus in memory."""

    texts: Mapping[tuple[str, str], list[str]]

    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        return State("embedded")

    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        return f"{hash(str(self.texts)):016x}"[:16]

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        pass

    def num_lines(self, split: str, languages: Languages, cache_dir: Path) -> int | None:
        return None

    def _open(self, split: str, src: str, tgt: str, cache_dir: Path) -> tuple[Text, Text]:
        return tuple(Text(self.texts[split, language], f"{split}.{language}") for language in (src, tgt))


def hold(texts: Lines, languages: tuple[str, str] = ("en", "de")) -> HeldCorpus:
    splits = dict.fromkeys(split for split, _ in texts)
    return HeldCorpus("held", "translation", languages, splits, "none", "none", "made for a test", texts)


@pytest.fixture(scope="session")
def grammar_lines() -> Lines:
    corpus = replace(GRAMMAR, splits=SIZES)
    sides = {split: corpus.load_pair(split, "en", "de", Path()) for split in SIZES}
    return {(split, language): sides[split][place] for split in SIZES for place, language in enumerate(("en", "de"))}


@pytest.fixture
def lines(grammar_lines: Lines) -> Lines:
    """Text to make something amiss in."""
    return {name: list(side) for name, side in grammar_lines.items()}


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., Report]:
    def make(texts: Lines, languages: tuple[str, str] = ("en", "de")) -> Report:
        return check_pair(hold(texts, languages), languages, tmp_path)

    return make


def found(report: Report, what: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.what == what]


def test_text_without_fault_has_no_finding(report, lines):
    result = report(lines)
    assert result.findings == ()
    assert result.conclusion == "held en-de: no faults, no warnings"
    assert [(split.split, split.pairs) for split in result.splits] == list(SIZES.items())
    words = sum(len(line.split()) for line in lines["train", "de"])
    assert result.splits[0].tgt_words == words


# Languages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["dev", "test"])
def test_b06_a_split_with_source_and_target_swapped_is_a_fault(report, lines, split):
    """B06, A8: the English side passed as the German one."""
    lines[split, "en"], lines[split, "de"] = lines[split, "de"], lines[split, "en"]
    result = report(lines)
    (finding,) = found(result, SWAPPED)
    assert (finding.level, finding.split, finding.of) == ("fault", split, 60)
    assert finding.count > 50
    assert result.num_faults == 1


def test_b06_a_side_that_is_in_the_other_language_is_a_fault(report, lines):
    lines["test", "de"] = lines["dev", "en"]
    (finding,) = found(report(lines), "the target is in en")
    assert (finding.level, finding.split) == ("fault", "test")


def test_a_whole_corpus_with_its_sides_swapped_is_a_fault(report, lines):
    """Nothing in the corpus contradicts itself then; the commonest words of the languages do."""
    result = report({(split, {"en": "de", "de": "en"}[language]): side for (split, language), side in lines.items()})
    whats = {finding.what for finding in result.findings if finding.level == "fault"}
    assert whats == {"the source is declared en and reads like de", "the target is declared de and reads like en"}


@pytest.mark.parametrize(("number", "level"), [(12, "warning"), (120, "fault")])
def test_single_pairs_in_the_wrong_order_are_counted(report, lines, number, level):
    for place in range(0, 600, 600 // number):
        lines["train", "en"][place], lines["train", "de"][place] = (
            lines["train", "de"][place],
            lines["train", "en"][place],
        )
    (finding,) = found(report(lines), MISPLACED)
    assert finding.level == level
    assert 0.9 * number <= finding.count <= number
    assert finding.first == 1


def test_languages_that_nothing_is_known_of_are_told_apart_too(report, lines):
    renamed = {(split, {"en": "xx", "de": "yy"}[language]): side for (split, language), side in lines.items()}
    renamed["dev", "xx"], renamed["dev", "yy"] = renamed["dev", "yy"], renamed["dev", "xx"]
    result = report(renamed, ("xx", "yy"))
    assert [finding.what for finding in result.findings] == [SWAPPED]


@pytest.mark.parametrize("declared", ["en", "de", "fr"])
def test_text_reads_like_its_own_language_and_no_other(declared):
    corpus = replace(GRAMMAR, splits={"train": 100})
    text = corpus.load_pair("train", declared, "fr" if declared == "en" else "en", Path())[0]
    assert other_language(declared, text) is None
    assert other_language(f"{declared}-XX", text) is None
    assert {other_language(other, text) for other in FUNCTION_WORDS if other != declared} == {declared}
    assert other_language("xx", text) is None
    assert other_language("cs", text[:5]) is None  # too few words to tell


# Splits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "level"), [(1, "warning"), (3, "warning"), (4, "fault")])
def test_a24_scored_pairs_that_are_training_pairs_are_counted(report, lines, number, level):
    """A24: validation lines taken from the training text; above 5% of a split it is a fault."""
    for language in ("en", "de"):
        lines["dev", language][10 : 10 + number] = lines["train", language][100 : 100 + number]
    lines["test", "en"][5] = lines["train", "en"][7]  # a line alone is no pair
    result = report(lines)
    (finding,) = found(result, LEAKED)
    assert finding[:6] == (level, "dev", LEAKED, number, 60, 11)
    assert finding.detail == f"of the source lines {number} are training lines, of the target lines {number}"


def test_a24_scored_splits_that_share_pairs_are_told(report, lines):
    for language in ("en", "de"):
        lines["test", language][0] = lines["dev", language][3]
    (finding,) = found(report(lines), SHARED)
    assert finding == ("warning", "dev", SHARED, 1, 60, 4, "the other is test")


def test_a28_symbols_that_training_never_shows_are_listed(report, lines):
    """A28: byte pieces have no unknown symbol; what was never trained is as bad."""
    lines["test", "de"][3] += " 5 € ☃"
    lines["test", "en"][3] += " 5 €"
    (finding,) = found(report(lines), UNKNOWN)
    assert (finding.level, finding.split, finding.count) == ("warning", "test", 5)
    assert finding.detail == "5 U+0035, € U+20AC, ☃ U+2603"


def test_a29_text_prepared_in_another_way_has_other_pieces_per_word(report, lines):
    lines["test", "de"] = [" ".join(f"{word[:2]}~{word[2:]}" for word in line.split()) for line in lines["test", "de"]]
    (finding,) = found(report(lines), PIECES)
    assert (finding.level, finding.split) == ("warning", "test")
    assert finding.detail.startswith("the target has ")


def test_a29_pieces_are_those_of_the_vocabulary_that_runs_use(lines, tmp_path):
    corpus = hold(lines)
    assert "learned for this check on 1,200 training lines" in check_pair(corpus, ("en", "de"), tmp_path).basis
    prepared = prepare_corpus(corpus, DataConfig("held", "en", "de", 300, "dev", "test"), tmp_path)
    result = check_pair(corpus, ("en", "de"), tmp_path)
    assert f"300 pieces, as prepared in {prepared.folder.name}" in result.basis
    for split in result.splits:
        expected = prepared.statistics[split.split]
        assert split.src_pieces_per_word == pytest.approx(expected.src_pieces_per_word)
        assert split.tgt_pieces_per_word == pytest.approx(expected.tgt_pieces_per_word)


# Lines ----------------------------------------------------------------------------------------------------------------

MARKS = {
    "&quot;quoted&quot; words": "entities left in",
    "a &#160; space": "entities left in",
    "in <b>bold</b> type": "tags left in",
    '<p class="x">': "tags left in",
    "tot@@ al": "sub-word marks left in",
    "das ist tot@@": "sub-word marks left in",  # A13: at the end of a line
    "▁das ▁ist": "sub-word marks left in",
    "well @-@ known": "tokenised hyphens left in",
    "fÃ¼r alle": "characters lost in conversion",
    "f\ufffdr alle": "characters lost in conversion",
    "one\u2028two": "separators inside, at which some tools cut",  # A20
    "one\rtwo": "separators inside, at which some tools cut",
    "bell\x07": "control characters",
}


@pytest.mark.parametrize("text", MARKS)
def test_what_should_not_stand_in_a_line_is_counted_with_the_first(report, lines, text):
    """A8, A12, A13, A20: markup, sub-word marks, line separators."""
    for place in (20, 30):
        lines["train", "de"][place] += f" {text}"
    result = report(lines)
    assert [finding[:6] for finding in result.findings] == [("warning", "train", MARKS[text], 2, 600, 21)]


@pytest.mark.parametrize("text", ["1 < 2", "a <- b", "AT&T", "R&D;", "mail@@home", "C++ @ home", "x@y.de"])
def test_what_only_looks_like_it_is_left_alone(report, lines, text):
    lines["train", "en"][20] += f" {text}"
    assert report(lines).findings == ()


def test_text_still_in_subwords_is_a_fault(report, lines):
    lines["dev", "de"] = [line.replace("en ", "@@ en ") for line in lines["dev", "de"]]
    (finding,) = found(report(lines), "sub-word marks left in")
    assert finding.level == "fault"


def test_lengths_copies_and_repetitions_are_counted(report, lines):
    lines["train", "en"][4] = "word " * 176
    lines["train", "de"][4] = "Wort " * 176
    lines["train", "en"][5] = "a very long sentence about nothing"
    lines["train", "de"][5] = "kurz"
    lines["train", "en"][6] = lines["train", "de"][6] = "Berlin 2014"
    lines["train", "en"][9], lines["train", "de"][9] = lines["train", "en"][8], lines["train", "de"][8]
    result = report(lines)
    for what, first in ((LONG, 5), (RATIO, 6), (SAME, 7), (REPEATED, 10)):
        (finding,) = found(result, what)
        assert finding[:6] == ("warning", "train", what, 1, 600, first)
    assert result.splits[0].longest_words == 176


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda side: ["", *side[1:]], "has 1 empty lines, the first is line 1"),
        (lambda side: side[1:], "has 60 lines and .* has 59"),
        (lambda side: ['<seg id="1">eins</seg>', *side[1:]], "line 1 is SGML markup"),
    ],
)
def test_what_the_loader_refuses_is_a_fault_beside_everything_else(report, lines, change, message):
    lines["dev", "de"] = change(lines["dev", "de"])
    lines["test", "de"][3] += " €"
    result = report(lines)
    (finding,) = found(result, REFUSED)
    assert finding.level == "fault"
    assert re.search(message, finding.detail)
    assert found(result, UNKNOWN)
    assert bool(found(result, EMPTY)) == ("empty" in message)
    assert result.findings[0].level == "fault"


def test_a_corpus_without_training_text_to_read_is_still_reported(report, lines):
    lines["train", "en"] = lines["train", "de"] = []
    result = report(lines)
    assert [finding.what for finding in result.findings] == [REFUSED]
    assert result.splits[1].src_pieces_per_word is None


# Reports --------------------------------------------------------------------------------------------------------------


def test_a_report_is_plain_json(report, lines):
    lines["dev", "de"][0] = ""
    result = report(lines).to_dict()
    assert json.loads(json.dumps(result)) == result
    assert (result["faults"], result["warnings"]) == (2, 0)
    assert [split["split"] for split in result["splits"]] == list(SIZES)


def test_every_pair_with_the_first_language_is_checked(tmp_path):
    few = replace(GRAMMAR, splits={"train": 100, "dev": 10, "test": 10})
    assert [report.part for report in check(few, tmp_path)] == ["en-de", "en-fr"]
    assert [report.part for report in check(few, tmp_path, ("fr", "de"))] == ["de-fr"]
    with pytest.raises(ValueError, match="grammar has no language 'es'"):
        check(few, tmp_path, ("en", "es"))


def test_a_corpus_that_is_not_here_is_refused(tmp_path):
    from core.data.wmt14 import WMT14

    with pytest.raises(DataError, match="corpus wmt14 en-de is not here; get it with"):
        check(WMT14, tmp_path)


def test_a_sample_is_spread_evenly_and_stays_small():
    sample = Sample(10)
    for number in range(1, 1001):
        sample.add(number, (str(number), ""))
    numbers = [number for number, _ in sample.items]
    assert 10 <= len(numbers) < 20
    assert len({after - before for before, after in pairwise(numbers)}) == 1
    assert numbers[0] == 1
    assert numbers[-1] > 900


def test_multi30k_english_german_has_no_fault_and_its_known_blemishes(local_multi30k, tmp_path):
    report = check_pair(MULTI30K, ("en", "de"), tmp_path)
    assert report.num_faults == 0
    assert {(finding.split, finding.what): finding.count for finding in report.findings} == {
        ("train", "entities left in"): 16,
        ("train", REPEATED): 3,
        ("train", RATIO): 2,
        ("train", "sub-word marks left in"): 2,
    }


@pytest.mark.slow
def test_multi30k_english_french_has_no_fault_and_one_validation_pair_in_training(local_multi30k, tmp_path):
    report = check_pair(MULTI30K, ("en", "fr"), tmp_path)
    assert report.num_faults == 0
    assert [(finding.split, finding.count) for finding in found(report, LEAKED)] == [("val", 1)]
