"""Every lexical entry as an object: the parsed tables of `vocabulary.py` and the small irregular classes."""

from __future__ import annotations

from core.data.grammar import vocabulary
from core.data.grammar.words import (
    Adverb,
    Conjunction,
    EnglishVerb,
    FrenchVerb,
    GermanVerb,
    Modal,
    Preposition,
    Sex,
    Verb,
    finite_forms,
    parse_adjective,
    parse_noun,
    parse_verb,
    proper_noun,
)


def _lines(table: str) -> list[str]:
    return table.strip().replace("\n ", " ").split("\n")


def _parse_verbs(table: str) -> tuple[Verb, ...]:
    return tuple(parse_verb(line) for line in _lines(table))


def _parse_names(table: str) -> tuple[tuple[str, Sex], ...]:
    pairs = (entry.split() for entry in table.split(", "))
    return tuple((name, "female" if gender == "f" else "male") for name, gender in pairs)


def _parse_adverbs(group: str, table: str) -> tuple[Adverb, ...]:
    entries = (entry.split() for entry in table.split(", "))
    comment = group == "comment"
    return tuple(Adverb(english, german.replace("_", " "), french, comment) for english, german, french in entries)


NOUNS = tuple(parse_noun(line) for line in _lines(vocabulary.NOUNS))
NAMES = tuple(proper_noun(name, sex) for name, sex in _parse_names(vocabulary.NAMES))
ADJECTIVES = tuple(parse_adjective(line) for line in _lines(vocabulary.ADJECTIVES))
TRANSITIVE = _parse_verbs(vocabulary.TRANSITIVE)
INTRANSITIVE = _parse_verbs(vocabulary.INTRANSITIVE)
MOTION = _parse_verbs(vocabulary.MOTION)
DITRANSITIVE = _parse_verbs(vocabulary.DITRANSITIVE)
REPORTING = _parse_verbs(vocabulary.REPORTING)
MAKE = parse_verb(vocabulary.CAUSATIVE)
MAKING = "making"
ADVERBS = {group: _parse_adverbs(group, table) for group, table in vocabulary.ADVERBS.items()}

BE = Verb(
    EnglishVerb("be", ("am", "is", "are", "are"), ("was", "was", "were", "were"), "been"),
    GermanVerb(
        "sein", "", ("bin", "ist", "sind", "sind"), ("war", "war", "waren", "waren"), "gewesen", auxiliary="sein"
    ),
    FrenchVerb(
        "être",
        ("suis", "est", "sommes", "sont"),
        finite_forms("ét", ("ais", "ait", "ions", "aient")),
        finite_forms("ser", ("ai", "a", "ons", "ont")),
        "été",
    ),
    subject_kinds="pagltiewfdobcv",
    object_kinds="",
    stative=True,
)
HABEN = parse_verb("have had ; haben hat hatte gehabt ; avoir ai a avons ont eu aur ; p").german
WERDEN_PRESENT = ("werde", "wird", "werden", "werden")
AVOIR = parse_verb("have had ; haben ; avoir ai a avons ont eu aur ; p").french

SHOULD = Modal(
    "should",
    None,
    ("sollte", "sollte", "sollten", "sollten"),
    None,
    ("devrais", "devrait", "devrions", "devraient"),
    None,
    to=False,
    negatable=True,
)
MODALS = (
    Modal(
        "can", "could",
        ("kann", "kann", "können", "können"), ("konnte", "konnte", "konnten", "konnten"),
        ("peux", "peut", "pouvons", "peuvent"), ("pouvais", "pouvait", "pouvions", "pouvaient"),
        to=False, negatable=False,
    ),
    Modal(
        "must", None,
        ("muss", "muss", "müssen", "müssen"), None,
        ("dois", "doit", "devons", "doivent"), None,
        to=False, negatable=False,
    ),
    Modal(
        "want", "wanted",
        ("will", "will", "wollen", "wollen"), ("wollte", "wollte", "wollten", "wollten"),
        ("veux", "veut", "voulons", "veulent"), ("voulais", "voulait", "voulions", "voulaient"),
        to=True, negatable=True,
    ),
    SHOULD,
)  # fmt: skip

PLACES = (
    Preposition("in", "in", "dat", "dans", "l"),
    Preposition("near", "bei", "dat", "près de", "l"),
    Preposition("behind", "hinter", "dat", "derrière", "l"),
)
COMPANIONS = (
    Preposition("with", "mit", "dat", "avec", "p"),
    Preposition("for", "für", "acc", "pour", "pg"),
    Preposition("without", "ohne", "acc", "sans", "p"),
)
TIMES = (
    Preposition("after", "nach", "dat", "après", "e"),
    Preposition("before", "vor", "dat", "avant", "e"),
    Preposition("during", "während", "gen", "pendant", "e"),
)
GOAL = Preposition("to", "zu", "dat", "à", "l")
BECAUSE = Conjunction("because", "weil", "weil", "parce que")
WHEN = Conjunction("when", "wenn", "als", "quand")
WHILE = Conjunction("while", "während", "während", "pendant que")
IF = Conjunction("if", "wenn", "wenn", "si")
