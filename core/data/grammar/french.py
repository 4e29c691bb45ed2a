"""The French side: gender agreement, adjectives before and after, clitics, negation around the verb, elision."""

from __future__ import annotations

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
)
from core.data.grammar.lexicon import AVOIR, BE, GOAL, MAKE
from core.data.grammar.words import Adjective, FrenchVerb, Gender

# The corpus has no aspirated h, so every h counts as a vowel.
_VOWELS = "aeiouhàâéèêîôœ"
_ELIDING = frozenset({"le", "la", "je", "ne", "de", "que", "se", "me"})
_SUBJECTS = ("je", "il", "nous", "ils")
_REFLEXIVES = ("me", "se", "nous", "se")
_CLITICS = ("me", "le", "nous", "les")
_POSSESSIVES = {"my": ("mon", "ma", "mes"), "our": ("notre", "notre", "nos"), "their": ("leur", "leur", "leurs")}
_SINGULAR_OWNER = ("son", "sa", "ses")
_NUMERALS = {"two": "deux", "three": "trois"}
_CONTRACTIONS = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}
_NEGATIONS = {"not": "pas", "never": "jamais"}
_CONJUNCTIONS = {"and": "et", "but": "mais"}


def linearise(sentence: Sentence) -> tuple[str, ...]:
    """The French tokens of a derivation; an elided word keeps its apostrophe ("l'", "qu'")."""
    tokens = _clause(sentence.first)
    if sentence.second is not None:
        tokens += [",", _CONJUNCTIONS[str(sentence.conjunction)], *_clause(sentence.second)]
    tokens = _elide([*tokens, "."])
    return (tokens[0][0].upper() + tokens[0][1:], *tokens[1:])


def _starts_with_vowel(word: str) -> bool:
    return word[0].lower() in _VOWELS


def _elide(tokens: list[str]) -> list[str]:
    """Replace the last vowel of le, la, je, ne, de, que, se, me before a vowel, and that of si before il(s)."""
    result: list[str] = []
    for token, following in zip(tokens, [*tokens[1:], "."], strict=True):
        elides = token in _ELIDING and _starts_with_vowel(following)
        if elides or (token == "si" and following in ("il", "ils")):
            token = token[:-1] + "'"
        result.append(token)
    return result


def _clause(clause: Clause) -> list[str]:
    tokens: list[str] = []
    subordinate = clause.subordinate
    if subordinate is not None and subordinate.fronted:
        tokens += [*_subordinate(subordinate), ","]
    if isinstance(clause.front, Adjunct):
        tokens += [*_adjunct(clause.front), ","]
    elif clause.front is not None:
        tokens += [clause.front.french, ","]
    tokens += [*_subject(clause.subject), *_verb_group(clause), *_complements(clause)]
    if subordinate is not None and not subordinate.fronted:
        tokens += _subordinate(subordinate)
    return tokens


def _subordinate(subordinate: Subordinate) -> list[str]:
    return [*subordinate.conjunction.french.split(), *_clause(subordinate.clause)]


def _subject(nominal: Nominal) -> list[str]:
    if isinstance(nominal, Pronoun):
        word = _SUBJECTS[nominal.person]
        return [word.replace("il", "elle") if nominal.french_gender == "f" else word]
    return _nominal(nominal)


def _verb_group(clause: Clause) -> list[str]:
    """ne, clitics, finite verb, pas or jamais, frequency, then participle or infinitive with its clitics."""
    verb, person = clause.verb.french, clause.subject.person
    clitics = _clitics(clause)
    negated = clause.negation is not None
    inner = [_NEGATIONS[clause.negation]] if clause.negation is not None else []
    if clause.frequency is not None:
        inner.append(clause.frequency.french)
    before = ["ne"] if negated else []
    if clause.modal is not None:
        forms = clause.modal.french if clause.tense == "present" else clause.modal.french_past
        if forms is None:
            raise ValueError(f"modal {clause.modal.english!r} has no past tense in this grammar")
        return [*before, forms[person], *inner, *clitics, verb.infinitive]
    if clause.tense == "present":
        return [*before, *clitics, verb.present[person], *inner]
    if clause.tense == "future":
        return [*before, *clitics, verb.future[person], *inner]
    if clause.tense == "past" and clause.verb.stative:
        return [*before, *clitics, verb.imperfect[person], *inner]
    auxiliary = BE.french if verb.with_etre else AVOIR
    return [*before, *clitics, auxiliary.present[person], *inner, _participle(clause, verb)]


def _participle(clause: Clause, verb: FrenchVerb) -> str:
    """Agrees with the subject after être, after avoir only with an object that precedes the verb."""
    target: Nominal | None = clause.subject if verb.with_etre else None
    if isinstance(clause.object, Pronoun | Gap) and not verb.with_etre:
        target = clause.object
    return verb.participle if target is None else _agree(verb.participle, target.french_gender, target.person > 1)


def _agree(participle: str, gender: Gender, plural: bool) -> str:
    word = participle + ("e" if gender == "f" else "")
    return word + "s" if plural and not word.endswith("s") else word


def _clitics(clause: Clause) -> list[str]:
    tokens = [_REFLEXIVES[clause.subject.person]] if clause.verb.french.reflexive else []
    if isinstance(clause.object, Pronoun):
        word = _CLITICS[clause.object.person]
        tokens.append("la" if word == "le" and clause.object.french_gender == "f" else word)
    return tokens


def _complements(clause: Clause) -> list[str]:
    """Manner, object, recipient, predicate, place, time, and what follows them."""
    verb = clause.verb.french
    tokens = [] if clause.manner is None else [clause.manner.french]
    if isinstance(clause.object, NounPhrase):
        if verb.preposition is not None:
            tokens += _prepositional(verb.preposition, clause.object)
        else:
            tokens += _noun_phrase(clause.object, negated=clause.negates_object)
    if clause.recipient is not None:
        tokens += _prepositional(GOAL.french, clause.recipient)
    if clause.predicate is not None:
        target = clause.subject if clause.object is None else clause.object
        tokens += _predicate(clause.predicate, target)
    if clause.adjunct is not None:
        tokens += _adjunct(clause.adjunct)
    if clause.time is not None:
        tokens.append(clause.time.french)
    if clause.means is not None:
        tokens += _means(clause.means)
    if clause.content is not None:
        tokens += ["que", *_clause(clause.content)]
    return tokens


def _means(means: Means) -> list[str]:
    # The gérondif: en and the present participle, whose stem is that of the first person plural.
    gerund = MAKE.french.present[2].removesuffix("ons") + "ant"
    return ["en", gerund, *_noun_phrase(means.object), *_predicate(means.predicate, means.object)]


def _adjunct(adjunct: Adjunct) -> list[str]:
    return _prepositional(adjunct.preposition.french, adjunct.phrase)


def _prepositional(preposition: str, phrase: NounPhrase) -> list[str]:
    """The phrase after a preposition, which contracts with le and les; "de" swallows the article des."""
    *outer, last = preposition.split()
    tokens = _noun_phrase(phrase)
    if last == "de" and phrase.determiner == "bare":
        return [*outer, last, *tokens[1:]]
    contracted = _CONTRACTIONS.get((last, tokens[0]))
    # "le" that will elide does not contract: de l'homme.
    if contracted is None or (tokens[0] == "le" and _starts_with_vowel(tokens[1])):
        return [*outer, last, *tokens]
    return [*outer, contracted, *tokens[1:]]


def _predicate(predicate: Predicate, target: Nominal) -> list[str]:
    word = _adjective(predicate.adjective, target.french_gender, target.person > 1)
    if not predicate.comparative:
        return [word]
    standard = [] if predicate.standard is None else ["que", *_noun_phrase(predicate.standard)]
    return ["plus", word, *standard]


def _adjective(adjective: Adjective, gender: Gender, plural: bool, following: str = "") -> str:
    """The form for gender and number; before a vowel masculine singulars may differ (un vieil homme)."""
    if gender == "f":
        return adjective.french_feminine + ("s" if plural else "")
    if plural:
        return adjective.french_masculine_plural
    return adjective.french_before_vowel if following and _starts_with_vowel(following) else adjective.french_masculine


def _nominal(nominal: Nominal) -> list[str]:
    if isinstance(nominal, Coordination):
        return [*_noun_phrase(nominal.left), "et", *_noun_phrase(nominal.right)]
    return _noun_phrase(nominal) if isinstance(nominal, NounPhrase) else []


def _noun_phrase(phrase: NounPhrase, negated: bool = False) -> list[str]:
    """Determiner, adjective, noun, adjective, complement, relative clause, built from the noun outwards."""
    referent = phrase.referent
    gender, plural = referent.french_gender, referent.plural
    tokens = [referent.noun.french_plural if plural else referent.noun.french]
    for adjective in reversed(phrase.adjectives):
        if adjective.french_precedes_noun:
            tokens.insert(0, _adjective(adjective, gender, plural, tokens[0]))
        else:
            tokens.append(_adjective(adjective, gender, plural))
    tokens = [*_determiner(phrase, tokens[0], negated), *tokens]
    if phrase.complement is not None:
        tokens += _prepositional("de", phrase.complement)
    if phrase.relative is not None:
        pronoun = "qui" if isinstance(phrase.relative.subject, Gap) else "que"
        tokens += [pronoun, *_clause(phrase.relative)]
    return tokens


def _determiner(phrase: NounPhrase, following: str, negated: bool) -> list[str]:
    """The determiner for a phrase that goes on with `following`; after a negation un and des become de."""
    referent, determiner = phrase.referent, phrase.determiner
    feminine, plural = referent.french_gender == "f", referent.plural
    if negated:
        return ["de"]
    if isinstance(determiner, Pronoun):
        return [_possessive(determiner, referent, following)]
    if determiner == "the":
        return ["les" if plural else "la" if feminine else "le"]
    if determiner == "a":
        return ["une" if feminine else "un"]
    if determiner == "bare":
        # des becomes de before an adjective: de vieilles maisons.
        return ["de" if phrase.adjectives and phrase.adjectives[0].french_precedes_noun else "des"]
    if determiner == "this":
        return ["ces" if plural else "cette" if feminine else "cet" if _starts_with_vowel(following) else "ce"]
    if determiner == "many":
        return ["beaucoup", "de"]
    fixed = {"every": "chaque", "some": "quelques", **_NUMERALS}
    return [fixed[determiner]] if determiner in fixed else []


def _possessive(pronoun: Pronoun, possessed: Referent, following: str) -> str:
    if pronoun.referent is None:
        masculine, feminine, plural = _POSSESSIVES["our" if pronoun.plural else "my"]
    elif pronoun.referent.plural:
        masculine, feminine, plural = _POSSESSIVES["their"]
    else:
        masculine, feminine, plural = _SINGULAR_OWNER
    if possessed.plural:
        return plural
    # Before a vowel the masculine form serves both genders: son histoire.
    return feminine if possessed.french_gender == "f" and not _starts_with_vowel(following) else masculine
