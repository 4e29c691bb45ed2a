"""Scores of a parser's output: sequences of symbols against gold trees, with and without repair.

A sequence that is no tree over its words is repaired (`core.data.tree_sequences.repair`) and then scored like any
other; what that took is counted. Without repair such a sentence has no constituents at all, and all its gold ones are
missed. EVALB would leave it out instead, and score the others alone (E2).

Words are deleted by the gold tree's tags on both sides (E15, E22): sequences may not tell tags, and no score depends on
whether they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from core.data.tree_sequences import Repaired, Repairs, TreeFormat, repair
from core.data.trees import Tree
from core.scoring.bleu import TextScore
from core.scoring.bootstrap import LEAST_SENTENCES, LEVEL, SAMPLES, SEED, Interval, resample
from core.scoring.bracketing import BracketingScore, score_trees
from core.scoring.evalb_rules import COLLINS, NEW, NK

_DELETE_BY = "gold_tags"
_UNLABELLED = replace(COLLINS, name="COLLINS-unlabelled", labeled=False)
# By which the same trees are scored too: EVALB's other parameter files (E1, B47), and without labels.
_OTHER_RULES = (NEW, NK, _UNLABELLED)
# The upper ends of the classes of sentence length, in words, that F1 is told by; a last class has what is longer.
LENGTH_CLASSES = (10, 20, 30, 40)
# What the kinds of repair come from, in the words of a report.
ERROR_KINDS = {
    "unbalanced": ("missing_closers", "extra_closers", "wrong_closers", "missing_roots"),
    "wrong leaf count": ("missing_leaves", "extra_leaves"),
    "wrong leaf": ("wrong_leaves",),
    "empty constituent": ("empty_constituents",),
    "too deep": ("too_deep",),
}


@dataclass(frozen=True)
class Parsed:
    """One sentence: what the parser wrote, and the tree that was made of it."""

    symbols: tuple[str, ...]
    repaired: Repaired

    @property
    def tree(self) -> Tree:
        return self.repaired.tree

    @property
    def valid(self) -> bool:
        """Whether the output was a tree over its words as it stood."""
        return self.repaired.repairs.total == 0


def read_parse(line: str, words: Sequence[str], form: TreeFormat, tags: Sequence[str | None] | None = None) -> Parsed:
    """A line of symbols, separated by blanks, as the tree of a sentence.

    Args:
        tags: as in `core.data.tree_sequences.delinearise`.
    """
    symbols = line.split()
    return Parsed(tuple(symbols), repair(symbols, words, form, tags))


def score_parses(lines: Sequence[str], gold: Sequence[Tree], form: TreeFormat) -> list[TextScore]:
    """F1 by COLLINS.prm: `f1` of repaired trees, all lengths (Table 4's), `f1_40` of sentences of at most 40 words, and
    `f1_unrepaired`, where a sentence whose output is no tree has no match.

    Args:
        lines: of symbols, in the order of `gold`.
    Raises:
        ScoringError: unequal numbers, or none.
    """
    parsed = [read_parse(line, list(tree.leaves()), form) for line, tree in zip(lines, gold, strict=False)]
    trees = [each.tree for each in parsed]
    by_rules = {rules.name: score_trees(gold, trees, rules, delete_by=_DELETE_BY) for rules in (COLLINS, *_OTHER_RULES)}
    score = by_rules.pop(COLLINS.name)
    as_written = [each.tree if each.valid else None for each in parsed]
    unrepaired = score_trees(gold, as_written, COLLINS, delete_by=_DELETE_BY)
    details = score.details() | _repair_details(parsed) | _breakdown(score, by_rules[_UNLABELLED.name])
    details["other_protocols"] = {f"{other.signature}|repair:yes": other.value for other in by_rules.values()}
    short = tuple(each for each in score.sentences if each.length <= COLLINS.cutoff_length)
    repaired = f"{score.signature}|repair:yes"
    return [
        TextScore("f1", score.value, repaired, len(gold), _with_interval(details, score)),
        TextScore(
            "f1_40",
            score.short.f1 if score.value is not None else None,
            f"{repaired}|length:<={COLLINS.cutoff_length}",
            len(short),
            _with_interval(score.short.summary() | {"reason": score.reason}, replace(score, sentences=short)),
        ),
        TextScore(
            "f1_unrepaired",
            unrepaired.all.f1_unscored_as_wrong,
            f"{score.signature}|repair:no|invalid:missed",
            len(gold),
            unrepaired.details() | {"reason": None},
        ),
    ]


def score_baseline(predicted: Sequence[Tree], gold: Sequence[Tree]) -> TextScore:
    """`f1` of a parser that writes trees, which need no repair."""
    score = score_trees(gold, predicted, COLLINS, delete_by=_DELETE_BY)
    return TextScore(
        "f1", score.value, f"{score.signature}|repair:none", len(gold), _with_interval(score.details(), score)
    )


def _repair_details(parsed: Sequence[Parsed]) -> dict[str, Any]:
    total = sum((each.repaired.repairs for each in parsed), Repairs())
    return {
        "repaired": sum(not each.valid for each in parsed),
        "repaired_share": sum(not each.valid for each in parsed) / len(parsed),
        "repairs": asdict(total),
        "sentences_with": {
            kind: sum(any(getattr(each.repaired.repairs, name) for name in names) for each in parsed)
            for kind, names in ERROR_KINDS.items()
        },
    }


def _breakdown(score: BracketingScore, unlabelled: BracketingScore) -> dict[str, Any]:
    """F1 by length of the sentence and by label, with the counts; constituents by what is wrong with them."""
    right_span, counts = unlabelled.all.matched, score.all
    return {
        "by_length": _by_length(score),
        "by_label": {label: of_label._asdict() for label, of_label in score.by_label.items()},
        "constituent_errors": {
            "wrong label": right_span - counts.matched,
            "wrong span": counts.predicted - right_span,
            "missed": counts.gold - right_span,
        },
    }


def _by_length(score: BracketingScore) -> list[dict[str, Any]]:
    classes: dict[int, list] = {}
    for sentence in score.sentences:
        index = next((i for i, end in enumerate(LENGTH_CLASSES) if sentence.length <= end), len(LENGTH_CLASSES))
        classes.setdefault(index, []).append(sentence)
    rows = []
    for index, sentences in sorted(classes.items()):
        counts = replace(score, sentences=tuple(sentences)).all
        rows.append(
            {
                "words_from": 1 if index == 0 else LENGTH_CLASSES[index - 1] + 1,
                "words_to": LENGTH_CLASSES[index] if index < len(LENGTH_CLASSES) else None,
                "sentences": len(sentences),
                "f1": counts.f1,
            }
        )
    return rows


def _with_interval(details: dict[str, Any], score: BracketingScore) -> dict[str, Any]:
    """The details, and where 95% of resampled test sets would put the score."""
    details = details | {"test_set_interval": None}
    if len(score.sentences) < LEAST_SENTENCES or score.reason is not None:
        return details
    counts = np.array([(each.matched, each.gold, each.predicted) for each in score.sentences], dtype=np.float64)
    totals = resample(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.nan_to_num(200.0 * totals[:, 0] / (totals[:, 1] + totals[:, 2]))
    details["test_set_interval"] = {
        **asdict(Interval.of(drawn)),
        **{"level": LEVEL, "samples": SAMPLES, "seed": SEED},
        "replicates": [round(value, 4) for value in drawn.tolist()],
    }
    return details
