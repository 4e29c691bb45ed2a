"""A treebank as aligned lines: the words of a sentence, and the symbols of its tree. So parsing is a translation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from core.config import TREES
from core.data.corpus import TRAIN_SPLIT, DataError, Languages, PairCorpus, State
from core.data.tree_sequences import TreeFormat, linearise
from core.data.treebanks.recombine import recombine
from core.data.treebanks.treebank import Treebank
from core.data.trees import Tree, escape


def source_line(words: Iterable[str]) -> str:
    """The words of a sentence as a parser reads them: separated by blanks, brackets escaped as in a treebank's file, so
    that no word looks like a symbol of a tree.
    """
    return " ".join(map(escape, words))


@dataclass(frozen=True)
class TreePairs(PairCorpus):
    """The languages are those of the treebank, and `trees`, the target.

    Attributes:
        treebank: whose splits these are.
        form: what the symbols tell.
        train_share: the first share of the training trees is trained on.
        recombined: so many times as many trees made of their parts come after those (`core.data.treebanks.recombine`).
        more: a treebank whose training trees are trained on too, after those.
        silver: trees that are trained on too, at the end (`studies.trials.self_training`).
    """

    treebank: Treebank
    form: TreeFormat
    train_share: float = 1.0
    recombined: int = 0
    more: Treebank | None = None
    silver: Sequence[Tree] = ()

    @classmethod
    def of(
        cls,
        treebank: Treebank,
        form: TreeFormat,
        train_share: float = 1.0,
        recombined: int = 0,
        more: Treebank | None = None,
        silver: Sequence[Tree] = (),
    ) -> Self:
        """The pairs of a treebank, with its name, splits and terms."""
        return cls(
            name=treebank.name,
            task="parsing",
            languages=(*treebank.languages, TREES),
            splits=treebank.splits,
            licence=treebank.licence,
            citation=treebank.citation,
            description=treebank.description,
            treebank=treebank,
            form=form,
            train_share=train_share,
            recombined=recombined,
            more=more,
            silver=silver,
        )

    @property
    def tokenised(self) -> bool:
        return True

    def _treebanks(self) -> tuple[Treebank, ...]:
        return (self.treebank,) if self.more is None else (self.treebank, self.more)

    def obstacle(self, cache_dir: Path, languages: Languages | None = None) -> str | None:
        return next(filter(None, (bank.obstacle(cache_dir) for bank in self._treebanks())), None)

    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        return self.treebank.state(cache_dir)

    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        """The treebanks' own; what is made of their trees follows from the configuration."""
        found = [bank.fingerprint(cache_dir) for bank in self._treebanks()]
        if self.silver:
            found.append(hashlib.sha256("\n".join(map(str, self.silver)).encode()).hexdigest())
        return found[0] if len(found) == 1 else hashlib.sha256(repr(found).encode()).hexdigest()[:16]

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        for bank in self._treebanks():
            bank.fetch(cache_dir)

    def verify(self, cache_dir: Path, languages: Languages | None = None) -> None:
        for bank in self._treebanks():
            bank.verify(cache_dir)

    def num_lines(self, split: str, languages: Languages, cache_dir: Path) -> int | None:
        if split != TRAIN_SPLIT:
            return self.treebank.splits[split]
        if self.num_gold is None:
            return None
        counts = [
            self.num_gold * (1 + self.recombined),
            *(bank.splits[split] for bank in self._treebanks()[1:]),
            len(self.silver),
        ]
        return None if None in counts else sum(counts)

    @property
    def num_gold(self) -> int | None:
        """Trees of the treebank itself that are trained on; None where nothing says how many there are."""
        total = self.treebank.splits[TRAIN_SPLIT]
        return None if total is None else max(1, int(total * self.train_share))

    def require_pair(self, split: str, src: str, tgt: str) -> None:
        self.require(split, src, tgt)
        if tgt != TREES or src == TREES:
            raise ValueError(f"{self.name} has trees as a target alone; set src={self.languages[0]!r}, tgt={TREES!r}")

    def read_trees(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        """The trees behind `read_pairs`, in their order."""
        if split != TRAIN_SPLIT:
            return self.treebank.read_trees(split, cache_dir)
        gold: Iterable[Tree] = _first(self.treebank.read_trees(split, cache_dir), self._num_wanted())
        made: Iterable[Tree] = ()
        if self.recombined:
            gold = list(gold)
            made = recombine(gold, self.recombined)
        more = () if self.more is None else self.more.read_trees(split, cache_dir)
        return chain(gold, made, more, self.silver)

    def read_pairs(self, split: str, src: str, tgt: str, cache_dir: Path) -> Iterator[tuple[str, str]]:
        self.require_pair(split, src, tgt)
        return ((source_line(tree.leaves()), self._target_line(tree)) for tree in self.read_trees(split, cache_dir))

    def _num_wanted(self) -> int | None:
        if self.train_share == 1.0:
            return None
        if self.num_gold is None:
            raise ValueError(f"{self.name} does not say how many trees it has, so there is no share of it; leave it 1")
        return self.num_gold

    def _target_line(self, tree: Tree) -> str:
        try:
            return " ".join(linearise(tree, self.form))
        except ValueError as error:
            raise DataError(f"{self.name}: {error}") from error


def _first(trees: Iterator[Tree], wanted: int | None) -> Iterator[Tree]:
    """The first trees, all where that is None. The rest is read too, since a treebank is checked as a whole."""
    for number, tree in enumerate(trees):
        if wanted is None or number < wanted:
            yield tree
