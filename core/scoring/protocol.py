"""What a score means: how text becomes tokens, what is counted, and how the counts become a number.

One model has scored 27.5, 28.3, 28.9 and 29.0 BLEU on one test set, by four protocols (pitfall A2). So a protocol is a
value that is stored with each score, as its signature, and scores of different signatures are never compared.

Counting is sacreBLEU's, and so is the score of a text; what the bootstrap computes from the counts, thousands of times,
is in `core.scoring.arithmetic`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from core.scoring import moses
from core.scoring.arithmetic import CHRF_BETA, CHRF_ORDER, Smoothing, bleu, chrf

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric, Score

# The rule `straight`: German, English and French quotation marks, high and low, and the apostrophe, as typed.
_STRAIGHT_QUOTES = str.maketrans(dict.fromkeys("„“”‟«»", '"') | dict.fromkeys("‚‘’‛‹›", "'"))


class Protocol(ABC):
    """How a text is scored against one reference a line, between 0 and 100."""

    name: str

    @abstractmethod
    def metric(self) -> Metric:
        """sacreBLEU's metric for lines that went through `prepare`."""

    def prepare(self, lines: Sequence[str]) -> list[str]:
        """The lines as the metric takes them; both sides go the same way."""
        return list(lines)

    @property
    def signature(self) -> str:
        """All that decides the number for a given text, versions included."""
        return _library_signature(self)

    def score(self, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
        """sacreBLEU's score object of the whole text."""
        # One list of references, holding one line for each output: nested the other way it would score 100 (A31).
        return self.metric().corpus_score(self.prepare(hypotheses), [self.prepare(references)])

    def statistics(self, hypotheses: Sequence[str], references: Sequence[str]) -> NDArray[np.float64]:
        """(sentences, counts): what each sentence adds to the counts that the score is computed from."""
        # The library shows these to its own significance tests only; the public way gives one number for all.
        counts = self.metric()._extract_corpus_statistics(self.prepare(hypotheses), [self.prepare(references)])
        return np.array(counts, dtype=np.float64)

    @abstractmethod
    def from_statistics(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        """(...): scores from summed counts (..., counts)."""

    @abstractmethod
    def sentence_scores(self, statistics: NDArray[np.float64]) -> NDArray[np.float64]:
        """(sentences,): each sentence's own score, to find examples by; their mean is no corpus score."""


@dataclass(frozen=True)
class BleuProtocol(Protocol):
    """Corpus BLEU to order 4, cased, one reference.

    Attributes:
        name: of the score, after the split's name: `bleu`, `bleu_paper`.
        tokenizer: `13a` and `intl` are sacreBLEU's, for text as people write it; `moses` see `core.scoring.moses`.
        smoothing: `exp` halves the first order without a match to half a match, the next to a quarter; `none` lets one
            such order make the whole score 0, as multi-bleu does.
        language: of the output; Moses' rules depend on it.
        aggressive_hyphens: Moses' flag -a.
        split_compounds: see `moses.split_compounds`.
        quotes: `kept`, or `straight`: typographic quotation marks of both sides as typed ones.
    """

    name: str
    tokenizer: Literal["13a", "intl", "moses"]
    smoothing: Smoothing
    language: str | None = None
    aggressive_hyphens: bool = False
    split_compounds: bool = False
    quotes: Literal["kept", "straight"] = "kept"

    def __post_init__(self) -> None:
        if self.tokenizer == "moses":
            if self.language is None:
                raise ValueError("Moses' rules need the language of the text; name it")
            if self.language not in moses.MOSES_LANGUAGES:
                known = ", ".join(moses.MOSES_LANGUAGES)
                raise ValueError(f"no Moses rules for language {self.language!r}; there are rules for {known}")
        elif self.language is not None or self.aggressive_hyphens or self.split_compounds:
            raise ValueError(f"tokenizer {self.tokenizer} has no language, hyphen flag or compound split; moses has")

    def metric(self) -> Metric:
        from sacrebleu.metrics import BLEU

        # force=True silences a warning about tokenised text, which `core.scoring.checks` gives for the reference.
        tokenize = "none" if self.tokenizer == "moses" else self.tokenizer
        return BLEU(tokenize=tokenize, smooth_method=self.smoothing, force=True)

    def prepare(self, lines: Sequence[str]) -> list[str]:
        lines = list(lines) if self.quotes == "kept" else [line.translate(_STRAIGHT_QUOTES) for line in lines]
        if self.language is not None:
            lines = moses.tokenize(lines, self.language, self.aggressive_hyphens)
        return [moses.split_compounds(line) for line in lines] if self.split_compounds else lines

    @property
    def signature(self) -> str:
        """sacreBLEU's own where the protocol is sacreBLEU's; the same form with all that is added for Moses tokens."""
        library = _library_signature(self)
        quotes = "kept" if self.quotes == "kept" else "straight-on-both-sides"
        if self.tokenizer != "moses":
            return library if self.quotes == "kept" else f"{library}|quotes:{quotes}"
        parts = (
            f"tok:moses-{self.language}",
            f"hyphens:{'aggressive' if self.aggressive_hyphens else 'plain'}",
            "escape:yes",
            f"compounds:{'##AT##-##AT##' if self.split_compounds else 'whole'}",
            f"quotes:{quotes}",
        )
        return library.replace("tok:none", "|".join(parts)) + f"|sacremoses:{moses.moses_version()}"

    def from_statistics(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        return bleu(totals, self.smoothing)

    def sentence_scores(self, statistics: NDArray[np.float64]) -> NDArray[np.float64]:
        return bleu(statistics, "exp", effective_order=True)


@dataclass(frozen=True)
class ChrfProtocol(Protocol):
    """chrF2: character n-grams to order 6, recall weighing twice; sacreBLEU's default."""

    name: str = "chrf"

    def metric(self) -> Metric:
        from sacrebleu.metrics import CHRF

        return CHRF(char_order=CHRF_ORDER, beta=CHRF_BETA)

    def from_statistics(self, totals: NDArray[np.float64]) -> NDArray[np.float64]:
        return chrf(totals)

    def sentence_scores(self, statistics: NDArray[np.float64]) -> NDArray[np.float64]:
        return chrf(statistics)


@cache
def _library_signature(protocol: Protocol) -> str:
    metric = protocol.metric()
    metric.corpus_score(["x"], [["x"]])  # only now it knows how many references a line has
    return str(metric.get_signature())


SACREBLEU_13A = BleuProtocol("bleu", "13a", "exp")
"""What sacreBLEU does unless told otherwise."""

PAPER_ENDE = BleuProtocol("bleu_paper", "moses", "none", language="de", split_compounds=True)
"""Tables 2 and 3, English-German, as one of the authors told it: Moses tokens, hyphenated words split, multi-bleu.
Quotation marks are kept: the paper does not say that its reference had straight ones, though others found so (A5)."""

PAPER_ENFR = BleuProtocol("bleu_paper", "moses", "none", language="fr", aggressive_hyphens=True)
"""Table 2, English-French. The paper says nothing on tokens; French text was prepared with Moses' flag -a, which splits
every hyphen, so nothing is split a second time (A15)."""

CHRF = ChrfProtocol()


_OF_PAPER = {("en", "de"): PAPER_ENDE, ("en", "fr"): PAPER_ENFR}


def protocols(src: str, tgt: str) -> tuple[Protocol, ...]:
    """All that an output in this direction is scored by: sacreBLEU, the paper's way where it has one, chrF."""
    of_paper = _OF_PAPER.get((src, tgt))
    return (SACREBLEU_13A, CHRF) if of_paper is None else (SACREBLEU_13A, of_paper, CHRF)


def get_protocol(name: str, src: str, tgt: str) -> Protocol:
    """The protocol of that name in this direction.

    Raises:
        ValueError: there is none; the paper scores English-German and English-French alone.
    """
    known = {protocol.name: protocol for protocol in protocols(src, tgt)}
    if name not in known:
        raise ValueError(f"no score {name!r} for {src}-{tgt}; there are {', '.join(known)}")
    return known[name]
