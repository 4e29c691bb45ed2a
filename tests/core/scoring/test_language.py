from __future__ import annotations

import gzip
import itertools
import os
from pathlib import Path

import pytest

from core.data.corpora import GRAMMAR
from core.scoring.language import FUNCTION_WORDS, guess_language

MULTI30K = Path(os.environ.get("AIAYN_DATA", "absent")) / "multi30k"


def test_no_function_word_is_in_two_languages() -> None:
    for one, other in itertools.combinations(FUNCTION_WORDS.values(), 2):
        assert not one & other


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_generated_text_reads_like_its_language(language: str, tmp_path: Path) -> None:
    other = "de" if language == "en" else "en"
    assert guess_language(GRAMMAR.load_pair("dev", language, other, tmp_path)[0]) == language


@pytest.mark.skipif(not MULTI30K.is_dir(), reason="set AIAYN_DATA to a folder with multi30k")
@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_real_text_reads_like_its_language_from_25_lines_on(language: str) -> None:
    lines = gzip.decompress((MULTI30K / f"val.{language}.gz").read_bytes()).decode().split("\n")
    guesses = [guess_language(lines[start : start + 25]) for start in range(0, 1_000, 25)]
    assert guesses == [language] * 40


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["", "   "],
        ["The end of the game."],  # too little to tell
        ["Wort " * 500],
        ["das der die und ist " * 5, "the and of is with " * 5],
        ["1 2 3 ... der " * 4],
    ],
)
def test_what_cannot_be_told_is_not_guessed(lines: list[str]) -> None:
    assert guess_language(lines) is None
