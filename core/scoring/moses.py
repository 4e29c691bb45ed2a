"""The tokens of the paper's time: Moses' rules, through sacremoses, and the split of compounds after them.

sacremoses is a port, and a port may differ by tenths of a point (pitfall A17). Version 0.2.0 gave the tokens of
Moses' own script on 45,000 German, French and English captions, with one exception: a script of later years parts the
stop from a line's last word whatever that word is ("Linie A." ends in "A ." there and in "A." here).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sacremoses import MosesTokenizer

# sacremoses takes any language and uses English abbreviations for one that it does not know; of some that it knows
# (Finnish, Swedish, Catalan) it leaves rules out. These three are complete.
MOSES_LANGUAGES = ("de", "en", "fr")

# On bytes, as Perl sees text unless told otherwise: what stands before and after the hyphen is a byte that is no
# ASCII space. A match takes both, so that of a-b-c the second hyphen has nothing left before it (pitfall A14).
_COMPOUND = re.compile(rb"(\S)-(\S)")


@cache
def _tokenizer(language: str) -> MosesTokenizer:
    from sacremoses import MosesTokenizer

    return MosesTokenizer(language)


def moses_version() -> str:
    """The tokeniser's release, which is part of what a score means."""
    return version("sacremoses")


def tokenize(lines: Sequence[str], language: str, aggressive_hyphens: bool) -> list[str]:
    """Tokens of each line, with spaces between them, and with & | < > ' " [ ] written as Moses escapes them.

    Args:
        language: one of `MOSES_LANGUAGES`; it decides on abbreviations and apostrophes.
        aggressive_hyphens: the script's flag -a: `rich-text` becomes `rich @-@ text`.

    Raises:
        ValueError: a language whose rules are not complete here.
    """
    if language not in MOSES_LANGUAGES:
        raise ValueError(
            f"no Moses rules for language {language!r}; there are rules for {', '.join(MOSES_LANGUAGES)}, and the "
            f"sacreBLEU protocol takes any language"
        )
    return [_tokenize_line(line, language, aggressive_hyphens) for line in lines]


@lru_cache(maxsize=2**16)  # as many as sacreBLEU keeps of its own: one text is scored several times
def _tokenize_line(line: str, language: str, aggressive_hyphens: bool) -> str:
    moses = _tokenizer(language)
    return moses.tokenize(line, aggressive_dash_splits=aggressive_hyphens, return_str=True, escape=True)


def split_compounds(line: str) -> str:
    """`rich-text format` as `rich ##AT##-##AT## text format`, exactly as the published scripts do it.

    Of `a-b-c` only the first hyphen is split, and of `a-bc-d` both; so are both of `ä-ö-ü`, whose letters have two
    bytes each.
    """
    return _COMPOUND.sub(rb"\1 ##AT##-##AT## \2", line.encode()).decode()
