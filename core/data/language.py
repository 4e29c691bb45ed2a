"""Which language a line is in, as far as an aligned corpus can tell by itself, and by the commonest words of a few."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# Words without content, which no text of the language does without; those of one list may be in another too.
FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "cs": "a je v na se že to s z do o pro ale jako jsou byl podle od by ve",
        "de": "der die das und ist in den von zu mit dem ein eine nicht auf für sich auch im des einen er sie es",
        "en": "the of and to in a is that for on was with as are it be this by at from have an he she they not",
        "es": "el la de que y en los se del las un por con una para es no su al lo como más",
        "fr": "le la les de des et en un une est du que dans pour qui au sur par il elle pas ne ce aux",
        "it": "il la di che e in un per è una del con non della sono gli le da si al dei nel",
        "nl": "de het een van en in is dat op te zijn met voor niet die aan er om ook als",
        "pl": "w i na z się do nie że to jest o jak od po za dla przez oraz jako ale",
        "pt": "o a de que e do da em um para com não uma os no se na por mais as dos",
        "ro": "și de a în la cu pe nu că o din un este pentru care mai ce sau fi al",
        "ru": "и в не на что с по как это он из за от для но его то они был все",
        "sv": "och i att det som en på är av för med den till inte om ett har de var sig",
    }.items()
}
_LEAST_WORDS = 200
_OTHER_TIMES = 1.5
# A line is judged by this many trigrams at least, and only where they speak clearly (nats a trigram).
_LEAST_TRIGRAMS = 20
_CLEAR = 0.25


def function_word_shares(lines: Iterable[str]) -> dict[str, float]:
    """By language, which share of the words are function words of it; empty where there are too few words to tell."""
    words = Counter(word for line in lines for word in line.lower().split())
    total = words.total()
    if total < _LEAST_WORDS:
        return {}
    return {language: sum(words[word] for word in listed) / total for language, listed in FUNCTION_WORDS.items()}


def other_language(declared: str, lines: Iterable[str]) -> str | None:
    """The language that a text reads like, where it is clearly not the declared one; None where nothing tells."""
    code = declared.partition("-")[0].lower()
    if code not in FUNCTION_WORDS:
        return None
    shares = function_word_shares(lines)
    if not shares:
        return None
    likeliest = max(shares, key=shares.__getitem__)
    return likeliest if shares[likeliest] > _OTHER_TIMES * shares[code] and likeliest != code else None


@dataclass(frozen=True)
class TwoSides:
    """What tells the two sides of a corpus apart: by character trigram, the log of how much likelier it is on the
    source side. Learned from the corpus itself, so that it works for any two languages that do not look alike.
    """

    weights: Mapping[str, float]

    @classmethod
    def learn(cls, src_lines: Iterable[str], tgt_lines: Iterable[str]) -> TwoSides:
        """Count trigrams of both sides; lines on the wrong side do no harm while they are few."""
        src, tgt = _count_trigrams(src_lines), _count_trigrams(tgt_lines)
        known = src.keys() | tgt.keys()
        src_total, tgt_total = src.total() + len(known), tgt.total() + len(known)
        return cls(
            {
                trigram: math.log((src[trigram] + 1) / src_total) - math.log((tgt[trigram] + 1) / tgt_total)
                for trigram in known
            }
        )

    def leaning(self, line: str) -> float:
        """How clearly a line is of the source side, above 0, or of the target side, below; 0 where it is not clear."""
        trigrams = _trigrams(line)
        if len(trigrams) < _LEAST_TRIGRAMS:
            return 0.0
        mean = sum(self.weights.get(trigram, 0.0) for trigram in trigrams) / len(trigrams)
        return mean if abs(mean) > _CLEAR else 0.0


def _count_trigrams(lines: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(_trigrams(line))
    return counts


def _trigrams(line: str) -> list[str]:
    padded = f" {line.lower()} "
    return [padded[i : i + 3] for i in range(len(padded) - 2)]
