"""Trees as sequences of output symbols with labelled closers, and a tree out of any sequence.

The form is that of Vinyals et al. 2015, Grammar as a Foreign Language, which the paper follows (6.3): depth first,
`(NP` opens a constituent, `)NP` closes it, and XX stands for each word: (S (NP XX )NP (VP XX )VP XX )S.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import SequenceMatcher
from typing import NamedTuple

from core.data.trees import ROOT, Tree, escape, is_label

WORD = "XX"  # in place of a word's tag
UNTAGGED = "_"  # a word without a tag, where tags are kept
# Deeper brackets of an output are dropped. The deepest tree of the treebank's sample has 28 levels; programs that read
# trees end at some depth (EVALB at 200 open brackets, those that recurse at about 1,000).
MAX_DEPTH = 150


@dataclass(frozen=True)
class TreeFormat:
    """What of a tree its sequence tells.

    Attributes:
        keep_tags: each word's part-of-speech tag, as in the authors' code; otherwise XX for all, as in Vinyals et al.
        keep_words: each word in the bracket of its tag, `(NN dog )NN`; otherwise the tag alone, as in both.
        bare_words: each word as it is, `dog`, and no tag: the output tells at every place how far it is in the input.

    Raises:
        ValueError: bare words with tags, or in brackets.
    """

    keep_tags: bool = False
    keep_words: bool = False
    bare_words: bool = False

    def __post_init__(self) -> None:
        if self.bare_words and (self.keep_tags or self.keep_words):
            raise ValueError(
                "bare_words leaves out the brackets of words; set neither keep_tags nor keep_words with it"
            )

    @property
    def tells_words(self) -> bool:
        """Whether a leaf says which word it is."""
        return self.keep_words or self.bare_words


VINYALS = TreeFormat()
TAGGED = TreeFormat(keep_tags=True)


@dataclass(frozen=True)
class Repairs:
    """What was done to a sequence to make a tree of it, in numbers of symbols.

    The rules are those of a few that kept most brackets of the treebank sample's trees when their sequences were cut
    short, or lost, doubled or mixed up symbols at random.

    Attributes:
        missing_closers: constituents that were closed, at the end or by the closer of one around them.
        extra_closers: closers dropped, since nothing was open, or since the root was to end before the output did.
        wrong_closers: closers whose label no open constituent has, dropped.
        missing_leaves: words that the output forgot. Each went where the output stood: before the next word that it
            has, in the end into the innermost constituent that it left open, into the root where it left none.
        extra_leaves: leaves dropped, since no word was left for them.
        wrong_leaves: leaves with another word than the input's, which took its place (where words are kept).
        empty_constituents: constituents without a word, dropped.
        too_deep: constituents dropped at the limit of depth; what they held stayed.
        missing_roots: 1 where the output did not begin with a constituent, and TOP was put around it.
    """

    missing_closers: int = 0
    extra_closers: int = 0
    wrong_closers: int = 0
    missing_leaves: int = 0
    extra_leaves: int = 0
    wrong_leaves: int = 0
    empty_constituents: int = 0
    too_deep: int = 0
    missing_roots: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, field.name) for field in fields(self))

    def __add__(self, other: Repairs) -> Repairs:
        return Repairs(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def __str__(self) -> str:
        found = [(field.name.replace("_", " "), getattr(self, field.name)) for field in fields(self)]
        return ", ".join(f"{count} {kind}" for kind, count in found if count) or "none"


class Repaired(NamedTuple):
    """A tree over exactly the input's words, and what it took; `repairs.total` is 0 for a sequence that was right."""

    tree: Tree
    repairs: Repairs


def linearise(tree: Tree, form: TreeFormat = VINYALS) -> list[str]:
    """The symbols of a tree, each a string without blanks if its labels and words have none.

    Raises:
        ValueError: a root that is a tagged word and no constituent, a constituent without a label, or, where tags are
            kept, a tag that reads like another symbol.
    """
    if tree.is_preterminal:
        raise ValueError(f"{tree} is a word without a constituent; put it under {ROOT}")
    symbols: list[str] = []
    stack: list[Tree | str | None] = [tree]
    open_labels: list[str] = []
    while stack:
        node = stack.pop()
        if node is None:
            symbols.append(f"){open_labels.pop()}")
        elif isinstance(node, str):
            symbols.append(escape(node) if form.tells_words else UNTAGGED if form.keep_tags else WORD)
        elif node.is_preterminal and form.bare_words:
            symbols.append(escape(node.children[0]))
        elif node.is_preterminal:
            tag = node.label if form.keep_tags else WORD
            if form.keep_words:
                symbols += (f"({tag}", escape(node.children[0]), f"){tag}")
            elif tag == UNTAGGED or tag[:1] in "()":
                raise ValueError(f"tag {tag!r} of {node.children[0]!r} would read as another symbol")
            else:
                symbols.append(tag)
        elif not node.label:
            raise ValueError(f"a constituent without a label has no symbol; normalise the tree: {tree}")
        else:
            symbols.append(f"({node.label}")
            open_labels.append(node.label)
            stack.append(None)
            stack.extend(reversed(node.children))
    return symbols


def delinearise(
    symbols: Sequence[str], words: Sequence[str], form: TreeFormat = VINYALS, tags: Sequence[str | None] | None = None
) -> Tree:
    """The tree of a sequence that `linearise` may have made, for these words.

    Args:
        tags: what stands for XX; one a word, None for a word without a tag. XX itself where they are not given.
    Raises:
        ValueError: the sequence is no tree over these words; says what is wrong.
    """
    tree, repairs = repair(symbols, words, form, tags, max_depth=len(symbols) + 1)
    if repairs.total:
        raise ValueError(f"{len(symbols)} symbols are no tree over {len(words)} words: {repairs}")
    return tree


def repair(
    symbols: Sequence[str],
    words: Sequence[str],
    form: TreeFormat = VINYALS,
    tags: Sequence[str | None] | None = None,
    *,
    max_depth: int = MAX_DEPTH,
) -> Repaired:
    """A tree over exactly `words` from any sequence of symbols, by the rules that `Repairs` states.

    Any string is a symbol: what is neither `(label` nor `)label` is a leaf. The first constituent is the root, and
    nothing ends it before the output ends.

    Args:
        words: the input's, at least one.
        tags: as in `delinearise`. Leaves that the output lacks get theirs too, or XX.
    Raises:
        ValueError: no words, or another number of tags.
    """
    if not words:
        raise ValueError("no words; a tree holds at least one")
    if tags is not None and len(tags) != len(words):
        raise ValueError(f"{len(tags)} tags for {len(words)} words")
    steps = _read_steps(symbols, form)
    leaves = [step for step in steps if isinstance(step, _Leaf)]
    positions = iter(_align(leaves, words) if form.tells_words else _count_off(leaves, words))
    builder = _Builder(words, tags, max_depth)
    for step in steps:
        if isinstance(step, _Leaf):
            builder.add_leaf(step, next(positions))
        elif isinstance(step, _Opener):
            builder.open(step.label)
        else:
            builder.close(step.label)
    return builder.finish()


class _Opener(NamedTuple):
    label: str


class _Closer(NamedTuple):
    label: str


class _Leaf(NamedTuple):
    """A word's place.

    `tag` is XX where the output does not tell it, None for a word without one; `word` is None where words are not kept.
    """

    tag: str | None
    word: str | None = None


_Step = _Opener | _Closer | _Leaf


def _read_steps(symbols: Sequence[str], form: TreeFormat) -> list[_Step]:
    steps: list[_Step] = []
    for symbol in symbols:
        label = symbol[1:]
        if symbol[:1] not in ("(", ")") or not label or not is_label(label):
            steps.append(_read_leaf(symbol, form))
        elif symbol[0] == "(":
            steps.append(_Opener(label))
        elif form.keep_words and _is_tagged_word(steps[-2:], label):  # (NN dog )NN
            word = steps.pop().word
            steps[-1] = _Leaf(label if form.keep_tags else WORD, word)
        else:
            steps.append(_Closer(label))
    return steps


def _read_leaf(symbol: str, form: TreeFormat) -> _Leaf:
    if form.keep_words:
        return _Leaf(None, symbol)
    return _Leaf(WORD, symbol) if form.bare_words else _Leaf(_read_tag(symbol, form))


def _read_tag(symbol: str, form: TreeFormat) -> str | None:
    if form.keep_tags and symbol == UNTAGGED:
        return None
    return symbol if form.keep_tags and symbol and is_label(symbol) else WORD


def _is_tagged_word(steps: Sequence[_Step], label: str) -> bool:
    if len(steps) < 2 or not isinstance(steps[0], _Opener) or not isinstance(steps[1], _Leaf):
        return False
    return steps[0].label == label and steps[1].tag is None and steps[1].word is not None


def _count_off(leaves: Sequence[_Leaf], words: Sequence[str]) -> list[int | None]:
    """The word of each leaf, None for those that are left over."""
    return [position if position < len(words) else None for position in range(len(leaves))]


def _align(leaves: Sequence[_Leaf], words: Sequence[str]) -> list[int | None]:
    """The word of each leaf: first where they are the same, then, between those, one after the other."""
    written = [leaf.word for leaf in leaves]
    wanted = [escape(word) for word in words]
    if written == wanted:
        return list(range(len(words)))
    positions: list[int | None] = [None] * len(leaves)
    for _, leaf, leaf_end, word, word_end in SequenceMatcher(None, written, wanted, autojunk=False).get_opcodes():
        for offset in range(min(leaf_end - leaf, word_end - word)):
            positions[leaf + offset] = word + offset
    return positions


class _Open(NamedTuple):
    """A constituent that is not closed yet; one too deep has the children of the one around it."""

    label: str
    children: list[Tree | str]
    is_too_deep: bool = False


class _Builder:
    """Takes openers, closers and leaves in any order, and counts what does not fit."""

    def __init__(self, words: Sequence[str], tags: Sequence[str | None] | None, max_depth: int) -> None:
        self._words = words
        self._tags = tags
        self._max_depth = max_depth
        self._stack: list[_Open] = []
        self._root_closed = False  # it stays on the stack, since more may follow
        self._next_word = 0
        self._counts = Counter[str]()

    def open(self, label: str) -> None:
        self._reopen_root()
        is_too_deep = len(self._stack) >= self._max_depth
        self._counts["too_deep"] += is_too_deep
        self._stack.append(_Open(label, self._stack[-1].children if is_too_deep else [], is_too_deep))

    def close(self, label: str) -> None:
        if not self._stack or self._root_closed:
            self._counts["extra_closers"] += 1
        elif all(constituent.label != label for constituent in reversed(self._stack)):
            self._counts["wrong_closers"] += 1
        else:
            while self._stack[-1].label != label:
                self._close_missing()
            if len(self._stack) > 1:
                self._pop()
            else:
                self._root_closed = True

    def add_leaf(self, leaf: _Leaf, position: int | None) -> None:
        """Put the word at `position` here, after those before it that the output forgot."""
        if position is None:
            self._counts["extra_leaves"] += 1
            return
        self._reopen_root()
        self._require_root()
        self._add_missing(position)
        self._counts["wrong_leaves"] += leaf.word is not None and leaf.word != escape(self._words[position])
        self._add_word(leaf.tag)

    def finish(self) -> Repaired:
        self._require_root()
        self._add_missing(len(self._words))
        while len(self._stack) > 1:
            self._close_missing()
        if not self._root_closed and not self._counts["missing_roots"]:
            self._counts["missing_closers"] += 1
        root = self._stack.pop()
        return Repaired(Tree(root.label, tuple(root.children)), Repairs(**self._counts))

    def _require_root(self) -> None:
        if not self._stack:
            self._counts["missing_roots"] = 1
            self._stack.append(_Open(ROOT, []))

    def _reopen_root(self) -> None:
        if self._root_closed:
            self._counts["extra_closers"] += 1
            self._root_closed = False

    def _close_missing(self) -> None:
        self._counts["missing_closers"] += 1
        self._pop()

    def _pop(self) -> None:
        constituent = self._stack.pop()
        if constituent.is_too_deep:
            return
        if constituent.children:
            self._stack[-1].children.append(Tree(constituent.label, tuple(constituent.children)))
        else:
            self._counts["empty_constituents"] += 1

    def _add_missing(self, end: int) -> None:
        while self._next_word < end:
            self._counts["missing_leaves"] += 1
            self._add_word(WORD)

    def _add_word(self, tag: str | None) -> None:
        word = self._words[self._next_word]
        if tag == WORD and self._tags is not None:
            tag = self._tags[self._next_word]
        self._next_word += 1
        self._stack[-1].children.append(word if tag is None else Tree(tag, (word,)))
