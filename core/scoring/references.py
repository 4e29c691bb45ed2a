"""What a split's output is scored against, by task: the one place where translation and parsing part ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.data.tree_sequences import TreeFormat
from core.data.trees import Tree
from core.scoring.bleu import TextScore, score_text
from core.scoring.checks import check_references
from core.scoring.parses import read_parse, score_parses

READABLE_KINDS = ("trees", "gold")


class Reference(Protocol):
    """The truth about a split, in its order."""

    def score(self, output: Sequence[str]) -> list[TextScore]:
        """All scores of an output of a line a sentence."""

    def readable(self, output: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """What is kept beside the output, a line a sentence, by one of READABLE_KINDS."""


@dataclass(frozen=True)
class TextReference:
    """Translations.

    Raises:
        ScoringError: lines that would give a wrong number (`core.scoring.checks`).
    """

    lines: Sequence[str]
    src: str
    tgt: str

    def __post_init__(self) -> None:
        check_references(self.lines, self.tgt)

    def score(self, output: Sequence[str]) -> list[TextScore]:
        return score_text(output, self.lines, self.src, self.tgt)

    def readable(self, output: Sequence[str]) -> Mapping[str, Sequence[str]]:
        return {}


@dataclass(frozen=True)
class TreeReference:
    """Gold trees; `form` is that of the sequences that are scored against them."""

    trees: Sequence[Tree]
    form: TreeFormat

    def score(self, output: Sequence[str]) -> list[TextScore]:
        return score_parses(output, self.trees, self.form)

    def readable(self, output: Sequence[str]) -> Mapping[str, Sequence[str]]:
        """Bracketed trees as made of the output, with the gold tags where it tells none, and the gold ones."""
        made = []
        for line, tree in zip(output, self.trees, strict=True):
            tags, words = zip(*tree.tagged(), strict=True)
            made.append(str(read_parse(line, words, self.form, None if self.form.keep_tags else tags).tree))
        return {"trees": made, "gold": [str(tree) for tree in self.trees]}
