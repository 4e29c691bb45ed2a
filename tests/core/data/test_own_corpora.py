"""Corpora of a person's own: what is taken, what is refused, and what is left when they are removed."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from pathlib import Path

import pytest

from core.config import DataConfig
from core.data import corpora, own_corpora
from core.data.corpus import DataError
from core.data.prepare import prepare


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "home" / "data"


@pytest.fixture
def files(tmp_path: Path, tiny_texts) -> dict[str, tuple[Path, Path]]:
    """The tiny corpus as plain files of a person."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, text in tiny_texts.items():
        (folder / name).write_text(text)
    return {split: (folder / f"{split}.en", folder / f"{split}.de") for split in ("train", "dev", "test")}


def add(cache: Path, files, name="letters", languages=("en", "de"), **options):
    return own_corpora.add(cache, name, languages, files, taken=corpora.CORPORA, **options)


def _names(cache: Path) -> list[str]:
    damaged: list[DataError] = []
    names = [corpus.name for corpus, _ in corpora.known(cache, damaged.append)]
    assert damaged == []
    return names


def test_an_added_corpus_is_found_read_and_prepared_as_any_other(cache, files, tiny_texts):
    corpus = add(cache, files, licence="mine", citation="me", description="letters")
    assert corpora.get("letters", cache) == corpus
    assert _names(cache) == [*corpora.CORPORA, "letters"]
    assert corpus.splits == {"train": 400, "dev": 20, "test": 30}
    assert (corpus.task, corpus.pairs, corpus.licence) == ("translation", (("en", "de"),), "mine")
    assert [step.kept for step in corpus.steps(cache)] == [400, 20, 30]
    assert str(corpus.state(cache)) == f"present at {cache / 'own' / 'letters'}"
    corpus.fetch(cache)
    corpus.verify(cache)
    assert corpus.load_pair("dev", "de", "en", cache)[0] == tiny_texts["dev.de"].split("\n")[:-1]
    prepared = prepare(DataConfig("letters", "en", "de", 300, "dev", "test"), cache)
    assert prepared.fingerprint == corpus.fingerprint(cache, ("en", "de"))
    assert len(prepared.split("train")) == 400


def test_what_was_copied_does_not_follow_the_files(cache, files):
    corpus = add(cache, files)
    shutil.rmtree(files["train"][0].parent)
    corpus.verify(cache)


def test_a_workspace_can_be_moved(cache, files, tmp_path):
    fingerprint = add(cache, files).fingerprint(cache)
    cache.parent.rename(tmp_path / "elsewhere")
    moved = corpora.get("letters", tmp_path / "elsewhere" / "data")
    moved.verify(tmp_path / "elsewhere" / "data")
    assert moved.fingerprint(tmp_path / "elsewhere" / "data") == fingerprint


def test_files_left_in_place_are_held_to_what_they_were(cache, files):
    corpus = add(cache, files, in_place=True)
    assert [path.name for path in (cache / "own" / "letters").iterdir()] == ["corpus.json"]
    corpus.verify(cache)
    path = files["dev"][1]
    text = path.read_text()
    path.write_text(text.replace("Katze", "Kotze", 1))
    with pytest.raises(DataError, match=r"dev\.de is not the text expected: its sha256 is"):
        corpus.load_pair("dev", "en", "de", cache)
    path.write_text(text + "eine Zeile mehr\n")
    assert str(corpus.state(cache)).endswith(f"{path} not as recorded")
    for use in (corpus.fetch, corpus.fingerprint, corpus.verify):
        with pytest.raises(DataError, match=r"corpus letters .*is incomplete .* aiayn data remove letters"):
            use(cache)
    path.write_text(text)
    corpus.verify(cache)


def test_the_fingerprint_follows_the_text_alone(cache, files):
    first = add(cache, files).fingerprint(cache)
    assert add(cache, files, "again", in_place=True, licence="other").fingerprint(cache) == first
    files["test"][0].write_text(files["test"][0].read_text().replace("cat", "cow", 1))
    assert add(cache, files, "changed").fingerprint(cache) != first


def test_compressed_files_are_read(cache, files):
    for path in files["train"]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    zipped = {"train": tuple(path.with_name(f"{path.name}.gz") for path in files["train"])}
    one, other = add(cache, zipped, "zipped"), add(cache, {"train": files["train"]}, "plain")
    assert one.fingerprint(cache) == other.fingerprint(cache)
    assert add(cache, zipped, "left", in_place=True).fingerprint(cache) == one.fingerprint(cache)


def test_training_pairs_are_filtered_on_request_and_counted(cache, files):
    english, german = (path.read_text().split("\n")[:-1] for path in files["train"])
    german[3] = ""
    english[5] = "much too long for so little , as anybody can see"
    german[5] = "kurz"
    for path, lines in zip(files["train"], (english, german), strict=True):
        path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"train\.de has 1 empty lines, the first is line 4"):
        add(cache, files)
    corpus = add(cache, files, clean=["empty", "ratio", "repeated"])
    steps = [(step.name, step.kept) for step in corpus.steps(cache) if step.part == "train.en-de"]
    assert steps[:3] == [
        ("read", 400),
        ("no empty side", 399),
        ("one side at most 1.5 times as many words as the other", 398),
    ]
    assert steps[3][0] == "each pair once"
    assert (
        corpus.splits["train"]
        == steps[3][1]
        == len(set(zip(*corpus.load_pair("train", "en", "de", cache), strict=True)))
    )
    assert corpus.splits["dev"] == 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda raw: raw + b"noch eine\n",
            r"train\.en has 400 lines and .*train\.de has 401; both should have equally",
        ),
        (lambda raw: raw[: len(raw) // 2] + b"\xff\n", r"train\.de line \d+ is not UTF-8"),
        (lambda raw: raw.replace(b"\n", b"\r\n"), r"train\.de( after cleaning)? ends its lines as Windows does"),
        (lambda raw: b'<seg id="1">' + raw, r"train\.de( after cleaning)? line 1 is SGML markup"),
        (lambda raw: b"", r"train\.en has 400 lines and .*train\.de has 0"),
    ],
)
def test_files_that_cannot_be_a_corpus_are_refused_and_leave_nothing(cache, files, change, message):
    path = files["train"][1]
    path.write_bytes(change(path.read_bytes()))
    for options in ({}, {"in_place": True}, {"clean": ["long"]}):
        with pytest.raises(DataError, match=message):
            add(cache, files, **options)
    assert list((cache / "own").iterdir()) == []


def test_the_same_text_on_both_sides_is_refused(cache, files):
    """B06: the English side passed as the German one."""
    shutil.copy(*files["dev"])
    with pytest.raises(DataError, match="are the same in 20 of 20 lines; one of them is not in its language"):
        add(cache, files)


def test_empty_files_are_refused(cache, files):
    for path in files["test"]:
        path.write_text("")
    with pytest.raises(DataError, match=r"test\.en is empty"):
        add(cache, files)


@pytest.mark.parametrize("name", ["", "Upper", "with space", "../out", "a/b", ".hidden", "ä", "x" * 61, "-x"])
def test_a_name_that_cannot_be_a_folder_is_refused(cache, files, name):
    with pytest.raises(ValueError, match="cannot name a corpus"):
        add(cache, files, name)
    assert not cache.exists()


def test_a_name_that_is_taken_is_refused(cache, files):
    for name in corpora.CORPORA:
        with pytest.raises(ValueError, match=f"{name} is a corpus of this project; choose another name"):
            add(cache, files, name)
    before = add(cache, files).fingerprint(cache)
    with pytest.raises(ValueError, match=r"there is a corpus letters already; .* aiayn data remove letters"):
        add(cache, {"train": files["dev"]})
    assert corpora.get("letters", cache).fingerprint(cache) == before


def test_the_loser_of_a_race_is_told(cache, files, monkeypatch):
    real = own_corpora.write_texts

    def write_while_another_finishes(*args):
        (cache / "own" / "letters").mkdir(exist_ok=True)
        (cache / "own" / "letters" / "corpus.json").touch()
        return real(*args)

    monkeypatch.setattr(own_corpora, "write_texts", write_while_another_finishes)
    with pytest.raises(ValueError, match="there is a corpus letters already"):
        add(cache, files)
    assert [path.name for path in (cache / "own").iterdir()] == ["letters"]


@pytest.mark.parametrize(
    ("languages", "message"),
    [
        (("en", "en"), "both sides are 'en'; a translation needs two languages"),
        (("english", "de"), "'english' is no language code"),
        (("en", "../de"), "'../de' is no language code"),
        (("EN", "de"), "'EN' is no language code"),
    ],
)
def test_languages_must_be_two_codes(cache, files, languages, message):
    with pytest.raises(ValueError, match=message):
        add(cache, files, languages=languages)


def test_a_file_given_twice_is_refused(cache, files, tmp_path):
    """A24: a test set that is the training text."""
    link = tmp_path / "link.en"
    os.symlink(files["train"][0], link)
    with pytest.raises(ValueError, match=r"link\.en is given as train source and as test source"):
        add(cache, files | {"test": (link, files["test"][1])})
    with pytest.raises(ValueError, match="is given as train source and as train target"):
        add(cache, {"train": (files["train"][0], files["train"][0])})


def test_options_that_do_not_go_together_are_refused(cache, files, tmp_path):
    with pytest.raises(ValueError, match="filters write new files"):
        add(cache, files, clean=["empty"], in_place=True)
    with pytest.raises(ValueError, match="no filter 'emtpy'; close: empty"):
        add(cache, files, clean=["emtpy"])
    with pytest.raises(ValueError, match=r"there is no file .*nowhere\.en"):
        add(cache, {"train": (tmp_path / "nowhere.en", files["train"][1])})


def test_removal_forgets_the_corpus_and_leaves_other_files(cache, files):
    add(cache, files)
    add(cache, files, "left", in_place=True)
    prepared = [prepare(DataConfig(name, "en", "de", 300, "dev", "test"), cache).folder for name in ("letters", "left")]
    own_corpora.remove(cache, "letters")
    assert own_corpora.names(cache) == ["left"]
    assert [folder.is_dir() for folder in prepared] == [False, True]
    own_corpora.remove(cache, "left")
    assert all(path.is_file() for paths in files.values() for path in paths)
    assert list((cache / "own").iterdir()) == []
    with pytest.raises(ValueError, match="no corpus 'letters'"):
        corpora.get("letters", cache)
    for name in ("letters", "multi30k", "..", ""):
        with pytest.raises(ValueError, match=r"no corpus was added under the name '.*'; there is none at all$"):
            own_corpora.remove(cache, name)


def test_a_damaged_manifest_names_itself_and_can_be_removed(cache, files):
    add(cache, files)
    (cache / "own" / "letters" / "corpus.json").write_text('{"format": 1}')
    damage = r"corpus\.json cannot be read .*; remove it with: aiayn data remove letters"
    with pytest.raises(DataError, match=damage):
        corpora.get("letters", cache)
    told = []
    assert [corpus.name for corpus, _ in corpora.known(cache, told.append)] == list(corpora.CORPORA)
    (error,) = told
    assert re.search(damage, str(error))
    assert corpora.get("grammar", cache).name == "grammar"
    own_corpora.remove(cache, "letters")
    assert _names(cache) == list(corpora.CORPORA)


def test_near_names_include_added_corpora(cache, files):
    add(cache, files)
    with pytest.raises(ValueError, match="no corpus 'leters'; close: letters"):
        corpora.get("leters", cache)
