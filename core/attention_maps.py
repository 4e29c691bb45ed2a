"""Attention weights out of a trained model, layer by layer and head by head (Figures 3 to 5).

A Transformer's layers are walked through by their public methods, in eval mode: weights come before dropout, so every
row is a distribution, and one matrix a head, never their mean. Other architectures tell what they attend to in the
source (`SequenceModel.source_attention`). Training and decoding know nothing of this; layers that
nobody asked for go their usual way and leave no weights behind.

Shapes: B sentences, H heads, T query and S key positions. A row says where its position looks: rows are queries,
columns are keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from core.attention import MultiHeadAttention
from core.data.vocabulary import BOS_ID, EOS_ID, Vocabulary
from core.sequence_model import SequenceModel
from core.transformer import Transformer, causal_mask, padding_mask

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Encoder self-attention, decoder self-attention, and the decoder's attention to the encoder's output."""


@dataclass(frozen=True)
class AttentionMaps:
    """Weights of one batch. `weights[kind][layer]` is (B, H, T, S) float32; layers count from 1, as the paper's do.

    Keys that are padding have weight 0; rows at padding mean nothing.
    """

    weights: Mapping[Kind, Mapping[int, Tensor]] = field(default_factory=dict)

    def head(self, kind: Kind, layer: int, head: int, sentence: int = 0) -> Tensor:
        """(T, S): one head's weights, heads counted from 1.

        Raises:
            ValueError: no such head.
        """
        weights = self.weights[kind][layer]
        if not 1 <= head <= weights.size(1):
            raise ValueError(f"no head {head}: layer {layer} has heads 1 to {weights.size(1)}")
        return weights[sentence, head - 1]


def kinds_of(model: SequenceModel) -> tuple[Kind, ...]:
    """The kinds of attention that a model has: all, or to the source alone where it is no Transformer."""
    return KINDS if isinstance(model, Transformer) else ("cross",)


def check_layers(model: SequenceModel, layers: Iterable[int] | None) -> tuple[int, ...]:
    """The layers in order, each once; all where none are named.

    Raises:
        ValueError: the model has no such layer, or no attention.
    """
    if isinstance(model, Transformer):
        num_layers = model.config.num_layers
    else:  # as many as it has weights for, on the shortest sentence that there is
        src, tgt_in = (torch.tensor([[piece]], device=model.embedding.weight.device) for piece in (EOS_ID, BOS_ID))
        with torch.inference_mode():
            num_layers = len(model.source_attention(src, tgt_in))
    chosen = tuple(range(1, num_layers + 1)) if layers is None else tuple(sorted(set(layers)))
    wrong = [layer for layer in chosen if not 1 <= layer <= num_layers]
    if wrong:
        raise ValueError(f"no layer {wrong[0]}: this model has layers 1 to {num_layers}")
    return chosen


@torch.inference_mode()
def attention_maps(
    model: SequenceModel,
    src: Tensor,
    tgt_in: Tensor | None = None,
    layers: Collection[int] | None = None,
    kinds: Collection[Kind] = KINDS,
) -> AttentionMaps:
    """The weights of these layers and kinds for a batch of sentences.

    Args:
        src: (B, S) ids, end symbol included, padding on the right.
        tgt_in: (B, T) ids that the decoder reads, begin symbol first; needed for every kind but `encoder`.
        layers: numbers from 1; None means all. No layer above the highest one is computed in the stack asked for.

    Raises:
        ValueError: no such layer or kind; or the decoder is asked for and there is nothing to read.
    """
    lacking = [kind for kind in kinds if kind not in kinds_of(model)]
    if lacking:
        raise ValueError(f"{type(model).__name__} has no {lacking[0]} attention; it attends to the source alone: cross")
    chosen = check_layers(model, layers)
    reads_target = bool({"decoder", "cross"} & set(kinds))
    if reads_target and tgt_in is None:
        raise ValueError("the decoder's attention needs a target sentence, and none was given")
    if not chosen or not kinds:
        return AttentionMaps({kind: {} for kind in kinds})
    found: dict[Kind, dict[int, Tensor]] = {kind: {} for kind in KINDS if kind in kinds}
    with _eval_mode(model):
        if not isinstance(model, Transformer):
            layers_of = model.source_attention(src, tgt_in)
            return AttentionMaps({"cross": {layer: layers_of[layer - 1].float() for layer in chosen}})
        wanted = set(chosen) if "encoder" in kinds else set()
        last = model.config.num_layers if reads_target else chosen[-1]
        memory = _walk_encoder(model, src, last, wanted, found)
        if reads_target:
            _walk_decoder(model, tgt_in, memory, src, chosen, found)
    return AttentionMaps(found)


def _walk_encoder(
    model: Transformer, src: Tensor, last: int, wanted: Collection[int], found: dict[Kind, dict[int, Tensor]]
) -> Tensor:
    mask = padding_mask(src)
    x = model.dropout(model.encoder_positions(model.embedding(src)))
    for number, layer in enumerate(model.encoder_layers[:last], start=1):
        if number not in wanted:
            x = layer(x, mask)
            continue
        attended, found["encoder"][number] = _attend(layer.self_attention, x, x, mask)
        x = layer.self_attention_norm(x, attended)
        x = layer.feed_forward_norm(x, layer.feed_forward(x))
    return x


def _walk_decoder(
    model: Transformer,
    tgt_in: Tensor,
    memory: Tensor,
    src: Tensor,
    wanted: Sequence[int],
    found: dict[Kind, dict[int, Tensor]],
) -> None:
    self_mask, memory_mask = causal_mask(tgt_in.size(1), tgt_in.device), padding_mask(src)
    x = model.dropout(model.decoder_positions(model.embedding(tgt_in)))
    for number, layer in enumerate(model.decoder_layers[: wanted[-1]], start=1):
        if number not in wanted:
            x = layer(x, memory, self_mask, memory_mask)
            continue
        attended, own = _attend(layer.self_attention, x, x, self_mask)
        x = layer.self_attention_norm(x, attended)
        attended, cross = _attend(layer.cross_attention, x, memory, memory_mask)
        x = layer.cross_attention_norm(x, attended)
        x = layer.feed_forward_norm(x, layer.feed_forward(x))
        for kind, weights in (("decoder", own), ("cross", cross)):
            if kind in found:
                found[kind][number] = weights


def _attend(attention: MultiHeadAttention, x: Tensor, memory: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    keys, values = attention.project_memory(memory)
    return attention.attend(x, keys, values, mask)


@contextmanager
def _eval_mode(model: SequenceModel) -> Iterator[None]:
    """Dropout off, whatever the model was doing; afterwards it does so again."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


# Labels --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One side of a sentence as the model sees it: an axis of its maps.

    Attributes:
        ids: piece ids with the special symbols that the model reads.
        labels: a text for each, in the same order: labels and matrices come from one list, so their lengths agree.
        words: for each the number of the word that it belongs to, from 0 and without gaps.
        word_labels: a text for each word.
    """

    ids: tuple[int, ...]
    labels: tuple[str, ...]
    words: tuple[int, ...]
    word_labels: tuple[str, ...]


def source_side(vocabulary: Vocabulary, pieces: Sequence[int]) -> Side:
    """What the encoder reads: the sentence and its end symbol."""
    return _side(vocabulary, [*pieces, EOS_ID])


def target_side(vocabulary: Vocabulary, pieces: Sequence[int]) -> Side:
    """What the decoder reads: the begin symbol and the sentence. From each of them it predicts the next piece."""
    return _side(vocabulary, [BOS_ID, *pieces])


def _side(vocabulary: Vocabulary, ids: Sequence[int]) -> Side:
    labels = vocabulary.pieces(ids)
    words = merge_pieces(ids, labels)
    members: dict[int, list[int]] = {}
    for place, word in enumerate(words):
        members.setdefault(word, []).append(place)
    word_labels = (_word_text(vocabulary, [ids[i] for i in places], labels[places[0]]) for places in members.values())
    return Side(tuple(map(int, ids)), tuple(labels), tuple(words), tuple(word_labels))


def _word_text(vocabulary: Vocabulary, ids: Sequence[int], label: str) -> str:
    if ids[0] <= EOS_ID:
        return label
    return vocabulary.decode_batch([ids])[0].strip() or label


def merge_pieces(ids: Sequence[int], labels: Sequence[str]) -> list[int]:
    """The number of each piece's word: the rule by which pieces are merged.

    A word ends before a piece that begins with a space, before and after a special symbol, and where letters and digits
    meet signs, so that punctuation marks are words of their own.
    """
    words: list[int] = []
    before: bool | None = None  # whether the word so far ends in a sign; None where it has no text yet
    after_symbol = True
    for piece, label in zip(ids, labels, strict=True):
        text = label.removeprefix("▁")
        if after_symbol or piece <= EOS_ID or label.startswith("▁"):
            starts, before = True, None
        else:
            starts = before is not None and _is_sign(text[0]) != before
        words.append((words[-1] if words else -1) + starts)
        after_symbol = piece <= EOS_ID
        if text and not after_symbol:
            before = _is_sign(text[-1])
    return words


def _is_sign(character: str) -> bool:
    # A part of a character is written \xe2: it belongs to letters, of which signs beyond ASCII are few.
    return bool(character) and character.isascii() and not character.isalnum() and character != "\\"
