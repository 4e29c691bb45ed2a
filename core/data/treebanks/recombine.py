"""New trees out of a few: constituents are replaced by others of the same label (Shi, Livescu, Gimpel 2021)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random

from core.data.trees import Tree

_SEED = 1706
# Longer constituents are most of a sentence, and what replaced them would be another sentence.
_MOST_WORDS = 12
# So many constituents of a tree are replaced, at least one where there are any.
_MOST_REPLACED = 3


def recombine(trees: Sequence[Tree], copies: int) -> Iterator[Tree]:
    """As many trees as `copies` times those given, in their order, again and again; the same ones always.

    In each of them one to three constituents of at most 12 words, neither the root nor the whole sentence, have given
    way to constituents of their labels, drawn from all trees. A tree without such a constituent comes back as it is.
    """
    random = Random(_SEED)
    by_label: dict[str, list[Tree]] = defaultdict(list)
    replaceable = [_replaceable(tree) for tree in trees]
    for nodes in replaceable:
        for node in nodes:
            by_label[node.label].append(node)
    for _ in range(copies):
        for tree, nodes in zip(trees, replaceable, strict=True):
            chosen = random.sample(nodes, min(len(nodes), random.randint(1, _MOST_REPLACED)))
            given = {id(node): random.choice(by_label[node.label]) for node in chosen}
            yield tree.transform(
                lambda node, children, given=given: given.get(id(node)) or Tree(node.label, tuple(children))
            )


def _replaceable(tree: Tree) -> list[Tree]:
    total = sum(1 for _ in tree.leaves())
    return [
        node
        for node in tree.subtrees()
        if not node.is_preterminal and (words := sum(1 for _ in node.leaves())) <= _MOST_WORDS and words < total
    ]
