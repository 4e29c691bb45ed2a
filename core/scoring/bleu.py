"""sacreBLEU and chrF of detokenised text, with their signatures, and refusals of what would give a wrong number.

The library scores whatever it is given: too few lines, markup, sub-word marks. Here each of these is refused first.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_SGM_MARKUP = re.compile(r"</?(?:seg|doc|refset|srcset|tstset)\b", re.IGNORECASE)
# Marks of sub-word tools, wherever they touch a word: subword-nmt's and SentencePiece's.
_SUBWORD_MARK = re.compile(r"@@(?:\s|$)|\u2581")


class ScoringError(Exception):
    """Text that must not be scored; the message says which line and why."""


@dataclass(frozen=True)
class TextScore:
    """A corpus score between 0 and 100 with the identity that makes it comparable.

    `details` has the counts behind it: lengths, n-gram precisions, empty lines, the reference's hash.
    """

    name: str
    value: float
    signature: str
    num_items: int
    details: dict[str, Any] = field(default_factory=dict)


def check_scorable(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse what the library would score without a word.

    Raises:
        ScoringError: no lines, unequal line counts, sgm markup in a reference, sub-word marks in an output.
    """
    if len(hypotheses) != len(references):
        raise ScoringError(
            f"{len(hypotheses)} output lines against {len(references)} reference lines; they must be equal in number"
        )
    if not references:
        raise ScoringError("nothing to score: 0 lines; decode the test split first")
    for number, line in enumerate(references, start=1):
        if _SGM_MARKUP.search(line):
            raise ScoringError(f"reference line {number} holds sgm markup; strip it to plain text first")
    for number, line in enumerate(hypotheses, start=1):
        if _SUBWORD_MARK.search(line):
            raise ScoringError(f"output line {number} still holds sub-word marks; join the pieces before scoring")


def score_text(hypotheses: Sequence[str], references: Sequence[str]) -> list[TextScore]:
    """Corpus BLEU (13a tokens, cased, exponential smoothing: sacreBLEU's default) and chrF2, one reference a line.

    Args:
        hypotheses: detokenised output, one string a segment, in the order of `references`.
        references: detokenised reference text.

    Raises:
        ScoringError: see `check_scorable`.
    """
    from sacrebleu.metrics import BLEU, CHRF

    check_scorable(hypotheses, references)
    counts = {
        "empty_outputs": sum(not line.strip() for line in hypotheses),
        "empty_references": sum(not line.strip() for line in references),
        "reference_sha256": hashlib.sha256("\n".join(references).encode()).hexdigest(),
    }
    if counts["empty_outputs"] == len(hypotheses):
        counts["warning"] = "all outputs empty"
    scores = []
    for name, metric in (("bleu", BLEU()), ("chrf", CHRF())):
        # One list of references, holding one line for each output: nested the other way it would score 100.
        result = metric.corpus_score(list(hypotheses), [list(references)])
        details = dict(counts)
        if name == "bleu":
            details |= {
                "precisions": list(result.precisions),
                "brevity_penalty": result.bp,
                "output_length": result.sys_len,
                "reference_length": result.ref_len,
                "length_ratio": result.ratio,
            }
        scores.append(TextScore(name, float(result.score), str(metric.get_signature()), len(hypotheses), details))
    return scores
