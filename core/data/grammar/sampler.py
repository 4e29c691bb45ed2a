"""Random derivations: what is said, and what is kept out so that one English sentence has one translation.

Four rules keep the translation a function of the English words. A pronoun stands for the first subject or object of the
earlier clauses that agrees with it (a possessive tries its own clause's subject first). A relative clause attaches to
the noun before it. Nothing of the main clause follows a phrase that ends in a relative clause, except another clause or
the comparative of "make". "of" modifies nouns and never verbs, all other prepositions modify verbs and never nouns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from core.data.grammar import choices, lexicon
from core.data.grammar.choices import Pattern, suits
from core.data.grammar.derivation import (
    Adjunct,
    Clause,
    Coordination,
    Determiner,
    Gap,
    Means,
    Nominal,
    NounPhrase,
    Predicate,
    Pronoun,
    Referent,
    Sentence,
    Subordinate,
    Tense,
)
from core.data.grammar.words import Adjective, Noun, Preposition, Verb

_OWNER_KINDS = "pgl"
_THING_KINDS = "gltiewfdob"
# What people and animals may belong to: "its workers" suits a factory, not a bottle.
_KEEPER_KINDS = "pagl"
# "not" with every or many would have two readings, and German would have to choose one.
_QUANTIFIERS = frozenset({"every", "many", "some", "two", "three"})
_MAX_REDRAWS = 4


@dataclass
class _Discourse:
    """What the sentence has said so far: referents that a pronoun may take up, in order, and the nouns used."""

    referents: list[Referent] = field(default_factory=list)
    nouns: set[Noun] = field(default_factory=set)

    def register(self, clause: Clause) -> None:
        """Make the clause's subject and object available to later clauses."""
        for nominal in (clause.subject, clause.object):
            if isinstance(nominal, NounPhrase):
                self.referents.append(nominal.referent)


class Sampler:
    """Draws derivations; the same generator state gives the same derivations."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._discourse = _Discourse()

    def sentence(self) -> Sentence:
        """One derivation, of any length."""
        self._discourse = _Discourse()
        first = self._main_clause()
        if not self._chance(0.07):
            return Sentence(first)
        conjunction = "but" if self._chance(0.6) else "and"
        return Sentence(first, conjunction, self._front(self._clause(choices.TENSES.draw(self._rng)), 0.12))

    def _chance(self, probability: float) -> bool:
        return self._rng.random() < probability

    def _main_clause(self) -> Clause:
        arrangement = choices.ARRANGEMENTS.draw(self._rng)
        if arrangement == "reporting":
            return self._front(self._reporting(), 0.15)
        tense = choices.TENSES.draw(self._rng)
        if arrangement == "plain":
            return self._front(self._clause(tense), 0.32)
        if arrangement == "fronted":
            subordinate = self._subordinate(tense, fronted=True)
            return replace(self._clause(tense), subordinate=subordinate)
        clause = self._front(self._clause(tense), 0.15)
        return replace(clause, subordinate=self._subordinate(tense))

    def _subordinate(self, main_tense: Tense, fronted: bool = False) -> Subordinate:
        conjunction = choices.CONJUNCTIONS[main_tense].draw(self._rng)
        conditional = conjunction is lexicon.IF
        clause = self._clause("present" if conditional else main_tense, small=True)
        if conditional and clause.modal is lexicon.SHOULD:
            # French has no conditional after si.
            clause = replace(clause, modal=None)
        return Subordinate(conjunction, clause, fronted)

    def _reporting(self) -> Clause:
        tense = choices.REPORTING_TENSES.draw(self._rng)
        verb = choices.REPORTING.draw(self._rng)
        clause = Clause(self._subject(verb.subject_kinds, rich=False), verb, tense)
        self._discourse.register(clause)
        past = tense == "past" and self._chance(0.8)
        return replace(clause, content=self._clause("past" if past else choices.TENSES.draw(self._rng)))

    def _front(self, clause: Clause, probability: float) -> Clause:
        """Perhaps move a time or place to the front, or put another adverb there."""
        if not self._chance(probability):
            return clause
        if clause.time is not None:
            return replace(clause, front=clause.time, time=None)
        adjunct = clause.adjunct
        if adjunct is not None and adjunct.preposition is not lexicon.GOAL and _movable(adjunct.phrase):
            return replace(clause, front=adjunct, adjunct=None)
        adverbs = choices.ADVERBS["comment"] if self._chance(0.4) else choices.TIMES[clause.tense]
        return replace(clause, front=adverbs.draw(self._rng))

    def _clause(self, tense: Tense, *, small: bool = False, gap: Gap | None = None) -> Clause:
        """A clause without fronting and subordination; with `gap` as its subject in a relative clause.

        `small` ones (subordinate and relative) carry fewer adjuncts.
        """
        pattern = choices.PATTERNS.draw(self._rng)
        if gap is not None and not choices.verbs(pattern, tense, gap.referent.noun):
            pattern = "copular"
        if pattern == "copular":
            clause = self._copular(tense, gap)
        elif pattern == "causative":
            clause = self._causative(tense, small)
        else:
            clause = self._verbal(pattern, tense, gap, small)
        clause = self._adverbials(self._verb_group(clause), small)
        if gap is None:
            self._discourse.register(clause)
        return clause

    def _copular(self, tense: Tense, gap: Gap | None) -> Clause:
        kinds = _THING_KINDS if self._chance(0.6) else lexicon.BE.subject_kinds
        subject = gap if gap is not None else self._subject(kinds, rich=True)
        noun = _noun_of(subject)
        if gap is not None or not self._chance(0.25):
            adjective = choices.adjectives(noun).draw(self._rng)
            return Clause(subject, lexicon.BE, tense, predicate=Predicate(adjective))
        predicate = self._comparative(noun)
        if self._chance(0.7):
            predicate = replace(predicate, standard=self._noun_phrase(noun.kinds, self._owners(subject), definite=True))
        return Clause(subject, lexicon.BE, tense, predicate=predicate)

    def _causative(self, tense: Tense, small: bool) -> Clause:
        subject = self._subject(lexicon.MAKE.subject_kinds, rich=not small)
        target = self._noun_phrase(lexicon.MAKE.object_kinds, self._owners(subject), definite=True, rich=True)
        predicate = self._comparative(target.referent.noun)
        return Clause(subject, lexicon.MAKE, tense, object=target, predicate=predicate)

    def _verbal(self, pattern: Pattern, tense: Tense, gap: Gap | None, small: bool) -> Clause:
        verb = choices.verbs(pattern, tense, None if gap is None else gap.referent.noun).draw(self._rng)
        subject = gap if gap is not None else self._subject(verb.subject_kinds, rich=not small)
        clause, owners = Clause(subject, verb, tense), self._owners(subject)
        if pattern == "motion":
            return replace(clause, adjunct=self._adjunct(lexicon.GOAL, owners))
        if pattern == "ditransitive":
            target = self._noun_phrase(verb.object_kinds, owners)
            return replace(clause, object=target, recipient=self._noun_phrase("p", owners, rich=not small))
        if pattern == "transitive":
            return replace(clause, object=self._object(verb, subject, owners, rich=gap is None))
        return clause

    def _comparative(self, noun: Noun) -> Predicate:
        return Predicate(choices.comparable_adjectives(noun).draw(self._rng), comparative=True)

    def _verb_group(self, clause: Clause) -> Clause:
        """Perhaps a modal, and a negation or an adverb of frequency."""
        if clause.tense in choices.MODALS and self._chance(0.16):
            modal = choices.MODALS[clause.tense].draw(self._rng)
            # Only who has a will can want.
            if not modal.to or suits("pa", _noun_of(clause.subject)):
                clause = replace(clause, modal=modal)
        if self._chance(0.14) and _negatable(clause):
            return replace(clause, negation="never" if self._chance(0.25) else "not")
        if self._chance(0.08):
            return replace(clause, frequency=choices.ADVERBS["frequency"].draw(self._rng))
        return clause

    def _adverbials(self, clause: Clause, small: bool) -> Clause:
        """Perhaps manner, a prepositional phrase, a time, a means, as long as they attach to this verb."""
        if clause.verb is lexicon.MAKE or _open_ended(clause):
            return clause
        voluntary = not (clause.verb.stative or clause.verb.involuntary)
        if voluntary and clause.frequency is None and self._chance(0.1):
            clause = replace(clause, manner=choices.ADVERBS["manner"].draw(self._rng))
        share = (0.3 if clause.object is None else 0.08) * (0.5 if small else 1.0)
        if clause.adjunct is None and clause.verb is not lexicon.BE and self._chance(share):
            preposition = choices.PREPOSITIONS.draw(self._rng)
            clause = replace(clause, adjunct=self._adjunct(preposition, self._owners(clause.subject), rich=not small))
        if small or _open_ended(clause):
            return clause
        if self._chance(0.08):
            clause = replace(clause, time=choices.TIMES[clause.tense].draw(self._rng))
        transitive = voluntary and clause.object is not None and clause.recipient is None
        if transitive and not isinstance(clause.subject, Coordination) and self._chance(0.05):
            target = self._noun_phrase("i", self._owners(clause.subject), definite=True)
            clause = replace(clause, means=Means(target, self._comparative(target.referent.noun)))
        return clause

    def _adjunct(self, preposition: Preposition, owners: Sequence[Referent], rich: bool = False) -> Adjunct:
        # German has no genitive of bare plurals, and "during many nights" would need one.
        definite = preposition in lexicon.TIMES
        return Adjunct(preposition, self._noun_phrase(preposition.kinds, owners, definite=definite, rich=rich))

    def _subject(self, kinds: str, rich: bool) -> Nominal:
        owners = self._discourse.referents
        suitable = [referent for referent in _resolvable(owners) if suits(kinds, referent.noun)]
        if suitable and self._chance(0.65):
            return Pronoun(self._pick(suitable))
        if "p" in kinds and self._chance(0.12):
            return Pronoun(None, plural=self._chance(0.4))
        if "p" in kinds and self._chance(0.04):
            left, right = (self._noun_phrase("p", owners, definite=True) for _ in range(2))
            return Coordination(left, right)
        return self._noun_phrase(kinds, owners, rich=rich)

    def _object(self, verb: Verb, subject: Nominal, owners: Sequence[Referent], rich: bool) -> NounPhrase | Pronoun:
        own = None if isinstance(subject, Coordination) else subject.referent
        candidates = _resolvable([referent for referent in self._discourse.referents if referent is not own])
        suitable = [referent for referent in candidates if suits(verb.object_kinds, referent.noun)]
        if suitable and verb.takes_pronoun and self._chance(0.6):
            return Pronoun(self._pick(suitable))
        return self._noun_phrase(verb.object_kinds, owners, rich=rich)

    def _owners(self, subject: Nominal) -> list[Referent]:
        """Whom a possessive outside the subject may stand for: its clause's subject before earlier ones."""
        if isinstance(subject, Coordination) or subject.referent is None:
            return self._discourse.referents
        return [subject.referent, *self._discourse.referents]

    def _noun_phrase(
        self, kinds: str, owners: Sequence[Referent], *, definite: bool = False, rich: bool = False
    ) -> NounPhrase:
        """A name, or a noun of one of the kinds; a `rich` phrase may have a complement or a relative clause."""
        if "p" in kinds and self._chance(0.13):
            return NounPhrase(Referent(self._fresh(choices.NAMES)), "none")
        phrase = self._common_phrase(kinds, owners, definite)
        if not rich:
            return phrase
        thing = not suits("pa", phrase.referent.noun)
        if thing and phrase.determiner in ("the", "this") and self._chance(0.12):
            return replace(phrase, complement=self._common_phrase(_OWNER_KINDS, owners, definite=True))
        if self._chance(0.08):
            return replace(phrase, relative=self._relative(phrase.referent))
        return phrase

    def _common_phrase(self, kinds: str, owners: Sequence[Referent], definite: bool) -> NounPhrase:
        referent = Referent(self._fresh(choices.nouns(kinds)), plural=self._chance(0.1 if kinds == "e" else 0.18))
        return NounPhrase(referent, self._determiner(referent, owners, definite), self._modifiers(referent.noun))

    def _fresh(self, table: choices.Table[Noun]) -> Noun:
        """A noun that the sentence has not used yet, unless the draws insist."""
        noun = table.draw(self._rng)
        for _ in range(_MAX_REDRAWS):
            if noun not in self._discourse.nouns:
                break
            noun = table.draw(self._rng)
        self._discourse.nouns.add(noun)
        return noun

    def _determiner(self, referent: Referent, owners: Sequence[Referent], definite: bool) -> Determiner | Pronoun:
        if self._chance(0.04):
            return Pronoun(None, plural=self._chance(0.4))
        animate = suits("pa", referent.noun)
        possible = [owner for owner in _resolvable(owners) if not animate or suits(_KEEPER_KINDS, owner.noun)]
        if possible and self._chance(0.25):
            return Pronoun(self._pick(possible))
        if definite:
            return choices.DEFINITE.draw(self._rng)
        return (choices.PLURAL if referent.plural else choices.SINGULAR).draw(self._rng)

    def _modifiers(self, noun: Noun) -> tuple[Adjective, ...]:
        """None, one, or two adjectives, the first of which precedes its noun in French too."""
        if not self._chance(0.2) or not choices.adjectives(noun):
            return ()
        before, after = choices.adjectives(noun, "before"), choices.adjectives(noun, "after")
        if before and after and self._chance(0.12):
            return (before.draw(self._rng), after.draw(self._rng))
        return (choices.adjectives(noun).draw(self._rng),)

    def _relative(self, referent: Referent) -> Clause:
        """A clause that lacks the noun as its subject or object. It takes up nothing but the noun."""
        outer, self._discourse = self._discourse, _Discourse(nouns=self._discourse.nouns)
        tense = choices.TENSES.draw(self._rng)
        verbs = choices.verbs_with_object(referent.noun, tense)
        if verbs and self._chance(0.45):
            verb = verbs.draw(self._rng)
            subject = self._subject(verb.subject_kinds, rich=False)
            clause = self._verb_group(Clause(subject, verb, tense, object=Gap(referent)))
        else:
            clause = self._clause(tense, small=True, gap=Gap(referent))
        self._discourse = outer
        return clause

    def _pick(self, referents: Sequence[Referent]) -> Referent:
        return referents[int(self._rng.random() * len(referents))]


def _resolvable(candidates: Sequence[Referent]) -> list[Referent]:
    """The candidates that their own pronoun would find: the first for each of he, she, it and they."""
    first: dict[str, Referent] = {}
    for referent in candidates:
        if referent.english_pronoun is not None:
            first.setdefault(referent.english_pronoun, referent)
    return list(first.values())


def _movable(phrase: NounPhrase) -> bool:
    """Whether the phrase may precede the subject: it has no relative clause and no possessive with an antecedent."""
    bound = isinstance(phrase.determiner, Pronoun) and phrase.determiner.referent is not None
    return phrase.relative is None and not bound and (phrase.complement is None or _movable(phrase.complement))


def _noun_of(subject: Nominal) -> Noun:
    """The noun that decides which adjectives suit; first persons and coordinations are people."""
    if isinstance(subject, Coordination) or subject.referent is None:
        return lexicon.NOUNS[0]
    return subject.referent.noun


def _negatable(clause: Clause) -> bool:
    quantified = any(
        isinstance(nominal, NounPhrase) and nominal.determiner in _QUANTIFIERS
        for nominal in (clause.subject, clause.object, clause.recipient)
    )
    return not quantified and clause.verb is not lexicon.MAKE and (clause.modal is None or clause.modal.negatable)


def _open_ended(clause: Clause) -> bool:
    """Whether the clause so far ends in a relative clause."""
    adjunct = None if clause.adjunct is None else clause.adjunct.phrase
    phrases = (clause.object, clause.recipient, adjunct)
    return any(isinstance(phrase, NounPhrase) and phrase.open_ended for phrase in phrases)
