"""Moses' tokens and the published split of compounds. Every case was run through Moses' own script as well."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.scoring.moses import moses_version, split_compounds, tokenize

GERMAN = {
    'Er sagte: "Es kostet 3.500,5 Euro", nicht mehr.': "Er sagte : &quot; Es kostet 3.500,5 Euro &quot; , nicht mehr .",
    "Prof. Dr. Müller kommt am 1. Januar z. B. nach Bonn.": "Prof. Dr. Müller kommt am 1. Januar z. B. nach Bonn .",
    "Die E-Mail-Adresse (neu) fehlt...": "Die E-Mail-Adresse ( neu ) fehlt ...",
    "Andreas' Hund mag's nicht.": "Andreas &apos; Hund mag &apos; s nicht .",
    "Forschung & Lehre | [Band 2] <neu>": "Forschung &amp; Lehre &#124; &#91; Band 2 &#93; &lt; neu &gt;",
    "„Nein“, rief sie – 20% mehr!": "„ Nein “ , rief sie – 20 % mehr !",
    "Das ist\u00a0gut\u2028und\tschön.": "Das ist gut und schön .",
    "Er sagte 'ja.'": "Er sagte &apos; ja . &apos;",
    "Ja , gut .": "Ja , gut .",
    "   ": "",
}
FRENCH = {
    "L'homme d'aujourd'hui l'a dit, n'est-ce pas ?": "L&apos; homme d&apos; aujourd&apos; hui l&apos; a dit , "
    "n&apos; est-ce pas ?",
    "M. Dupont a payé 1 200,5 euros.": "M. Dupont a payé 1 200,5 euros .",
    "« Oui », dit-elle.": "« Oui » , dit-elle .",
}
ENGLISH = {
    "It's the dogs' house, isn't it?": "It &apos;s the dogs &apos; house , isn &apos;t it ?",
    "In the 1990's Mr. Smith said so.": "In the 1990 &apos;s Mr. Smith said so .",
}


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        (language, *case)
        for language, cases in (("de", GERMAN), ("fr", FRENCH), ("en", ENGLISH))
        for case in cases.items()
    ],
)
def test_a17_tokens_are_those_of_moses(language: str, line: str, tokens: str) -> None:
    assert tokenize([line], language, aggressive_hyphens=False) == [tokens]


@pytest.mark.parametrize(
    ("language", "line", "tokens"),
    [
        ("de", "Die E-Mail-Adresse fehlt.", "Die E @-@ Mail @-@ Adresse fehlt ."),
        ("fr", "Peut-être un porte-à-faux.", "Peut @-@ être un porte @-@ à @-@ faux ."),
        ("fr", "- Non - ou -1.", "- Non - ou -1 ."),
    ],
)
def test_aggressive_hyphens_are_split_everywhere_between_letters(language: str, line: str, tokens: str) -> None:
    assert tokenize([line], language, aggressive_hyphens=True) == [tokens]


def test_a_line_keeps_the_stop_of_an_abbreviation_at_its_end() -> None:
    # The one difference from Moses' script of today, which writes `Linie A .` here.
    assert tokenize(["Er fährt mit der Linie A."], "de", aggressive_hyphens=False) == ["Er fährt mit der Linie A."]


def test_a17_the_version_is_known() -> None:
    assert moses_version()[0].isdigit()


@pytest.mark.parametrize("language", ["", "xx", "de-DE", "fi", "German"])
def test_b15_a_language_without_rules_is_refused(language: str) -> None:
    """sacremoses itself takes any of these, with English abbreviations."""
    with pytest.raises(ValueError, match=f"no Moses rules for language {language!r}"):
        tokenize(["Das ist gut."], language, aggressive_hyphens=False)


COMPOUNDS = {
    "rich-text format": "rich ##AT##-##AT## text format",
    "a-b-c": "a ##AT##-##AT## b-c",
    "a-bc-d": "a ##AT##-##AT## bc ##AT##-##AT## d",
    "1-2-3-4": "1 ##AT##-##AT## 2-3 ##AT##-##AT## 4",
    "ä-ö-ü": "ä ##AT##-##AT## ö ##AT##-##AT## ü",
    "Süd-Ost-Europa und -Asien - oder Ost-": "Süd ##AT##-##AT## Ost ##AT##-##AT## Europa und -Asien - oder Ost-",
    "ein-\u00a0aus": "ein ##AT##-##AT## \u00a0aus",
    "a--b": "a ##AT##-##AT## -b",
    "": "",
}


@pytest.mark.parametrize(("line", "split"), COMPOUNDS.items())
def test_a14_compounds_are_split_as_published(line: str, split: str) -> None:
    """Of a-b-c the first hyphen alone; letters of two bytes are two to the script."""
    assert split_compounds(line) == split


@pytest.mark.skipif(shutil.which("perl") is None, reason="install perl to compare with the published command itself")
def test_a14_compounds_are_split_as_perl_does() -> None:
    lines = [*COMPOUNDS, "x-é-y z-1-w", "Überall-ß-ẞ-大-小", "- - -", "-", "a - b-c -d e-", "\u2028-\u00a0-\u3000"]
    command = ["perl", "-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g"]
    text = "".join(f"{line}\n" for line in lines).encode()
    written = subprocess.run(command, input=text, capture_output=True, check=True)
    assert [split_compounds(line) for line in lines] == written.stdout.decode().split("\n")[:-1]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_splitting_loses_nothing(line: str) -> None:
    assert split_compounds(line).replace(" ##AT##-##AT## ", "-") == line.replace(" ##AT##-##AT## ", "-")
