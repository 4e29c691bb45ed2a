"""What is amiss in a treebank: trees that its reader refuses, test sentences that were trained on, unseen words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from core.data.corpus import DataError
from core.data.report import Finding, Report
from core.data.treebanks.treebank import Treebank
from core.data.trees import Tree

_TRAIN = "train"
REFUSED = "refused by the reader"
LEAKED = "sentences that are training sentences"
UNSEEN_WORDS = "words that no training sentence has"
UNSEEN_LABELS = "constituents with a label that no training tree has"
# Short sentences recur in any newspaper; above this share a split was trained on.
_FAULTY_SHARE = 0.05
_SHOWN = 10


class TreeFacts(NamedTuple):
    """One split in numbers. Words are leaves; levels are constituents around a word, its tag not counted."""

    split: str
    trees: int
    words: int
    constituents: int
    longest_words: int
    deepest_levels: int


def check_treebank(bank: Treebank, cache_dir: Path) -> Report:
    """Read all splits and report what is amiss. Memory grows with the scored splits, not with the training trees.

    Raises:
        DataError: the treebank is not here.
    """
    obstacle = bank.obstacle(cache_dir)
    if obstacle is not None:
        raise DataError(obstacle)
    facts: dict[str, TreeFacts] = {}
    findings: list[Finding] = []
    seen = _Seen()
    scored = [split for split in bank.splits if split != _TRAIN]
    for split in (*scored, _TRAIN):
        survey = _Survey(split)
        try:
            for tree in bank.read_trees(split, cache_dir):
                words = tuple(tree.leaves())
                labels = Counter(node.label for node in tree.subtrees() if not node.is_preterminal)
                survey.add(tree, words, labels)
                if split == _TRAIN:
                    seen.discard(words, labels)
                else:
                    seen.add(split, words, labels)
        except DataError as error:
            findings.append(Finding("fault", split, REFUSED, 1, survey.trees + 1, survey.trees + 1, str(error)))
        facts[split] = survey.facts()
    for split in scored:
        findings += seen.findings(split, facts[split])
    findings.sort(key=lambda finding: finding.level != "fault")
    return Report(bank.name, "", tuple(facts[split] for split in bank.splits), tuple(findings))


class _Survey:
    """The figures of a split, tree by tree."""

    def __init__(self, split: str) -> None:
        self._split = split
        self.trees = self._words = self._constituents = self._longest = self._deepest = 0

    def add(self, tree: Tree, words: tuple[str, ...], labels: Counter[str]) -> None:
        self.trees += 1
        self._words += len(words)
        self._constituents += labels.total()
        self._longest = max(self._longest, len(words))
        self._deepest = max(self._deepest, _levels(tree))

    def facts(self) -> TreeFacts:
        return TreeFacts(self._split, self.trees, self._words, self._constituents, self._longest, self._deepest)


class _Seen:
    """What the scored splits have, by split, and which of it training has too."""

    def __init__(self) -> None:
        self._sentences: dict[str, list[tuple[str, ...]]] = {}
        self._words: dict[str, Counter[str]] = {}
        self._labels: dict[str, Counter[str]] = {}
        self._trained: set[tuple[str, ...] | str] = set()
        self._trained_labels: set[str] = set()
        self._wanted: set[tuple[str, ...] | str] = set()

    def add(self, split: str, words: tuple[str, ...], labels: Counter[str]) -> None:
        self._sentences.setdefault(split, []).append(words)
        self._words.setdefault(split, Counter()).update(words)
        self._labels.setdefault(split, Counter()).update(labels)
        self._wanted.update(words, (words,))

    def discard(self, words: tuple[str, ...], labels: Counter[str]) -> None:
        self._trained.update(self._wanted.intersection((words, *words)))
        self._trained_labels.update(labels)

    def findings(self, split: str, facts: TreeFacts) -> Iterator[Finding]:
        leaked = [n for n, words in enumerate(self._sentences.get(split, ()), 1) if words in self._trained]
        if leaked:
            level = "fault" if len(leaked) > _FAULTY_SHARE * facts.trees else "warning"
            yield Finding(level, split, LEAKED, len(leaked), facts.trees, leaked[0])
        for what, counts, known, of in (
            (UNSEEN_WORDS, self._words.get(split, Counter()), self._trained, facts.words),
            (UNSEEN_LABELS, self._labels.get(split, Counter()), self._trained_labels, facts.constituents),
        ):
            unseen = Counter({name: count for name, count in counts.items() if name not in known})
            if unseen:
                shown = ", ".join(name for name, _ in unseen.most_common(_SHOWN))
                more = f" and {len(unseen) - _SHOWN} more" if len(unseen) > _SHOWN else ""
                yield Finding("warning", split, what, unseen.total(), of, None, shown + more)


def _levels(tree: Tree) -> int:
    deepest = 0
    stack: list[tuple[Tree | str, int]] = [(tree, 0)]
    while stack:
        node, around = stack.pop()
        if isinstance(node, str) or node.is_preterminal:
            deepest = max(deepest, around)
        else:
            stack.extend((child, around + 1) for child in node.children)
    return deepest
