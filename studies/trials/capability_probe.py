"""Capabilities measured: a small model is trained on each probe task, then asked; and its waiting steps are counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from core.architecture_config import ArchitectureConfig, FeedForwardConfig
from core.architectures import build_model
from core.baselines.labellers import UnsuitableError
from core.config import DecodeConfig, RunConfig
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.decode import translate
from core.layer_measures import operations_in_turn
from core.probe_tasks import FIRST_ID, TASKS, Examples, ProbeTask
from core.sequence_model import SequenceModel, num_parameters
from results.records import RunRecord, RunResult, Score
from studies.capabilities import PROPERTIES
from studies.trials.phases import Phases
from studies.work import CapabilityProbe

NUM_HELD_OUT = 1_000
BATCH_SIZE = 64
WARMUP_UPDATES = 50
MAX_GRAD_NORM = 1.0
# A training ends early where the mean loss of the last updates says that nothing is left to be learned.
LEARNED_NLL, LEARNED_UPDATES = 0.03, 30
# Lengths between which steps are counted; from 32 on no layer takes another way for short rows.
SHORTER, LONGER = 32, 64


def measure(probe: CapabilityProbe, record: RunRecord, device: torch.device) -> RunResult:
    """Carry out one probe: for each property the score of its task, or the steps, and whether that is enough."""
    config, phase = RunConfig.from_dict(record.config), Phases()
    tasks = {task.name: (number, task) for number, task in enumerate(TASKS)}
    scores = []
    for row in PROPERTIES:
        with phase(row.id):
            if row.id in tasks:
                number, task = tasks[row.id]
                score = _measure_task(task, number, config, probe, record.seed, device)
            else:
                score = _count_steps(config.model)
        held_against = {"value": score.value, "threshold": row.threshold}
        cell = replace(score, name=row.cell, value=float(row.is_had(score.value)), details=held_against)
        scores += [score, cell]
    return RunResult(
        seconds=sum(phase.seconds.values()),
        params=num_parameters(build_model(config.model)),
        phases=phase.seconds,
        scores=tuple(scores),
        artifacts=(),
    )


def _sized(model: ArchitectureConfig, longest: int) -> ArchitectureConfig:
    """What concatenates word vectors has as many places as the longest input that it is trained on."""
    return replace(model, max_pieces=longest) if isinstance(model, FeedForwardConfig) else model


# Tasks ----------------------------------------------------------------------------------------------------------------


def _measure_task(
    task: ProbeTask, number: int, config: RunConfig, probe: CapabilityProbe, seed: int, device: torch.device
) -> Score:
    torch.manual_seed(seed)
    model = build_model(_sized(config.model, task.longest)).to(device)
    training, asking = (np.random.default_rng([seed, number, purpose]) for purpose in range(2))
    held_out = task.draw(asking, NUM_HELD_OUT, True)
    details: dict[str, Any] = {"chance": task.chance, "task": task.description}
    try:
        details["updates"] = train(model, task, training, config.train.train_steps, probe.learning_rate, device)
        is_right = ask(model, task, held_out, device)
    except UnsuitableError as refusal:  # the model says what it cannot: that is the answer
        details |= {"refused": str(refusal), "accuracy": 0.0}
        return _score(task, 0.0, NUM_HELD_OUT, details)
    if held_out.distance is not None:
        details["by_distance"] = _by_distance(is_right, held_out.distance)
        if task.far is not None:
            is_right = is_right[held_out.distance >= task.far]
    accuracy = float(is_right.mean())
    skill = (accuracy - task.chance) / (1.0 - task.chance)
    return _score(task, skill, len(is_right), details | {"accuracy": accuracy})


def _score(task: ProbeTask, skill: float, num_items: int, details: dict[str, Any]) -> Score:
    signature = f"probe:{task.name}|answer:{task.answer}|from:chance|to:perfect"
    return Score(f"{task.name}_skill", skill, signature, f"probe/{task.name}", num_items, details)


def _by_distance(is_right: NDArray[np.bool_], distance: NDArray[np.int64]) -> list[dict[str, float]]:
    return [
        {
            "distance": int(each),
            "accuracy": float(is_right[distance == each].mean()),
            "items": int((distance == each).sum()),
        }
        for each in np.unique(distance)
    ]


def train(
    model: SequenceModel,
    task: ProbeTask,
    random: np.random.Generator,
    most_updates: int,
    learning_rate: float,
    device: torch.device,
) -> int:
    """Adam on new examples in every update; the rate rises, stays, and falls in the last quarter.

    Returns:
        updates made: fewer than `most_updates` where nothing is left to be learned.

    Raises:
        UnsuitableError: the model cannot give such an output at all.
    """
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True)
    newest: deque[float] = deque(maxlen=LEARNED_UPDATES)
    for update in range(1, most_updates + 1):
        examples = task.draw(random, BATCH_SIZE, False)
        src, tgt = (torch.from_numpy(ids).to(device) for ids in (examples.src, examples.tgt))
        is_real = tgt != PAD_ID
        logits = model.logits(model(src, _shifted(tgt))[is_real])
        loss = nn.functional.cross_entropy(logits, tgt[is_real])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        left = (most_updates - update + 1) / (most_updates / 4)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, update / WARMUP_UPDATES, left)
        optimizer.step()
        newest.append(loss.item())
        if len(newest) == LEARNED_UPDATES and sum(newest) / LEARNED_UPDATES < LEARNED_NLL:
            return update
    return most_updates


def _shifted(tgt: Tensor) -> Tensor:
    """What the decoder reads: the begin symbol and all but the last piece, as many as there are real ones."""
    return nn.functional.pad(tgt, (1, -1), value=BOS_ID).where(tgt != PAD_ID, PAD_ID)


def ask(model: SequenceModel, task: ProbeTask, examples: Examples, device: torch.device) -> NDArray[np.bool_]:
    """(answers,) which of them are right: a label for a sentence, each of its pieces' labels, or a whole sequence.

    All but single labels come from the same search as any translation, greedily.
    """
    model.eval()
    if task.answer == "label":
        src = torch.from_numpy(examples.src).to(device)
        with torch.inference_mode():
            logits = model.logits(model(src, src.new_full((len(src), 1), BOS_ID)))[:, 0]
        return logits.argmax(dim=-1).cpu().numpy() == examples.tgt[:, 0]
    sources, wanted = (_without_symbols(ids) for ids in (examples.src, examples.tgt))
    found = [list(hypothesis.pieces) for hypothesis in translate(model, sources, DecodeConfig(beam_size=1))]
    if task.answer == "sequence":
        return np.array([output == answer for output, answer in zip(found, wanted, strict=True)])
    return np.array(
        [
            place < len(output) and output[place] == label
            for output, answer in zip(found, wanted, strict=True)
            for place, label in enumerate(answer)
        ]
    )


def _without_symbols(ids: NDArray[np.int64]) -> list[list[int]]:
    return [row[row > EOS_ID].tolist() for row in ids]


# Steps ----------------------------------------------------------------------------------------------------------------


def _count_steps(model_config: ArchitectureConfig) -> Score:
    """How many operations more wait for each other for each position more, of input and output alike.

    Counted in double precision, since a CPU's kernel for a float32 recurrence hides its steps in one operation.
    """
    model = build_model(_sized(model_config, LONGER)).double()
    chains = {length: operations_in_turn(output) for length, output in _outputs(model)}
    added = (chains[LONGER] - chains[SHORTER]) / (LONGER - SHORTER)
    details = {"operations": {str(length): chain for length, chain in chains.items()}}
    return Score("added_steps", added, "counted:autograd-graph|pass:training", "probe/parallel", 1, details)


def _outputs(model: SequenceModel) -> Iterator[tuple[int, Tensor]]:
    for length in (SHORTER, LONGER):
        pieces = torch.full((1, length), FIRST_ID)
        yield length, model(pieces, pieces).sum()
