"""What is amiss in a corpus, as a report that a person can read.

A finding is a **fault** where numbers made from the corpus would be wrong: text that the loader refuses, sides that
are swapped or not in their language, a test set that was trained on, text that is still escaped or in sub-words. What
every large corpus has a little of is a **warning**; some become faults above a share, which `FAULTY_SHARES` names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from core.data.corpus import TRAIN_SPLIT, Corpus, DataError, Languages
from core.data.language import TwoSides, other_language
from core.data.progress import watched
from core.data.report import Finding, Report
from core.data.survey import EMPTY, Overlap, Pair, Sample, Survey, Tally
from core.data.translation_corpus import TranslationCorpus
from core.data.treebanks import Treebank
from core.data.treebanks.check import check_treebank
from core.data.vocabulary import Vocabulary

REFUSED = "refused by the loader"
LEAKED = "pairs that are training pairs"
SHARED = "pairs that another scored split has too"
MISPLACED = "a side in the other side's language"
SWAPPED = "source and target are swapped"
UNKNOWN = "symbols that the training text has not"
PIECES = "pieces per word unlike the training text's"

# Above these shares of a split's pairs a warning is a fault; what is not named stays a warning.
FAULTY_SHARES: Mapping[str, float] = {
    EMPTY: 0.0,
    LEAKED: 0.05,
    MISPLACED: 0.1,
    "entities left in": 0.1,
    "tags left in": 0.1,
    "sub-word marks left in": 0.1,
    "tokenised hyphens left in": 0.1,
    "characters lost in conversion": 0.1,
}
# A split most of whose lines are in the other side's language is swapped, or has one text twice.
_SWAPPED_SHARE = 0.5
# A split's pieces per word may differ by this factor from the training text's (pitfall A29).
PIECES_FACTOR = 1.3
_SAMPLE_PAIRS = 10_000
_VOCABULARY_SIZE = 8_000
_SHOWN_SYMBOLS = 10


class SplitFacts(NamedTuple):
    """One split in numbers; words are what white space separates, pieces per word are those of a sample."""

    split: str
    pairs: int
    src_words: int
    tgt_words: int
    longest_words: int
    src_pieces_per_word: float | None
    tgt_pieces_per_word: float | None


def check(corpus: Corpus, cache_dir: Path, languages: Languages | None = None) -> list[Report]:
    """Reports on one pair of languages, or on every pair that is here with the corpus' first language.

    A treebank has one report, see `core.data.treebanks.check`.

    Raises:
        ValueError: the corpus has no such pair.
        DataError: it is not here.
    """
    if isinstance(corpus, Treebank):
        return [check_treebank(corpus, cache_dir)]
    if languages is not None:
        return [check_pair(corpus, languages, cache_dir)]
    pairs = [pair for pair in corpus.pairs if corpus.languages[0] in pair]
    here = [pair for pair in pairs if corpus.obstacle(cache_dir, pair) is None]
    return [check_pair(corpus, pair, cache_dir) for pair in here or pairs]


def check_pair(corpus: TranslationCorpus, languages: Languages, cache_dir: Path) -> Report:
    """Read a pair of languages whole and report what is amiss.

    Memory grows with the scored splits, and by 8 bytes a training pair.

    Raises:
        ValueError: the corpus has no such pair.
        DataError: it is not here.
    """
    src, tgt = corpus.named_pair(languages)
    obstacle = corpus.obstacle(cache_dir, (src, tgt))
    if obstacle is not None:
        raise DataError(obstacle)
    scored = [split for split in corpus.splits if split != TRAIN_SPLIT]
    surveys = {split: Survey(Sample(_SAMPLE_PAIRS), split != TRAIN_SPLIT) for split in corpus.splits}
    findings: list[Finding] = []

    def read(split: str) -> Iterator[Pair]:
        pairs = corpus.read_pairs(split, src, tgt, cache_dir)
        total = corpus.num_lines(split, (src, tgt), cache_dir)
        try:
            yield from surveys[split].watch(watched(pairs, f"{corpus.name}: checking {split}", total))
        except DataError as error:
            seen = surveys[split].num_pairs
            findings.append(Finding("fault", split, REFUSED, seen, seen, None, str(error)))

    kept = {split: list(read(split)) for split in scored}
    overlap = Overlap(kept)
    for pair in read(TRAIN_SPLIT):
        overlap.look_at(pair)

    train = surveys[TRAIN_SPLIT]
    for split, survey in surveys.items():
        for what, tally in survey.tallies.items():
            findings += _found(split, what, tally, survey.num_pairs)
    findings += _overlaps(overlap, {split: surveys[split].num_pairs for split in scored})
    for split in scored:
        findings += _unknown_symbols(split, surveys[split], train)
    findings += _declared((src, tgt), train.sample)
    findings += _misplaced(surveys, (src, tgt))
    vocabulary, basis = _vocabulary(corpus.name, (src, tgt), train.sample, cache_dir)
    facts = tuple(_facts(split, survey, vocabulary) for split, survey in surveys.items())
    findings += _pieces(facts)
    findings.sort(key=lambda finding: finding.level != "fault")  # stable: in the order of the checks within a level
    return Report(corpus.name, f"{src}-{tgt}", facts, tuple(findings), f"pieces per word: {basis}")


def _found(split: str, what: str, tally: Tally, of: int, detail: str = "") -> Iterator[Finding]:
    """A finding by its share, if there is one at all."""
    if tally.count:
        faulty = tally.count > FAULTY_SHARES.get(what, 1.0) * of
        yield Finding("fault" if faulty else "warning", split, what, tally.count, of, tally.first, detail)


def _overlaps(overlap: Overlap, num_pairs: Mapping[str, int]) -> Iterator[Finding]:
    for split, of in num_pairs.items():
        sides = [overlap.lines(split, side).count for side in (0, 1)]
        detail = f"of the source lines {sides[0]} are training lines, of the target lines {sides[1]}"
        yield from _found(split, LEAKED, overlap.pairs(split), of, detail)
    for split, other in combinations(num_pairs, 2):
        yield from _found(split, SHARED, overlap.between(split, other), num_pairs[split], f"the other is {other}")


def _unknown_symbols(split: str, survey: Survey, train: Survey) -> Iterator[Finding]:
    unknown = {symbol: count for symbol, count in survey.symbols.items() if symbol not in train.symbols}
    if unknown and train.num_pairs:
        shown = sorted(unknown, key=lambda symbol: (-unknown[symbol], symbol))[:_SHOWN_SYMBOLS]
        detail = ", ".join(f"{symbol if symbol.isprintable() else ''} U+{ord(symbol):04X}".strip() for symbol in shown)
        more = f" and {len(unknown) - len(shown)} more" if len(unknown) > len(shown) else ""
        yield Finding("warning", split, UNKNOWN, sum(unknown.values()), survey.symbols.total(), None, f"{detail}{more}")


def _declared(languages: Languages, sample: Sample) -> Iterator[Finding]:
    for side, (name, language) in enumerate(zip(("source", "target"), languages, strict=True)):
        likely = other_language(language, sample.side(side))
        if likely is not None:
            number = len(sample.items)
            what = f"the {name} is declared {language} and reads like {likely}"
            yield Finding("fault", TRAIN_SPLIT, what, number, number)


def _misplaced(surveys: Mapping[str, Survey], languages: Languages) -> Iterator[Finding]:
    """Splits, and single pairs, in which a side is in the other side's language, judged by the training text."""
    train = surveys[TRAIN_SPLIT].sample
    if not train.items:
        return
    sides = TwoSides.learn(train.side(0), train.side(1))
    for split, survey in surveys.items():
        wrong = [Tally(), Tally()]
        either = Tally()
        for number, (src_line, tgt_line) in survey.sample.items:
            src_wrong, tgt_wrong = sides.leaning(src_line) < 0, sides.leaning(tgt_line) > 0
            if src_wrong:
                wrong[0].add(number)
            if tgt_wrong:
                wrong[1].add(number)
            if src_wrong or tgt_wrong:
                either.add(number)
        of = len(survey.sample.items)
        swapped = [tally.count > _SWAPPED_SHARE * of for tally in wrong]
        if all(swapped):
            yield Finding("fault", split, SWAPPED, either.count, of, either.first)
        elif any(swapped):
            side = swapped.index(True)
            what = f"the {('source', 'target')[side]} is in {languages[1 - side]}"
            yield Finding("fault", split, what, wrong[side].count, of, wrong[side].first)
        else:
            yield from _found(split, MISPLACED, either, of)


def _vocabulary(name: str, languages: Languages, sample: Sample, cache_dir: Path) -> tuple[Vocabulary | None, str]:
    """The vocabulary to count pieces with, and in words which it is: the newest that runs use, or one learned now."""
    prepared = [
        path
        for pair in (languages, languages[::-1])
        for path in cache_dir.glob(f"{name}-{'-'.join(pair)}-*/vocabulary.json")
    ]
    if prepared:
        path = max(prepared, key=lambda path: path.stat().st_mtime_ns)
        vocabulary = Vocabulary.load(path)
        return vocabulary, f"{vocabulary.size:,} pieces, as prepared in {path.parent.name}"
    lines = [line for _, pair in sample.items for line in pair]
    if not lines:
        return None, "none, for want of training text"
    vocabulary = Vocabulary.learn(lines, _VOCABULARY_SIZE)
    return vocabulary, f"{vocabulary.size:,} pieces, learned for this check on {len(lines):,} training lines"


def _facts(split: str, survey: Survey, vocabulary: Vocabulary | None) -> SplitFacts:
    rates = []
    for side in (0, 1):
        lines = survey.sample.side(side)
        words = sum(len(line.split()) for line in lines)
        measured = vocabulary is not None and words > 0
        rates.append(sum(map(len, vocabulary.encode_batch(lines))) / words if measured else None)
    return SplitFacts(split, survey.num_pairs, *survey.words, survey.longest_words, *rates)


def _pieces(facts: Sequence[SplitFacts]) -> Iterator[Finding]:
    train = next(split for split in facts if split.split == TRAIN_SPLIT)
    for split in facts:
        for name, rate, usual in (
            ("source", split.src_pieces_per_word, train.src_pieces_per_word),
            ("target", split.tgt_pieces_per_word, train.tgt_pieces_per_word),
        ):
            if rate and usual and not 1 / PIECES_FACTOR <= rate / usual <= PIECES_FACTOR:
                detail = f"the {name} has {rate:.2f} pieces a word, that of the training text {usual:.2f}"
                yield Finding("warning", split.split, PIECES, split.pairs, split.pairs, None, detail)
