"""What the engine's tests share: tiny models, and a random state that ends with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from core.architectures import build_decoder
from core.config import ModelConfig
from core.sequence_model import SequenceModel
from core.transformer import Transformer


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """On matrices this small a second thread only waits, for long where the cores are busy."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture(autouse=True)
def own_random_state() -> Iterator[None]:
    """Models are drawn from torch's global generator; each test starts it anew and leaves it as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20_170_612)
        yield


@pytest.fixture
def tiny_config() -> ModelConfig:
    """Two layers of width 16, and d_k, d_v and d_model / h all different, so that no test passes by their equality."""
    return ModelConfig(
        vocab_size=23,
        num_layers=2,
        d_model=16,
        d_ff=32,
        num_heads=2,
        d_k=6,
        d_v=10,
        dropout=0.0,
        max_learned_positions=64,
    )


@pytest.fixture
def build_model(tiny_config: ModelConfig) -> Callable[..., Transformer]:
    """A tiny Transformer in float64 and eval mode; arguments change its configuration.

    Biases, gains and everything else are random, so that a test cannot pass by their initial zeros and ones.
    """

    def build(**changes) -> Transformer:
        model = Transformer(replace(tiny_config, **changes)).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        return model

    return build


@pytest.fixture
def assert_beams_may_change_places() -> Callable[..., None]:
    """Checks a model in eval mode over a batch `src` (B, S): a step equals the whole pass over what a beam has had."""

    def check(model: SequenceModel, src: Tensor, num_steps: int, *, atol: float, num_beams: int = 3) -> None:
        decoder = build_decoder(model)
        state = decoder.start(src, num_beams)
        generator = torch.Generator().manual_seed(1)
        sentences, prefixes = torch.arange(len(src)), torch.full((len(src), num_beams, 0), 0)
        for step in range(num_steps):
            assert state.position == step
            newest = torch.randint(3, model.config.vocab_size, (len(sentences), num_beams), generator=generator)
            prefixes = torch.cat((prefixes, newest.unsqueeze(-1)), dim=-1)
            stepped = decoder.step(newest, state)
            for row, sentence in enumerate(sentences.tolist()):
                alone = src[sentence : sentence + 1].expand(num_beams, -1)
                whole = model.logits(model(alone, prefixes[row]))[:, -1]
                assert_close(stepped[row, :, : whole.size(-1)], whole, rtol=0.0, atol=atol)
            parents = torch.randint(0, num_beams, newest.shape, generator=generator)
            prefixes = prefixes.gather(1, parents.unsqueeze(-1).expand_as(prefixes))
            state.select_beams(parents)
            if step % 2 == 0 and len(sentences) > 2:
                # The first leaves, and the last takes its place.
                kept = torch.tensor([len(sentences) - 1, *range(1, len(sentences) - 1)])
                state.select_sentences(kept)
                sentences, prefixes = sentences[kept], prefixes[kept]

    return check
