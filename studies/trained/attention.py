"""The attention of a finished run on sentences of one's own: `aiayn attend`, and what the figures are measured on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.data.vocabulary import Vocabulary
from results.attention_file import KINDS, SentenceAttention, TokenSide
from studies.trained.loading import TrainedRun

if TYPE_CHECKING:
    from core.attention_maps import Side
    from core.sequence_model import SequenceModel

# Nobody reads a longer picture; all layers, heads and kinds of a base-size model take 150 MB at this length.
MOST_PIECES = 512
# Source pieces in one batch, padding counted.
_BATCH_PIECES = 2_048


@dataclass(frozen=True)
class Reading:
    """A sentence to be looked at: its id, text, source pieces, and the target pieces that the decoder reads, if any."""

    id: str
    text: str
    source: Sequence[int]
    target: Sequence[int] | None = None


def figures_layer(num_layers: int) -> int:
    """The layer that Figures 3 to 5 show: the last but one, 5 of 6; of a single layer that one."""
    return max(1, num_layers - 1)


def attend(
    run: TrainedRun,
    text: str,
    target: str | None = None,
    layers: Collection[int] | None = None,
    kinds: Collection[str] = tuple(KINDS),
) -> SentenceAttention:
    """The attention of a run on one sentence.

    Args:
        target: what the decoder reads; None means the run's own translation, made if the decoder is looked at.
        layers: numbers from 1; None means all.

    Raises:
        ValueError: there is no text, too much of it, or no such layer.
    """
    if not text.strip():
        raise ValueError("there is no text to attend to; give a sentence")
    for given in (text, target or ""):
        if any(0xD800 <= ord(character) <= 0xDFFF for character in given):  # how Python keeps bytes that are no UTF-8
            raise ValueError("the text is not valid UTF-8; type it again")
    (source,) = run.vocabulary.encode_batch([text])
    pieces = None
    if target is not None:
        (pieces,) = run.vocabulary.encode_batch([target])
    for name, side in (("text", source), ("target", pieces or ())):
        if len(side) > MOST_PIECES:
            raise ValueError(f"the {name} has {len(side):,} word pieces; more than {MOST_PIECES:,} cannot be shown")
    if pieces is None and set(kinds) - {"encoder"}:
        (pieces,) = own_translations(run, [source])
    reading = Reading("text", text, source, pieces)
    return read_sentences(run.model, run.vocabulary, [reading], layers, kinds)[0]


def own_translations(run: TrainedRun, sources: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The pieces of the run's own translation of each source."""
    from core.decode import translate

    return [hypothesis.pieces for hypothesis in translate(run.model, sources, run.config.decode)]


def read_sentences(
    model: SequenceModel,
    vocabulary: Vocabulary,
    readings: Sequence[Reading],
    layers: Collection[int] | None = None,
    kinds: Collection[str] = tuple(KINDS),
) -> list[SentenceAttention]:
    """The attention of a model on sentences, in order; they are read in batches of like length.

    Raises:
        ValueError: the model has no such layer or attention, or no place for so long a sentence.
    """
    import torch

    from core.attention_maps import attention_maps, check_layers, kinds_of, source_side, target_side
    from core.data.vocabulary import PAD_ID

    chosen = check_layers(model, layers)
    asked = tuple(kind for kind in KINDS if kind in kinds and kind in kinds_of(model)) or tuple(kinds)
    device = next(model.parameters()).device

    def batch(sides: Sequence[Side]) -> torch.Tensor:
        rows = [torch.tensor(side.ids) for side in sides]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD_ID).to(device)

    found: list[SentenceAttention | None] = [None] * len(readings)
    order = sorted(range(len(readings)), key=lambda i: len(readings[i].source))
    while order:
        longest = len(readings[order[0]].source) + 1
        members = order[: max(1, _BATCH_PIECES // longest)]
        order = order[len(members) :]
        sources = [source_side(vocabulary, readings[i].source) for i in members]
        targets = [target_side(vocabulary, readings[i].target) for i in members] if set(asked) - {"encoder"} else None
        maps = attention_maps(model, batch(sources), None if targets is None else batch(targets), chosen, asked)
        stacked = {kind: torch.stack([maps.weights[kind][layer] for layer in chosen], 1).cpu() for kind in asked}
        for place, i in enumerate(members):
            sides = {"source": sources[place]} | ({} if targets is None else {"target": targets[place]})
            weights = {}
            for kind in asked:
                rows, columns = (len(sides[side].ids) for side in KINDS[kind])
                weights[kind] = stacked[kind][place, :, :, :rows, :columns].numpy()  # padding falls away
            named = {name: TokenSide(side.labels, side.words, side.word_labels) for name, side in sides.items()}
            found[i] = SentenceAttention(readings[i].id, readings[i].text, named, chosen, weights)
    return found
