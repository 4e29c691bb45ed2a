from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from core.config import DataConfig
from core.data import prepare as prepare_module
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


def lines_of(texts, name):
    return texts[name].split("\n")[:-1]


def test_every_split_decodes_to_its_raw_lines(prepare_texts, tiny_texts):
    prepared = prepare_texts(tiny_texts)
    for name in ("train", "dev", "test"):
        split = prepared.split(name)
        assert split.src_lines == lines_of(tiny_texts, f"{name}.en")
        assert split.tgt_lines == lines_of(tiny_texts, f"{name}.de")
        assert prepared.vocabulary.decode_batch(split.src) == split.src_lines
        assert prepared.vocabulary.decode_batch(split.tgt) == split.tgt_lines
        assert split.src_lengths.tolist() == [len(pieces) + 1 for pieces in split.src]
        assert len(split) == len(split.tgt) == prepared.statistics[name].pairs


def test_a_second_call_does_no_work(prepare_texts, tiny_texts, monkeypatch):
    first = prepare_texts(tiny_texts)
    before = {path: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    monkeypatch.setattr(FileCorpus, "load_pair", None)
    monkeypatch.setattr(Vocabulary, "learn", None)
    second = prepare_texts(tiny_texts)
    assert second.folder == first.folder
    assert second.fingerprint == first.fingerprint
    assert {path: path.stat().st_mtime_ns for path in second.folder.iterdir()} == before
    assert second.statistics == first.statistics
    assert second.vocabulary.fingerprint == first.vocabulary.fingerprint


def test_the_vocabulary_knows_nothing_of_dev_and_test(prepare_texts, tiny_texts):
    other = tiny_texts | {name: text.replace("o", "ő") for name, text in tiny_texts.items() if "train" not in name}
    first, second = prepare_texts(tiny_texts), prepare_texts(other)
    assert first.folder != second.folder
    assert first.fingerprint != second.fingerprint
    assert first.vocabulary.fingerprint == second.vocabulary.fingerprint
    learned_on = json.loads((first.folder / "info.json").read_text())["vocabulary"]["learned_on"]
    assert learned_on == ["train.en", "train.de"]


@pytest.mark.parametrize("change", [{"vocab_size": 299}, {"max_train_pieces": 9}, {"src": "de", "tgt": "en"}])
def test_what_changes_the_pieces_gets_a_folder_of_its_own(prepare_texts, tiny_texts, change):
    assert prepare_texts(tiny_texts, replace(DATA, **change)).folder != prepare_texts(tiny_texts).folder


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
    assert kept.src_lines == [line for line, fit in zip(full.src_lines, fits, strict=True) if fit]
    assert prepared.vocabulary.decode_batch(kept.tgt) == kept.tgt_lines
    assert max(kept.src_lengths.max(), kept.tgt_lengths.max()) <= limit
    assert len(prepared.split("test")) == 30
    assert prepared.statistics["test"].dropped_long_pairs == 0


def test_a_limit_that_drops_all_is_refused_and_leaves_nothing(prepare_texts, tiny_texts, tmp_path):
    with pytest.raises(DataError, match="every training pair is longer than max_train_pieces=2; raise it"):
        prepare_texts(tiny_texts, replace(DATA, max_train_pieces=2))
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_training_sentences_in_a_test_set_are_counted(prepare_texts, tiny_texts):
    # https://github.com/facebookresearch/fairseq/issues/2559: validation lines that are training lines too
    english, german = lines_of(tiny_texts, "train.en"), lines_of(tiny_texts, "train.de")
    texts = tiny_texts | {
        "test.en": "\n".join([english[0], english[1], "Something new ."]) + "\n",
        "test.de": "\n".join([german[0], "Etwas anderes .", german[2]]) + "\n",
    }
    statistics = prepare_texts(texts).statistics["test"]
    assert (statistics.src_seen_in_training, statistics.tgt_seen_in_training) == (2, 2)
    assert statistics.pairs_seen_in_training == 1


def test_pieces_per_word_and_pieces_never_trained_are_counted(prepare_texts, tiny_texts):
    texts = tiny_texts | {"test.en": "the cat €\n", "test.de": "die Katze .\n"}
    prepared = prepare_texts(texts)
    statistics = prepared.statistics["test"]
    assert statistics.src_pieces_per_word == len(prepared.split("test").src[0]) / 3
    assert statistics.src_untrained_pieces == 3  # the bytes of the sign
    assert statistics.tgt_untrained_pieces == 0
    assert prepared.statistics["train"].src_untrained_pieces == 0


def test_text_with_line_separators_stays_one_line(prepare_texts, tiny_texts):
    texts = tiny_texts | {"test.en": "one\u2028line\rhere\n", "test.de": "eine\x85Zeile \n"}
    split = prepare_texts(texts).split("test")
    assert split.src_lines == ["one\u2028line\rhere"]
    assert split.tgt_lines == ["eine\x85Zeile "]


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


@pytest.mark.parametrize("file", ["info.json", "vocabulary.json", "test.src.pieces.npy", "test.tgt.offsets.npy"])
@pytest.mark.parametrize("damage", ["remove", "cut"])
def test_a_damaged_folder_is_named(prepare_texts, tiny_texts, file, damage):
    path = prepare_texts(tiny_texts).folder / file
    path.unlink() if damage == "remove" else path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match="delete"):
        prepare_texts(tiny_texts).split("test")


def test_a_failure_leaves_no_folder(prepare_texts, tiny_texts, tmp_path, monkeypatch):
    def full_disk(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(prepare_module.np, "save", full_disk)
    with pytest.raises(OSError, match="No space left"):
        prepare_texts(tiny_texts)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]


def test_processes_that_prepare_at_once_end_with_one_complete_folder(tmp_path, stand_in_generator):
    code = (
        "import sys; from pathlib import Path; from dataclasses import replace\n"
        "from core.config import DataConfig; from core.data.generated_corpus import GRAMMAR\n"
        "from core.data.prepare import prepare_corpus\n"
        f"sys.path.insert(0, {str(stand_in_generator.parent)!r})\n"
        "corpus = replace(GRAMMAR, generator='stand_in_generator', splits={'train': 2000, 'dev': 20, 'test': 20})\n"
        "data = DataConfig('grammar', 'en', 'de', 400, 'dev', 'test')\n"
        f"prepared = prepare_corpus(corpus, data, Path({str(tmp_path / 'cache')!r}))\n"
        "print(prepared.folder.name, prepared.vocabulary.fingerprint, len(prepared.split('train').src_lines))\n"
    )
    root = Path(prepare_module.__file__).parents[2]

    def run(_):
        return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root).stdout

    with ThreadPoolExecutor(3) as pool:
        outputs = set(pool.map(run, range(3)))
    assert len(outputs) == 1
    [folder] = (tmp_path / "cache").iterdir()
    assert outputs.pop().split() == [folder.name, Vocabulary.load(folder / "vocabulary.json").fingerprint, "2000"]


def test_the_loser_of_a_race_takes_the_winners_folder(prepare_texts, tiny_texts, tmp_path, monkeypatch):
    winner = prepare_texts(tiny_texts).folder
    winner.rename(tmp_path / "aside")
    write = prepare_module._write

    def write_while_another_finishes(*args):
        write(*args)
        (tmp_path / "aside").rename(winner)

    monkeypatch.setattr(prepare_module, "_write", write_while_another_finishes)
    inode = (tmp_path / "aside").stat().st_ino
    assert prepare_texts(tiny_texts).folder.stat().st_ino == inode
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["tiny", winner.name])


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
    assert time.perf_counter() - started < 0.05


def test_multi30k_is_prepared_the_same_way_in_every_split(local_multi30k, shared_cache):
    prepared = prepare(DataConfig("multi30k", "en", "de", 8_000, "val", "test_2016_flickr"), shared_cache)
    assert prepared.vocabulary.size == 8_000
    train = prepared.statistics["train"]
    for name, statistics in prepared.statistics.items():
        split = prepared.split(name)
        assert prepared.vocabulary.decode_batch(split.src) == split.src_lines
        assert prepared.vocabulary.decode_batch(split.tgt) == split.tgt_lines
        assert abs(statistics.src_pieces_per_word / train.src_pieces_per_word - 1) < 0.1
        assert abs(statistics.tgt_pieces_per_word / train.tgt_pieces_per_word - 1) < 0.1
        assert statistics.pairs_seen_in_training == (29_000 if name == "train" else 0)
