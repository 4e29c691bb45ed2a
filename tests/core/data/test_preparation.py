"""What happens on the way to a prepared folder: at once, in pieces, on a sample of the text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import DataConfig
from core.data import preparation
from core.data.file_corpus import FileCorpus
from core.data.generated_corpus import GRAMMAR
from core.data.prepare import PreparedData, prepare_corpus
from core.data.progress import progress
from core.data.vocabulary import Vocabulary

ROOT = Path(preparation.__file__).parents[2]
DATA = DataConfig("grammar", "en", "de", 300, "dev", "test", max_train_pieces=18)
# A corpus of 1,000 short lines in one process that prepares it, small steps at a time.
PREPARE = """
import logging, os, signal, sys, time
from dataclasses import replace
from pathlib import Path
from core.config import DataConfig
from core.data import preparation
from core.data.generated_corpus import GRAMMAR
from core.data.prepare import prepare_corpus
logging.basicConfig(format="%(message)s", level=logging.INFO)
modules, cache = sys.argv[1:3]
sys.path.insert(0, modules)
corpus = replace(GRAMMAR, generator="stand_in_generator", splits={"train": 1000, "dev": 20, "test": 20})
data = DataConfig("grammar", "en", "de", 300, "dev", "test", max_train_pieces=18)
preparation._CHUNK_PAIRS, preparation._COMMIT_EVERY_SECONDS = 64, 0.0
"""


@pytest.fixture
def start(stand_in_generator, tmp_path) -> Callable[..., subprocess.CompletedProcess]:
    """Runs PREPARE and then some code of a test in a process of its own."""

    def run(code: str, *arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-c", PREPARE + code, str(stand_in_generator.parent), str(tmp_path / "cache")]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, cwd=ROOT, timeout=120)

    return run


@pytest.fixture
def prepare_here(stand_in_generator, tmp_path) -> Callable[[Path], PreparedData]:
    """Prepares the corpus of PREPARE in this process."""

    def run(cache: Path) -> PreparedData:
        splits = {"train": 1000, "dev": 20, "test": 20}
        return prepare_corpus(replace(GRAMMAR, generator=stand_in_generator.stem, splits=splits), DATA, cache)

    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_eight_processes_at_once_prepare_once_and_the_others_say_that_they_wait(start, tmp_path):
    # The one that prepares goes on when all have come.
    code = """
there = Path(cache).parent / "there"
there.mkdir(exist_ok=True)
def read_slowly(self):
    while len(list(there.iterdir())) < 8: time.sleep(0.01)
    time.sleep(0.5)
    return encode(self)
encode, preparation.Preparation._vocabulary = preparation.Preparation._vocabulary, read_slowly
(there / str(os.getpid())).touch()
prepared = prepare_corpus(corpus, data, Path(cache))
print(prepared.folder.name, prepared.vocabulary.fingerprint, len(prepared.split("train").src_lines))
"""
    with ThreadPoolExecutor(8) as pool:
        ended = list(pool.map(lambda _: start(code), range(8)))
    assert [process.returncode for process in ended] == [0] * 8, ended[0].stderr
    assert len({process.stdout for process in ended}) == 1
    assert sum("pairs prepared in" in process.stderr for process in ended) == 1
    assert sum("another process prepares it; waiting" in process.stderr for process in ended) >= 1
    [folder] = (tmp_path / "cache").glob("[!.]*")
    assert ended[0].stdout.split()[:2] == [folder.name, Vocabulary.load(folder / "vocabulary.json").fingerprint]
    assert not list((tmp_path / "cache").glob(".*.unfinished"))


def test_a_forked_process_prepares_although_its_parent_used_all_cores(start):
    # The library's threads do not live on in a fork; waiting for them would last for ever.
    ended = start("""
from core.data.vocabulary import Vocabulary
vocabulary = Vocabulary.learn(["a b c"] * 100, 300)
vocabulary.encode_sentences(["a b c"] * 100)
child = os.fork()
if child == 0:
    prepare_corpus(corpus, data, Path(cache))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(len(prepare_corpus(corpus, data, Path(cache)).split("test")))
""")
    assert (ended.returncode, ended.stdout) == (0, "20\n"), ended.stderr


KILLS = {
    "while it learns": """
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
preparation.Vocabulary.learn = die
""",
    "with half of a chunk written": """
append = preparation.SplitWriter.append
def die_later(self, sides, calls=[]):
    calls.append(1)
    append(self, sides)
    if len(calls) == 6:
        for file in list(self._files())[:3]: file._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
preparation.SplitWriter.append = die_later
""",
    "before what is written is noted": """
commit = preparation.SplitWriter.commit
def die_later(self, calls=[]):
    calls.append(commit(self))
    if len(calls) == 5: os.kill(os.getpid(), signal.SIGKILL)
    return calls[-1]
preparation.SplitWriter.commit = die_later
""",
    "when all is counted": """
def die(*_): os.kill(os.getpid(), signal.SIGKILL)
preparation.os.rename = die
""",
}


@pytest.mark.parametrize("moment", KILLS)
def test_a_killed_preparation_is_gone_on_with_and_ends_as_an_unbroken_one(
    start, prepare_here, tmp_path, monkeypatch, moment
):
    killed = start(KILLS[moment] + "prepare_corpus(corpus, data, Path(cache))")
    assert killed.returncode == -9, killed.stderr
    assert not list((tmp_path / "cache").glob("[!.]*")), "nothing may pass for complete"
    monkeypatch.setattr(preparation, "_CHUNK_PAIRS", 64)
    unbroken = prepare_here(tmp_path / "other")
    assert 0 < unbroken.statistics["train"].dropped_long_pairs < 1000

    encoded: list[int] = []
    encode = Vocabulary.encode_sentences
    monkeypatch.setattr(
        Vocabulary, "encode_sentences", lambda self, lines: encoded.append(len(lines)) or encode(self, lines)
    )
    if moment != "while it learns":
        monkeypatch.setattr(Vocabulary, "learn", None)
    continued = prepare_here(tmp_path / "cache")
    assert contents(continued.folder) == contents(unbroken.folder)
    assert (
        sum(encoded)
        == 2
        * {
            "while it learns": 1_040,
            "with half of a chunk written": 1_040 - 5 * 64,  # the sixth was on its way
            "before what is written is noted": 1_040 - 4 * 64,
            "when all is counted": 0,
        }[moment]
    )


@pytest.mark.parametrize("damage", ["journal.json", "vocabulary.json", "train.src.pieces.npy"])
def test_a_damaged_half_is_made_again(start, prepare_here, tmp_path, damage):
    start(KILLS["before what is written is noted"] + "prepare_corpus(corpus, data, Path(cache))")
    [unfinished] = (tmp_path / "cache").glob(".*.unfinished")
    (unfinished / damage).write_bytes((unfinished / damage).read_bytes()[:20])
    assert contents(prepare_here(tmp_path / "cache").folder) == contents(prepare_here(tmp_path / "other").folder)


def test_a_corpus_that_proves_faulty_at_its_end_leaves_nothing(tmp_path, tiny_texts, build_corpus, write_texts):
    write_texts(tmp_path / "tiny", tiny_texts | {"test.de": tiny_texts["test.de"].replace("Hund", "Hand", 1)})
    data = DataConfig("tiny", "en", "de", 300, "dev", "test")
    with pytest.raises(Exception, match="is not the text expected"):
        prepare_corpus(build_corpus(tiny_texts), data, tmp_path)
    assert not list(tmp_path.glob("*tiny-*.unfinished"))
    assert not list(tmp_path.glob("tiny-*"))


def test_a_vocabulary_is_learned_on_a_sample_where_one_is_asked_for(
    tmp_path, tiny_texts, build_corpus, write_texts, monkeypatch
):
    write_texts(tmp_path / "tiny", tiny_texts)
    learned_on: list[list[str]] = []
    learn = Vocabulary.learn.__func__

    def watched(cls, lines, *rest, **more):
        learned_on.append(list(lines))
        return learn(cls, learned_on[-1], *rest, **more)

    monkeypatch.setattr(Vocabulary, "learn", classmethod(watched))
    data = DataConfig("tiny", "en", "de", 300, "dev", "test", vocab_sample_pairs=100)
    prepared = prepare_corpus(build_corpus(tiny_texts), data, tmp_path)
    [lines] = learned_on
    src, tgt = (tiny_texts[f"train.{language}"].split("\n")[:-1] for language in ("en", "de"))
    assert len(lines) == 200
    assert set(zip(lines[::2], lines[1::2], strict=True)) <= set(zip(src, tgt, strict=True))
    recorded = json.loads((prepared.folder / "info.json").read_text())["vocabulary"]["sample"]
    assert recorded == {"pairs": 100, "seed": preparation._SAMPLE_SEED, "spread": "one from each equal stretch"}
    assert len(prepared.split("train")) == 400


@given(st.integers(1, 400), st.integers(1, 500))
def test_a_sample_has_one_pair_of_each_equal_stretch(total, wanted):
    sample = list(preparation._spread(range(total), total, wanted))
    assert sample == list(preparation._spread(range(total), total, wanted))
    count = min(total, wanted)
    assert len(sample) == count
    for number, place in enumerate(sample):
        assert number * total // count <= place < (number + 1) * total // count


def test_a_sample_is_read_to_the_end_where_a_corpus_is_checked():
    read: list[int] = []
    pairs = (read.append(number) or number for number in range(1_000))
    assert len(list(preparation._spread(pairs, 1_000, 3))) == 3
    assert len(read) == 1_000


def test_without_a_terminal_progress_is_a_line_now_and_then(monkeypatch, caplog):
    monkeypatch.setattr("core.data.progress.LOG_LINE_EVERY_SECONDS", 0.0)
    caplog.set_level("INFO")
    with progress("tiny: encoding train", 1_000, done=200) as on_pairs:
        on_pairs(300)
    assert "tiny: encoding train: 500 of 1,000, " in caplog.text
    assert " s left" in caplog.text


def test_on_a_terminal_progress_is_a_bar_on_stderr():
    code = "from core.data.progress import progress\nwith progress('encoding', 9) as tell:\n  tell(9)\nprint('done')"
    master, slave = os.openpty()
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=slave, cwd=ROOT, timeout=60)
    os.close(slave)
    shown = os.read(master, 1 << 16).decode()
    os.close(master)
    assert ended.stdout == b"done\n"
    assert "encoding" in shown
    assert "9/9" in shown


def test_a_split_without_pairs_is_refused(tmp_path, tiny_texts, build_corpus, write_texts, monkeypatch):
    write_texts(tmp_path / "tiny", tiny_texts)
    read = FileCorpus.read_pairs
    monkeypatch.setattr(
        FileCorpus, "read_pairs", lambda self, split, *rest: iter(()) if split == "dev" else read(self, split, *rest)
    )
    with pytest.raises(Exception, match="tiny has no pair in its split dev"):
        prepare_corpus(build_corpus(tiny_texts), DataConfig("tiny", "en", "de", 300, "dev", "test"), tmp_path)
