"""Labelled bracketing as EVALB counts it: recall, precision and F1 of constituents, by its rules to the last count.

What EVALB does is restated here from its documentation and its program (Sekine and Collins 1997; the version of 2013
with Ellis's repair of mistaken quotation marks). What differs is where a hole in a result would hide:

- EVALB leaves out a sentence whose words differ from the gold tree's, or which has no tree, and prints the score of
  the rest (E2, B40). Here such a run has counts and a reason, but no value.
- It stops without a summary after some errors (E3), and prints nan where nothing matches or nothing is there (E4).
  Here every sentence is looked at; F1 is 0 where nothing matches, and None where there is nothing to divide by.
- It goes on with a warning where one file has more lines, or where a parameter file says what it does not know. Here
  both are refused, as are lines that are no brackets, at which it ends.
- It has limits: 200 words, 200 brackets and 5,000 characters a sentence, 20 quotation marks. Here there are none.
- It compares words as files have them. Here they have no escapes: -LRB- and ( are one word.

Which words are punctuation, and so deleted, is told by each tree's own tags, as in EVALB. A parser that writes one
symbol for all tags tells nothing, and one that mistakes a comma makes an error of its sentence; for these
`delete_by="gold_tags"` takes the gold tree's tags for both (E15, E22).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, get_args

from core.data.trees import Tree, unescape
from core.scoring.checks import ScoringError
from core.scoring.evalb_rules import COLLINS, EvalbRules, Pair

Parse = Tree | Sequence[Tree] | None
"""What a parser gives for a sentence: a tree, or pieces of one from left to right, or nothing."""
DeleteBy = Literal["own_tags", "gold_tags"]

_QUOTES = frozenset({"'", '"', "/"})


@dataclass(frozen=True)
class SentenceScore:
    """One sentence: `gold` and `predicted` constituents, and how many of them are `matched`.

    `status` is EVALB's: `error` where the words differ, `skipped` where the prediction has no word to score; `problem`
    says what is wrong, None where a skipped sentence has no word to score in its gold tree either. Such sentences
    have no matches. `length` counts words by the rules for length, `words` those that are scored, and `correct_tags`
    those of them with the right tag. `crossing` predicted constituents overlap a gold one without nesting. `labels` are
    those of the gold, predicted and matched constituents.
    """

    status: Literal["valid", "error", "skipped"]
    length: int
    gold: int
    predicted: int
    matched: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    problem: str | None = None
    labels: tuple[tuple[str, ...], ...] = field(default=((), (), ()), compare=False, repr=False)


class LabelCounts(NamedTuple):
    """Constituents of one label: in gold trees, in predicted ones, and in both; a match has the gold label."""

    gold: int
    predicted: int
    matched: int


@dataclass(frozen=True)
class BracketCounts:
    """Sums over sentences. Counts of constituents and words are those of valid sentences, as in EVALB.

    `unscored_gold` and `unscored_predicted` are the constituents of the others.
    """

    sentences: int
    errors: int
    skipped: int
    gold: int
    predicted: int
    matched: int
    complete: int
    crossing: int
    without_crossing: int
    at_most_two_crossing: int
    words: int
    correct_tags: int
    unscored_gold: int
    unscored_predicted: int

    @classmethod
    def of(cls, sentences: Sequence[SentenceScore]) -> BracketCounts:
        valid = [sentence for sentence in sentences if sentence.status == "valid"]
        others = [sentence for sentence in sentences if sentence.status != "valid"]
        return cls(
            sentences=len(sentences),
            errors=sum(sentence.status == "error" for sentence in sentences),
            skipped=sum(sentence.status == "skipped" for sentence in sentences),
            gold=sum(sentence.gold for sentence in valid),
            predicted=sum(sentence.predicted for sentence in valid),
            matched=sum(sentence.matched for sentence in valid),
            complete=sum(sentence.gold == sentence.predicted == sentence.matched for sentence in valid),
            crossing=sum(sentence.crossing for sentence in valid),
            without_crossing=sum(sentence.crossing == 0 for sentence in valid),
            at_most_two_crossing=sum(sentence.crossing <= 2 for sentence in valid),
            words=sum(sentence.words for sentence in valid),
            correct_tags=sum(sentence.correct_tags for sentence in valid),
            unscored_gold=sum(sentence.gold for sentence in others),
            unscored_predicted=sum(sentence.predicted for sentence in others),
        )

    @property
    def valid(self) -> int:
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float | None:
        """Percent of the gold constituents that are matched; None where there are none at all on either side."""
        return _percent(self.matched, self.gold, otherwise=0.0 if self.predicted else None)

    @property
    def precision(self) -> float | None:
        """Percent of the predicted constituents that are matched; None where there are none at all on either side."""
        return _percent(self.matched, self.predicted, otherwise=0.0 if self.gold else None)

    @property
    def f1(self) -> float | None:
        """Percent, of the sums (B45, E16), not a mean over sentences."""
        return _f1(self.matched, self.gold, self.predicted)

    @property
    def f1_unscored_as_wrong(self) -> float | None:
        """F1 where a sentence that is not valid has no match: its gold constituents are missed, its own are wrong."""
        return _f1(self.matched, self.gold + self.unscored_gold, self.predicted + self.unscored_predicted)

    @property
    def complete_match(self) -> float | None:
        """Percent of the valid sentences whose constituents are all matched, none missing."""
        return _percent(self.complete, self.valid)

    @property
    def average_crossing(self) -> float | None:
        """Crossing constituents a valid sentence."""
        return self.crossing / self.valid if self.valid else None

    @property
    def no_crossing(self) -> float | None:
        """Percent of the valid sentences."""
        return _percent(self.without_crossing, self.valid)

    @property
    def two_or_less_crossing(self) -> float | None:
        """Percent of the valid sentences."""
        return _percent(self.at_most_two_crossing, self.valid)

    @property
    def tagging_accuracy(self) -> float | None:
        """Percent of the scored words that have the gold tag."""
        return _percent(self.correct_tags, self.words)

    def summary(self) -> dict[str, int | float | None]:
        """What EVALB prints, and the counts that it is computed from."""
        return {
            "sentences": self.sentences,
            "errors": self.errors,
            "skipped": self.skipped,
            "valid": self.valid,
            "recall": self.recall,
            "precision": self.precision,
            "f1": self.f1,
            "f1_unscored_as_wrong": self.f1_unscored_as_wrong,
            "complete_match": self.complete_match,
            "average_crossing": self.average_crossing,
            "no_crossing": self.no_crossing,
            "two_or_less_crossing": self.two_or_less_crossing,
            "tagging_accuracy": self.tagging_accuracy,
            "matched": self.matched,
            "gold": self.gold,
            "predicted": self.predicted,
            "crossing": self.crossing,
            "words": self.words,
            "correct_tags": self.correct_tags,
        }


@dataclass(frozen=True)
class BracketingScore:
    """The score of a corpus. `value` is F1 over all lengths, None with a `reason` where it would mislead."""

    rules: EvalbRules
    delete_by: DeleteBy
    sentences: tuple[SentenceScore, ...]

    @cached_property
    def all(self) -> BracketCounts:
        """All lengths: Table 4's."""
        return BracketCounts.of(self.sentences)

    @cached_property
    def short(self) -> BracketCounts:
        """Gold sentences of at most `rules.cutoff_length` words."""
        return BracketCounts.of([s for s in self.sentences if s.length <= self.rules.cutoff_length])

    @cached_property
    def by_label(self) -> dict[str, LabelCounts]:
        """Counts of the valid sentences by label, the most frequent in the gold trees first."""
        valid = [sentence for sentence in self.sentences if sentence.status == "valid"]
        sides = [Counter(label for sentence in valid for label in sentence.labels[side]) for side in range(3)]
        labels = sorted(set().union(*sides), key=lambda label: (-sides[0][label], label))
        return {label: LabelCounts(*(side[label] for side in sides)) for label in labels}

    @property
    def value(self) -> float | None:
        """F1, 0 to 100, where every sentence was scored."""
        return None if self.reason else self.all.f1

    @cached_property
    def reason(self) -> str | None:
        """Why there is no value: sentences that could not be scored, or nothing to score."""
        problems = [(number, s.problem) for number, s in enumerate(self.sentences, 1) if s.problem is not None]
        if problems:
            number, problem = problems[0]
            return f"{len(problems)} of {self.all.sentences} sentences not scored, the first is {number}: {problem}"
        if not self.all.valid:
            return "no valid sentence"
        return "no constituents to compare" if self.all.f1 is None else None

    @property
    def signature(self) -> str:
        """What makes two scores comparable, in sacreBLEU's manner."""
        return f"f1:evalb|rules:{self.rules.name}|delete:{self.delete_by}|sha256:{self.rules.sha256[:16]}"

    def details(self) -> dict[str, Any]:
        """All that belongs beside the value, ready for JSON."""
        return {
            "rules": self.rules.name,
            "rules_sha256": self.rules.sha256,
            "delete_by": self.delete_by,
            "reason": self.reason,
            "evalb_would_stop": self.all.errors > self.rules.max_errors + 1,
            "all": self.all.summary(),
            f"up_to_{self.rules.cutoff_length}_words": self.short.summary(),
        }


def score_trees(
    gold: Sequence[Parse],
    predicted: Sequence[Parse],
    rules: EvalbRules = COLLINS,
    *,
    delete_by: DeleteBy = "own_tags",
) -> BracketingScore:
    """Score predicted trees against gold ones, sentence by sentence.

    Both sides should be of one form (`core.data.trees.normalise`); function tags are cut off here too, as in EVALB.

    Args:
        delete_by: whose tags say which words of a predicted tree are deleted.
    Raises:
        ScoringError: unequal numbers of sentences, or none.
        ValueError: another `delete_by`.
    """
    if delete_by not in get_args(DeleteBy):
        raise ValueError(f"delete_by={delete_by!r} is not one of {', '.join(get_args(DeleteBy))}")
    if len(gold) != len(predicted):
        raise ScoringError(
            f"{len(predicted)} predicted trees against {len(gold)} gold ones; they must be equal in number"
        )
    if not gold:
        raise ScoringError("nothing to score: 0 trees")
    scorer = _Scorer(rules, delete_by)
    return BracketingScore(rules, delete_by, tuple(map(scorer.score, gold, predicted)))


def _percent(part: int, whole: int, otherwise: float | None = None) -> float | None:
    return 100.0 * part / whole if whole else otherwise


def _f1(matched: int, gold: int, predicted: int) -> float | None:
    """The harmonic mean of recall and precision, 0 where both are; None where there are no constituents."""
    if not gold and not predicted:
        return None
    if not matched:
        return 0.0
    recall, precision = 100.0 * matched / gold, 100.0 * matched / predicted
    return 2 * precision * recall / (precision + recall)


class _Terminal(NamedTuple):
    tag: str
    word: str


class _Span(NamedTuple):
    start: int
    end: int


@dataclass(slots=True)
class _Bracket:
    """A constituent over the words from `start` to before `end`, where deleted words are not counted."""

    label: str
    start: int
    end: int


@dataclass(slots=True)
class _Quote:
    """A quotation mark: where it stands among the words, how many constituents opened before it, which are open."""

    terminal: _Terminal
    position: int
    num_before: int
    open: tuple[_Bracket, ...]


@dataclass(slots=True)
class _Side:
    """One parse as EVALB holds it: words that are not deleted, constituents in the order of their opening."""

    terminals: list[_Terminal]
    brackets: list[_Bracket]
    quotes: list[_Quote]

    def reinsert(self, quote: _Quote) -> None:
        """Undo the deletion of a quotation mark."""
        self.terminals.insert(quote.position, quote.terminal)
        for bracket in self.brackets[quote.num_before :]:
            bracket.start += 1
            bracket.end += 1
        for bracket in quote.open:
            bracket.end += 1


class _Scorer:
    """The rules, looked up once, and what they do to a pair of parses."""

    def __init__(self, rules: EvalbRules, delete_by: DeleteBy) -> None:
        self._rules = rules
        self._by_gold_tags = delete_by == "gold_tags"
        self._equal_labels = _both_ways(rules.equal_labels)
        self._equal_words = _both_ways((unescape(one), unescape(other)) for one, other in rules.equal_words)
        # A constituent is deleted by a label equal to its own too, a word by its very tag.
        self._uncounted = rules.delete_labels | {
            one for one, other in self._equal_labels if other in rules.delete_labels
        }

    def score(self, gold: Parse, predicted: Parse) -> SentenceScore:
        gold_words, words = list(_terminals(gold)), list(_terminals(predicted))
        gold_deleted, deleted = self._deleted(gold_words), self._deleted(words)
        problem = None
        if self._by_gold_tags:
            problem = self._compare(gold_words, words)
            deleted = gold_deleted if problem is None else deleted
        reference, output = self._read(gold, gold_deleted), self._read(predicted, deleted)
        skipped = not output.terminals
        if skipped:
            problem = "it has no word to score, unlike its gold tree" if reference.terminals else None
        elif problem is None:
            if len(reference.terminals) != len(output.terminals):
                self._mend_quotes(reference, output)
            problem = self._compare(reference.terminals, output.terminals)
        length = sum(tag not in self._rules.delete_labels_for_length for tag, _ in gold_words)
        gold_spans, spans = self._count(reference), self._count(output)
        if skipped or problem is not None:
            status = "skipped" if skipped else "error"
            return SentenceScore(status, length, len(gold_spans), len(spans), problem=problem)
        matched = self._match(gold_spans, spans)
        return SentenceScore(
            "valid",
            length,
            len(gold_spans),
            len(spans),
            len(matched),
            _count_crossing({span for span, _ in gold_spans}, [span for span, _ in spans]),
            len(reference.terminals),
            sum(
                one.tag == other.tag or (one.tag, other.tag) in self._equal_labels
                for one, other in zip(reference.terminals, output.terminals, strict=True)
            ),
            labels=(tuple(label for _, label in gold_spans), tuple(label for _, label in spans), tuple(matched)),
        )

    def _deleted(self, words: Sequence[_Terminal]) -> list[bool]:
        return [tag in self._rules.delete_labels for tag, _ in words]

    def _read(self, parse: Parse, deleted: Sequence[bool]) -> _Side:
        """`deleted` says of each word whether it goes."""
        side = _Side([], [], [])
        gone = iter(deleted)
        open_brackets: list[_Bracket] = []
        stack: list[Tree | str | None] = list(reversed(_pieces(parse)))
        while stack:
            node = stack.pop()
            if node is None:
                open_brackets.pop().end = len(side.terminals)
            elif isinstance(node, str) or node.is_preterminal:
                terminal = _terminal(node)
                if terminal.tag in self._rules.quote_labels and terminal.word in _QUOTES:
                    place = (len(side.terminals), len(side.brackets), tuple(open_brackets))
                    side.quotes.append(_Quote(terminal, *place))
                if not next(gone):
                    side.terminals.append(terminal)
            else:
                bracket = _Bracket(node.label, len(side.terminals), -1)
                side.brackets.append(bracket)
                open_brackets.append(bracket)
                stack.append(None)
                stack.extend(reversed(node.children))
        return side

    def _mend_quotes(self, reference: _Side, output: _Side) -> None:
        """Put a quotation mark back that only one side has deleted, since the other has mistaken it for another tag.

        As EVALB does it: marks meet where they stand at the same place among the words that are left, and a mark that
        was put back stands one further on for those that come after it.
        """
        deletes = self._rules.delete_labels
        for number, mark in enumerate(output.quotes):
            position = mark.position
            for gold_number, gold_mark in enumerate(reference.quotes):
                if gold_mark.position != position:
                    continue
                gold_goes, goes = gold_mark.terminal.tag in deletes, mark.terminal.tag in deletes
                if gold_goes and not goes:
                    reference.reinsert(gold_mark)
                    _move_on(reference.quotes[gold_number:])
                elif goes and not gold_goes:
                    output.reinsert(mark)
                    _move_on(output.quotes[number:])

    def _compare(self, reference: Sequence[_Terminal], output: Sequence[_Terminal]) -> str | None:
        """What is wrong with the words, None where they agree."""
        if len(reference) != len(output):
            return f"it has {len(output)} words to score, its gold tree {len(reference)}"
        for number, (one, other) in enumerate(zip(reference, output, strict=True), 1):
            if one.word != other.word and (one.word, other.word) not in self._equal_words:
                return f"its word {number} to score is {other.word!r}, in its gold tree {one.word!r}"
        return None

    def _count(self, side: _Side) -> list[tuple[_Span, str]]:
        """Span and label of the constituents that count: those with words, but for deleted labels."""
        spans = []
        for bracket in side.brackets:
            if bracket.start != bracket.end:
                label = _cut(bracket.label)
                if label not in self._uncounted:
                    spans.append((_Span(bracket.start, bracket.end), label))
        return spans

    def _match(self, gold_spans: Sequence[tuple[_Span, str]], spans: Sequence[tuple[_Span, str]]) -> list[str]:
        """Each gold constituent takes the first of its span and label that no earlier one has taken; their labels."""
        free: dict[_Span, list[str]] = {}
        for span, label in spans:
            free.setdefault(span, []).append(label)
        matched = []
        for span, label in gold_spans:
            candidates = free.get(span, [])
            for index, other in enumerate(candidates):
                if not self._rules.labeled or label == other or (label, other) in self._equal_labels:
                    del candidates[index]
                    matched.append(label)
                    break
        return matched


def _both_ways(pairs: Iterable[Pair]) -> frozenset[Pair]:
    return frozenset(pair for one, other in pairs for pair in ((one, other), (other, one)))


def _pieces(parse: Parse) -> tuple[Tree, ...]:
    if parse is None:
        return ()
    return (parse,) if isinstance(parse, Tree) else tuple(parse)


def _terminal(leaf: Tree | str) -> _Terminal:
    return _Terminal("", leaf) if isinstance(leaf, str) else _Terminal(leaf.label, leaf.children[0])


def _terminals(parse: Parse) -> Iterator[_Terminal]:
    """All words of a parse, deleted ones too; the tag is empty where a word has none."""
    for tree in _pieces(parse):
        for tag, word in tree.tagged():
            yield _Terminal(tag or "", word)


def _move_on(quotes: Iterable[_Quote]) -> None:
    for quote in quotes:
        quote.position += 1


@lru_cache(maxsize=10_000)
def _cut(label: str) -> str:
    """A label up to its first - or =, as EVALB has it: nothing is left of one that begins so."""
    return re.split("[-=]", label, maxsplit=1)[0]


def _count_crossing(gold_spans: Collection[_Span], spans: Iterable[_Span]) -> int:
    """How many of `spans` overlap a gold one without nesting; a span that is gold itself cannot."""
    return sum(
        any(gold.start < start < gold.end < end or start < gold.start < end < gold.end for gold in gold_spans)
        for start, end in (span for span in spans if span not in gold_spans)
    )
