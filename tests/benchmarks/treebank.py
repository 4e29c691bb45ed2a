"""Reading, writing, linearising and scoring trees, a line each: trees a second, beside nltk and EVALB in one run.

    AIAYN_DATA=FOLDER python tests/benchmarks/treebank.py [--rounds 5] [--evalb PROGRAM]

The trees are the treebank sample's. Contestants take turns; figures are medians of processor time over rounds, of
wall-clock time for EVALB's program, which reads and scores files.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import nltk

from core.data.tree_sequences import linearise, repair
from core.data.treebanks import TREEBANK_SAMPLE
from core.data.trees import Tree, format_tree, normalise, parse_line, read_trees
from core.scoring.bracketing import score_trees

NUM_SCORED = 2_416  # as many as section 23 has
RULES = "DELETE_LABEL TOP\nDELETE_LABEL ,\nDELETE_LABEL :\nDELETE_LABEL ``\nDELETE_LABEL ''\nDELETE_LABEL .\n"


def attach_higher(tree: Tree) -> Tree:
    """A wrong tree: what the last constituent of each holds is moved up into it."""

    def rebuild(node: Tree, children: list[Tree | str]) -> Tree:
        last = children[-1]
        if isinstance(last, Tree) and not last.is_preterminal:
            children = [*children[:-1], *last.children]
        return Tree(node.label, tuple(children))

    return tree.transform(rebuild)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--evalb", help="EVALB's program, built from its source")
    options = parser.parse_args()

    trees = [tree for split in TREEBANK_SAMPLE.splits for tree in TREEBANK_SAMPLE.read_trees(split, Path())]
    lines = [format_tree(tree) for tree in trees]
    words = [list(tree.leaves()) for tree in trees]
    sequences = [linearise(tree) for tree in trees]
    gold = trees[:NUM_SCORED]
    predicted = [attach_higher(tree) for tree in gold]
    other = [nltk.Tree.fromstring(line) for line in lines]
    contestants: dict[str, tuple[int, Callable[[], object]]] = {
        "read": (len(trees), lambda: list(read_trees(lines, "sample"))),
        "read, nltk": (len(trees), lambda: [nltk.Tree.fromstring(line) for line in lines]),
        "write": (len(trees), lambda: [format_tree(tree) for tree in trees]),
        "write, nltk": (len(trees), lambda: [tree.pformat(margin=10**6) for tree in other]),
        "normalise": (len(trees), lambda: [normalise(tree) for tree in trees]),
        "linearise": (len(trees), lambda: [linearise(tree) for tree in trees]),
        "repair": (len(trees), lambda: list(map(repair, sequences, words))),
        "score": (len(gold), lambda: score_trees(gold, predicted)),
        "read both files and score": (
            len(gold),
            lambda: score_trees(*([parse_line(str(tree)) for tree in side] for side in (gold, predicted))),
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("rules", "gold", "predicted")]
        paths[0].write_text(RULES)
        for path, side in zip(paths[1:], (gold, predicted), strict=True):
            path.write_text("".join(f"{format_tree(tree)}\n" for tree in side))
        for _ in range(options.rounds):
            for name, (_, run) in contestants.items():
                start = time.process_time()
                run()
                seconds[name].append(time.process_time() - start)
            if options.evalb:
                start = time.perf_counter()
                subprocess.run([options.evalb, "-e", "100000", "-p", *paths], check=True, capture_output=True)
                seconds.setdefault("EVALB", []).append(time.perf_counter() - start)
    for name, times in seconds.items():
        median = statistics.median(times)
        count = contestants[name][0] if name in contestants else len(gold)
        print(f"{name:28}{count:6,} trees in {median:6.3f} s: {count / median:9,.0f} a second")


if __name__ == "__main__":
    main()
