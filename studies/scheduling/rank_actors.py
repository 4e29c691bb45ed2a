"""The ranks of one trial on Ray: the trial's process is the first, child actors in its placement group are the others.

Called within a Tune trial. What the others do is `studies.trials.trial.assist`; they write nothing.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.parallel import RankLostError, Ranks, find_meeting, open_meeting, process_group
from results.records import RunRecord
from studies.runs import Workspace

if TYPE_CHECKING:
    import torch
    from ray import ObjectRef

    from studies.scheduling.resources import Resources

# Starting Python and torch on a busy node, and reading the data, may take long.
JOIN_TIMEOUT = timedelta(minutes=10)
# Longest that one rank works alone while the others wait: the first one's checkpoint and sample translations. A rank
# that died is known at once by other means.
EXCHANGE_TIMEOUT = timedelta(minutes=30)
# Between the end of this rank's work, or its error, and Ray's word on how the others ended.
END_SECONDS = 15.0
# NCCL may wait for a dead rank for ever, and Python cannot interrupt it.
STUCK_SECONDS = 60.0
LOOK_SECONDS = 0.2


@contextmanager
def rank_actors(
    record: RunRecord, home: Path, resources: Resources, on_stuck: Callable[[str], None]
) -> Iterator[Ranks]:
    """Start the other ranks of this trial, join them, and end them with the block.

    Args:
        on_stuck: told why, before this process ends itself, as it must where a rank is lost and NCCL waits for it.

    Raises:
        RankLostError: another rank's process died.
        Exception: another rank failed; its own error.
    """
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    address = ray.util.get_node_ip_address()
    num_ranks, num_threads = resources.ranks, resources.cpus
    meeting = open_meeting(address, num_ranks, JOIN_TIMEOUT)
    group = ray.util.get_current_placement_group()
    others = range(1, num_ranks)
    actors = [
        ray.remote(_Rank)
        .options(
            num_cpus=resources.bundle["CPU"],
            num_gpus=resources.bundle.get("GPU", 0),
            scheduling_strategy=PlacementGroupSchedulingStrategy(group),
        )
        .remote()
        for _ in others
    ]
    watch = None
    try:
        work = [
            actor.train.remote(record.to_json(), str(home), num_threads, Ranks(rank, num_ranks), address, meeting.port)
            for rank, actor in zip(others, actors, strict=True)
        ]
        watch = _Watch(work, on_stuck)
        try:
            ranks = Ranks(0, num_ranks)
            with process_group(ranks, meeting, own_device(), EXCHANGE_TIMEOUT):
                yield ranks
        except RuntimeError as error:  # so torch tells that an exchange failed
            watch.blame(error)
            raise
        watch.let_end()
    finally:
        if watch is not None:
            watch.stop()
        for actor in actors:
            ray.kill(actor)


def own_device() -> torch.device:
    """The GPU that Ray gave this process and hides from others, or its cores."""
    import ray
    import torch

    return torch.device("cuda" if ray.get_gpu_ids() else "cpu")


class _Rank:
    """What runs in a child actor."""

    def train(
        self, record: Mapping[str, Any], home: str, num_threads: int, ranks: Ranks, address: str, port: int
    ) -> None:
        from studies.trials.trial import assist

        device = own_device()
        with process_group(ranks, find_meeting(address, port, JOIN_TIMEOUT), device, EXCHANGE_TIMEOUT):
            assist(RunRecord.from_json(record), Workspace(Path(home)), num_threads, device, ranks)


class _Watch:
    """How the other ranks end: noted from a thread while this one works, and by hand once it has stopped."""

    def __init__(self, futures: Sequence[ObjectRef], on_stuck: Callable[[str], None]) -> None:
        self._running = list(futures)
        self._rank_of = {future: rank for rank, future in enumerate(futures, start=1)}
        self._on_stuck = on_stuck
        self._lost: RankLostError | None = None
        self._failed: Exception | None = None  # the first one: what the others say may follow from it
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        """Wait a moment, and note who has ended how."""
        import ray
        from ray.exceptions import RayActorError, RayTaskError

        ended, self._running = ray.wait(self._running, num_returns=len(self._running), timeout=LOOK_SECONDS)
        for future in ended:
            try:
                ray.get(future)
            except RayTaskError as error:
                self._failed = self._failed or (error.cause if isinstance(error.cause, Exception) else error)
            except RayActorError as error:
                reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
                self._lost = RankLostError(f"the process of rank {self._rank_of[future]} died ({reason})")

    @property
    def _error(self) -> Exception | None:
        return self._lost or self._failed

    def _watch(self) -> None:
        deadline = math.inf
        while not self._left.wait(LOOK_SECONDS):
            if self._running:
                self._look()
            if self._error is not None:
                deadline = min(deadline, time.monotonic() + STUCK_SECONDS)
            if time.monotonic() > deadline:
                self._on_stuck(f"{self._error}; this rank waited for it and was ended")
                os._exit(1)

    def stop(self) -> None:
        """End the thread."""
        self._left.set()
        self._thread.join()

    def let_end(self) -> None:
        """Until all have ended or one was lost, for a few seconds at most."""
        self.stop()
        deadline = time.monotonic() + END_SECONDS
        while self._running and self._lost is None and time.monotonic() < deadline:
            self._look()

    def blame(self, error: RuntimeError) -> None:
        """Raise what really happened where this rank's error follows from another's; return where it does not."""
        self.let_end()
        if self._error is not None:
            raise self._error from error
