"""What must not be scored, and what should be known about what was.

The library scores whatever it is given: too few lines, markup, sub-word marks, text tokenised twice, the wrong
language. Here each is refused where it is certain, and told as a warning where it may be so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.scoring.language import FUNCTION_WORDS, NAMES, guess_language

# Test sets are handed out as SGML too; its tags would count as words (A8).
_MARKUP = re.compile(r"</?(?:seg|doc|refset|srcset|tstset|mteval)\b", re.IGNORECASE)
# Marks of sub-word tools where they touch a word (A12): of subword-nmt, also at the end of a line (A13), SentencePiece,
# OpenNMT, word pieces and byte pairs. Two German lines of Multi30k are a lone @@, which is no mark.
_SUBWORD_MARK = re.compile(r"[^\s@]@@(?:\s|$)|\u2581|\uffed|(?:^|\s)##(?!AT##)\w|</w>")
# What Moses' tokeniser and the compound split leave behind, and no author writes. An entity that touches a word may be
# SGML's, which public test sets keep.
_MOSES_MARK = re.compile(r"(?:^|\s)&(?:quot|apos);(?:\s|$)|&(?:bar|bra|ket|#124|#91|#93);|\s@-@\s|##AT##-##AT##")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos);")
_BROKEN = re.compile("\ufffd")
_PARTED_STOP = re.compile(r"\S \.$")
# An honest output is about as long as the reference; two kinds of tokens are not (A10).
LENGTH_RATIOS = (0.9, 1.1)


class ScoringError(ValueError):
    """Text that must not be scored; the message says which line and why."""


def check_references(references: Sequence[str], language: str) -> None:
    """Refuse references that would give a wrong number, before anything is trained for them.

    Args:
        references: plain text as its author wrote it, a line a segment.
        language: that it should be in.

    Raises:
        ScoringError: no lines; a line that is no text, or holds markup, sub-word marks or Moses tokens; another
            language.
    """
    _require_lines("reference", references)
    if not references:
        raise ScoringError("nothing to score: 0 reference lines; give a split that has some")
    _refuse(_MARKUP, "reference", references, "holds sgm markup; strip it to plain text first")
    _refuse(_MOSES_MARK, "reference", references, "is tokenised already; give the plain text")
    _refuse(_SUBWORD_MARK, "reference", references, "holds sub-word marks; give the plain text")
    read_like = guess_language(references)
    if language in FUNCTION_WORDS and read_like not in (None, language):
        raise ScoringError(
            f"the references should be {NAMES[language]} and read like {NAMES[read_like]}; give the {language} side"
        )


def check_outputs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse an output that would give a wrong number with these references.

    Raises:
        ScoringError: unequal line counts; a line that is no text, or holds markup or sub-word marks.
    """
    _require_lines("output", hypotheses)
    if len(hypotheses) != len(references):
        raise ScoringError(
            f"{len(hypotheses)} output lines against {len(references)} reference lines; they must be equal in number"
        )
    _refuse(_MARKUP, "output", hypotheses, "holds sgm markup; strip it to plain text first")
    _refuse(_SUBWORD_MARK, "output", hypotheses, "still holds sub-word marks; join the pieces before scoring")


def _require_lines(side: str, lines: Sequence[str]) -> None:
    if isinstance(lines, str):
        raise ScoringError(f"the {side}s are one text, not a list of lines; split it at line feeds")
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, str):
            raise ScoringError(f"{side} line {number} is a {type(line).__name__}, not text; one text a line is scored")


def _refuse(pattern: re.Pattern[str], side: str, lines: Sequence[str], complaint: str) -> None:
    for number, line in enumerate(lines, start=1):
        if found := pattern.search(line):
            raise ScoringError(f"{side} line {number} {complaint} (found {found.group().strip()!r})")


def find_warnings(hypotheses: Sequence[str], references: Sequence[str], language: str) -> list[str]:
    """What a reader of the scores should know of the texts, one line each; see also `length_warning`."""
    warnings = [] if any(line.strip() for line in hypotheses) else ["all outputs empty"]

    def warn(lines: Sequence[str], pattern: re.Pattern[str], what: str, share: float = 0.0) -> None:
        found = sum(pattern.search(line) is not None for line in lines)
        if found > share * len(lines):
            warnings.append(f"{found} of {len(lines)} {what}")

    for side, lines in (("outputs", hypotheses), ("references", references)):
        warn(lines, _PARTED_STOP, f"{side} have a space before the last stop, as tokenised text has", share=0.5)
        warn(lines, _ENTITY, f"{side} hold an entity such as &amp;, which Moses' rules take for three words")
    warn(hypotheses, _MOSES_MARK, "outputs hold what Moses' tokeniser writes")
    warn(hypotheses, _BROKEN, "outputs hold a character that is cut off (U+FFFD)")
    read_like = guess_language(hypotheses)
    if language in FUNCTION_WORDS and read_like not in (None, language):
        warnings.append(f"the outputs should be {NAMES[language]} and read like {NAMES[read_like]}")
    return warnings


def length_warning(ratio: float) -> list[str]:
    """A warning if output and reference differ in length by more than a tenth (A10); none otherwise."""
    low, high = LENGTH_RATIOS
    if low <= ratio <= high:
        return []
    return [f"the outputs are {ratio:.2f} times as long as the references, outside {low} to {high}"]
