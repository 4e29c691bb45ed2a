"""Training to the letter of section 5: token batches, accumulated updates, Adam with Eq. 3; exact to resume."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from core.architectures import build_model
from core.averaging import member_steps
from core.checkpoint import Checkpoint, CheckpointError
from core.config import Precision, RunConfig
from core.data.batching import UpdateStream, evaluation_batches, share
from core.data.split import ParallelSplit
from core.loss import LossSums, projected_cross_entropy
from core.packing import PackedBatch, pack
from core.parallel import ALONE, Ranks
from core.precision import float32_products, forward_types
from core.schedule import learning_rate
from core.sequence_model import SequenceModel

OnMetrics = Callable[[int, str, Mapping[str, float], float], None]
"""Called with the update's number, the split ("train" or "dev"), values by name, and the training seconds so far."""


class DivergedError(Exception):
    """The loss left the finite numbers: a result of this configuration, not a fault of the program."""

    def __init__(self, step: int, loss: float) -> None:
        super().__init__(step, loss)  # both, so that the error survives pickling
        self.step, self.loss = step, loss

    def __str__(self) -> str:
        return f"training diverged: loss {self.loss} by update {self.step}"


@dataclass(frozen=True)
class Evaluation:
    """Plain cross-entropy on a split: `nll` in nats a word piece (end symbols counted), `num_pieces` of them."""

    nll: float
    num_pieces: int

    @property
    def perplexity(self) -> float:
        """exp(nll): per word piece, as in Table 3's note; not per word."""
        return math.exp(self.nll) if self.nll < 700 else math.inf


def batch_loss(model: SequenceModel, batch: PackedBatch, label_smoothing: float) -> LossSums:
    """Summed losses of one batch: its forward pass, and what of its backward pass the loss makes beforehand."""
    hidden = model.forward_packed(batch)
    return projected_cross_entropy(hidden, model.embedding.weight, batch.tgt_out, label_smoothing)


@torch.inference_mode()
def evaluate(model: SequenceModel, split: ParallelSplit, max_batch_tokens: int, ranks: Ranks = ALONE) -> Evaluation:
    """Cross-entropy of a split in eval mode; the value does not depend on how the split is cut into batches.

    Several ranks each take their part of the batches and all get the result.
    """
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    sums = torch.zeros(2, dtype=torch.float64, device=device)  # nll, pieces
    for indices in evaluation_batches(split, max_batch_tokens)[ranks.rank :: ranks.world_size]:
        batch = pack(split, indices, device)
        sums[0] += batch_loss(model, batch, label_smoothing=0.0).nll.double()
        sums[1] += batch.tgt_out.numel()
    nll, num_pieces = ranks.sum(sums).tolist()
    model.train(was_training)
    return Evaluation(nll / num_pieces, int(num_pieces))


class _Loss(nn.Module):
    """`batch_loss` as a module, which is what torch's data-parallel wrapper can wrap."""

    def __init__(self, model: SequenceModel, label_smoothing: float, precision: Precision) -> None:
        super().__init__()
        self.model, self.label_smoothing, self.precision = model, label_smoothing, precision

    def forward(self, batch: PackedBatch) -> tuple[Tensor, Tensor]:
        with forward_types(self.precision, batch.src.device):
            sums = batch_loss(self.model, batch, self.label_smoothing)
        return sums.smoothed, sums.nll


@dataclass
class Window:
    """Sums since the last line of the log; part of a checkpoint, so that the next line does not depend on a restart.

    `loss` and `nll` are float64 scalars on the device, or floats. Seconds are of the host: what a GPU still has to do
    is counted where the host waits for it.
    """

    loss: Tensor | float = 0.0
    nll: Tensor | float = 0.0
    source_pieces: int = 0
    target_pieces: int = 0
    updates: int = 0
    seconds_data: float = 0.0
    seconds_compute: float = 0.0
    seconds_optimizer: float = 0.0

    @property
    def seconds(self) -> float:
        """Training time, without evaluations and checkpoints."""
        return self.seconds_data + self.seconds_compute + self.seconds_optimizer

    @contextmanager
    def clock(self, part: str) -> Iterator[None]:
        """Add the time inside to `seconds_<part>`."""
        started = time.perf_counter()
        try:
            yield
        finally:
            name = f"seconds_{part}"
            setattr(self, name, getattr(self, name) + time.perf_counter() - started)


class Trainer:
    """One run's training: model, optimiser, place in the data, random state.

    The same seed gives the same numbers to the last digit on a CPU with the same number of threads, also when the run
    is cut off anywhere and taken up from its last checkpoint.

    Several ranks make the same updates as one, up to rounding and their dropout masks: each computes its share of an
    update's sentences, and gradients are summed over ranks. All of them call the same methods; the first one alone
    logs and saves.
    """

    def __init__(
        self,
        run: str,
        config: RunConfig,
        train_split: ParallelSplit,
        dev_split: ParallelSplit,
        seed: int,
        device: torch.device,
        ranks: Ranks = ALONE,
        micro_batch_parts: int = 1,
    ) -> None:
        """`micro_batch_parts` cuts each micro-batch into so many, for want of memory; updates stay the same."""
        torch.manual_seed(seed)
        self.run, self.config, self.device, self.ranks = run, config, device, ranks
        self.train_split, self.dev_split = train_split, dev_split
        self.model = build_model(config.model).to(device)
        if config.train.compiled and device.type == "cuda":
            self.model.compile_between_products()
        self._loss: nn.Module = _Loss(self.model, config.optim.label_smoothing, config.train.precision)
        if ranks.world_size > 1:
            self._loss = DistributedDataParallel(self._loss, gradient_as_bucket_view=True)
        if not ranks.is_first:
            torch.manual_seed(_seed_of_rank(seed, ranks.rank))  # of dropout: the weights are drawn
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=0.0,  # set by Eq. 3 before every update
            betas=(config.optim.beta1, config.optim.beta2),
            eps=config.optim.eps,
            fused=True,
        )
        self.stream = UpdateStream(train_split, config.train, seed)
        self._parts = micro_batch_parts
        self.step = 0
        self.seconds = 0.0
        self._window = Window()

    def update(self) -> Tensor:
        """One optimiser step over all micro-batches of the next update; returns its mean loss, on the device.

        Each micro-batch's summed loss is divided by the target pieces of the whole update, on all ranks, so that the
        gradient is the one of a single large batch, however it was cut.
        """
        split, world_size = self.train_split, self.ranks.world_size
        with self._window.clock("data"):
            whole = self.stream.next_update()
            num_pieces = sum(int(split.tgt_lengths[indices].sum()) for indices in whole)
            micro_batches = whole if world_size == 1 else share(whole, split, self.ranks.rank, world_size)
            micro_batches = [
                part for batch in micro_batches for part in np.array_split(batch, min(self._parts, len(batch)))
            ]
        self.optimizer.zero_grad(set_to_none=True)
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)  # loss, nll
        for number, indices in enumerate(micro_batches, start=1):
            with self._window.clock("data"):
                batch = pack(split, indices, self.device)
            with self._window.clock("compute"), self._summed_over_ranks(number == len(micro_batches)):
                with float32_products(self.config.train.precision, self.device):
                    smoothed, nll = self._loss(batch)
                    # The wrapper takes the mean over ranks where the sum is meant.
                    (world_size * smoothed / num_pieces).backward()
                # Sums stay on the device: reading them here would make it wait after every micro-batch.
                sums += torch.stack((smoothed.detach(), nll)).double()
        with self._window.clock("compute"):
            loss, nll = self.ranks.sum(sums).unbind()
        self._window.loss, self._window.nll = self._window.loss + loss, self._window.nll + nll
        self._window.source_pieces += sum(int(split.src_lengths[indices].sum()) for indices in whole)
        self._window.target_pieces += num_pieces
        self._window.updates += 1
        self.step += 1
        with self._window.clock("optimizer"):
            optim = self.config.optim
            if optim.max_grad_norm is not None:
                # DEPARTURE(5.3): max_grad_norm scales a longer gradient down to this norm, because recurrent and
                # convolutional models of their own papers need it; the paper's training has none, and base has None.
                nn.utils.clip_grad_norm_(self.model.parameters(), optim.max_grad_norm)
            # DEPARTURE(5.3): learning_rate_scale multiplies Eq. 3; the paper's is 1. Other architectures are each given
            # one of their own, and section 6.3 chose rates on the development set without saying which.
            rate = optim.learning_rate_scale * learning_rate(self.step, self.config.model.d_model, optim.warmup_steps)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
        return loss / num_pieces

    def _summed_over_ranks(self, now: bool) -> AbstractContextManager[None]:
        """Gradients are exchanged once an update, in the backward pass of its last micro-batch."""
        return nullcontext() if now or self.ranks.world_size == 1 else self._loss.no_sync()

    def train(
        self,
        on_metrics: OnMetrics,
        save: Callable[[Checkpoint], None],
        *,
        keep: Callable[[int, Mapping[str, Tensor]], None] | None = None,
        on_evaluation: Callable[[int], None] | None = None,
    ) -> None:
        """Train up to `train_steps` updates, from wherever the trainer stands.

        Args:
            save: writes a checkpoint, before the next update changes its tensors.
            keep: writes the weights after an update that is to be averaged (`core.averaging`); needed only where the
                configuration averages.
            on_evaluation: called on the first rank after each evaluation, the model in training mode.

        Raises:
            DivergedError: the loss of an update, or of the development set, is not finite.
        """
        plan = self.config.train
        to_keep = frozenset(member_steps(plan))
        if to_keep and keep is None:
            raise ValueError(f"average_last={plan.average_last} needs a place to keep the members: pass keep")
        log = on_metrics if self.ranks.is_first else _say_nothing
        self.model.train()
        while self.step < plan.train_steps:
            loss = self.update()
            last = self.step == plan.train_steps
            # Looking at the loss makes a GPU wait; there, the next line of the log tells.
            diverged = self.device.type == "cpu" and not math.isfinite(loss)
            if self.step % plan.log_every_steps == 0 or last or diverged:
                self._log_window(log)
            if self.step % plan.eval_every_steps == 0 or last:
                self._log_evaluation(log)
                if on_evaluation is not None and self.ranks.is_first:
                    on_evaluation(self.step)
            # Members before checkpoints: whoever goes on from a checkpoint finds all members up to it.
            started = time.perf_counter()
            if self.step in to_keep and self.ranks.is_first:
                keep(self.step, self.model.state_dict())
            if self.step % plan.checkpoint_every_steps == 0 or last:
                checkpoint = self.checkpoint()
                if self.ranks.is_first:
                    save(checkpoint)
                log(self.step, "train", {"seconds_checkpoint": time.perf_counter() - started}, self.seconds)

    def _log_window(self, on_metrics: OnMetrics) -> None:
        window, self._window = self._window, Window()
        loss, nll = float(window.loss), float(window.nll)  # waits for the device, within the window's time
        self.seconds += window.seconds
        values = {
            "loss": loss / window.target_pieces,
            "nll": nll / window.target_pieces,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "source_tokens_per_update": window.source_pieces / window.updates,
            "target_tokens_per_update": window.target_pieces / window.updates,
            "tokens_per_second": window.target_pieces / window.seconds,
            "seconds_data": window.seconds_data,
            "seconds_compute": window.seconds_compute,
            "seconds_optimizer": window.seconds_optimizer,
        }
        on_metrics(self.step, "train", values, self.seconds)
        if not math.isfinite(values["loss"]):
            raise DivergedError(self.step, values["loss"])

    def _log_evaluation(self, on_metrics: OnMetrics) -> None:
        started = time.perf_counter()
        max_tokens = max(1, self.config.train.micro_batch_tokens // self._parts)
        evaluation = evaluate(self.model, self.dev_split, max_tokens, self.ranks)
        seconds = time.perf_counter() - started
        values = {"nll": evaluation.nll, "ppl": evaluation.perplexity, "seconds_evaluation": seconds}
        on_metrics(self.step, "dev", values, self.seconds)
        if not math.isfinite(evaluation.nll):
            raise DivergedError(self.step, evaluation.nll)

    def checkpoint(self) -> Checkpoint:
        """The trainer's whole state, between two updates. Its tensors are the live ones: write it before the next."""
        window = asdict(self._window) | {"loss": float(self._window.loss), "nll": float(self._window.nll)}
        random = self._gathered("cpu", torch.get_rng_state())
        if self.device.type == "cuda":
            random |= self._gathered("cuda", torch.cuda.get_rng_state(self.device))
        return Checkpoint(
            run=self.run,
            step=self.step,
            config=self.config.to_dict(),
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            progress={"seconds": self.seconds, "data": self.stream.state(), "window": window},
            random=random,
        )

    def _gathered(self, device: str, state: Tensor) -> dict[str, Tensor]:
        return {_random_key(device, rank): each for rank, each in enumerate(self.ranks.gather(state))}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to the state that `checkpoint` holds; every later number is then the one of an unbroken run.

        Raises:
            CheckpointError: the checkpoint is of another configuration, or was written on another kind of device or by
                another number of ranks.
        """
        if checkpoint.config != self.config.to_dict():
            raise CheckpointError(
                f"the checkpoint at update {checkpoint.step} was written with another configuration; it is not loaded"
            )
        devices = sorted({"cpu", self.device.type})
        wanted = {_random_key(device, rank) for device in devices for rank in range(self.ranks.world_size)}
        if set(checkpoint.random) != wanted:
            raise CheckpointError(
                f"the checkpoint at update {checkpoint.step} has random states for "
                f"{', '.join(sorted(checkpoint.random))}, and this run needs {', '.join(sorted(wanted))}; "
                "resume on the kind and number of devices that it was written on, or start again with --rerun"
            )
        self.model.load_state_dict(checkpoint.model)
        self.optimizer.load_state_dict(checkpoint.optimizer)
        self.stream.restore(checkpoint.progress["data"])
        self.step, self.seconds = checkpoint.step, checkpoint.progress["seconds"]
        self._window = Window(**checkpoint.progress["window"])
        torch.set_rng_state(checkpoint.random[_random_key("cpu", self.ranks.rank)])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(checkpoint.random[_random_key("cuda", self.ranks.rank)], self.device)


def _random_key(device: str, rank: int) -> str:
    """`cpu` or `cuda` for the first rank, `cpu:1` and so on for the others."""
    return device if rank == 0 else f"{device}:{rank}"


def _seed_of_rank(seed: int, rank: int) -> int:
    """A seed that no run's first rank has: those are small."""
    return (rank << 40) + seed


def _say_nothing(step: int, split: str, values: Mapping[str, float], seconds: float) -> None:
    """What ranks after the first one log."""
