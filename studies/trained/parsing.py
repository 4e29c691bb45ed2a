"""Parsing text with a finished run: lines in, trees out, in their order, as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.config import DecodeConfig
from core.data.corpora import tree_format
from core.data.tree_sequences import Repairs
from core.data.treebanks.tree_pairs import source_line
from core.data.trees import unescape
from core.scoring.parses import read_parse
from studies.trained.loading import TrainedRun
from studies.trained.translation import LineTranslator


@dataclass(frozen=True)
class ParsedLine:
    """One line and the tree over its words in labelled brackets, empty for an empty line.

    `repairs` says what it took to make a tree of the model's output, "none" where it was one. `score` is the output's
    log-probability over its length penalty, `finished` False where the limit on its length came before its end.
    """

    line: int
    source: str
    tree: str
    repairs: str
    score: float | None
    finished: bool


class LineParser:
    """A finished run that parses lines.

    Args:
        tokenised: whether blanks separate the words of the lines already; otherwise they are cut as in the Penn
            Treebank.
    Raises:
        ValueError: the run translates, or the settings leave the model no room for any sentence.
    """

    def __init__(self, run: TrainedRun, decode: DecodeConfig, tokenised: bool = False) -> None:
        if run.config.data.task != "parsing":
            raise ValueError(
                f"{run.record.study}/{run.record.trial} writes {run.config.data.tgt} and no trees; "
                f"use aiayn translate {run.record.run}, or name a run of table4"
            )
        self._form = tree_format(run.config.data)
        self._words = _split_at_blanks if tokenised else _split_as_treebank
        self._translator = LineTranslator(run, decode, lambda line: source_line(self._words(line)))

    def check(self, file: Path) -> int:
        """Read a whole file and refuse now what `parse` would refuse later; its number of lines.

        Raises:
            DataError: a line that cannot be parsed.
        """
        return self._translator.check(file)

    def parse(self, chunks: Iterable[Sequence[str]]) -> Iterator[list[ParsedLine]]:
        """All lines in their order, each as soon as it and those before it are parsed.

        Raises:
            DataError: after the lines before it: a line has too many word pieces.
        """
        for translated in self._translator.translate(chunks):
            ready = []
            for one in translated:
                words = self._words(one.source)
                tree, repairs = "", Repairs()
                if words:
                    tree, repairs = read_parse(one.output, words, self._form).repaired
                ready.append(ParsedLine(one.line, one.source, str(tree), str(repairs), one.score, one.finished))
            yield ready


def _split_at_blanks(line: str) -> list[str]:
    return [unescape(word) for word in line.split()]


def _split_as_treebank(line: str) -> list[str]:
    """The words of plain text by the treebank's rules; text that is split already stays as it is."""
    from nltk.tokenize import NLTKWordTokenizer

    return [unescape(word) for word in NLTKWordTokenizer().tokenize(line)]
