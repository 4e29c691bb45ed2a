"""Constituency trees as SVG: one tree, or a gold and a predicted one of which each shows what the other has not.

A tree is drawn from its bracketed line. On a page it takes the page's colours; as a file of its own it brings them,
for a light and a dark reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup
from nltk import Tree

# Sizes in SVG units, which are CSS pixels. Text is measured by its characters: no font need be installed.
_FONT_SIZE, _CHARACTER, _LEVEL, _GAP, _MARGIN = 13.0, 7.2, 40.0, 9.0, 10.0
_BETWEEN_TREES = 28.0
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]"}
_OWN_COLOURS = (
    "svg{--ink:#1d2430;--muted:#5b6472;--card:#ffffff;--not-reproduced:#93290a}"
    "@media(prefers-color-scheme:dark){svg{--ink:#e5e8ec;--muted:#a0a9b6;--card:#1b1f26;--not-reproduced:#ff8a5c}}"
    "svg{background:var(--card)}"
)
STYLE = (
    ".tree text{font:13px system-ui,sans-serif;fill:var(--ink);text-anchor:middle}"
    ".tree .tag{fill:var(--muted);font-size:11px}.tree path{stroke:var(--muted);fill:none}"
    ".tree .wrong{fill:var(--not-reproduced);font-weight:700}"
    ".tree rect{fill:none;stroke:var(--not-reproduced);stroke-dasharray:3 2}"
)

Bracket = tuple[str, int, int]
"""Label, and the words from `start` to before `end`."""


@dataclass
class _Node:
    """One drawn node: text, middle, level; `wrong` is a constituent that the other tree has not."""

    text: str
    x: float
    level: int
    kind: str  # "label", "tag" or "word"
    wrong: bool = False
    children: list[_Node] = field(default_factory=list)

    def walk(self) -> Iterator[_Node]:
        yield self
        for child in self.children:
            yield from child.walk()


def tree_figure(line: str, other: str | None = None, label: str = "Constituency tree") -> Markup:
    """One tree for a page that has STYLE; constituents that `other` has not are boxed and in another colour.

    Args:
        line, other: bracketed trees over the same words.
        label: names the picture for those who cannot see it; the tree in brackets follows it.
    """
    body, width, height = _draw(line, other, 0.0)
    return _svg(body, width, height, f"{label}: {line}")


def save_trees(path: Path, lines: Sequence[str]) -> None:
    """Trees below one another in one SVG file.

    Raises:
        ValueError: the file's name ends in something else, it cannot be written, or there is no tree.
    """
    require_svg(path)
    if not lines:
        raise ValueError(f"there is no tree to draw, so {path} was not written; give a line of text")
    bodies, widest, top = [], 0.0, 0.0
    for line in lines:
        body, width, height = _draw(line, None, top)
        bodies.append(body)
        widest, top = max(widest, width), top + height + _BETWEEN_TREES
    style = Markup(f"<style>{_OWN_COLOURS}{STYLE}</style>")
    svg = _svg(style + Markup("").join(bodies), widest, top - _BETWEEN_TREES, "\n".join(lines))
    try:
        path.write_text(f"{svg}\n", encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot write {path} ({error.strerror}); choose another file") from error


def require_svg(path: Path) -> None:
    """Raise ValueError unless the file's name says that it is an SVG."""
    if path.suffix.lower() != ".svg":
        raise ValueError(
            f"{path} is no .svg file, and trees are drawn as SVG alone; name it {path.with_suffix('.svg')}"
        )


def brackets(line: str) -> Counter[Bracket]:
    """The constituents of a bracketed tree, tags left out, as often as they occur."""
    return Counter((node.label(), start, end) for node, start, end in _spans(Tree.fromstring(line)))


def _spans(tree: Tree) -> Iterator[tuple[Tree, int, int]]:
    """Constituents with their words, each before those that it holds."""
    position = 0

    def visit(node: Tree) -> Iterator[tuple[Tree, int, int]]:
        nonlocal position
        if _is_preterminal(node):
            position += 1
            return
        start, inside = position, []
        for child in node:
            if isinstance(child, str):
                position += 1
            else:
                inside += list(visit(child))
        yield node, start, position
        yield from inside

    yield from visit(tree)


def _is_preterminal(node: Tree) -> bool:
    return len(node) == 1 and isinstance(node[0], str)


def _draw(line: str, other: str | None, top: float) -> tuple[Markup, float, float]:
    """The shapes of a tree that begins at `top`, its width and its height."""
    tree = Tree.fromstring(line)
    missing = Counter() if other is None else brackets(line) - brackets(other)
    root, width = _place(tree, missing)
    depth = max(node.level for node in root.walk())
    shapes = []
    for node in root.walk():
        y = top + _MARGIN + _FONT_SIZE + node.level * _LEVEL
        for child in node.children:
            below = top + _MARGIN + child.level * _LEVEL - 2
            shapes.append(Markup('<path d="M{:.1f} {:.1f}L{:.1f} {:.1f}"/>').format(node.x, y + 4, child.x, below))
        half = len(node.text) * _CHARACTER / 2 + 4
        if node.wrong:
            box = (node.x - half, y - _FONT_SIZE - 1, 2 * half, _FONT_SIZE + 7)
            shapes.append(Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="3"/>').format(*box))
        name = "wrong" if node.wrong else node.kind
        shapes.append(Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(name, node.x, y, node.text))
    return Markup("").join(shapes), width, _MARGIN * 2 + _FONT_SIZE + depth * _LEVEL


def _place(tree: Tree, missing: Counter[Bracket]) -> tuple[_Node, float]:
    """The nodes of a tree with their places, and the width of it all: words from left to right, others above theirs."""
    left, position = _MARGIN, 0

    def leaf(word: str, tag: str | None, level: int) -> _Node:
        nonlocal left, position
        text = _BRACKETS.get(word, word)
        width = max(len(text), len(tag or "")) * _CHARACTER
        node = _Node(text, left + width / 2, level if tag is None else level + 1, "word")
        left, position = left + width + _GAP, position + 1
        return node if tag is None else _Node(tag, node.x, level, "tag", children=[node])

    def visit(node: Tree | str, level: int) -> _Node:
        if isinstance(node, str):
            return leaf(node, None, level)
        if _is_preterminal(node):
            return leaf(node[0], node.label(), level)
        start = position
        children = [visit(child, level + 1) for child in node]
        key = (node.label(), start, position)
        wrong = missing[key] > 0
        missing[key] -= wrong
        middle = (children[0].x + children[-1].x) / 2
        return _Node(node.label() or "·", middle, level, "label", wrong, children)

    root = visit(tree, 0)
    return root, left - _GAP + _MARGIN


def _svg(body: Markup, width: float, height: float, label: str) -> Markup:
    return Markup(
        '<svg class="tree" xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" '
        'viewBox="0 0 {0:.0f} {1:.0f}" role="img" aria-label="{2}">{3}</svg>'
    ).format(width, height, label, body)
