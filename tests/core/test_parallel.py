"""Several ranks make the updates of one: real processes, gloo between them, float64 (pitfall C10)."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import multiprocessing, nn

from core.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from core.config import DataConfig, ModelConfig, OptimConfig, RunConfig, TrainConfig
from core.data.split import ParallelSplit, Sentences
from core.parallel import Ranks, find_meeting, open_meeting, process_group
from core.trainer import Trainer

RUN, VOCAB, STEPS = "0123456789ab", 20, 6
PATIENCE = timedelta(seconds=60)
CONFIG = RunConfig(
    model=ModelConfig(VOCAB, num_layers=1, d_model=16, d_ff=24, num_heads=2, d_k=8, d_v=8, dropout=0.0),
    data=DataConfig("tiny", "en", "de", vocab_size=VOCAB, dev_split="dev", test_split="test"),
    optim=OptimConfig(warmup_steps=4),
    train=TrainConfig(
        train_steps=STEPS,
        source_tokens=150,
        target_tokens=150,
        micro_batch_tokens=40,
        log_every_steps=2,
        eval_every_steps=3,
        checkpoint_every_steps=3,
    ),
)


def random_split(num_pairs: int, seed: int) -> ParallelSplit:
    rng = np.random.default_rng(seed)
    sides = [[rng.integers(3, VOCAB, rng.integers(1, 12)).tolist() for _ in range(num_pairs)] for _ in range(2)]
    return ParallelSplit(*(Sentences.from_lists(side, VOCAB) for side in sides), read_lines=lambda: ([], []))


def build(config: RunConfig, ranks: Ranks) -> Trainer:
    train, dev = random_split(60, seed=0), random_split(9, seed=5)
    return Trainer(RUN, config, train, dev, seed=1, device=torch.device("cpu"), ranks=ranks)


def train(config: RunConfig, ranks: Ranks, folder: Path, resume: Path | None = None) -> None:
    """One rank's whole run; the first one writes down the curve, the weights and the checkpoints."""
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    trainer = build(config, ranks)
    if resume is not None:
        trainer.restore(load_checkpoint(resume, RUN))
    curve: list[tuple] = []

    def on_metrics(step: int, split: str, values: dict[str, float], seconds: float) -> None:
        curve.append((step, split, {name: values[name] for name in ("loss", "nll", "ppl") if name in values}))

    def save(checkpoint: Checkpoint) -> None:
        save_checkpoint(folder, checkpoint, keep=9)

    trainer.train(on_metrics, save)
    weights = nn.utils.parameters_to_vector(trainer.model.parameters()).detach()
    torch.save({"curve": curve, "weights": weights}, folder / f"rank-{ranks.rank}.pt")


def _rank(rank: int, world_size: int, port: int, config: RunConfig, folder: Path, resume: Path | None) -> None:
    ranks = Ranks(rank, world_size)
    with process_group(ranks, find_meeting("127.0.0.1", port, PATIENCE), torch.device("cpu"), PATIENCE):
        train(config, ranks, folder, resume)


def run_on(world_size: int, folder: Path, config: RunConfig = CONFIG, resume: Path | None = None) -> list[dict]:
    """What each rank had at the end."""
    folder.mkdir()
    meeting = open_meeting("127.0.0.1", world_size, PATIENCE)
    arguments = (world_size, meeting.port, config, folder, resume)
    multiprocessing.spawn(_rank, arguments, nprocs=world_size)
    return [torch.load(folder / f"rank-{rank}.pt", weights_only=True) for rank in range(world_size)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict:
    (result,) = run_on(1, tmp_path_factory.mktemp("alone") / "1")
    return result


@pytest.mark.parametrize("world_size", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_make_the_updates_and_the_curve_of_one(world_size: int, alone: dict, tmp_path: Path):
    first, *others = run_on(world_size, tmp_path / "ranks")
    torch.testing.assert_close(first["weights"], alone["weights"], rtol=0.0, atol=1e-10)
    assert [line[:2] for line in first["curve"]] == [line[:2] for line in alone["curve"]]
    for (_, _, ours), (_, _, theirs) in zip(first["curve"], alone["curve"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-10)
    for other in others:
        assert torch.equal(other["weights"], first["weights"])  # they never drift apart
        assert other["curve"] == []  # and say nothing


@pytest.mark.slow
def test_dropout_differs_between_ranks_and_resumes_to_the_last_bit(tmp_path: Path):
    config = replace(CONFIG, model=replace(CONFIG.model, dropout=0.3))
    whole = run_on(2, tmp_path / "whole", config)
    again = run_on(2, tmp_path / "again", config, resume=tmp_path / "whole" / "step-00000003.pt")
    for ours, theirs in zip(again, whole, strict=True):
        assert torch.equal(ours["weights"], theirs["weights"])
    assert again[0]["curve"] == [line for line in whole[0]["curve"] if line[0] > 3]
    random = load_checkpoint(tmp_path / "whole" / "step-00000003.pt", RUN).random
    assert set(random) == {"cpu", "cpu:1"}
    assert not torch.equal(random["cpu"], random["cpu:1"])


def test_a_checkpoint_of_another_number_of_ranks_is_refused(tmp_path: Path):
    checkpoint = build(CONFIG, Ranks()).checkpoint()
    path = save_checkpoint(
        tmp_path, replace(checkpoint, random=checkpoint.random | {"cpu:1": checkpoint.random["cpu"]})
    )
    with pytest.raises(CheckpointError, match="number of devices"):
        build(CONFIG, Ranks()).restore(load_checkpoint(path, RUN))


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2), (0, 0)])
def test_a_rank_outside_its_world_is_refused(rank: int, world_size: int):
    with pytest.raises(ValueError, match=f"rank={rank} must be at least 0 and less than world_size={world_size}"):
        Ranks(rank, world_size)
