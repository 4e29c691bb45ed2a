"""Weighted choices: how often each word, tense and construction is drawn."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random
from typing import Generic, Literal, TypeVar

from core.data.grammar import lexicon
from core.data.grammar.derivation import Determiner, Tense
from core.data.grammar.words import Adjective, Adverb, Conjunction, Modal, Noun, Preposition, Verb

_Item = TypeVar("_Item")
Pattern = Literal["transitive", "intransitive", "copular", "ditransitive", "motion", "causative"]
Arrangement = Literal["plain", "trailing", "fronted", "reporting"]

# The weight of rank r is (r + offset) ** -exponent (Zipf-Mandelbrot), steeper than in real text: a model that trains
# for seconds should meet most of what it is tested on, and still see rare words.
_ZIPF_OFFSET = 2.0
_ZIPF_EXPONENT = 2.0


@dataclass(frozen=True)
class Table(Generic[_Item]):
    """Items with cumulative weights; falsy when empty."""

    items: tuple[_Item, ...]
    cumulative: tuple[float, ...]

    def __bool__(self) -> bool:
        return bool(self.items)

    def draw(self, rng: Random) -> _Item:
        """One item. Only `Random.random` is called: Python promises its sequence for a seed in every version."""
        return self.items[bisect(self.cumulative, rng.random() * self.cumulative[-1], hi=len(self.items) - 1)]


def _weighted(*pairs: tuple[_Item, float]) -> Table[_Item]:
    return Table(tuple(item for item, _ in pairs), tuple(accumulate(weight for _, weight in pairs)))


def _zipf(ranked: Sequence[tuple[int, _Item]]) -> Table[_Item]:
    """Items with their ranks, which keep their weights when a table is filtered."""
    return _weighted(*((item, (rank + _ZIPF_OFFSET) ** -_ZIPF_EXPONENT) for rank, item in ranked))


def suits(kinds: str, noun: Noun) -> bool:
    """Whether the noun is of any of these kinds."""
    return any(kind in noun.kinds for kind in kinds)


@cache
def nouns(kinds: str) -> Table[Noun]:
    """The common nouns of any of these kinds."""
    return _zipf([(rank, noun) for rank, noun in enumerate(lexicon.NOUNS) if suits(kinds, noun)])


@cache
def adjectives(noun: Noun, french_position: Literal["before", "after", "any"] = "any") -> Table[Adjective]:
    """The adjectives that suit a noun, by where French puts them."""
    return _zipf(
        [
            (rank, adjective)
            for rank, adjective in enumerate(lexicon.ADJECTIVES)
            if suits(adjective.kinds, noun)
            and (french_position == "any" or adjective.french_precedes_noun == (french_position == "before"))
        ]
    )


@cache
def comparable_adjectives(noun: Noun) -> Table[Adjective]:
    """The adjectives that suit a noun and have a comparative."""
    ranked = enumerate(lexicon.ADJECTIVES)
    return _zipf([(rank, word) for rank, word in ranked if suits(word.kinds, noun) and word.english_comparative])


_VERBS: dict[Pattern, tuple[Verb, ...]] = {
    "transitive": lexicon.TRANSITIVE,
    "intransitive": lexicon.INTRANSITIVE,
    "ditransitive": lexicon.DITRANSITIVE,
    "motion": lexicon.MOTION,
}


@cache
def verbs(pattern: Pattern, tense: Tense, subject: Noun | None = None) -> Table[Verb]:
    """The verbs of a pattern that have the tense and, if `subject` is given, suit it. Empty for be and make."""
    return _zipf(
        [
            (rank, verb)
            for rank, verb in enumerate(_VERBS.get(pattern, ()))
            if _has_tense(verb, tense) and (subject is None or suits(verb.subject_kinds, subject))
        ]
    )


@cache
def verbs_with_object(target: Noun, tense: Tense) -> Table[Verb]:
    """The transitive verbs of which a relative clause on `target` can lack the object."""
    return _zipf(
        [
            (rank, verb)
            for rank, verb in enumerate(lexicon.TRANSITIVE)
            if _has_tense(verb, tense)
            and suits(verb.object_kinds, target)
            and verb.takes_pronoun
            and verb.english.preposition is None
        ]
    )


def _has_tense(verb: Verb, tense: Tense) -> bool:
    return tense != "past" or verb.has_distinct_past


NAMES = _zipf(list(enumerate(lexicon.NAMES)))
REPORTING = _zipf(list(enumerate(lexicon.REPORTING)))
ADVERBS = {group: _zipf(list(enumerate(adverbs))) for group, adverbs in lexicon.ADVERBS.items()}
TIMES: dict[Tense, Table[Adverb]] = {
    "present": ADVERBS["present"],
    "past": ADVERBS["past"],
    "perfect": _weighted((lexicon.ADVERBS["present"][0], 1)),
    "future": ADVERBS["future"],
}
PREPOSITIONS: Table[Preposition] = _weighted(
    *zip(lexicon.PLACES, (30, 10, 7), strict=True),
    *zip(lexicon.COMPANIONS, (14, 10, 5), strict=True),
    *zip(lexicon.TIMES, (8, 6, 5), strict=True),
)
TENSES: Table[Tense] = _weighted(("present", 54), ("past", 30), ("perfect", 8), ("future", 8))
REPORTING_TENSES: Table[Tense] = _weighted(("present", 60), ("past", 40))
MODALS: dict[Tense, Table[Modal]] = {
    "present": _zipf(list(enumerate(lexicon.MODALS))),
    "past": _zipf([(rank, modal) for rank, modal in enumerate(lexicon.MODALS) if modal.english_past is not None]),
}
CONJUNCTIONS: dict[Tense, Table[Conjunction]] = {
    "present": _weighted((lexicon.BECAUSE, 50), (lexicon.IF, 25), (lexicon.WHEN, 15), (lexicon.WHILE, 10)),
    "past": _weighted((lexicon.BECAUSE, 45), (lexicon.WHEN, 40), (lexicon.WHILE, 15)),
    "perfect": _weighted((lexicon.BECAUSE, 1)),
    "future": _weighted((lexicon.BECAUSE, 40), (lexicon.IF, 60)),
}
SINGULAR: Table[Determiner] = _weighted(("the", 68), ("a", 20), ("this", 9), ("every", 3))
PLURAL: Table[Determiner] = _weighted(
    ("the", 60), ("bare", 12), ("this", 8), ("many", 8), ("some", 6), ("two", 4), ("three", 2)
)
DEFINITE: Table[Determiner] = _weighted(("the", 85), ("this", 15))
PATTERNS: Table[Pattern] = _weighted(
    ("transitive", 46), ("intransitive", 17), ("copular", 18), ("ditransitive", 8), ("motion", 5), ("causative", 6)
)
ARRANGEMENTS: Table[Arrangement] = _weighted(("plain", 74), ("trailing", 12), ("fronted", 5), ("reporting", 9))
