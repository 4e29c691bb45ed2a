from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from core.data import vocabulary as vocabulary_module
from core.data.corpus import DataError
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID, SPECIAL_SYMBOLS, Vocabulary

LINES = [
    "My aunt sold seven blue bicycles to the mayor.",
    "Meine Tante verkaufte größere Fahrräder im März.",
    "Ma tante a vendu sept vélos, près de l'école.",
    "The mayor paid nothing, and the school kept quiet.",
] * 5
LEARNED = Vocabulary.learn(LINES, 350)
WORD_PIECES = Vocabulary.learn(LINES, 350, "wordpiece")
KINDS = pytest.mark.parametrize("vocabulary", [LEARNED, WORD_PIECES], ids=["bpe", "wordpiece"])
AWKWARD = [
    "",
    " ",
    "  two  spaces ",
    "\ttab\u00a0no-break\u2009thin\u3000wide",
    "\u2028line separator\u2029",
    "carriage\r",
    "null\x00",
    "▁ meta ▁▁",
    "Ġ ĠĠ",
    "@@ a@@ </w> ##b",
    "e\u0301 \u00e9",
    "\ufeffmark",
    "\U0001d518 \U0001f469\u200d\U0001f469\u200d\U0001f467 中文 \ufdfd",
    "<pad> </s> <unk>",
    " ".join(SPECIAL_SYMBOLS),
]


def round_trip(vocabulary: Vocabulary, lines: list[str]) -> list[str]:
    return vocabulary.decode_batch(vocabulary.encode_batch(lines))


@KINDS
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_decoding_gives_back_every_line(vocabulary, lines):
    assert round_trip(vocabulary, lines) == lines


@KINDS
@pytest.mark.parametrize("line", AWKWARD)
def test_decoding_gives_back_awkward_lines(vocabulary, line):
    assert round_trip(vocabulary, [line]) == [line]


@KINDS
@given(line=st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(AWKWARD))
def test_a28_no_text_encodes_to_a_special_symbol_and_none_is_unknown(vocabulary, line):
    assert all(EOS_ID < piece < vocabulary.size for piece in vocabulary.encode_batch([line])[0])


@KINDS
@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_flat_arrays_hold_what_lists_do(vocabulary, lines):
    sentences = vocabulary.encode_sentences(lines)
    assert list(sentences) == vocabulary.encode_batch(lines)
    assert sentences.flat.dtype == np.uint16
    assert len(sentences) == len(lines)


def test_word_pieces_are_the_longest_that_fit_where_bpe_follows_its_merges():
    # "bc" is merged before "ab", so that in "zabc" merging leaves "a" alone, and the longest match leaves "c".
    lines = ["zbc ybc xbc wbc"] * 20 + ["zab yab"] * 20
    merged, longest = (Vocabulary.learn(lines, 265, kind) for kind in ("bpe", "wordpiece"))
    assert merged.size == longest.size
    assert merged.pieces(range(3, merged.size)) == longest.pieces(range(3, longest.size))

    def by_hand(word: str) -> list[str]:
        known, cut = set(longest.pieces(range(3, longest.size))), []
        while word:
            piece = next(word[:end] for end in range(len(word), 0, -1) if word[:end] in known)
            cut.append(piece)
            word = word[len(piece) :]
        return cut

    words = ["zabc", "zbc", "xab", "abcab", "ccba", "bcbc"]
    cuts = {word: longest.pieces(longest.encode_batch([word])[0]) for word in words}
    assert cuts == {word: by_hand(f"▁{word}") for word in words}
    assert cuts["zabc"][-2:] == ["ab", "c"]
    assert merged.pieces(merged.encode_batch(["zabc"])[0])[-2:] == ["a", "bc"]


def test_word_pieces_of_a_very_long_word_take_no_time():
    line = "x" * 50_000
    started = time.perf_counter()
    assert round_trip(WORD_PIECES, [line]) == [line]
    assert time.perf_counter() - started < 10


def test_the_kind_is_part_of_the_identity_and_of_the_file(tmp_path):
    assert (LEARNED.kind, WORD_PIECES.kind) == ("bpe", "wordpiece")
    assert LEARNED.fingerprint != WORD_PIECES.fingerprint
    WORD_PIECES.save(tmp_path / "vocabulary.json")
    loaded = Vocabulary.load(tmp_path / "vocabulary.json")
    assert (loaded.kind, loaded.fingerprint) == ("wordpiece", WORD_PIECES.fingerprint)
    assert loaded.encode_batch(AWKWARD) == WORD_PIECES.encode_batch(AWKWARD)


def test_no_training_text_can_spell_a_special_symbol():
    spelled = Vocabulary.learn([symbol for symbol in SPECIAL_SYMBOLS for _ in range(20)], 400)
    assert spelled.decode_batch(spelled.encode_batch(list(SPECIAL_SYMBOLS))) == list(SPECIAL_SYMBOLS)
    assert all(min(ids) > EOS_ID for ids in spelled.encode_batch(list(SPECIAL_SYMBOLS)))


def test_special_symbols_have_the_first_ids_and_no_text():
    assert (PAD_ID, BOS_ID, EOS_ID) == (0, 1, 2)
    [pieces] = LEARNED.encode_batch(["Two men."])
    assert LEARNED.decode_batch([[BOS_ID, *pieces, EOS_ID, PAD_ID, PAD_ID]]) == ["Two men."]


def test_a_word_has_the_same_pieces_at_the_start_of_a_line_as_inside():
    first, inside = LEARNED.encode_batch(["young men", "men young"])
    assert sorted(first) == sorted(inside)


def test_frequent_words_become_one_piece():
    vocabulary = Vocabulary.learn(["two young men"] * 9 + ["one old man"], 290)
    assert vocabulary.pieces(vocabulary.encode_batch(["young men"])[0]) == ["▁young", "▁men"]


def test_pieces_are_readable_one_by_one():
    ids = LEARNED.encode_batch(["€ ▁"])[0]
    assert LEARNED.pieces([PAD_ID, *ids])[:5] == [SPECIAL_SYMBOLS[0], "▁", "\\xe2", "\\x82", "\\xac"]
    assert len(LEARNED.pieces(range(LEARNED.size))) == LEARNED.size


def test_readable_pieces_use_the_characters_of_the_library():
    assert set(vocabulary_module._BYTE_OF_CHARACTER) == set(pre_tokenizers.ByteLevel.alphabet())
    for byte in range(0x80):
        text = "".join(LEARNED.pieces(LEARNED.encode_batch([chr(byte)])[0]))
        assert text == f"▁{chr(byte)}".replace(" ", "▁")


def test_decoding_pieces_that_are_no_text_does_not_fail():
    start_of_character = LEARNED.encode_batch(["€"])[0][1]
    assert LEARNED.decode_batch([[start_of_character]]) == ["\ufffd"]
    assert LEARNED.decode_batch([]) == []
    assert LEARNED.decode_batch([[]]) == [""]


def test_a27_the_size_is_the_one_asked_for_when_the_text_allows_and_not_the_merges():
    assert LEARNED.size == 350
    assert LEARNED.num_merges == 350 - 3 - 256
    short = Vocabulary.learn(["aa aa ab"], 1000)
    assert short.size == 3 + 256 + 3  # " a", then " aa" and " ab"


def test_a_size_without_room_for_the_bytes_is_refused():
    with pytest.raises(ValueError, match="vocab_size=258 must be at least 259"):
        Vocabulary.learn(LINES, 258)
    assert Vocabulary.learn(LINES, 259).num_merges == 0


def test_learning_is_the_same_in_every_process_and_with_any_number_of_threads():
    code = f"from core.data.vocabulary import Vocabulary; print(Vocabulary.learn({LINES!r}, 350).fingerprint)"
    root = Path(vocabulary_module.__file__).parents[2]
    for threads, hash_seed in (("1", "1"), ("2", "2")):
        env = os.environ | {"RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root, env=env
        )
        assert run.stdout.strip() == LEARNED.fingerprint


def test_other_text_or_size_gives_another_fingerprint():
    others = [Vocabulary.learn(LINES, 349), Vocabulary.learn([line.upper() for line in LINES], 350)]
    assert len({LEARNED.fingerprint, *(other.fingerprint for other in others)}) == 3


def test_saving_and_loading_changes_nothing(tmp_path):
    LEARNED.save(tmp_path / "vocabulary.json")
    loaded = Vocabulary.load(tmp_path / "vocabulary.json")
    assert loaded.fingerprint == LEARNED.fingerprint
    assert loaded.size == LEARNED.size
    assert loaded.encode_batch(LINES + AWKWARD) == LEARNED.encode_batch(LINES + AWKWARD)
    assert loaded.decode_batch(loaded.encode_batch(AWKWARD)) == AWKWARD


@pytest.mark.parametrize("content", [None, "", "{}", "not json"])
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path, content):
    path = tmp_path / "vocabulary.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match=r"vocabulary\.json"):
        Vocabulary.load(path)


def test_a_vocabulary_with_other_special_symbols_is_refused(tmp_path):
    path = tmp_path / "vocabulary.json"
    LEARNED.save(path)
    path.write_text(path.read_text(encoding="utf-8").replace("⟨bos⟩", "⟨cls⟩"), encoding="utf-8")
    with pytest.raises(DataError, match="does not begin with ⟨pad⟩, ⟨bos⟩, ⟨eos⟩"):
        Vocabulary.load(path)
