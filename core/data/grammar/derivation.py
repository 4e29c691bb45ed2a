"""The derivation: one abstract object that `english.py`, `german.py` and `french.py` each linearise.

It holds lexical entries and grammatical choices and no word order, so that the three sides cannot disagree. A node
compares by identity, because two equal phrases of one sentence are two phrases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.data.grammar.words import Adjective, Adverb, Conjunction, Gender, Modal, Noun, Preposition, Verb

Tense = Literal["present", "past", "perfect", "future"]
Negation = Literal["not", "never"]
Determiner = Literal["the", "a", "this", "every", "many", "some", "two", "three", "bare", "none"]

FIRST_SINGULAR, THIRD_SINGULAR, FIRST_PLURAL, THIRD_PLURAL = range(4)

_ENGLISH_PRONOUNS = {"male": "he", "female": "she", "none": "it"}


@dataclass(frozen=True, eq=False)
class Referent:
    """What a noun phrase introduces and a pronoun takes up again."""

    noun: Noun
    plural: bool = False

    @property
    def person(self) -> int:
        return THIRD_PLURAL if self.plural else THIRD_SINGULAR

    @property
    def german_gender(self) -> Gender:
        return self.noun.german_gender

    @property
    def french_gender(self) -> Gender:
        return self.noun.french_gender

    @property
    def english_pronoun(self) -> str | None:
        """he, she, it or they; None where English usage would have to guess (the child)."""
        return "they" if self.plural else _ENGLISH_PRONOUNS.get(self.noun.sex)


@dataclass(frozen=True, eq=False)
class Pronoun:
    """A personal pronoun, or, as a determiner, a possessive one. Without a referent it is I or we (my or our)."""

    referent: Referent | None
    plural: bool = False

    @property
    def person(self) -> int:
        if self.referent is not None:
            return self.referent.person
        return FIRST_PLURAL if self.plural else FIRST_SINGULAR

    @property
    def english(self) -> str:
        """The nominative: I, we, he, she, it or they.

        Raises:
            ValueError: the referent has no English pronoun.
        """
        if self.referent is None:
            return "we" if self.plural else "I"
        if self.referent.english_pronoun is None:
            raise ValueError(f"{self.referent.noun.english!r} has no English pronoun of the third person singular")
        return self.referent.english_pronoun

    @property
    def french_gender(self) -> Gender:
        return "m" if self.referent is None else self.referent.french_gender


@dataclass(frozen=True, eq=False)
class Gap:
    """The place in a relative clause that its pronoun stands for."""

    referent: Referent

    @property
    def person(self) -> int:
        return self.referent.person

    @property
    def french_gender(self) -> Gender:
        return self.referent.french_gender


@dataclass(frozen=True, eq=False)
class NounPhrase:
    """A noun with its dependents. `complement` is the English "of" phrase; `relative` follows the noun at once."""

    referent: Referent
    determiner: Determiner | Pronoun = "the"
    adjectives: tuple[Adjective, ...] = ()
    complement: NounPhrase | None = None
    relative: Clause | None = None

    @property
    def person(self) -> int:
        return self.referent.person

    @property
    def french_gender(self) -> Gender:
        return self.referent.french_gender

    @property
    def indefinite(self) -> bool:
        return self.determiner in ("a", "bare")

    @property
    def open_ended(self) -> bool:
        """Whether the phrase ends in a relative clause, after which an adjunct would attach to the wrong verb."""
        return self.relative is not None or (self.complement is not None and self.complement.open_ended)


@dataclass(frozen=True, eq=False)
class Coordination:
    """Two noun phrases joined by "and"."""

    left: NounPhrase
    right: NounPhrase

    @property
    def person(self) -> int:
        return THIRD_PLURAL

    @property
    def french_gender(self) -> Gender:
        return "f" if self.left.french_gender == self.right.french_gender == "f" else "m"


@dataclass(frozen=True, eq=False)
class Adjunct:
    """A prepositional phrase that modifies the verb."""

    preposition: Preposition
    phrase: NounPhrase


@dataclass(frozen=True, eq=False)
class Predicate:
    """An adjective said of the subject (be) or the object (make), compared if `comparative`."""

    adjective: Adjective
    comparative: bool = False
    standard: NounPhrase | None = None


@dataclass(frozen=True, eq=False)
class Means:
    """A phrase like "by making OBJECT PREDICATE", after the paper's Figure 3."""

    object: NounPhrase
    predicate: Predicate


@dataclass(frozen=True, eq=False)
class Subordinate:
    """An adverbial clause, before or after the main clause."""

    conjunction: Conjunction
    clause: Clause
    fronted: bool = False


Nominal = NounPhrase | Pronoun | Gap | Coordination


@dataclass(frozen=True, eq=False)
class Clause:
    """A verb with its arguments and adjuncts.

    Attributes:
        modal: takes the tense (present or past); the verb is then an infinitive.
        object, recipient, predicate, content: complements; `content` is a that-clause.
        front: a time, a place or a comment before the subject; never beside a fronted subordinate clause.
        frequency, manner, time, adjunct: adverbials inside the clause.
    """

    subject: Nominal
    verb: Verb
    tense: Tense = "present"
    modal: Modal | None = None
    negation: Negation | None = None
    object: NounPhrase | Pronoun | Gap | None = None
    recipient: NounPhrase | None = None
    predicate: Predicate | None = None
    content: Clause | None = None
    front: Adverb | Adjunct | None = None
    frequency: Adverb | None = None
    manner: Adverb | None = None
    time: Adverb | None = None
    adjunct: Adjunct | None = None
    means: Means | None = None
    subordinate: Subordinate | None = None

    @property
    def negates_object(self) -> bool:
        """Whether the negation and an indefinite object fuse (kein; pas de)."""
        return self.negation is not None and isinstance(self.object, NounPhrase) and self.object.indefinite


@dataclass(frozen=True, eq=False)
class Sentence:
    """One clause, or two joined by "and" or "but"."""

    first: Clause
    conjunction: Literal["and", "but"] | None = None
    second: Clause | None = None
