"""Several processes that train one model together: each computes a part of every update, all hold the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor
from torch import distributed as dist

Value = TypeVar("Value")


class RankLostError(Exception):
    """Another rank's process has gone. What was to be exchanged with it cannot be; a new start can go on from the last
    checkpoint.
    """


@dataclass(frozen=True)
class Ranks:
    """This process's place among those that train together; one alone has nothing to exchange.

    With more than one, torch's default process group must be up while it is used (`process_group`).
    """

    rank: int = 0
    world_size: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ValueError(f"rank={self.rank} must be at least 0 and less than world_size={self.world_size}")

    @property
    def is_first(self) -> bool:
        """Whether this one speaks for all: it alone logs and saves."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over ranks, the same numbers on each; changes `values` in place where there are several."""
        if self.world_size > 1:
            dist.all_reduce(values)
        return values

    def gather(self, values: Tensor) -> list[Tensor]:
        """Every rank's `values`, by rank; sizes and devices may be anything."""
        if self.world_size == 1:
            return [values]
        gathered: list[Tensor | None] = [None] * self.world_size
        dist.all_gather_object(gathered, values.cpu())
        return gathered

    def follow_first(self, value: Value) -> Value:
        """The first rank's `value`, on each; anything that can be pickled."""
        if self.world_size == 1:
            return value
        shared = [value]
        dist.broadcast_object_list(shared, src=0)
        return shared[0]


ALONE = Ranks()


def open_meeting(address: str, num_ranks: int, timeout: timedelta) -> dist.TCPStore:
    """Where ranks find each other: opened by the first one at `address` of its machine, on a free port (its `port`)."""
    return dist.TCPStore(address, 0, num_ranks, is_master=True, timeout=timeout, wait_for_workers=False)


def find_meeting(address: str, port: int, timeout: timedelta) -> dist.TCPStore:
    """The place that the first rank opened; waits for it up to `timeout`."""
    return dist.TCPStore(address, port, is_master=False, timeout=timeout)


@contextmanager
def process_group(ranks: Ranks, meeting: dist.Store, device: torch.device, timeout: timedelta) -> Iterator[None]:
    """Join the others at `meeting`, NCCL between GPUs and gloo between CPUs, and leave them at the end.

    Raises:
        RuntimeError: they did not all come within `timeout`; later, whoever waits longer for another one gets it too.
    """
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=meeting, timeout=timeout, rank=ranks.rank, world_size=ranks.world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()
