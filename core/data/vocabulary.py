"""The vocabulary that source and target share: byte-level word pieces with three special symbols (section 5.1).

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
from itertools import chain
from pathlib import Path

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from core.config import VocabularyKind
from core.data.corpus import DataError
from core.data.split import Sentences

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
# The library writes bytes as characters below U+0144, so that no text can spell a name in these brackets.
SPECIAL_SYMBOLS = ("⟨pad⟩", "⟨bos⟩", "⟨eos⟩")
ALPHABET_SIZE = 256
_NUM_BASE_PIECES = len(SPECIAL_SYMBOLS) + ALPHABET_SIZE
# The longest match tries every end from every start: longer words, which no language has, are cut here first.
_MAX_WORD_BYTES = 200


@dataclass(frozen=True)
class Vocabulary:
    """Word pieces and their ids; made by `learn` or `load`.

    Ids 0, 1, 2 are padding, begin and end of a sentence; then come the 256 bytes, then the merges. Encoding never
    yields a special id: a source gets EOS appended, a decoder's input BOS prepended, its output EOS appended, by the
    one who makes the tensors.
    """

    tokenizer: Tokenizer

    @classmethod
    def learn(
        cls, lines: Iterable[str], vocab_size: int, kind: VocabularyKind = "bpe", *, tokenised: bool = False
    ) -> Vocabulary:
        """Learn merges on these lines; the same lines and size always give the same vocabulary.

        Memory grows with the number of different words, not of lines.

        `tokenised` lines have words between blanks, which pieces may fill: a bracket and its label, `(NP`, are one
        word. Otherwise letters, digits and signs are words of their own.

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
        split_words = _split_at_blanks if tokenised else _split_words
        learned = _with_words(models.BPE(), split_words())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_SYMBOLS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        learned.train_from_iterator(lines, trainer)
        model = json.loads(learned.to_str())["model"]
        # The library would recognise its special tokens inside a line; a fresh tokenizer only has ids for them.
        if kind == "wordpiece":
            # DEPARTURE(5.1): Wu et al. choose pieces by the likelihood of a language model. The library has no such
            # trainer: here they are those of BPE, made of the most frequent pairs, and only the cutting is theirs.
            # Switch: vocab_kind.
            model = models.WordPiece(
                model["vocab"], unk_token=SPECIAL_SYMBOLS[0], max_input_chars_per_word=_MAX_WORD_BYTES,
                continuing_subword_prefix="",
            )  # fmt: skip
            words = pre_tokenizers.Sequence([split_words(), pre_tokenizers.FixedLength(length=_MAX_WORD_BYTES)])
            return cls(_with_words(model, words))
        merges = [tuple(merge) for merge in model["merges"]]
        return cls(_with_words(models.BPE(vocab=model["vocab"], merges=merges), split_words()))

    @classmethod
    def load(cls, path: Path) -> Vocabulary:
        """Read a vocabulary written by `save`.

        Raises:
            DataError: the file is missing or not such a vocabulary; who asked for it knows what to do about it.
        """
        try:
            vocabulary = cls(Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from error
        except Exception as error:  # the library raises nothing narrower for what it cannot parse
            raise DataError(f"{path} is not a vocabulary: {error}") from error
        if tuple(vocabulary.tokenizer.id_to_token(i) for i in range(len(SPECIAL_SYMBOLS))) != SPECIAL_SYMBOLS:
            raise DataError(f"{path} is not a vocabulary: it does not begin with {', '.join(SPECIAL_SYMBOLS)}")
        return vocabulary

    def save(self, path: Path) -> None:
        """Write the vocabulary as JSON; equal vocabularies give equal files."""
        path.write_text(self.tokenizer.to_str(), encoding="utf-8")

    @cached_property
    def size(self) -> int:
        """Number of ids, special symbols and bytes included: the model's `vocab_size`."""
        return self.tokenizer.get_vocab_size()

    @property
    def kind(self) -> VocabularyKind:
        """How words are cut into pieces."""
        return "wordpiece" if isinstance(self.tokenizer.model, models.WordPiece) else "bpe"

    @property
    def num_merges(self) -> int:
        """Merges learned, which is not the size (pitfall A27)."""
        return self.size - _NUM_BASE_PIECES

    @cached_property
    def fingerprint(self) -> str:
        """16 hex characters over all that decides an encoding."""
        return _fingerprint(self.tokenizer.to_str().encode())

    def encode_batch(self, lines: Sequence[str]) -> list[list[int]]:
        """Piece ids of each line, without special symbols; an empty line has none."""
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(lines, add_special_tokens=False)]

    def encode_sentences(self, lines: Sequence[str]) -> Sentences:
        """`encode_batch` into flat arrays, at a fraction of the memory."""
        encodings = self.tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        num_pieces = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
        every = chain.from_iterable(encoding.ids for encoding in encodings)
        return Sentences.from_pieces(np.fromiter(every, dtype=self.dtype, count=num_pieces.sum()), num_pieces)

    @property
    def dtype(self) -> np.dtype:
        """The smallest type that holds every id."""
        return np.min_scalar_type(self.size - 1)

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


def fingerprint_of_file(path: Path) -> str:
    """The fingerprint of the vocabulary that `save` wrote there, without the work of `load`; may raise OSError."""
    return _fingerprint(path.read_bytes())


def _fingerprint(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _split_words() -> pre_tokenizers.PreTokenizer:
    """Splits at word starts, as GPT-2 does, and writes bytes as characters."""
    # The library's own prefix is not reversible: it is left out where a line begins with a space already.
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _split_at_blanks() -> pre_tokenizers.PreTokenizer:
    """Splits before each blank alone, and writes bytes as characters."""
    blanks = pre_tokenizers.Split(Regex(" ?[^ ]+"), behavior="isolated")
    return pre_tokenizers.Sequence([blanks, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _with_words(model: models.Model, words: pre_tokenizers.PreTokenizer) -> Tokenizer:
    """A tokenizer that splits lines into `words`, cuts these by `model`, and undoes both on decoding."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def _byte_of_character() -> dict[str, int]:
    """The byte that a character in a piece's name stands for: itself if printable, else U+0100 and up, in order."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + place): byte for place, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_of_character()
