"""Any number of sentences through search: in batches of like lengths, on all cores, in the order of the input."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed

import torch
from torch import Tensor

from core.architectures import build_decoder
from core.config import DecodeConfig
from core.search import Hypothesis, SearchState, StepDecoder, beam_search, greedy_search, source_batch
from core.sequence_model import SequenceModel


def translate(
    model: SequenceModel,
    sources: Sequence[Sequence[int]],
    config: DecodeConfig,
    on_progress: Callable[[int], None] | None = None,
) -> list[Hypothesis]:
    """Decode piece ids (without end symbols) of any number of sentences with a model, which is put into eval mode.

    The result is in the order of the input. `on_progress` gets the number of sentences done after each batch.
    """
    return Translator(build_decoder(model.eval()), config).translate(sources, on_progress)


class Translator:
    """Decodes any number of sentences, those of similar length together. A beam of 1 is greedy search.

    Where torch may use several threads of a CPU, each decodes a batch of its own: a step's products are too small to be
    shared among cores.
    """

    def __init__(self, decoder: StepDecoder, config: DecodeConfig) -> None:
        self._decoder, self._config = decoder, config

    def translate(
        self, sources: Sequence[Sequence[int]], on_progress: Callable[[int], None] | None = None
    ) -> list[Hypothesis]:
        """A hypothesis for each source, in their order."""
        results: list[Hypothesis | None] = [None] * len(sources)
        num_done = 0
        for indices, hypotheses in self.decoded_batches(sources):
            for index, hypothesis in zip(indices, hypotheses, strict=True):
                results[index] = hypothesis
            num_done += len(indices)
            if on_progress is not None:
                on_progress(num_done)
        return results

    def decoded_batches(self, sources: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], list[Hypothesis]]]:
        """Batches in the order in which they are done: which sources each holds, and a hypothesis for each of them."""
        num_threads = torch.get_num_threads() if self._decoder.device.type == "cpu" else 1
        batches = batches_by_length([len(source) + 1 for source in sources], self._config, num_threads)
        if num_threads == 1 or len(batches) < 2:
            for batch in batches:
                yield batch, self._decode([sources[i] for i in batch], self._decoder)
            return
        decoder = _Interruptible(self._decoder)
        pool = ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,))
        try:
            running = {pool.submit(self._decode, [sources[i] for i in batch], decoder): batch for batch in batches}
            for future in as_completed(running):
                yield running[future], future.result()
        finally:
            decoder.interrupt()
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(num_threads)  # the workers' 1 is what torch would give to every later thread

    def _decode(self, sources: Sequence[Sequence[int]], decoder: StepDecoder) -> list[Hypothesis]:
        search = greedy_search if self._config.beam_size == 1 else beam_search
        return search(decoder, source_batch(sources, self._decoder.device), self._config)


class _Interruptible:
    """A decoder whose next step can be refused, so that no thread goes on when nobody waits for it any more."""

    def __init__(self, decoder: StepDecoder) -> None:
        self._decoder = decoder
        self._interrupted = threading.Event()
        self.start = decoder.start

    def interrupt(self) -> None:
        self._interrupted.set()

    def step(self, pieces: Tensor, state: SearchState) -> Tensor:
        if self._interrupted.is_set():
            raise CancelledError
        return self._decoder.step(pieces, state)


def batches_by_length(lengths: Sequence[int], config: DecodeConfig, num_threads: int) -> list[list[int]]:
    """Indices of sentences in batches within the limits of `config`, about a multiple of `num_threads` of them.

    Longest first, so that memory runs out at once or never, and the threads come to their ends together.

    Args:
        lengths: source pieces of each sentence, end symbol included.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])

    def cut(most: int) -> list[list[int]]:
        batches, start = [], 0
        while start < len(order):
            fitting = config.batch_tokens // (config.beam_size * lengths[order[start]])
            batches.append(order[start : start + max(1, min(fitting, most))])
            start += len(batches[-1])
        return batches

    rounds = -(-len(cut(config.batch_sentences)) // num_threads)
    return cut(-(-len(order) // (rounds * num_threads))) if rounds else []
