"""Scores of an output, by every protocol of its direction, each with its signature and the counts behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from core.scoring.bootstrap import LEAST_SENTENCES, LEVEL, SAMPLES, SEED, Interval, resampled_scores
from core.scoring.checks import check_outputs, check_references, find_warnings, length_warning
from core.scoring.protocol import BleuProtocol, Protocol, protocols


@dataclass(frozen=True)
class TextScore:
    """A corpus score between 0 and 100 with the identity that makes it comparable.

    `details` has the counts behind it: lengths, n-gram precisions, empty lines, the reference's hash; `warnings`, a
    list that is empty where all is well; `test_set_interval`, see `core.scoring.bootstrap`; and `other_protocols`, what
    the same text scores by protocols that differ in one thing, by signature.
    """

    name: str
    value: float
    signature: str
    num_items: int
    details: dict[str, Any] = field(default_factory=dict)


def score_text(hypotheses: Sequence[str], references: Sequence[str], src: str, tgt: str) -> list[TextScore]:
    """sacreBLEU (`bleu`), the paper's BLEU where the paper has one (`bleu_paper`), and chrF (`chrf`).

    Args:
        hypotheses: detokenised output, one string a segment, in the order of `references`.
        references: plain text in language `tgt`.
        src, tgt: the direction, as in `en`, `de`; it decides on the paper's protocol.

    Raises:
        ScoringError: see `core.scoring.checks`.
    """
    check_references(references, tgt)
    check_outputs(hypotheses, references)
    common = {
        "empty_outputs": sum(not line.strip() for line in hypotheses),
        "empty_references": sum(not line.strip() for line in references),
        "reference_sha256": hash_lines(references),
    }
    warnings = find_warnings(hypotheses, references, tgt)
    return [_score(protocol, hypotheses, references, common, warnings) for protocol in protocols(src, tgt)]


def hash_lines(lines: Sequence[str]) -> str:
    """What identifies a text of lines: sha256 of the lines with line feeds between them, in hexadecimal."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _score(
    protocol: Protocol,
    hypotheses: Sequence[str],
    references: Sequence[str],
    common: dict[str, Any],
    warnings: Sequence[str],
) -> TextScore:
    result = protocol.score(hypotheses, references)
    details = {**common, "warnings": list(warnings), "test_set_interval": None}
    if len(references) >= LEAST_SENTENCES:
        resampled = resampled_scores(protocol.statistics(hypotheses, references), protocol)
        details["test_set_interval"] = {
            **asdict(Interval.of(resampled)),
            **{"level": LEVEL, "samples": SAMPLES, "seed": SEED},
            # With another run's, draw by draw, they give the interval of the difference.
            "replicates": [round(score, 4) for score in resampled.tolist()],
        }
    if isinstance(protocol, BleuProtocol):
        details["warnings"] += length_warning(result.ratio)
        details |= {
            "precisions": list(result.precisions),
            "brevity_penalty": result.bp,
            "output_length": result.sys_len,
            "reference_length": result.ref_len,
            "length_ratio": result.ratio,
            "other_protocols": {
                other.signature: float(other.score(hypotheses, references).score) for other in _neighbours(protocol)
            },
        }
    # The library's sums of logarithms may end a bit above 100.
    return TextScore(protocol.name, min(float(result.score), 100.0), protocol.signature, len(references), details)


def _neighbours(protocol: BleuProtocol) -> list[BleuProtocol]:
    """Protocols under which the same output has been published with other numbers (A1, A2, A5)."""
    if protocol.tokenizer == "13a":
        return [replace(protocol, tokenizer="intl")]
    whole = replace(protocol, split_compounds=False, aggressive_hyphens=False)
    return [whole, replace(protocol, quotes="straight")]
