"""The vocabulary that source and target share: byte-level BPE with three special symbols (section 5.1).

Working on the bytes of UTF-8 makes it closed under every text: there is no unknown symbol, and decoding gives
back each line exactly, whatever its characters and spaces. A space is put before each line, and taken off
again, so that a word at the start of a line has the pieces that it has elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from core.data.corpus import DataError

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
# The library writes bytes as characters below U+0144, so that no text can spell a name in these brackets.
SPECIAL_SYMBOLS = ("⟨pad⟩", "⟨bos⟩", "⟨eos⟩")
_NUM_BASE_PIECES = len(SPECIAL_SYMBOLS) + 256


@dataclass(frozen=True)
class Vocabulary:
    """Word pieces and their ids; made by `learn` or `load`.

    Ids 0, 1, 2 are padding, begin and end of a sentence; then come the 256 bytes, then the merges. Encoding never
    yields a special id: a source gets EOS appended, a decoder's input BOS prepended, its output EOS appended, by the
    one who makes the tensors.
    """

    tokenizer: Tokenizer

    @classmethod
    def learn(cls, lines: Iterable[str], vocab_size: int) -> Vocabulary:
        """Learn merges on these lines; the same lines and size always give the same vocabulary.

        Pass training text only, of both languages (pitfall A30). The result has `vocab_size` ids, special symbols
        included, or fewer where the text has no pair left to merge: see `size`.

        Raises:
            ValueError: `vocab_size` has no room for the special symbols and the bytes.
        """
        if vocab_size < _NUM_BASE_PIECES:
            raise ValueError(
                f"vocab_size={vocab_size} must be at least {_NUM_BASE_PIECES}: "
                f"{len(SPECIAL_SYMBOLS)} special symbols and 256 bytes"
            )
        learned = _byte_level(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_SYMBOLS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        learned.train_from_iterator(lines, trainer)
        model = json.loads(learned.to_str())["model"]
        # The library would recognise its special tokens inside a line; a fresh tokenizer only has ids for them.
        merges = [tuple(merge) for merge in model["merges"]]
        return cls(_byte_level(models.BPE(vocab=model["vocab"], merges=merges)))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read a vocabulary written by `save`.

        Raises:
            DataError: the file is missing or not such a vocabulary.
        """
        try:
            vocabulary = cls(Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise DataError(
                f"{path} cannot be read: {error.strerror}; delete its folder, it will be made again"
            ) from error
        except Exception as error:  # the library raises nothing narrower for what it cannot parse
            raise DataError(
                f"{path} is not a vocabulary ({error}); delete its folder, it will be made again"
            ) from error
        if tuple(vocabulary.tokenizer.id_to_token(i) for i in range(len(SPECIAL_SYMBOLS))) != SPECIAL_SYMBOLS:
            symbols = ", ".join(SPECIAL_SYMBOLS)
            raise DataError(f"{path} does not begin with {symbols}; delete its folder, it will be made again")
        return vocabulary

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON; equal vocabularies give equal files."""
        path.write_text(self.tokenizer.to_str(), encoding="utf-8")

    @cached_property
    def size(self) -> int:
        """Number of ids, special symbols and bytes included: the model's `vocab_size`."""
        return self.tokenizer.get_vocab_size()

    @property
    def num_merges(self) -> int:
        """Merges learned, which is not the size (pitfall A27)."""
        return self.size - _NUM_BASE_PIECES

    @cached_property
    def fingerprint(self) -> str:
        """16 hex characters over all that decides an encoding."""
        return hashlib.sha256(self.tokenizer.to_str().encode()).hexdigest()[:16]

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        """Piece ids of each line, without special symbols; an empty line has none."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(lines, add_special_tokens=False)]

    def decode_batch(self, sentences: Iterable[Sequence[int]]) -> list[str]:
        """The text of each sentence; special symbols are dropped.

        Inverse of `encode_batch`. Pieces that a model put together to something that is not UTF-8 become U+FFFD.
        """
        text_pieces = [[piece for piece in pieces if piece > EOS_ID] for pieces in sentences]
        return self.tokenizer.decode_batch(text_pieces, skip_special_tokens=False)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each piece as on the axes of an attention map: a space is ▁, a part of a character is like \\xe2."""
        return [self._readable[piece] for piece in ids]

    @cached_property
    def _readable(self) -> list[str]:
        special = list(SPECIAL_SYMBOLS)
        names = (self.tokenizer.id_to_token(piece) for piece in range(len(special), self.size))
        raw = (bytes(_BYTE_OF_CHARACTER[character] for character in name) for name in names)
        return special + [piece.decode("utf-8", errors="backslashreplace").replace(" ", "▁") for piece in raw]


def _byte_level(model: models.BPE) -> Tokenizer:
    """A tokenizer around `model` that splits at word starts, as GPT-2 does, and undoes it on decoding."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Prepend(" ")
    # The library's own prefix is not reversible: it is left out where a line begins with a space already.
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def _byte_of_character() -> dict[str, int]:
    """The byte that a character in a piece's name stands for: itself if printable, else U+0100 and up, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_of_character()
