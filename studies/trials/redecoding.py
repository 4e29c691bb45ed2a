"""A finished run's development split once more, with other settings of the search: how section 6.3 chose a beam."""

from __future__ import annotations

from dataclasses import replace

import torch

from core.data.prepare import prepare
from core.sequence_model import num_parameters
from results.records import RunRecord, RunResult
from studies.runs import Workspace
from studies.trained.loading import load_finished
from studies.trials.phases import Phases
from studies.trials.scoring import reference_of, score_output
from studies.work import Redecoding


def measure(work: Redecoding, record: RunRecord, workspace: Workspace, device: torch.device) -> RunResult:
    """Decode and score the development split.

    Raises:
        ValueError: the run is not done.
    """
    phase = Phases()
    with phase("setup"):
        run = load_finished(record, workspace)
        decode = replace(run.config.decode, beam_size=work.beam_size, length_penalty=work.length_penalty)
        config = replace(run.config, decode=decode)
        data = prepare(config.data, workspace.data)
        name = config.data.dev_split
        split = data.split(name)
        reference = reference_of(config.data, name, split, workspace)
        model = run.model.to(device)
    _, scores = score_output("dev", name, split, reference, model, config, data.vocabulary, phase)
    return RunResult(
        seconds=sum(phase.seconds.values()),
        params=num_parameters(model),
        phases=phase.seconds,
        scores=tuple(scores),
        artifacts=(),
    )
