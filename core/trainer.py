"""Training to the letter of section 5: token batches, accumulated updates, Adam with Eq. 3; exact to resume."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from core.checkpoint import Checkpoint, CheckpointError
from core.config import RunConfig
from core.data.batching import UpdateStream, evaluation_batches
from core.data.split import ParallelSplit
from core.loss import LossSums, projected_cross_entropy
from core.packing import PackedBatch, pack
from core.schedule import learning_rate
from core.transformer import Transformer

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


def batch_loss(model: Transformer, batch: PackedBatch, label_smoothing: float) -> LossSums:
    """Summed losses of one batch: its forward pass, and what of its backward pass the loss makes beforehand."""
    hidden = model.forward_packed(batch)
    return projected_cross_entropy(hidden, model.embedding.weight, batch.tgt_out, label_smoothing)


@torch.inference_mode()
def evaluate(model: Transformer, split: ParallelSplit, max_batch_tokens: int) -> Evaluation:
    """Cross-entropy of a split in eval mode; the value does not depend on how the split is cut into batches."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    nll, num_pieces = 0.0, 0
    for indices in evaluation_batches(split, max_batch_tokens):
        batch = pack(split, indices, device)
        nll += batch_loss(model, batch, label_smoothing=0.0).nll.double().item()
        num_pieces += batch.tgt_out.numel()
    model.train(was_training)
    return Evaluation(nll / num_pieces, num_pieces)


@dataclass
class Window:
    """Sums since the last line of the log; part of a checkpoint, so that the next line does not depend on a restart.

    `loss` and `nll` are float64 scalars on the device, or floats.
    """

    loss: Tensor | float = 0.0
    nll: Tensor | float = 0.0
    source_pieces: int = 0
    target_pieces: int = 0
    updates: int = 0
    seconds: float = 0.0


class Trainer:
    """One run's training: model, optimiser, place in the data, random state.

    The same seed gives the same numbers to the last digit on a CPU with the same number of threads, also when the run
    is cut off anywhere and taken up from its last checkpoint.
    """

    def __init__(
        self,
        run: str,
        config: RunConfig,
        train_split: ParallelSplit,
        dev_split: ParallelSplit,
        seed: int,
        device: torch.device,
    ) -> None:
        torch.manual_seed(seed)
        self.run, self.config, self.device = run, config, device
        self.train_split, self.dev_split = train_split, dev_split
        self.model = Transformer(config.model).to(device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(),
            lr=0.0,  # set by Eq. 3 before every update
            betas=(config.optim.beta1, config.optim.beta2),
            eps=config.optim.eps,
            fused=True,
        )
        self.stream = UpdateStream(train_split, config.train, seed)
        self.step = 0
        self.seconds = 0.0
        self._window = Window()

    def update(self) -> None:
        """One optimiser step over all micro-batches of the next update.

        Each micro-batch's summed loss is divided by the target pieces of the whole update, so that the gradient is the
        one of a single large batch, however it was cut.
        """
        micro_batches = self.stream.next_update()
        split = self.train_split
        num_pieces = sum(int(split.tgt_lengths[indices].sum()) for indices in micro_batches)
        self.optimizer.zero_grad(set_to_none=True)
        for indices in micro_batches:
            sums = batch_loss(self.model, pack(split, indices, self.device), self.config.optim.label_smoothing)
            (sums.smoothed / num_pieces).backward()
            # Sums stay on the device: reading them here would make it wait after every micro-batch.
            self._window.loss = self._window.loss + sums.smoothed.detach().double()
            self._window.nll = self._window.nll + sums.nll.double()
            self._window.source_pieces += int(split.src_lengths[indices].sum())
        self._window.target_pieces += num_pieces
        self._window.updates += 1
        self.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step, self.config.model.d_model, self.config.optim.warmup_steps)
        self.optimizer.step()

    def train(self, on_metrics: OnMetrics, save: Callable[[Checkpoint], None]) -> None:
        """Train up to `train_steps` updates, from wherever the trainer stands.

        Raises:
            DivergedError: the loss of a logging window, or of the development set, is not finite.
        """
        plan = self.config.train
        self.model.train()
        while self.step < plan.train_steps:
            started = time.perf_counter()
            self.update()
            self._window.seconds += time.perf_counter() - started
            last = self.step == plan.train_steps
            if self.step % plan.log_every_steps == 0 or last:
                self._log_window(on_metrics)
            if self.step % plan.eval_every_steps == 0 or last:
                self._log_evaluation(on_metrics)
            if self.step % plan.checkpoint_every_steps == 0 or last:
                save(self.checkpoint())

    def _log_window(self, on_metrics: OnMetrics) -> None:
        window, self._window = self._window, Window()
        self.seconds += window.seconds
        values = {
            "loss": float(window.loss) / window.target_pieces,
            "nll": float(window.nll) / window.target_pieces,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
            "source_tokens_per_update": window.source_pieces / window.updates,
            "target_tokens_per_update": window.target_pieces / window.updates,
            "tokens_per_second": window.target_pieces / window.seconds,
        }
        on_metrics(self.step, "train", values, self.seconds)
        if not math.isfinite(values["loss"]):
            raise DivergedError(self.step, values["loss"])

    def _log_evaluation(self, on_metrics: OnMetrics) -> None:
        evaluation = evaluate(self.model, self.dev_split, self.config.train.micro_batch_tokens)
        on_metrics(self.step, "dev", {"nll": evaluation.nll, "ppl": evaluation.perplexity}, self.seconds)
        if not math.isfinite(evaluation.nll):
            raise DivergedError(self.step, evaluation.nll)

    def checkpoint(self) -> Checkpoint:
        """The trainer's whole state, between two updates. Its tensors are the live ones: write it before the next."""
        window = asdict(self._window) | {"loss": float(self._window.loss), "nll": float(self._window.nll)}
        random = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.device)
        return Checkpoint(
            run=self.run,
            step=self.step,
            config=self.config.to_dict(),
            model=self.model.state_dict(),
            optimizer=self.optimizer.state_dict(),
            progress={"seconds": self.seconds, "data": self.stream.state(), "window": window},
            random=random,
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to the state that `checkpoint` holds; every later number is then the one of an unbroken run.

        Raises:
            CheckpointError: the checkpoint is of another configuration, or was written on another kind of device.
        """
        if checkpoint.config != self.config.to_dict():
            raise CheckpointError(
                f"the checkpoint at update {checkpoint.step} was written with another configuration; it is not loaded"
            )
        if set(checkpoint.random) != {"cpu", self.device.type}:
            raise CheckpointError(
                f"the checkpoint at update {checkpoint.step} has random states for "
                f"{', '.join(sorted(checkpoint.random))}, and this run is on {self.device.type}; "
                "resume on the kind of device that it was written on, or start again with --rerun"
            )
        self.model.load_state_dict(checkpoint.model)
        self.optimizer.load_state_dict(checkpoint.optimizer)
        self.stream.restore(checkpoint.progress["data"])
        self.step, self.seconds = checkpoint.step, checkpoint.progress["seconds"]
        self._window = Window(**checkpoint.progress["window"])
        torch.set_rng_state(checkpoint.random["cpu"])
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(checkpoint.random["cuda"], self.device)
