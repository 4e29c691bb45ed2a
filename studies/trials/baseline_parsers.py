"""Table 4's own yardsticks: parsers that need no training, scored as the trained ones are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from core.baselines.grammar_parsers import RightBranching, TreebankGrammar
from core.config import RunConfig
from core.data.corpora import get_pairs
from core.data.trees import Tree
from core.scoring.parses import score_baseline
from results.records import RunRecord, RunResult, Score
from results.run_folder import RunFolder
from studies.runs import Workspace
from studies.trials.phases import Phases
from studies.work import BaselineParser


def measure(work: BaselineParser, record: RunRecord, folder: RunFolder, workspace: Workspace) -> RunResult:
    """Read a parser off the training trees, the same ones that a training at this scale has, and score both splits.

    A sentence for which the grammar has no tree gets the right-branching one; how many these were is in the details.
    """
    data = replace(RunConfig.from_dict(record.config).data, recombined=0)  # a grammar has its trees' parts already
    pairs = get_pairs(data, workspace.data)
    phase = Phases()
    with phase("train"):
        trees = list(pairs.read_trees("train", workspace.data))
        branching = RightBranching.learn(trees)
        grammar = TreebankGrammar(trees) if work.method == "pcfg" else None
    scores, artifacts = [], []
    for name, split in (("dev", data.dev_split), ("test", data.test_split)):
        gold = list(pairs.read_trees(split, workspace.data))
        with phase("decode"):
            found = [grammar.parse(list(tree.leaves())) if grammar else None for tree in gold]
            made = [tree or branching.parse(list(one.leaves())) for tree, one in zip(found, gold, strict=True)]
        with phase("score"):
            score = score_baseline(made, gold)
        details = score.details | {"without_tree": sum(tree is None for tree in found) if grammar else 0}
        dataset = f"{data.corpus}/{split}/{data.src}-{data.tgt}"
        scores.append(Score(f"{name}_{score.name}", score.value, score.signature, dataset, score.num_items, details))
        path = folder.path / f"{name}.trees.txt"
        _write_trees(path, made)
        artifacts.append(folder.artifact("trees", path))
    return RunResult(
        seconds=sum(phase.seconds.values()),
        params=grammar.num_rules if grammar else 0,
        phases=phase.seconds,
        scores=tuple(scores),
        artifacts=tuple(artifacts),
    )


def _write_trees(path: Path, trees: list[Tree]) -> None:
    path.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf-8")
