"""The German side: case and its endings, verb second and verb final, the bracket, separable prefixes."""

from __future__ import annotations

from dataclasses import dataclass

from core.data.grammar.derivation import (
    Adjunct,
    Clause,
    Coordination,
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
from core.data.grammar.lexicon import BE, HABEN, MAKE, WERDEN_PRESENT
from core.data.grammar.words import Case

# Rows: case; columns: masculine, feminine, neuter, plural. The "strong" endings, which show case and gender.
_COLUMNS = {"m": 0, "f": 1, "n": 2, "pl": 3}
_STRONG: dict[Case, tuple[str, ...]] = {
    "nom": ("er", "e", "es", "e"),
    "acc": ("en", "e", "es", "e"),
    "gen": ("es", "er", "es", "er"),
    "dat": ("em", "er", "em", "en"),
}
_ARTICLE: dict[Case, tuple[str, ...]] = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "gen": ("des", "der", "des", "der"),
    "dat": ("dem", "der", "dem", "den"),
}
_PERSONAL: dict[Case, tuple[str, ...]] = {
    "nom": ("er", "sie", "es", "sie"),
    "acc": ("ihn", "sie", "es", "sie"),
    "dat": ("ihm", "ihr", "ihm", "ihnen"),
}
_FIRST: dict[Case, tuple[str, str]] = {"nom": ("ich", "wir"), "acc": ("mich", "uns"), "dat": ("mir", "uns")}
_REFLEXIVE = ("mich", "sich", "uns", "sich")
_POSSESSIVE_STEMS = ("sein", "ihr", "sein", "ihr")
# ein-words lack an ending in these three places, and the adjective shows the case instead.
_UNENDED = {("nom", "m"), ("nom", "n"), ("acc", "n")}
_STEMS = {"this": "dies", "every": "jed"}
_QUANTIFIERS = {"many": "viel", "some": "einig"}
_NUMERALS = {"two": "zwei", "three": "drei"}
_CONTRACTIONS = {("in", "dem"): "im", ("bei", "dem"): "beim", ("zu", "dem"): "zum", ("zu", "der"): "zur"}
_NEGATIONS = {"not": "nicht", "never": "nie"}
_OBJECT_CASES: dict[str, Case] = {"auf": "acc", "über": "acc", "an": "acc"}
_CONJUNCTIONS = {"and": "und", "but": "aber"}


@dataclass(frozen=True)
class _VerbForms:
    """The two ends of the bracket: `finite`, and `rest` (participle, infinitive or separated prefix)."""

    finite: str
    rest: list[str]
    prefix: str = ""


def linearise(sentence: Sentence) -> tuple[str, ...]:
    """The German tokens of a derivation."""
    tokens = _main_clause(sentence.first)
    if sentence.second is not None:
        tokens += [",", _CONJUNCTIONS[str(sentence.conjunction)], *_main_clause(sentence.second)]
    tokens = _merge_commas([*tokens, "."])
    return (tokens[0][0].upper() + tokens[0][1:], *tokens[1:])


def _merge_commas(tokens: list[str]) -> list[str]:
    """One comma where a relative clause and something else both ask for one; none before the full stop."""
    kept: list[str] = []
    for token in tokens:
        if kept and kept[-1] == "," and token in (",", "."):
            kept.pop()
        kept.append(token)
    return kept


def _main_clause(clause: Clause) -> list[str]:
    """The finite verb comes second, whatever stands first."""
    verb = _verb_forms(clause)
    subject = _nominal(clause.subject, "nom")
    subordinate = clause.subordinate
    if subordinate is not None and subordinate.fronted:
        tokens = [*_subordinate(subordinate), ",", verb.finite, *subject]
    elif clause.front is not None:
        front = _adjunct(clause.front) if isinstance(clause.front, Adjunct) else clause.front.german.split()
        tokens = [*front, verb.finite, *subject]
    else:
        tokens = [*subject, verb.finite]
    return [*tokens, *_middle(clause), *verb.rest, *_after_field(clause)]


def _final_clause(clause: Clause, introduction: list[str]) -> list[str]:
    """A subordinate clause: the finite verb closes it, with its prefix attached."""
    verb = _verb_forms(clause)
    closing = [verb.prefix + verb.finite] if verb.prefix else [*verb.rest, verb.finite]
    return [*introduction, *_nominal(clause.subject, "nom"), *_middle(clause), *closing, *_after_field(clause)]


def _verb_forms(clause: Clause) -> _VerbForms:
    verb, person = clause.verb.german, clause.subject.person
    if clause.modal is not None:
        forms = clause.modal.german if clause.tense == "present" else clause.modal.german_past
        if forms is None:
            raise ValueError(f"modal {clause.modal.english!r} has no past tense in this grammar")
        return _VerbForms(forms[person], [verb.infinitive])
    if clause.tense == "future":
        return _VerbForms(WERDEN_PRESENT[person], [verb.infinitive])
    if clause.tense == "perfect":
        auxiliary = HABEN if verb.auxiliary == "haben" else BE.german
        return _VerbForms(auxiliary.present[person], [verb.participle])
    forms = verb.present if clause.tense == "present" else verb.past
    return _VerbForms(forms[person], [verb.prefix] if verb.prefix else [], verb.prefix)


def _middle(clause: Clause) -> list[str]:
    """Between the brackets: pronouns, time, dative, accusative, negation, manner, place, predicate."""
    verb = clause.verb.german
    tokens: list[str] = []
    target = clause.object
    if isinstance(target, Pronoun):
        tokens += _nominal(target, verb.case)
    if verb.reflexive:
        tokens.append(_REFLEXIVE[clause.subject.person])
    for adverb in (clause.time, clause.frequency):
        if adverb is not None:
            tokens += adverb.german.split()
    if clause.recipient is not None:
        tokens += _nominal(clause.recipient, "dat")
    fused = clause.negation == "not" and clause.negates_object and verb.preposition is None
    # nicht stands after a definite object; nie stands before an indefinite one, and nicht fuses with it to kein.
    negation = [] if clause.negation is None or fused else [_NEGATIONS[clause.negation]]
    phrase = target if isinstance(target, NounPhrase) else None
    direct = _noun_phrase(phrase, verb.case, fused) if phrase is not None and verb.preposition is None else []
    tokens += [*negation, *direct] if clause.negates_object else [*direct, *negation]
    if clause.manner is not None:
        tokens += clause.manner.german.split()
    if phrase is not None and verb.preposition is not None:
        tokens += [verb.preposition, *_noun_phrase(phrase, _OBJECT_CASES[verb.preposition])]
    if clause.adjunct is not None:
        tokens += _adjunct(clause.adjunct)
    if clause.predicate is not None:
        tokens += _predicate(clause.predicate)
    return tokens


def _after_field(clause: Clause) -> list[str]:
    """What follows the closing bracket: clauses."""
    tokens: list[str] = []
    if clause.means is not None:
        tokens += [",", *_means(clause, clause.means)]
    if clause.content is not None:
        tokens += [",", *_final_clause(clause.content, ["dass"])]
    if clause.subordinate is not None and not clause.subordinate.fronted:
        tokens += [",", *_subordinate(clause.subordinate)]
    return tokens


def _subordinate(subordinate: Subordinate) -> list[str]:
    conjunction = subordinate.conjunction
    past = subordinate.clause.tense == "past"
    return _final_clause(subordinate.clause, [conjunction.german_past if past else conjunction.german])


def _means(clause: Clause, means: Means) -> list[str]:
    """The clause with "indem" for "by making ...": its subject takes up that of the main clause."""
    tense: Tense = "present" if clause.tense == "future" else clause.tense
    if isinstance(clause.subject, Coordination):
        raise TypeError("a coordinated subject has no pronoun that 'by making ...' could take up in German")
    subject = clause.subject if isinstance(clause.subject, Pronoun) else Pronoun(clause.subject.referent)
    making = Clause(subject, MAKE, tense, object=means.object, predicate=means.predicate)
    return _final_clause(making, ["indem"])


def _personal(pronoun: Pronoun, case: Case) -> str:
    if pronoun.referent is None:
        return _FIRST[case][pronoun.plural]
    return _PERSONAL[case][_column(pronoun.referent)]


def _column(referent: Referent) -> int:
    return _COLUMNS["pl" if referent.plural else referent.german_gender]


def _adjunct(adjunct: Adjunct) -> list[str]:
    return _prepositional(adjunct.preposition.german, adjunct.preposition.german_case, adjunct.phrase)


def _prepositional(preposition: str, case: Case, phrase: NounPhrase) -> list[str]:
    tokens = _noun_phrase(phrase, case)
    contracted = _CONTRACTIONS.get((preposition, tokens[0]))
    return [contracted, *tokens[1:]] if contracted else [preposition, *tokens]


def _predicate(predicate: Predicate) -> list[str]:
    """Predicative adjectives take no ending."""
    adjective = predicate.adjective
    if not predicate.comparative:
        return [adjective.german]
    standard = [] if predicate.standard is None else ["als", *_noun_phrase(predicate.standard, "nom")]
    return [adjective.german_comparative, *standard]


def _nominal(nominal: Nominal, case: Case) -> list[str]:
    if isinstance(nominal, Gap):
        return []
    if isinstance(nominal, Pronoun):
        return [_personal(nominal, case)]
    if isinstance(nominal, Coordination):
        return [*_noun_phrase(nominal.left, case), "und", *_noun_phrase(nominal.right, case)]
    return _noun_phrase(nominal, case)


def _noun_phrase(phrase: NounPhrase, case: Case, negated: bool = False) -> list[str]:
    """Determiner, adjectives, noun, genitive, relative clause. `negated` turns ein and no article into kein."""
    referent = phrase.referent
    determiner, shows_case = _ein_word("kein", referent, case) if negated else _determiner(phrase, case)
    strong = _STRONG[case][_column(referent)]
    ending = _weak_ending(referent, case) if shows_case else strong
    adjectives = [adjective.german_stem + ending for adjective in phrase.adjectives]
    tokens = [*determiner, *adjectives, _noun(referent, case)]
    if phrase.complement is not None:
        tokens += _noun_phrase(phrase.complement, "gen")
    if phrase.relative is not None:
        tokens += [",", *_relative(referent, phrase.relative), ","]
    return tokens


def _determiner(phrase: NounPhrase, case: Case) -> tuple[list[str], bool]:
    """The determiner, and whether its ending shows the case, so that adjectives take weak endings."""
    referent, determiner = phrase.referent, phrase.determiner
    column = _column(referent)
    if isinstance(determiner, Pronoun):
        return _ein_word(_possessive_stem(determiner), referent, case)
    if determiner == "the":
        return [_ARTICLE[case][column]], True
    if determiner == "a":
        return _ein_word("ein", referent, case)
    if determiner in _STEMS:
        return [_STEMS[determiner] + _STRONG[case][column]], True
    if determiner in _QUANTIFIERS:
        # Adjectives after viele and einige take the same ending as these.
        return [_QUANTIFIERS[determiner] + _STRONG[case][column]], False
    return ([_NUMERALS[determiner]] if determiner in _NUMERALS else []), False


def _ein_word(stem: str, referent: Referent, case: Case) -> tuple[list[str], bool]:
    if not referent.plural and (case, referent.german_gender) in _UNENDED:
        return [stem], False
    return [stem + _STRONG[case][_column(referent)]], True


def _possessive_stem(pronoun: Pronoun) -> str:
    if pronoun.referent is None:
        return "unser" if pronoun.plural else "mein"
    return _POSSESSIVE_STEMS[_column(pronoun.referent)]


def _weak_ending(referent: Referent, case: Case) -> str:
    if referent.plural or case in ("gen", "dat") or (case == "acc" and referent.german_gender == "m"):
        return "en"
    return "e"


def _noun(referent: Referent, case: Case) -> str:
    noun = referent.noun
    if referent.plural:
        # The dative plural adds -n where the word allows it.
        return noun.german_plural + ("n" if case == "dat" and not noun.german_plural.endswith(("n", "s")) else "")
    if noun.german_weak:
        return noun.german if case == "nom" else noun.german_genitive
    return noun.german_genitive if case == "gen" else noun.german


def _relative(referent: Referent, clause: Clause) -> list[str]:
    case: Case = "nom" if isinstance(clause.subject, Gap) else clause.verb.german.case
    pronoun = "denen" if referent.plural and case == "dat" else _ARTICLE[case][_column(referent)]
    return _final_clause(clause, [pronoun])
