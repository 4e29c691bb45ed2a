"""Constituency trees: the type, Penn bracketed text in and out, and the normal form that is trained on and scored.

A leaf is a word as it is written in text. In a file a bracket inside a word would end a constituent, so there it is
escaped as the treebank does ("(" is -LRB-), both ways, and only here. Files are ASCII-spaced: a no-break space is
part of a word, and only a line feed ends a line.

The type is this project's own: nltk's Tree is a mutable list without a hash, and ends at 500 levels. Here nothing
recurses, so that a model's output may nest as deep as it is long (pitfall E5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from sys import intern

from core.data.corpus import DataError

ROOT = "TOP"
# What other programs call the root; "" is the treebank's own bracket without a label (E19).
_ROOTS = frozenset({ROOT, "ROOT", "S1", ""})
TRACE = "-NONE-"

_ESCAPES = {"(": "-LRB-", ")": "-RRB-", "{": "-LCB-", "}": "-RCB-", "[": "-LSB-", "]": "-RSB-"}
_BRACKETS = {escaped: bracket for bracket, escaped in _ESCAPES.items()}
_BRACKET = re.compile(r"[(){}\[\]]")
_ESCAPED = re.compile("|".join(_BRACKETS))

# (tag word) | (label | ) | word. The first is a shortcut: half of a file's brackets hold one word.
_TOKEN = re.compile(r"\([^\s()]+\s+[^\s()]+\)|\([^\s()]*|\)|[^\s()]+", re.ASCII)
_LEAF = re.compile(r"\(([^\s()]+)\s+([^\s()]+)\)", re.ASCII)
_LABEL = re.compile(r"[^\s()]*", re.ASCII)
_WORD = re.compile(r"[^\s()]+", re.ASCII)
_BASE_LABEL = re.compile(r"[^-=|]+")
# Equal leaves are one object while a file is read; the number bounds the memory of a stream with endless new words.
_MAX_SHARED_LEAVES = 100_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """A constituent: a label, and from left to right the constituents and words that it holds, at least one.

    A node whose only child is a word is a preterminal, and its label a part-of-speech tag. Words may also stand
    beside constituents, without a tag. Trees of equal form are equal.

    Raises:
        ValueError: no children.
    """

    label: str
    children: tuple[Tree | str, ...]

    def __post_init__(self) -> None:
        if not self.children:
            raise ValueError(f"constituent {self.label!r} is empty; a tree holds at least one word")

    @property
    def is_preterminal(self) -> bool:
        return len(self.children) == 1 and isinstance(self.children[0], str)

    def leaves(self) -> Iterator[str]:
        """The words from left to right."""
        return (word for _, word in self.tagged())

    def tagged(self) -> Iterator[tuple[str | None, str]]:
        """(tag, word) from left to right; the tag is None where a word stands beside other children."""
        stack: list[Tree | str] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                yield None, node
            elif node.is_preterminal:
                yield node.label, node.children[0]
            else:
                stack.extend(reversed(node.children))

    def subtrees(self) -> Iterator[Tree]:
        """Every constituent, preterminals too, each before those that it holds."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(child for child in reversed(node.children) if isinstance(child, Tree))

    def transform(self, rebuild: Callable[[Tree, list[Tree | str]], Tree | None]) -> Tree | None:
        """Rebuild from the leaves up: `rebuild(node, new children)` gives what stands for a node, None for nothing.

        Returns:
            what stands for the root.
        """
        built: list[Tree | str] = []
        stack: list[tuple[Tree | None, Iterator[Tree | str], list[Tree | str]]] = [(None, iter((self,)), built)]
        while stack:
            node, rest, children = stack[-1]
            for child in rest:
                if isinstance(child, str):
                    children.append(child)
                elif child.is_preterminal:  # half of all nodes, and no need to come back to it
                    leaf = rebuild(child, [*child.children])
                    if leaf is not None:
                        children.append(leaf)
                else:
                    stack.append((child, iter(child.children), []))
                    break
            else:
                stack.pop()
                if node is not None:
                    new = rebuild(node, children)
                    if new is not None:
                        stack[-1][2].append(new)
        return built[0] if built else None

    def __str__(self) -> str:
        """One line of labelled brackets, words escaped: (S (NP (NNP Anna)) ...); unchecked, see `format_tree`."""
        pieces: list[str] = []
        stack: list[Tree | str | None] = [self]
        while stack:
            node = stack.pop()
            if node is None:
                pieces.append(")")
            elif isinstance(node, str):
                pieces.append(f" {escape(node)}")
            elif node.is_preterminal:
                pieces.append(f" ({node.label} {escape(node.children[0])})")
            else:
                pieces.append(f" ({node.label}")
                stack.append(None)
                stack.extend(reversed(node.children))
        return "".join(pieces)[1:]

    def __repr__(self) -> str:
        return f"<Tree {self}>"

    def _flat(self) -> list[str | tuple[str, int]]:
        """Each constituent as (label, number of children), before its children; words as they are."""
        items: list[str | tuple[str, int]] = []
        stack: list[Tree | str] = [self]
        while stack:
            node = stack.pop()
            if isinstance(node, str):
                items.append(node)
            else:
                items.append((node.label, len(node.children)))
                stack.extend(reversed(node.children))
        return items

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self is other or self._flat() == other._flat()

    def __hash__(self) -> int:
        return hash(tuple(self._flat()))

    def __reduce__(self) -> tuple[Callable[[list], Tree], tuple[list]]:
        return _from_flat, (self._flat(),)  # pickle and copy would recurse


def _from_flat(items: list[str | tuple[str, int]]) -> Tree:
    built: list[Tree | str] = []  # the last is the leftmost
    for item in reversed(items):
        if isinstance(item, str):
            built.append(item)
        else:
            label, num_children = item
            children = tuple(built.pop() for _ in range(num_children))
            built.append(Tree(label, children))
    return built[0]


def escape(word: str) -> str:
    """The word as a bracketed file has it: each bracket in it written -LRB-, -RRB-, -LCB-, -RCB-, -LSB- or -RSB-."""
    return _BRACKET.sub(lambda match: _ESCAPES[match[0]], word) if _BRACKET.search(word) else word


def unescape(word: str) -> str:
    """The word as people write it."""
    return _ESCAPED.sub(lambda match: _BRACKETS[match[0]], word) if "B-" in word else word


def is_label(text: str) -> bool:
    """Whether a bracketed file can hold it as a label: it has neither blanks nor brackets."""
    return _LABEL.fullmatch(text) is not None


def read_trees(lines: Iterable[str], origin: str) -> Iterator[Tree]:
    """The trees of a bracketed text, one a line or spread over lines, several one after the other.

    Trees are made while the lines come, so a stream of any length is read in the memory of one tree. An outer bracket
    without a label has the label "".

    Args:
        lines: with or without their line feeds.
        origin: how messages name the text.
    Raises:
        DataError: brackets that do not fit, a word outside of them, a constituent without words; names the line.
    """
    shared: dict[str, Tree] = {}
    open_labels: list[str] = []
    outer: list[list[Tree | str]] = []  # the children so far of each open constituent but the innermost
    children: list[Tree | str] = []
    begun = 0
    for number, line in enumerate(lines, 1):
        for token in _TOKEN.findall(line):
            if token == ")":
                if not open_labels:
                    raise DataError(f"{origin} line {number} closes a bracket that is not open")
                if not children:
                    raise DataError(f"{origin} line {number} closes {open_labels[-1] or 'a bracket'}, which is empty")
                node = Tree(open_labels.pop(), tuple(children))
                children = outer.pop()
            elif token[0] != "(":
                if not open_labels:
                    raise DataError(f"{origin} line {number} has {token[:40]!r} outside of brackets")
                if not children and not open_labels[-1]:
                    open_labels[-1] = intern(token)  # a blank between a bracket and its label
                    continue
                node = unescape(token)
            elif token[-1] != ")":
                if not open_labels:
                    begun = number
                open_labels.append(intern(token[1:]))
                outer.append(children)
                children = []
                continue
            else:
                node = shared.get(token)
                if node is None:
                    if len(shared) >= _MAX_SHARED_LEAVES:
                        shared.clear()
                    tag, word = _LEAF.fullmatch(token).groups()
                    node = shared[token] = Tree(intern(tag), (unescape(word),))
            if open_labels:
                children.append(node)
            else:
                yield node
    if open_labels:
        raise DataError(
            f"{origin} ends inside the tree that begins in line {begun}: {len(open_labels)} brackets are open"
        )


def parse_line(line: str, origin: str = "tree") -> tuple[Tree, ...]:
    """The trees of one line: usually one, none where a parser found none, several where it found pieces."""
    return tuple(read_trees((line,), origin))


def format_tree(tree: Tree) -> str:
    """One line of labelled brackets that `read_trees` reads back as the same tree.

    Raises:
        ValueError: a label or a word that brackets cannot hold: blanks, an empty word, a bracket in a label, or a
            word that has a piece of an escape beside a bracket.
    """
    for node in tree.subtrees():
        if not is_label(node.label):
            raise ValueError(f"label {node.label!r} cannot be written: it has a blank or a bracket")
        if not node.label and isinstance(node.children[0], str):
            raise ValueError(f"word {node.children[0]!r} cannot be written first in a constituent without a label")
    for word in tree.leaves():
        if not _WORD.fullmatch(escape(word)) or unescape(escape(word)) != word:
            raise ValueError(f"word {word!r} cannot be written in brackets: it is empty, or has a blank or an escape")
    return str(tree)


@lru_cache(maxsize=10_000)
def base_label(label: str) -> str:
    """A constituent's label without function tags and indices (NP-SBJ-1, NP=2), and of an undecided one the first.

    Cut at the first "-", "=" or "|" that is not at the beginning, as EVALB cuts at the first two: -LRB- stays.
    PRT|ADVP is PRT, which EVALB's parameter files take for ADVP's equal.
    """
    match = _BASE_LABEL.match(label)
    return match[0] if match else label


def normalise(tree: Tree) -> Tree:
    """The form that parsers are trained on and scored in, the same for gold and predicted trees (E6, E18, E19).

    Traces (-NONE-) go, and with them constituents that hold nothing else; constituents have their `base_label`; the
    root is TOP, put in the place of ROOT, S1 or an unlabelled bracket, or above the tree. Tags stay as they are, as
    does a constituent over one of the same label. Normalising again changes nothing.

    Raises:
        ValueError: a tree of traces only.
    """
    normal = tree.transform(_normal_node)
    if normal is None:
        raise ValueError(f"tree has no word but traces: {tree}")
    while _is_root(normal) and len(normal.children) == 1 and _is_root(normal.children[0]):
        normal = normal.children[0]
    if not _is_root(normal):
        return Tree(ROOT, (normal,))
    return normal if normal.label == ROOT else Tree(ROOT, normal.children)


def _is_root(node: Tree | str) -> bool:
    return isinstance(node, Tree) and node.label in _ROOTS and not node.is_preterminal


def _normal_node(node: Tree, children: list[Tree | str]) -> Tree | None:
    if node.is_preterminal:
        return None if node.label == TRACE else node
    if not children:
        return None
    return Tree(base_label(node.label), tuple(children))
