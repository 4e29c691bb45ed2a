"""Silver trees: what a first parser makes of sentences without gold ones, as far as it is sure of them (section 6.3).

The paper's 17 million automatic parses were never published (E20). Below its scale the idea is kept: a first model,
trained on a part of the gold trees, parses the sentences of the rest, whose own trees nobody looks at but to say how
good the silver ones are; the more confident share of them is trained on besides that part.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import islice
from typing import NamedTuple

import torch

from core.config import RunConfig
from core.data.corpora import get_treebank, tree_format
from core.data.corpus import TRAIN_SPLIT
from core.data.treebanks.tree_pairs import TreePairs, source_line
from core.data.trees import Tree, parse_line
from core.decode import translate
from core.scoring.parses import Parsed, read_parse, score_baseline
from results.records import RunRecord, Score
from results.run_folder import RunFolder
from studies.runs import Workspace
from studies.trained.loading import TrainedRun, load_finished
from studies.work import SelfTraining

TREES_FILE, SCORE_FILE = "silver.trees.txt", "silver.json"


class Silver(NamedTuple):
    """Trees to be trained on, and how good they are: F1 against the gold trees that were set aside."""

    trees: list[Tree]
    score: Score


class _Candidate(NamedTuple):
    parsed: Parsed
    gold: Tree
    confidence: float


def silver_trees(
    work: SelfTraining, record: RunRecord, folder: RunFolder, workspace: Workspace, device: torch.device
) -> Silver:
    """The silver trees of a run: read from its folder, or made and written there first.

    A tree is wanted if its sequence was right as it stood, and among the `work.keep_share` with the highest
    log-probability a symbol, end symbol included.

    Raises:
        ValueError: the first parser's run is not done.
    """
    trees_file, score_file = folder.path / TREES_FILE, folder.path / SCORE_FILE
    if score_file.exists():
        trees = [parse_line(line)[0] for line in trees_file.read_text(encoding="utf-8").splitlines()]
        return Silver(trees, Score(**json.loads(score_file.read_text(encoding="utf-8"))))
    data = RunConfig.from_dict(record.config).data
    treebank = get_treebank(data.corpus)
    num_gold = TreePairs.of(treebank, tree_format(data), data.train_share).num_gold
    rest = list(islice(treebank.read_trees(TRAIN_SPLIT, workspace.data), num_gold, None))
    first = load_finished(record, workspace)
    candidates = _parse(first, rest, device)
    valid = sorted((one for one in candidates if one.parsed.valid), key=lambda one: -one.confidence)
    kept = valid[: int(work.keep_share * len(candidates))]
    score = _score(kept, candidates, f"{data.corpus}/{TRAIN_SPLIT}/{data.src}-{data.tgt}")
    trees_file.write_text("".join(f"{one.parsed.tree}\n" for one in kept), encoding="utf-8")
    score_file.write_text(json.dumps(asdict(score)), encoding="utf-8")  # last: it says that both are whole
    return Silver([one.parsed.tree for one in kept], score)


def _parse(first: TrainedRun, gold: Sequence[Tree], device: torch.device) -> list[_Candidate]:
    lines = [source_line(tree.leaves()) for tree in gold]
    hypotheses = translate(first.model.to(device), first.vocabulary.encode_batch(lines), first.config.decode)
    outputs = first.vocabulary.decode_batch([hypothesis.pieces for hypothesis in hypotheses])
    form = tree_format(first.config.data)
    return [
        _Candidate(
            read_parse(output, list(tree.leaves()), form),
            tree,
            hypothesis.log_prob / (len(hypothesis.pieces) + 1),
        )
        for output, hypothesis, tree in zip(outputs, hypotheses, gold, strict=True)
    ]


def _score(kept: Sequence[_Candidate], candidates: Sequence[_Candidate], dataset: str) -> Score:
    of_all = score_baseline([one.parsed.tree for one in candidates], [one.gold for one in candidates])
    counts = {
        "sentences": len(candidates),
        "valid": sum(one.parsed.valid for one in candidates),
        "kept": len(kept),
        "f1_of_all_sentences": of_all.value,
    }
    if not kept:
        counts["reason"] = f"none of {len(candidates)} sentences got a tree that needed no repair"
        return Score("silver_f1", None, of_all.signature, dataset, 0, counts)
    of_kept = score_baseline([one.parsed.tree for one in kept], [one.gold for one in kept])
    details = of_kept.details | counts | {"least_confidence": kept[-1].confidence}
    return Score("silver_f1", of_kept.value, of_kept.signature, dataset, len(kept), details)
