"""Parsers that are read off trees instead of trained: what a sequence model of few trees must be better than.

Right-branching trees need no words at all; a probabilistic context-free grammar is the classical model of a treebank
(Charniak 1996, Tree-bank Grammars). Neither is in the paper's table.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.data.trees import ROOT, Tree

_UNTAGGED = "XX"
# How many of a constituent's children before the present one its next child depends on.
_HORIZONTAL = 2
# How many occurrences the estimate of the next rougher class is worth.
_PRIOR_COUNTS = 1.0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RightBranching:
    """The first word beside a constituent of the rest, and so on: S at the root, `label` below it."""

    label: str

    @classmethod
    def learn(cls, trees: Iterable[Tree]) -> RightBranching:
        """Of the trees, the commonest label below the root is taken."""
        labels = Counter(node.label for tree in trees for node in tree.subtrees() if not node.is_preterminal)
        del labels[ROOT]
        return cls(labels.most_common(1)[0][0])

    def parse(self, words: Sequence[str]) -> Tree:
        """The tree of a sentence of at least one word."""
        node: Tree | None = None
        for position in reversed(range(len(words))):
            label = self.label if position else "S"
            rest = () if node is None else (node,)
            node = Tree(label, (Tree(_UNTAGGED, (words[position],)), *rest))
        return Tree(ROOT, (node,))


class Lexicon:
    """log P(word | tag) up to a term of the word alone, also for words never seen.

    By Bayes it is log P(tag | word) - log P(tag). The tags of a rare word are drawn towards those of words that look
    like it and occur once: of the same capitals, digits, hyphens and ending, then of the same without the ending.
    """

    def __init__(self, tagged: Iterable[tuple[str, str]]) -> None:
        pairs = Counter(tagged)
        of_tag: Counter[str] = Counter()
        by_word: dict[str, Counter[str]] = defaultdict(Counter)
        for (tag, word), count in pairs.items():
            of_tag[tag] += count
            by_word[word][tag] += count
        self.tags = sorted(of_tag)
        self._index = {tag: place for place, tag in enumerate(self.tags)}
        self._log_prior = np.log(np.array([of_tag[tag] for tag in self.tags]) / of_tag.total())
        self._by_word = {word: self._counts(tags) for word, tags in by_word.items()}
        self._by_class: dict[tuple, Floats] = {}
        for word, counts in self._by_word.items():
            if counts.sum() == 1.0:
                for key in _classes(word):
                    self._by_class[key] = self._by_class.get(key, 0.0) + counts

    def _counts(self, tags: Counter[str]) -> Floats:
        counts = np.zeros(len(self.tags))
        for tag, count in tags.items():
            counts[self._index[tag]] = count
        return counts

    def scores(self, word: str) -> Floats:
        """(tags,) for one word."""
        share = np.exp(self._log_prior)
        for key in reversed(_classes(word)):
            share = self._mixed(self._by_class.get(key), share)
        share = self._mixed(self._by_word.get(word), share)
        with np.errstate(divide="ignore"):
            return np.log(share) - self._log_prior

    @staticmethod
    def _mixed(counts: Floats | None, prior: Floats) -> Floats:
        return prior if counts is None else (counts + _PRIOR_COUNTS * prior) / (counts.sum() + _PRIOR_COUNTS)


def _classes(word: str) -> list[tuple]:
    """What a word looks like, the finest class first."""
    shape = (word[:1].isupper(), any(map(str.isdigit, word)), "-" in word)
    return [(*shape, word[-3:].lower()), (*shape, word[-1:].lower()), shape, ()]


class TreebankGrammar:
    """A probabilistic context-free grammar with the relative frequencies of a treebank's rules.

    Rules with more than two children are cut into pairs from the left; the symbol in between knows the parent and the
    last two children before it. Unary rules may follow each other in any number; the likeliest chain between two
    symbols is found beforehand.
    """

    def __init__(self, trees: Iterable[Tree]) -> None:
        rules: Counter[tuple[str, ...]] = Counter()
        tagged: list[tuple[str, str]] = []
        for tree in trees:
            for node in tree.subtrees():
                if node.is_preterminal:
                    tagged.append((node.label, node.children[0]))
                else:
                    tagged += [(_UNTAGGED, child) for child in node.children if isinstance(child, str)]
                    rules.update(_cut(node))
        self.lexicon = Lexicon(tagged)
        symbols = sorted({symbol for rule in rules for symbol in rule} | set(self.lexicon.tags))
        self._symbols, self._index = symbols, {symbol: place for place, symbol in enumerate(symbols)}
        of_parent: Counter[str] = Counter()
        for rule, count in rules.items():
            of_parent[rule[0]] += count
        self.num_rules = len(rules)
        binary = sorted((tuple(self._index[s] for s in rule), math.log(count / of_parent[rule[0]]))
                        for rule, count in rules.items() if len(rule) == 3)  # fmt: skip
        self._parent, self._left, self._right = np.array([rule for rule, _ in binary], dtype=np.intp).reshape(-1, 3).T
        self._log_rule = np.array([log for _, log in binary])
        self._parents, self._starts = np.unique(self._parent, return_index=True)
        self._chain, self._next = self._close({rule: math.log(count / of_parent[rule[0]])
                                               for rule, count in rules.items() if len(rule) == 2})  # fmt: skip
        self._tag_places = np.array([self._index[tag] for tag in self.lexicon.tags])

    def _close(self, unary: dict[tuple[str, ...], float]) -> tuple[Floats, NDArray[np.intp]]:
        """The likeliest chains of unary rules, over the symbols that such rules have (Floyd and Warshall).

        Returns:
            (n, n) log-probability from a symbol down to another, 0 from each to itself, and the next symbol on the way.
        """
        places = sorted({self._index[symbol] for rule in unary for symbol in rule})
        self._unary_places = np.array(places, dtype=np.intp)
        number = {place: i for i, place in enumerate(places)}
        best = np.full((len(places), len(places)), -np.inf)
        following = np.tile(np.arange(len(places)), (len(places), 1))
        for (parent, child), log in unary.items():
            if parent != child:
                best[number[self._index[parent]], number[self._index[child]]] = log
        np.fill_diagonal(best, 0.0)
        for via in range(len(places)):
            through = best[:, via, None] + best[None, via, :]
            better = through > best
            best = np.where(better, through, best)
            following = np.where(better, following[:, via, None], following)
        return best, following

    def parse(self, words: Sequence[str]) -> Tree | None:
        """The likeliest tree of a sentence of at least one word (Cocke, Kasami, Younger); None where there is none.

        Time grows with the cube of the words.
        """
        length, num_symbols = len(words), len(self._symbols)
        # Inside a span before and after unary chains: [start, end].
        bare = np.full((length, length + 1, num_symbols), -np.inf)
        chart = np.full((length, length + 1, num_symbols), -np.inf)
        for start, word in enumerate(words):
            bare[start, start + 1, self._tag_places] = self.lexicon.scores(word)
            chart[start, start + 1] = self._with_chains(bare[start, start + 1])
        for width in range(2, length + 1):
            for start in range(length - width + 1):
                end = start + width
                middles = np.arange(start + 1, end)
                totals = self._pairs(chart[start, middles], chart[middles, end]).max(axis=0)
                bare[start, end, self._parents] = np.maximum.reduceat(totals, self._starts)
                chart[start, end] = self._with_chains(bare[start, end])
        root = self._index.get(ROOT)
        if root is None or chart[0, length, root] == -np.inf:
            return None
        (tree,) = self._build(root, 0, length, bare, chart, words)
        return tree

    def _pairs(self, left: Floats, right: Floats) -> Floats:
        """(splits, rules): each binary rule over each split of a span."""
        return left[:, self._left] + right[:, self._right] + self._log_rule

    def _with_chains(self, cell: Floats) -> Floats:
        out = cell.copy()
        if len(self._unary_places):
            out[self._unary_places] = (self._chain + cell[self._unary_places]).max(axis=1)
        return out

    def _build(
        self, symbol: int, start: int, end: int, bare: Floats, chart: Floats, words: Sequence[str]
    ) -> tuple[Tree | str, ...]:
        """What stands for a symbol over a span: one node, or the children of one that was cut.

        It recurses as deep as the tree, whose depth is bounded by the words and the unary chains.
        """
        chain = self._chain_down(symbol, bare[start, end])
        lowest = chain[-1]
        if end - start == 1:
            children: tuple[Tree | str, ...] = (words[start],)
        else:
            middles = np.arange(start + 1, end)
            rules = slice(*np.searchsorted(self._parent, [lowest, lowest + 1]))
            totals = chart[start, middles][:, self._left[rules]] + chart[middles, end][:, self._right[rules]]
            split, rule = np.unravel_index((totals + self._log_rule[rules]).argmax(), totals.shape)
            middle, rule = int(middles[split]), rules.start + int(rule)
            children = (
                *self._build(int(self._left[rule]), start, middle, bare, chart, words),
                *self._build(int(self._right[rule]), middle, end, bare, chart, words),
            )
        for place in reversed(chain):
            name = self._symbols[place]
            children = children if name.startswith(_CUT) else (Tree(name, children),)
        return children

    def _chain_down(self, symbol: int, cell: Floats) -> list[int]:
        """The symbols from this one down to the one that a word or a binary rule explains."""
        (found,) = np.nonzero(self._unary_places == symbol)
        if not len(found):
            return [symbol]
        here = int(found[0])
        goal = int((self._chain[here] + cell[self._unary_places]).argmax())
        chain = [here]
        while chain[-1] != goal:
            chain.append(int(self._next[chain[-1], goal]))
        return [int(self._unary_places[place]) for place in chain]


_CUT = "@"


def _cut(node: Tree) -> Iterator[tuple[str, ...]]:
    """The rules of a constituent, each a parent and one or two children."""
    children = [_UNTAGGED if isinstance(child, str) else child.label for child in node.children]
    parent = node.label
    for place in range(len(children) - 2):
        seen = children[max(0, place + 1 - _HORIZONTAL) : place + 1]
        between = f"{_CUT}{node.label} {' '.join(seen)}"
        yield parent, children[place], between
        parent = between
    yield (parent, *children[-2:])
