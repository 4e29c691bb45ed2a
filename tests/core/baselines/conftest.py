"""What every decoder that goes step by step must do, whatever its model is made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from core.architectures import build_decoder
from core.sequence_model import SequenceModel


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
                assert_close(stepped[row], whole, rtol=0.0, atol=atol)
            parents = torch.randint(0, num_beams, newest.shape, generator=generator)
            prefixes = prefixes.gather(1, parents.unsqueeze(-1).expand_as(prefixes))
            state.select_beams(parents)
            if step % 2 == 0 and len(sentences) > 2:
                kept = torch.tensor([len(sentences) - 1, *range(1, len(sentences) - 1)])
                state.select_sentences(kept)
                sentences, prefixes = sentences[kept], prefixes[kept]

    return check
