"""What all architectures share: packed batches seen as padded ones, and configurations that say what they are of."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from core.architecture_config import ModelConfig, architecture_from_dict, architecture_to_dict
from core.architectures import build_model
from core.data.batching import collate
from core.data.split import ParallelSplit, Sentences
from core.packing import pack
from core.sequence_model import SequenceModel

VOCAB_SIZE = 30
CONFIG = ModelConfig(vocab_size=VOCAB_SIZE, num_layers=2, d_model=16, d_ff=32, num_heads=2, d_k=8, d_v=8)


def _split(lengths: list[tuple[int, int]]) -> ParallelSplit:
    rng = np.random.default_rng(0)
    src, tgt = (
        Sentences.from_lists([rng.integers(4, VOCAB_SIZE, n).tolist() for n in each], VOCAB_SIZE)
        for each in zip(*lengths, strict=True)
    )
    return ParallelSplit(src, tgt, read_lines=lambda: ([], []))


def test_a_packed_batch_padded_is_the_collated_batch() -> None:
    split = _split([(3, 5), (1, 1), (7, 2)])
    padded = pack(split, np.array([0, 1, 2]), torch.device("cpu")).padded()
    collated = collate(split, np.array([1, 0, 2]))  # rising length
    for ours, theirs in zip(padded, collated, strict=True):
        assert torch.equal(ours, theirs)


def test_the_padded_way_gives_the_rows_of_the_packed_way() -> None:
    torch.manual_seed(0)
    model = build_model(CONFIG).double().eval()
    batch = pack(_split([(3, 5), (1, 1), (7, 2)]), np.array([0, 1, 2]), torch.device("cpu"))
    torch.testing.assert_close(SequenceModel.forward_packed(model, batch), model.forward_packed(batch))


def test_a_stored_configuration_names_its_architecture() -> None:
    stored = architecture_to_dict(CONFIG)
    assert stored["architecture"] == "transformer"
    assert architecture_from_dict(stored) == CONFIG
    with pytest.raises(ValueError, match="architecture 'mamba' is not known here; known: transformer"):
        architecture_from_dict(stored | {"architecture": "mamba"})
