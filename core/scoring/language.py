"""Which of the paper's languages a text reads like, by the words that hold sentences together."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Frequent words that mean nothing in the other two languages (`des`, `du`, `in`, `on`, `was` would).
_FREQUENT = {
    "en": "the and of is are with that this it for has by from his her which their not there they",
    "de": "der die das und ist ein eine einen einem mit auf von zu den dem nicht sich im wird für",
    "fr": "le la les et est une un dans que qui pour sur avec il elle pas au aux ne ce",
}
FUNCTION_WORDS = {language: frozenset(words.split()) for language, words in _FREQUENT.items()}
NAMES = {"en": "English", "de": "German", "fr": "French"}

_WORD = re.compile(r"[^\W\d_]+")
# A sentence or two prove nothing, and a foreign name has an article of its own.
_LEAST_WORDS = 20
_LEAST_LEAD = 3


def guess_language(lines: Iterable[str]) -> str | None:
    """`en`, `de` or `fr`, if the text has many of its function words and few of any other's; else None."""
    counts = dict.fromkeys(FUNCTION_WORDS, 0)
    for line in lines:
        for word in _WORD.findall(line.lower()):
            for language, words in FUNCTION_WORDS.items():
                counts[language] += word in words
    second, first = sorted(counts.values())[-2:]
    if first < _LEAST_WORDS or first < _LEAST_LEAD * second:
        return None
    return max(counts, key=counts.__getitem__)
