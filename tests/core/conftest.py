"""What the engine's tests share: tiny models, and a random state that ends with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from core.config import ModelConfig
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
