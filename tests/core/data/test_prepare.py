from __future__ import annotations

import errno
import json
import mmap
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import filelock
import numpy as np
import pytest

from core.config import DataConfig
from core.data import prepare as prepare_module
from core.data.array_file import ArrayFile
from core.data.corpus import DataError
from core.data.file_corpus import FileCorpus
from core.data.prepare import prepare, prepare_corpus
from core.data.vocabulary import Vocabulary

DATA = DataConfig("tiny", "en", "de", 300, "dev", "test")


@pytest.fixture
def prepare_texts(tmp_path, build_corpus, write_texts):
    """Prepare texts as the corpus `tiny`, in the cache folder tmp_path."""

    def run(texts, data=DATA):
        write_texts(tmp_path / "tiny", texts)
        return prepare_corpus(build_corpus(texts), data, tmp_path)

    return run


def visible(folder):
    """What lies in a folder, but for hidden files: locks, and what is not finished."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def lines_of(texts, name):
    return texts[name].split("\n")[:-1]


def test_every_split_decodes_to_its_raw_lines(prepare_texts, tiny_texts):
    prepared = prepare_texts(tiny_texts)
    for name in ("train", "dev", "test"):
        split = prepared.split(name)
        assert list(split.src_lines) == lines_of(tiny_texts, f"{name}.en")
        assert list(split.tgt_lines) == lines_of(tiny_texts, f"{name}.de")
        assert prepared.vocabulary.decode_batch(split.src) == list(split.src_lines)
        assert prepared.vocabulary.decode_batch(split.tgt) == list(split.tgt_lines)
        assert split.src_lengths.tolist() == [len(pieces) + 1 for pieces in split.src]
        assert len(split) == len(split.tgt) == prepared.statistics[name].pairs


def test_a_second_call_does_no_work(prepare_texts, tiny_texts, monkeypatch):
    first = prepare_texts(tiny_texts)
    before = {path: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    monkeypatch.setattr(FileCorpus, "read_pairs", None)
    monkeypatch.setattr(Vocabulary, "learn", None)
    second = prepare_texts(tiny_texts)
    assert second.folder == first.folder
    assert second.fingerprint == first.fingerprint
    assert {path: path.stat().st_mtime_ns for path in second.folder.iterdir()} == before
    assert second.statistics == first.statistics
    assert second.vocabulary.fingerprint == first.vocabulary.fingerprint


def test_a30_the_vocabulary_knows_nothing_of_dev_and_test(prepare_texts, tiny_texts):
    other = tiny_texts | {name: text.replace("o", "ő") for name, text in tiny_texts.items() if "train" not in name}
    first, second = prepare_texts(tiny_texts), prepare_texts(other)
    assert first.folder != second.folder
    assert first.fingerprint != second.fingerprint
    assert first.vocabulary.fingerprint == second.vocabulary.fingerprint
    learned_on = json.loads((first.folder / "info.json").read_text())["vocabulary"]["learned_on"]
    assert learned_on == ["train.en", "train.de"]


def test_a27_merges_alphabet_and_size_are_recorded_apart(prepare_texts, tiny_texts):
    prepared = prepare_texts(tiny_texts, replace(DATA, vocab_size=2_000))
    recorded = json.loads((prepared.folder / "info.json").read_text())["vocabulary"]
    assert recorded["size_asked_for"] == 2_000
    assert recorded["size"] == prepared.vocabulary.size < 2_000
    assert recorded["size"] == recorded["special_symbols"] + recorded["alphabet"] + recorded["merges"]
    shown = {piece for side in ("src", "tgt") for pieces in getattr(prepared.split("train"), side) for piece in pieces}
    assert recorded["unused"] == recorded["size"] - recorded["special_symbols"] - len(shown)


@pytest.mark.parametrize(
    "change",
    [
        {"vocab_size": 299},
        {"max_train_pieces": 9},
        {"src": "de", "tgt": "en"},
        {"vocab_kind": "wordpiece"},
        {"vocab_sample_pairs": 100},
    ],
)
def test_what_changes_the_pieces_gets_a_folder_of_its_own(prepare_texts, tiny_texts, change):
    assert prepare_texts(tiny_texts, replace(DATA, **change)).folder != prepare_texts(tiny_texts).folder


def test_everything_of_a_split_is_mapped_and_nothing_copied(prepare_texts, tiny_texts):
    split = prepare_texts(tiny_texts).split("train")
    arrays = [array for side in (split.src, split.tgt) for array in (side.flat, side.offsets, side.lengths)] + [
        lines.text(0, len(lines)) for lines in (split.src_lines, split.tgt_lines)
    ]
    for array in [*arrays, split.src_lengths, split.tgt_lengths]:
        while isinstance(array, np.ndarray):
            array = array.base
        assert isinstance(array, mmap.mmap)


def test_the_splits_that_are_scored_share_one_folder(prepare_texts, tiny_texts):
    assert prepare_texts(tiny_texts, replace(DATA, test_split="dev")).folder == prepare_texts(tiny_texts).folder


def test_only_training_pairs_are_dropped_for_their_length_and_counted(prepare_texts, tiny_texts):
    everything = prepare_texts(tiny_texts)
    limit = 20
    prepared = prepare_texts(tiny_texts, replace(DATA, max_train_pieces=limit))
    # The same vocabulary, so that lengths can be compared: it is learned on all training lines.
    assert prepared.vocabulary.fingerprint == everything.vocabulary.fingerprint
    full, kept = everything.split("train"), prepared.split("train")
    fits = [max(pair) <= limit for pair in zip(full.src_lengths, full.tgt_lengths, strict=True)]
    assert 0 < sum(fits) < len(fits)
    assert len(kept) == sum(fits)
    assert prepared.statistics["train"].dropped_long_pairs == len(fits) - sum(fits)
    assert list(kept.src_lines) == [line for line, fit in zip(full.src_lines, fits, strict=True) if fit]
    assert prepared.vocabulary.decode_batch(kept.tgt) == list(kept.tgt_lines)
    assert max(kept.src_lengths.max(), kept.tgt_lengths.max()) <= limit
    assert len(prepared.split("test")) == 30
    assert prepared.statistics["test"].dropped_long_pairs == 0


def test_a_limit_that_drops_all_is_refused_and_leaves_nothing(prepare_texts, tiny_texts, tmp_path):
    with pytest.raises(DataError, match="every training pair is longer than max_train_pieces=2; raise it"):
        prepare_texts(tiny_texts, replace(DATA, max_train_pieces=2))
    assert visible(tmp_path) == ["tiny"]
    assert not list(tmp_path.glob("*.unfinished"))


def test_a24_training_sentences_in_a_test_set_are_counted(prepare_texts, tiny_texts):
    # https://github.com/facebookresearch/fairseq/issues/2559: validation lines that are training lines too
    english, german = lines_of(tiny_texts, "train.en"), lines_of(tiny_texts, "train.de")
    texts = tiny_texts | {
        "test.en": "\n".join([english[0], english[1], "Something new ."]) + "\n",
        "test.de": "\n".join([german[0], "Etwas anderes .", german[2]]) + "\n",
    }
    statistics = prepare_texts(texts).statistics["test"]
    assert (statistics.src_seen_in_training, statistics.tgt_seen_in_training) == (2, 2)
    assert statistics.pairs_seen_in_training == 1


def test_a28_a29_pieces_per_word_and_pieces_never_trained_are_counted(prepare_texts, tiny_texts):
    texts = tiny_texts | {"test.en": "the cat €\n", "test.de": "die Katze .\n"}
    prepared = prepare_texts(texts)
    statistics = prepared.statistics["test"]
    assert statistics.src_pieces_per_word == len(prepared.split("test").src[0]) / 3
    assert statistics.src_untrained_pieces == 3  # the bytes of the sign
    assert statistics.tgt_untrained_pieces == 0
    assert prepared.statistics["train"].src_untrained_pieces == 0


def test_a20_text_with_line_separators_stays_one_line(prepare_texts, tiny_texts):
    texts = tiny_texts | {"test.en": "one\u2028line\rhere\n", "test.de": "eine\x85Zeile \n"}
    split = prepare_texts(texts).split("test")
    assert list(split.src_lines) == ["one\u2028line\rhere"]
    assert list(split.tgt_lines) == ["eine\x85Zeile "]


def test_scoring_the_training_split_is_refused(prepare_texts, tiny_texts):
    with pytest.raises(ValueError, match="split 'train' is trained on"):
        prepare_texts(tiny_texts, replace(DATA, dev_split="train"))


def test_unknown_names_are_refused_before_any_work(prepare_texts, tiny_texts, tmp_path):
    with pytest.raises(ValueError, match="tiny has no split 'tets'; close: test"):
        prepare_texts(tiny_texts, replace(DATA, test_split="tets"))
    with pytest.raises(ValueError, match="tiny has no language 'fr'"):
        prepare_texts(tiny_texts, replace(DATA, tgt="fr"))
    with pytest.raises(ValueError, match="no corpus 'tiny'"):
        prepare(DATA, tmp_path)
    with pytest.raises(ValueError, match="has no split 'tets'"):
        prepare_texts(tiny_texts).split("tets")


@pytest.mark.parametrize(
    "file", ["info.json", "vocabulary.json", "test.src.pieces.npy", "test.tgt.offsets.npy", "test.src.txt"]
)
@pytest.mark.parametrize("damage", ["remove", "cut", "empty"])
def test_a_damaged_folder_is_named_with_what_to_do(prepare_texts, tiny_texts, file, damage):
    folder = prepare_texts(tiny_texts).folder
    path = folder / file
    size = path.stat().st_size
    path.unlink() if damage == "remove" else path.write_bytes(path.read_bytes()[: size // 2 if damage == "cut" else 0])
    with pytest.raises(DataError, match=rf"{folder} is damaged \(.*{file}.*\); delete it, it will be made again"):
        prepare_texts(tiny_texts)
    shutil.rmtree(folder)
    assert len(prepare_texts(tiny_texts).split("test")) == 30


def test_arrays_that_do_not_fit_each_other_are_refused(prepare_texts, tiny_texts):
    folder = prepare_texts(tiny_texts).folder
    offsets = np.load(folder / "test.tgt.offsets.npy")
    np.save(folder / "test.tgt.offsets.npy", offsets + 1)
    with pytest.raises(DataError, match=r"is damaged \(test.tgt: its arrays do not fit each other\); delete it"):
        prepare_texts(tiny_texts).split("test")


def test_another_vocabulary_of_the_same_size_is_refused(prepare_texts, tiny_texts):
    folder = prepare_texts(tiny_texts).folder
    path = folder / "vocabulary.json"
    text = path.read_text(encoding="utf-8")
    other = text.replace('"a":', '"@@":', 1).replace('"b":', '"a":', 1).replace('"@@":', '"b":', 1)
    assert len(other) == len(text)
    assert other != text
    path.write_text(other, encoding="utf-8")
    with pytest.raises(DataError, match=r"vocabulary.json is not the one that was learned: .*; delete it"):
        prepare_texts(tiny_texts)


def test_a_full_disk_is_named_and_what_is_done_goes_on_from_there(prepare_texts, tiny_texts, tmp_path, monkeypatch):
    def full_disk(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ArrayFile, "commit", full_disk)
        with pytest.raises(DataError, match=r"cannot write .*unfinished \(No space left on device\); start again once"):
            prepare_texts(tiny_texts)
    assert visible(tmp_path) == ["tiny"]
    monkeypatch.setattr(Vocabulary, "learn", None)  # it is there already
    assert len(prepare_texts(tiny_texts).split("train")) == 400


def test_a_file_system_without_locks_is_refused(prepare_texts, tiny_texts, monkeypatch):
    def no_locks(*args, **kwargs):
        raise NotImplementedError("FileSystem does not appear to support flock")

    monkeypatch.setattr(filelock.FileLock, "acquire", no_locks)
    with pytest.raises(DataError, match="has no locks; give a --home on one that has them"):
        prepare_texts(tiny_texts)


def test_preparing_needs_no_torch():
    code = "import sys; import core.data.prepare, core.data.batching; assert not {'torch', 'ray'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(prepare_module.__file__).parents[2])


def test_the_grammar_has_no_untrained_pieces_and_opens_at_once(shared_cache):
    data = DataConfig("grammar", "en", "de", 1_000, "dev", "test")
    prepared = prepare(data, shared_cache)
    for statistics in prepared.statistics.values():
        assert statistics.src_untrained_pieces == statistics.tgt_untrained_pieces == 0
        assert statistics.pairs_seen_in_training == 0 or statistics is prepared.statistics["train"]
    started = time.perf_counter()
    split = prepare(data, shared_cache).split("train")
    assert len(split.src_lines) == len(split.src_lengths) == 12_000
    assert split.tgt_lines[11_999].endswith((".", "?"))
    assert time.perf_counter() - started < 0.05


def test_multi30k_is_prepared_the_same_way_in_every_split(local_multi30k, shared_cache):
    prepared = prepare(DataConfig("multi30k", "en", "de", 8_000, "val", "test_2016_flickr"), shared_cache)
    assert prepared.vocabulary.size == 8_000
    train = prepared.statistics["train"]
    for name, statistics in prepared.statistics.items():
        split = prepared.split(name)
        assert prepared.vocabulary.decode_batch(split.src) == list(split.src_lines)
        assert prepared.vocabulary.decode_batch(split.tgt) == list(split.tgt_lines)
        assert abs(statistics.src_pieces_per_word / train.src_pieces_per_word - 1) < 0.1
        assert abs(statistics.tgt_pieces_per_word / train.tgt_pieces_per_word - 1) < 0.1
        assert statistics.pairs_seen_in_training == (29_000 if name == "train" else 0)
