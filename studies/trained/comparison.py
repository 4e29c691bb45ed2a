"""Two finished runs' outputs on one test set: is one better, or would other sentences have said otherwise?

The bootstrap resamples sentences (`core.scoring.bootstrap`): it says how sure a difference between two trained models
is. How much another seed would change either is not in it; that is what claims and their verdicts weigh.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from core.config import RunConfig
from core.data.lines import decode_lines
from core.data.prepare import prepare
from core.data.split import ParallelSplit
from core.scoring.bleu import hash_lines
from core.scoring.bootstrap import SAMPLES, SEED, PairedBootstrap, compare_paired
from core.scoring.protocol import get_protocol
from results.errors import ResultsError
from results.records import RunRecord, Score
from results.run_folder import DAMAGED, RunFolder
from studies.runs import Workspace
from studies.trained.loading import find_run, read_finished

COLUMNS = ("run", "trial", "scale", "seed", "score", "low", "high", "output")
# The chance of seeing a difference where there is none that is still called one.
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class ScoredOutput:
    """What a run wrote for one split: the lines, the file that holds them, and the score that the run stored."""

    record: RunRecord
    score: Score
    file: Path
    lines: list[str]

    @property
    def reference_sha256(self) -> str:
        """Hash of the references that the run was scored with; empty if it did not keep one."""
        return self.score.details.get("reference_sha256", "")

    @property
    def warnings(self) -> list[str]:
        """What was odd about the output when it was scored."""
        return self.score.details.get("warnings", [])


@dataclass(frozen=True)
class Example:
    """A sentence that the two runs translate differently well; scores are the sentence's own, 0 to 100."""

    line: int
    source: str
    reference: str
    outputs: tuple[str, str]
    scores: tuple[float, float]


@dataclass(frozen=True)
class RunComparison:
    """Two runs compared by one score on one split; `examples` begin with the sentence that differs most."""

    outputs: tuple[ScoredOutput, ScoredOutput]
    bootstrap: PairedBootstrap
    samples: int
    seed: int
    examples: tuple[Example, ...]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """One for each run, in `COLUMNS`: `low` and `high` bound its score, `output` is the file that was scored."""
        return [
            (
                output.record.run,
                f"{output.record.study}/{output.record.trial}",
                output.record.scale,
                output.record.seed,
                score,
                interval.low,
                interval.high,
                str(output.file),
            )
            for output, score, interval in zip(
                self.outputs, self.bootstrap.scores, self.bootstrap.intervals, strict=True
            )
        ]

    @property
    def metric(self) -> str:
        """The score compared, as in `dev_bleu`."""
        return self.outputs[0].score.name

    @property
    def conclusion(self) -> str:
        """What the numbers say and what they leave open, for a reader who does not know the method."""
        score = self.outputs[0].score
        sentences = f"the {score.num_items:,} sentences of {score.dataset}"
        if self.bootstrap.p_value < SIGNIFICANCE:
            better = self.outputs[0 if self.bootstrap.difference > 0 else 1].record.run
            found = f"{better} is better on {sentences}: another choice of sentences would hardly undo the difference."
        else:
            found = f"No difference can be told on {sentences}: another choice of sentences could undo it."
        return f"{found} This is the uncertainty of the test set alone; what other seeds would give is not in it."

    def summary(self) -> str:
        """Protocol, difference, conclusion, warnings and examples, in lines."""
        bootstrap, low, high = self.bootstrap, self.bootstrap.interval.low, self.bootstrap.interval.high
        lines = [
            f"score: {self.metric} by {self.outputs[0].score.signature}",
            f"difference: {bootstrap.difference:+.2f} (first minus second), 95% interval [{low:+.2f}, {high:+.2f}], "
            f"p = {bootstrap.p_value:.3f} ({self.samples:,} samples, seed {self.seed})",
            self.conclusion,
        ]
        for output in self.outputs:
            lines += [f"warning: {output.record.run}: {warning}" for warning in output.warnings]
        runs = [output.record.run for output in self.outputs]
        width = max(map(len, runs))
        for example in self.examples:
            lines += ["", f"line {example.line}", f"  {'source':<{width}}        {example.source}"]
            lines += [f"  {'reference':<{width}}        {example.reference}"]
            for run, score, output in zip(runs, example.scores, example.outputs, strict=True):
                lines += [f"  {run:<{width}} {score:6.2f} {output}"]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        score, bootstrap = self.outputs[0].score, self.bootstrap
        return {
            "metric": self.metric,
            "dataset": score.dataset,
            "num_items": score.num_items,
            "reference_sha256": self.outputs[0].reference_sha256,
            "signature": score.signature,
            "runs": [
                dict(zip(COLUMNS, row, strict=True)) | {"warnings": output.warnings}
                for row, output in zip(self.rows, self.outputs, strict=True)
            ],
            "difference": bootstrap.difference,
            "low": bootstrap.interval.low,
            "high": bootstrap.interval.high,
            "p_value": bootstrap.p_value,
            "samples": self.samples,
            "seed": self.seed,
            "conclusion": self.conclusion,
            "examples": [vars(example) for example in self.examples],
        }


def compare_runs(
    workspace: Workspace,
    names: tuple[str, str],
    split: str,
    metric: str,
    samples: int = SAMPLES,
    seed: int = SEED,
    num_examples: int = 0,
) -> RunComparison:
    """Compare two finished runs of a workspace by a score of their outputs, first minus second.

    Args:
        names: as `studies.trained.loading.find_run` takes them.
        split: `dev` or `test`.
        metric: `bleu`, `bleu_paper` or `chrf`.
        samples: test sets drawn; seed: of the draw, not of a run.

    Raises:
        ValueError: a name that means no finished run, one run twice, a score that a run does not have, or runs whose
            test sets or protocols differ, which no number would compare.
        ResultsError: an output file is missing or not the one that the run wrote.
        DataError: the corpus is not here, or not the one that the runs were scored on.
    """
    folders = [find_run(workspace, name) for name in names]
    if folders[0].path == folders[1].path:
        raise ValueError(f"{names[0]} and {names[1]} are one run, {folders[0].path.name}; name two")
    outputs = tuple(_scored_output(folder, split, metric) for folder in folders)
    _require_comparable(*outputs)

    config = RunConfig.from_dict(outputs[0].record.config)
    protocol = get_protocol(metric, config.data.src, config.data.tgt)
    data = _references(outputs[0], config, split, workspace)
    statistics = [protocol.statistics(output.lines, data.tgt_lines) for output in outputs]
    for output, counts in zip(outputs, statistics, strict=True):
        value = float(protocol.from_statistics(counts.sum(axis=0)))
        if not math.isclose(value, output.score.value, abs_tol=1e-6):
            raise ResultsError(
                f"run {output.record.run} stored {output.score.value:.4f} by {output.score.signature}; its output "
                f"scores {value:.4f} by {protocol.signature}: install the versions that it ran with, or run it again "
                "with --rerun"
            )
    sentences = [protocol.sentence_scores(counts) for counts in statistics]
    gaps = np.abs(sentences[0] - sentences[1])
    farthest = [index for index in np.argsort(-gaps, kind="stable")[:num_examples] if gaps[index] > 0]
    return RunComparison(
        outputs=outputs,
        bootstrap=compare_paired(*statistics, protocol, samples, seed),
        samples=samples,
        seed=seed,
        examples=tuple(
            Example(
                line=int(index) + 1,
                source=data.src_lines[index],
                reference=data.tgt_lines[index],
                outputs=(outputs[0].lines[index], outputs[1].lines[index]),
                scores=(float(sentences[0][index]), float(sentences[1][index])),
            )
            for index in farthest
        ),
    )


def _scored_output(folder: RunFolder, split: str, metric: str) -> ScoredOutput:
    record, result = read_finished(folder)
    scores = {score.name: score for score in result.scores}
    name = f"{split}_{metric}"
    if name not in scores:
        raise ValueError(f"run {record.run} has no score {name}; it has {', '.join(scores)}")
    artifacts = [each for each in result.artifacts if Path(each.path).name == f"{split}.output.txt"]
    if not artifacts:
        raise ResultsError(f"run {record.run} kept no output of its {split} split; run it again with --rerun")
    file = folder.path / artifacts[0].path
    try:
        unchanged = folder.artifact("output", file) == artifacts[0]
        lines = decode_lines(file.read_bytes(), str(file))
    except OSError as error:
        raise ResultsError(f"cannot read {file} ({error.strerror}); {DAMAGED}") from None
    if not unchanged:
        raise ResultsError(f"{file} is not what run {record.run} wrote: its checksum differs; {DAMAGED}")
    return ScoredOutput(record, scores[name], file, lines)


def _require_comparable(first: ScoredOutput, second: ScoredOutput) -> None:
    """Refuse scores of different test sets or protocols (A2, A7)."""
    sides = (first, second)
    for what, values in (
        ("test sets", [side.score.dataset for side in sides]),
        ("test sets", [f"{side.score.num_items} lines" for side in sides]),
        ("test sets", [f"references with sha256 {side.reference_sha256[:12]}" for side in sides]),
        ("protocols", [side.score.signature for side in sides]),
    ):
        if values[0] != values[1]:
            runs = " and ".join(side.record.run for side in sides)
            raise ValueError(f"runs {runs} were scored on other {what} and are not compared: {' and '.join(values)}")


def _references(output: ScoredOutput, config: RunConfig, split: str, workspace: Workspace) -> ParallelSplit:
    name = config.data.dev_split if split == "dev" else config.data.test_split
    data = prepare(config.data, workspace.data).split(name)
    found = hash_lines(data.tgt_lines)
    if found != output.reference_sha256:
        raise ResultsError(
            f"{output.score.dataset} is not the text that run {output.record.run} was scored on: its sha256 is "
            f"{found[:12]}, then it was {output.reference_sha256[:12]}; restore the corpus"
        )
    return data
