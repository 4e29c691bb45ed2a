"""Lexical entries in three languages, and the inflection rules that spare the lexicon regular forms.

Finite forms come as tuples over the four persons that the grammar uses: first and third singular, first and third
plural. Entries compare by identity: the lexicon holds one object per word.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FiniteForms = tuple[str, str, str, str]
Gender = Literal["m", "f", "n"]
Case = Literal["nom", "acc", "gen", "dat"]
Sex = Literal["male", "female", "none", "unknown"]

_VOWELS = "aeiou"
_GENDERS: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}
_SEXES: tuple[Sex, ...] = ("male", "female", "unknown")
_FUTURE = ("ai", "a", "ons", "ont")
_IMPERFECT = ("ais", "ait", "ions", "aient")


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun. `kinds` are the one-letter classes of `lexicon.py`; `sex` decides between he, she and it."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    german_genitive: str
    german_gender: Gender
    french: str
    french_plural: str
    french_gender: Gender
    kinds: str
    sex: Sex
    proper: bool = False

    @property
    def german_weak(self) -> bool:
        """Weak masculines (der Student, den Studenten) have one ending in all cases but the nominative."""
        return self.german_gender == "m" and not self.proper and self.german_genitive.endswith("n")


@dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective. `english_comparative` is None where the lexicon allows no comparison."""

    english: str
    english_comparative: str | None
    german: str
    german_stem: str
    german_comparative: str
    french_masculine: str
    french_feminine: str
    french_masculine_plural: str
    french_before_vowel: str
    french_precedes_noun: bool
    kinds: str

    @property
    def periphrastic(self) -> bool:
        """Compared with "more"."""
        return self.english_comparative is not None and self.english_comparative.startswith("more ")


@dataclass(frozen=True, eq=False)
class EnglishVerb:
    base: str
    present: FiniteForms
    past: FiniteForms
    participle: str
    particle: str | None = None
    preposition: str | None = None


@dataclass(frozen=True, eq=False)
class GermanVerb:
    """`prefix` is the separable one ("" if none); infinitive and participle contain it, finite forms do not."""

    infinitive: str
    prefix: str
    present: FiniteForms
    past: FiniteForms
    participle: str
    auxiliary: Literal["haben", "sein"] = "haben"
    case: Case = "acc"
    preposition: str | None = None
    reflexive: bool = False


@dataclass(frozen=True, eq=False)
class FrenchVerb:
    infinitive: str
    present: FiniteForms
    imperfect: FiniteForms
    future: FiniteForms
    participle: str
    with_etre: bool = False
    preposition: str | None = None
    reflexive: bool = False


@dataclass(frozen=True, eq=False)
class Verb:
    """A verb with the kinds of its subject and object.

    A stative one takes the French imparfait for the English past. Manner needs one that is neither stative nor
    involuntary.
    """

    english: EnglishVerb
    german: GermanVerb
    french: FrenchVerb
    subject_kinds: str
    object_kinds: str
    stative: bool
    involuntary: bool = False

    @property
    def has_distinct_past(self) -> bool:
        """False for "read", whose plural past reads like its present, so that no translation could be right."""
        return self.english.past[3] != self.english.base

    @property
    def takes_pronoun(self) -> bool:
        """Whether the object is a bare noun phrase in all three languages."""
        return not (self.german.preposition or self.french.preposition)


@dataclass(frozen=True, eq=False)
class Modal:
    """A modal; `past` entries are None where the grammar has no past. `to` marks the full verb "want to"."""

    english: str
    english_past: str | None
    german: FiniteForms
    german_past: FiniteForms | None
    french: FiniteForms
    french_past: FiniteForms | None
    to: bool
    negatable: bool


@dataclass(frozen=True, eq=False)
class Adverb:
    """An adverb; a `comment` on the whole sentence stands in front and English sets it off with a comma."""

    english: str
    german: str
    french: str
    comment: bool = False


@dataclass(frozen=True, eq=False)
class Preposition:
    english: str
    german: str
    german_case: Case
    french: str
    kinds: str


@dataclass(frozen=True, eq=False)
class Conjunction:
    """A subordinating conjunction; `german_past` is used with the past tense (als beside wenn)."""

    english: str
    german: str
    german_past: str
    french: str


def english_s(word: str) -> str:
    """The word with the -s of plurals and third persons: boxes, cities, keys."""
    if word.endswith(("s", "x", "ch", "sh", "o")):
        return word + "es"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ies"
    return word + "s"


def _english_ed(word: str) -> str:
    if word.endswith("e"):
        return word + "d"
    if word.endswith("y") and word[-2] not in _VOWELS:
        return word[:-1] + "ied"
    return word + "ed"


def _words_and_marks(field: str) -> tuple[list[str], dict[str, str]]:
    """Split "wait @for (sein)" into its words and its marks, keyed "@" and "+" with a value or "(...)" without."""
    words: list[str] = []
    marks: dict[str, str] = {}
    for item in field.split():
        if item[0] in "@+":
            marks[item[0]] = item[1:]
        elif item[0] == "(":
            marks[item] = ""
        else:
            words.append(item)
    return words, marks


def parse_noun(line: str) -> Noun:
    """Read `singular[/plural] ; article Singular/Plural[/Genitive] ; gender singular[/plural] ; kinds [sex]`."""
    english, german, french, kinds = (field.strip() for field in line.split(";"))
    singular, _, plural = english.partition("/")
    article, german_forms = german.split()
    forms = german_forms.split("/")
    french_gender, french_forms = french.split()
    french_singular, _, french_plural = french_forms.partition("/")
    kind_letters, _, sex = kinds.partition(" ")
    gender = _GENDERS[article]
    default_genitive = forms[0] if gender == "f" else forms[0] + "s"
    return Noun(
        english=singular,
        english_plural=plural or english_s(singular),
        german=forms[0],
        german_plural=forms[1],
        german_genitive=forms[2] if len(forms) == 3 else default_genitive,
        german_gender=gender,
        french=french_singular,
        french_plural=french_plural or french_singular + "s",
        french_gender="f" if french_gender == "f" else "m",
        kinds=kind_letters,
        sex=next((value for value in _SEXES if value == sex), "none"),
    )


def proper_noun(name: str, sex: Sex) -> Noun:
    """A first name: the same word in all three languages."""
    gender: Gender = "f" if sex == "female" else "m"
    return Noun(name, name, name, name, name, gender, name, name, gender, "p", sex, proper=True)


def parse_adjective(line: str) -> Adjective:
    """Read `word[/comparative] ; word[/comparative[/stem]] ; [<] masculine[/feminine[/plural[/before vowel]]] ; kinds`.

    No English comparative means "more ..."; "-" means no comparison. "<" puts the French adjective before its noun.
    """
    english, german, french, kinds = (field.strip() for field in line.split(";"))
    positive, _, comparative = english.partition("/")
    german_forms = german.split("/")
    forms = french.removeprefix("<").strip().split("/")
    masculine = forms[0]
    regular_plural = masculine if masculine.endswith(("s", "x")) else masculine + "s"
    return Adjective(
        english=positive,
        english_comparative=None if comparative == "-" else comparative or f"more {positive}",
        german=german_forms[0],
        german_stem=german_forms[2] if len(german_forms) == 3 else german_forms[0],
        german_comparative=german_forms[1] if len(german_forms) > 1 else german_forms[0] + "er",
        french_masculine=masculine,
        french_feminine=forms[1] if len(forms) > 1 else masculine,
        french_masculine_plural=forms[2] if len(forms) > 2 else regular_plural,
        french_before_vowel=forms[3] if len(forms) > 3 else masculine,
        french_precedes_noun=french.startswith("<"),
        kinds=kinds,
    )


def parse_verb(line: str) -> Verb:
    """Read `English ; German ; French ; subject kinds [> object kinds] [(stative)] [(involuntary)]`."""
    english, german, french, frame = line.split(";")
    words, marks = _words_and_marks(frame)
    subject_kinds, _, object_kinds = "".join(words).partition(">")
    return Verb(
        _parse_english_verb(english),
        _parse_german_verb(german),
        _parse_french_verb(french),
        subject_kinds,
        object_kinds,
        "(stative)" in marks,
        "(involuntary)" in marks,
    )


def _parse_english_verb(field: str) -> EnglishVerb:
    """`base [past participle] [+particle] [@preposition]`; one past form serves as participle too."""
    words, marks = _words_and_marks(field)
    base = words[0]
    past = words[1] if len(words) > 1 else _english_ed(base)
    third = "has" if base == "have" else english_s(base)
    return EnglishVerb(
        base,
        (base, third, base, base),
        (past,) * 4,
        words[-1] if len(words) > 1 else past,
        marks.get("+"),
        marks.get("@"),
    )


def _parse_german_verb(field: str) -> GermanVerb:
    """`[prefix|]infinitive [3sg past participle] [(sein)] [(dat)] [(sich)] [@preposition]`."""
    words, marks = _words_and_marks(field)
    prefix, _, bare = words[0].rpartition("|")
    stem = bare[:-1] if bare.endswith("ern") else bare[:-2]
    linked = stem + "e" if stem.endswith(("t", "d")) else stem
    third, past, participle = words[1:] if len(words) > 1 else (linked + "t", linked + "te", f"ge{linked}t")
    # Preterite-presents (weiß) have no -t, and one form for both singular persons.
    first = stem + "e" if third.endswith("t") else third
    past_plural = past + ("n" if past.endswith("e") else "en")
    return GermanVerb(
        infinitive=prefix + bare,
        prefix=prefix,
        present=(first, third, bare, bare),
        past=(past, past, past_plural, past_plural),
        participle=prefix + participle,
        auxiliary="sein" if "(sein)" in marks else "haben",
        case="dat" if "(dat)" in marks else "acc",
        preposition=marks.get("@"),
        reflexive="(sich)" in marks,
    )


def _parse_french_verb(field: str) -> FrenchVerb:
    """`infinitive [je il nous ils participle future-stem] [(être)] [(se)] [@preposition]`; -er verbs need no forms."""
    words, marks = _words_and_marks(field)
    infinitive = words[0]
    if len(words) == 1:
        stem = infinitive[:-2]
        words += [stem + "e", stem + "e", stem + "ons", stem + "ent", stem + "é", infinitive]
    first, third, first_plural, third_plural, participle, future = words[1:]
    past_stem = first_plural[:-3]
    return FrenchVerb(
        infinitive=infinitive,
        present=(first, third, first_plural, third_plural),
        imperfect=finite_forms(past_stem, _IMPERFECT),
        future=finite_forms(future, _FUTURE),
        participle=participle,
        with_etre="(être)" in marks or "(se)" in marks,
        preposition=marks.get("@"),
        reflexive="(se)" in marks,
    )


def finite_forms(stem: str, endings: FiniteForms) -> FiniteForms:
    """The stem with each of four endings."""
    first, third, first_plural, third_plural = (stem + ending for ending in endings)
    return first, third, first_plural, third_plural
