"""The Transformer of Figure 1: encoder, decoder, and the two together (section 3).

Shapes: B sentences, S source pieces, T target pieces, V vocabulary. Piece id 0 is padding, on the right.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from core.attention import MultiHeadAttention
from core.config import ModelConfig
from core.data.vocabulary import PAD_ID
from core.layers import Dropout, Embedding, FeedForward, LearnedPositions, ResidualNorm, SinusoidPositions
from core.packing import AttentionPlan, PackedBatch
from core.sequence_model import SequenceModel


def padding_mask(pieces: Tensor) -> Tensor:
    """(B, L) ids -> (B, 1, 1, L) bool, True at real pieces: which keys may be attended to."""
    return (pieces != PAD_ID)[:, None, None, :]


def causal_mask(length: int, device: torch.device) -> Tensor:
    """(T, T) bool, True where the key does not come after the query: no position sees a later one (3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def _attention(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(config.d_model, config.num_heads, config.d_k, config.d_v, config.attention_dropout)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each wrapped in residual and norm (section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_attention_norm = ResidualNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = ResidualNorm(config.d_model, config.dropout)

    def forward(self, x: Tensor, who: Tensor | AttentionPlan) -> Tensor:
        """x (B, S, d_model) and a mask (B, 1, 1, S), or packed rows (n, d_model) and their plan; the same shape."""
        x = self.self_attention_norm(x, self.self_attention(x, x, who))
        return self.feed_forward_norm(x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention over the encoder's output, feed-forward (section 3.1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.self_attention_norm = ResidualNorm(config.d_model, config.dropout)
        self.cross_attention = _attention(config)
        self.cross_attention_norm = ResidualNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.feed_forward_norm = ResidualNorm(config.d_model, config.dropout)

    def forward(
        self, x: Tensor, memory: Tensor, who_self: Tensor | AttentionPlan, who_memory: Tensor | AttentionPlan
    ) -> Tensor:
        """x (B, T, d_model), memory (B, S, d_model) and masks (T, T) and (B, 1, 1, S), or rows of both and plans.

        Returns:
            The shape of `x`.
        """
        x = self.self_attention_norm(x, self.self_attention(x, x, who_self))
        x = self.cross_attention_norm(x, self.cross_attention(x, memory, who_memory))
        return self.feed_forward_norm(x, self.feed_forward(x))


class Transformer(SequenceModel):
    """Encoder and decoder stacks over one shared, scaled embedding (Figure 1).

    Initial weights: the paper states none. Matrices keep torch's own start, uniform with variance 1 / (3 * inputs);
    biases are zero, the embedding and learned positions N(0, 1 / d_model). All are drawn from torch's global generator,
    so seed it first. (Glorot's larger start needs about twice the updates to the same loss at the smallest scale:
    post-norm layers wait for the residual branches to grow quiet.)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.encoder_positions = self._build_positions(config)
        self.decoder_positions = self._build_positions(config)
        self.dropout = Dropout(config.dropout)
        self.encoder_layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_layers))
        self.decoder_layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_layers))
        self._initialise()

    @staticmethod
    def _build_positions(config: ModelConfig) -> nn.Module:
        if config.positions == "learned":
            return LearnedPositions(config.max_learned_positions, config.d_model)
        return SinusoidPositions(config.d_model)

    @torch.no_grad()
    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
            elif isinstance(module, (Embedding, LearnedPositions)):
                nn.init.normal_(module.weight, std=1.0 / math.sqrt(self.config.d_model))

    def encode(self, src: Tensor) -> Tensor:
        """src (B, S) ids -> memory (B, S, d_model). Rows at padding are defined but must not be attended to."""
        mask = padding_mask(src)
        x = self.dropout(self.encoder_positions(self.embedding(src)))
        for layer in self.encoder_layers:
            x = layer(x, mask)
        return x

    def decode(self, tgt_in: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """tgt_in (B, T) ids, shifted right by one (3.1), memory (B, S, d_model) of src (B, S) -> (B, T, d_model).

        Padding stands at the right end of tgt_in, so the causal mask alone keeps real positions from seeing it.
        """
        self_mask, memory_mask = causal_mask(tgt_in.size(1), tgt_in.device), padding_mask(src)
        x = self.dropout(self.decoder_positions(self.embedding(tgt_in)))
        for layer in self.decoder_layers:
            x = layer(x, memory, self_mask, memory_mask)
        return x

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """src (B, S), tgt_in (B, T) ids -> the decoder's last hidden states (B, T, d_model); see `logits`."""
        return self.decode(tgt_in, self.encode(src), src)

    def forward_packed(self, batch: PackedBatch) -> Tensor:
        """`forward` without its padding: the decoder's last hidden states (n_tgt, d_model), a row a target piece."""
        memory = self._embed_rows(batch.src, self.encoder_positions, batch.encoder)
        for layer in self.encoder_layers:
            memory = layer(memory, batch.encoder)
        x = self._embed_rows(batch.tgt_in, self.decoder_positions, batch.decoder)
        for layer in self.decoder_layers:
            x = layer(x, memory, batch.decoder, batch.cross)
        return x

    def compile_between_products(self, backend: str = "inductor") -> None:
        """Have torch.compile fuse relu, dropout, residual and norm: few kernels that touch memory once.

        Attention and the vocabulary's product have kernels of their own. The number of rows may change from batch to
        batch without compiling anew.
        """
        for module in self.modules():
            if isinstance(module, (FeedForward, ResidualNorm)):
                module.compile(dynamic=True, backend=backend)

    def _embed_rows(self, pieces: Tensor, positions: nn.Module, plan: AttentionPlan) -> Tensor:
        return self.dropout(positions.add_at(self.embedding(pieces), plan.queries.positions))
