"""What every architecture shares: how it is trained, searched and counted, whatever is inside it.

Shapes: B sentences, S source pieces, T target pieces, V vocabulary. Piece id 0 is padding, on the right.
"""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor, nn

from core.architecture_config import ArchitectureConfig
from core.data.vocabulary import PAD_ID
from core.layers import Embedding
from core.packing import PackedBatch


class SequenceModel(nn.Module):
    """Source and target in, a hidden state for each target piece out, over one shared, scaled embedding (3.4).

    The embedding is also the matrix before the softmax, for every architecture: the vocabulary is then the same share
    of all, and what is compared is what lies between.

    Attributes:
        config: its sizes.
        embedding: of source, target and output.
    """

    def __init__(self, config: ArchitectureConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = Embedding(config.vocab_size, config.d_model)

    @abstractmethod
    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src (B, S), tgt_in (B, T) ids, shifted right by one (3.1) -> the last hidden states (B, T, d_model).

        No state may depend on a later target piece, nor on padding.
        """

    def forward_packed(self, batch: PackedBatch) -> Tensor:
        """`forward` at the real target pieces alone: (n_tgt, d_model), in the batch's order."""
        src, tgt_in, _ = batch.padded()
        return self(src, tgt_in)[tgt_in != PAD_ID]

    def source_attention(self, src: Tensor, tgt_in: Tensor) -> tuple[Tensor, ...]:
        """What each target piece's weights over the source are, layer by layer: (B, H, T, S) each.

        Rows are distributions over a sentence's real pieces: before dropout, for a model in eval mode.

        Raises:
            ValueError: the architecture attends to nothing.
        """
        raise ValueError(f"{type(self).__name__} has no attention over the source")

    def compile_between_products(self, backend: str = "inductor") -> None:
        """Have torch.compile fuse what lies between products; an architecture without such parts does nothing."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Hidden states (..., d_model) -> scores before the softmax (..., V)."""
        return self.embedding.logits(hidden)


def num_parameters(model: nn.Module) -> int:
    """Trainable numbers, each shared matrix counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
