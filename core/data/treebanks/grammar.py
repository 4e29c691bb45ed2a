"""The generated grammar's English as a treebank: trees, and beside them dependency arcs and antecedents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from core.data.corpus import Languages, State
from core.data.generated_corpus import GRAMMAR, GeneratedCorpus
from core.data.treebanks.treebank import Treebank
from core.data.trees import Tree

if TYPE_CHECKING:
    from core.data.grammar import Example


@dataclass(frozen=True)
class GrammarTreebank(Treebank):
    """The sentences of `corpus`, whose English side the grammar derives with its analysis."""

    corpus: GeneratedCorpus

    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        return self.corpus.state(cache_dir)

    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        return self.corpus.fingerprint(cache_dir, self.languages)

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        """Nothing to fetch."""

    def examples(self, split: str) -> list[Example]:
        """The sentences of a split with all that is known of them; ValueError where there is no such split."""
        self.require(split)
        return _generate(tuple(self.corpus.splits.items()), self.corpus.seed)[split]

    def _open(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        return (example.tree for example in self.examples(split))


@lru_cache(maxsize=1)  # one call makes every split
def _generate(sizes: tuple[tuple[str, int], ...], seed: int) -> Mapping[str, list[Example]]:
    from core.data.grammar import generate_splits  # here, as naming the corpus must not load the grammar

    return generate_splits(dict(sizes), seed)


GRAMMAR_TREES = GrammarTreebank(
    name=GRAMMAR.name,
    task="parsing",
    languages=("en",),
    splits=GRAMMAR.splits,
    licence=GRAMMAR.licence,
    citation=GRAMMAR.citation,
    description="English of a synchronous grammar, with its trees, dependency arcs and antecedents",
    corpus=GRAMMAR,
)
