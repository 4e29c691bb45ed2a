from __future__ import annotations

import gzip
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from core.data import corpora, grammar
from core.data.corpus import DataError
from core.data.generated_corpus import GRAMMAR, GeneratedCorpus
from core.data.lines import decode_lines

NOWHERE = Path("nowhere")
"""A folder that is not there, for what needs no file."""


def visible(folder: Path) -> list[str]:
    """The files in a folder without the lock that downloads leave there."""
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


@pytest.fixture
def local(tmp_path, tiny_texts, build_corpus, write_texts, monkeypatch):
    """A corpus found through AIAYN_DATA, and the folder that holds its files."""
    write_texts(tmp_path / "data" / "tiny", tiny_texts)
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path / "data"))
    return build_corpus(tiny_texts), tmp_path / "data" / "tiny"


def test_a20_only_a_line_feed_ends_a_segment():
    text = "a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\rh\ni\n"
    assert decode_lines(text.encode(), "x") == ["a\u2028b\u2029c\x0bd\x0ce\x85f\x1cg\rh", "i"]


def test_text_is_not_normalised_or_trimmed():
    assert decode_lines("e\u0301 \n\u00e9\n  x".encode(), "x") == ["e\u0301 ", "\u00e9", "  x"]


def test_a_local_folder_is_read_without_a_network_and_never_written(local, tmp_path, tiny_texts):
    corpus, folder = local
    before = sorted(folder.iterdir())
    assert corpus.load_pair("train", "en", "de", tmp_path / "cache")[0] == tiny_texts["train.en"].split("\n")[:-1]
    corpus.verify(tmp_path / "cache")
    corpus.fetch(tmp_path / "cache")
    assert sorted(folder.iterdir()) == before
    assert not (tmp_path / "cache").exists()
    assert str(corpus.state(tmp_path / "cache")) == f"present at {folder}"


def test_a_file_missing_in_the_local_folder_is_named(local, tmp_path):
    corpus, folder = local
    (folder / "dev.de.gz").unlink()
    assert str(corpus.state(tmp_path)) == f"incomplete at {folder}: dev.de.gz missing"
    with pytest.raises(DataError, match=r"dev\.de\.gz is missing; copy it there, or unset AIAYN_DATA"):
        corpus.load_pair("dev", "en", "de", tmp_path)
    assert corpus.obstacle(tmp_path) == (
        f"corpus tiny is incomplete at {folder}: dev.de.gz missing; copy it there, or unset AIAYN_DATA to download it"
    )


def test_what_can_be_downloaded_is_no_obstacle(local, tmp_path, monkeypatch):
    corpus, folder = local
    (folder / "dev.de.gz").unlink()
    monkeypatch.delenv("AIAYN_DATA")
    assert corpus.state(tmp_path / "data").kind == "incomplete"
    assert corpus.obstacle(tmp_path / "data") is None
    assert corpus.obstacle(tmp_path / "cache") is None


def test_a_data_folder_that_does_not_exist_is_refused(local, tmp_path, monkeypatch):
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"AIAYN_DATA=.*nowhere is not a folder"):
        local[0].load_pair("dev", "en", "de", tmp_path)


def test_a19_unequal_line_counts_are_refused_with_both(local, tmp_path, tiny_texts, write_texts):
    corpus, folder = local
    write_texts(folder, {"dev.de": tiny_texts["dev.de"] + "noch eine Zeile\n"})
    with pytest.raises(DataError, match=r"dev\.en\.gz has 20 lines and .*dev\.de\.gz has 21; both should have 20"):
        corpus.load_pair("dev", "en", "de", tmp_path)


def test_a_wrong_line_count_is_refused_with_the_right_one(local, tmp_path, tiny_texts, write_texts):
    corpus, folder = local
    write_texts(folder, {name: tiny_texts[name].partition("\n")[2] for name in ("dev.en", "dev.de")})
    with pytest.raises(DataError, match=r"dev\.en\.gz has 19 lines, tiny dev has 20"):
        corpus.load_pair("dev", "en", "de", tmp_path)


def test_bytes_that_are_not_utf8_are_refused_with_their_line(local, tmp_path):
    corpus, folder = local
    (folder / "dev.de.gz").write_bytes(gzip.compress("eins\nzwei\ndrei für\n".encode("latin-1")))
    with pytest.raises(DataError, match=r"dev\.de\.gz line 3 is not UTF-8"):
        corpus.load_pair("dev", "en", "de", tmp_path)


@pytest.mark.parametrize("blank", ["", "  ", "\u00a0\t"])
def test_a22_empty_segments_are_refused_with_count_and_place(local, tmp_path, tiny_texts, write_texts, blank):
    corpus, folder = local
    lines = tiny_texts["dev.de"].split("\n")
    lines[4] = lines[9] = blank
    write_texts(folder, {"dev.de": "\n".join(lines)})
    with pytest.raises(DataError, match=r"dev\.de\.gz has 2 empty lines, the first is line 5"):
        corpus.load_pair("dev", "en", "de", tmp_path)


def test_b06_markup_of_test_sets_is_refused(local, tmp_path, tiny_texts, write_texts):
    # https://github.com/tensorflow/tensor2tensor/issues/1542: an .sgm file scored as if it were plain text
    corpus, folder = local
    lines = tiny_texts["dev.de"].split("\n")
    lines[2] = '<seg id="3">Ein Satz.</seg>'
    write_texts(folder, {"dev.de": "\n".join(lines)})
    with pytest.raises(DataError, match=r"dev\.de\.gz line 3 is SGML markup \(<seg"):
        corpus.load_pair("dev", "en", "de", tmp_path)


def test_b06_the_source_passed_as_the_target_is_refused(tmp_path, tiny_texts, build_corpus, write_texts):
    texts = tiny_texts | {"dev.de": tiny_texts["dev.en"]}
    write_texts(tmp_path / "tiny", texts)
    with pytest.raises(DataError, match=r"the same in 20 of 20 lines; one of them is not in its language"):
        build_corpus(texts).load_pair("dev", "en", "de", tmp_path)


@pytest.mark.parametrize("damage", [lambda raw: raw[:-20], lambda raw: raw[:5], lambda raw: b"plain text\n"])
def test_a_damaged_archive_is_refused(local, tmp_path, damage):
    corpus, folder = local
    archive = folder / "dev.de.gz"
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(DataError, match=r"dev\.de\.gz is not complete"):
        corpus.load_pair("dev", "en", "de", tmp_path)


def test_one_changed_letter_fails_the_checksum(local, tmp_path, tiny_texts, write_texts):
    corpus, folder = local
    write_texts(folder, {"dev.de": tiny_texts["dev.de"].replace("Katze", "Kotze", 1)})
    with pytest.raises(DataError, match=r"dev\.de\.gz is not the text expected: its sha256 is [0-9a-f]{64}, should be"):
        corpus.load_pair("dev", "en", "de", tmp_path)


def test_another_compression_of_the_same_text_is_accepted(local, tmp_path, tiny_texts):
    corpus, folder = local
    (folder / "dev.de.gz").write_bytes(gzip.compress(tiny_texts["dev.de"].encode(), compresslevel=1, mtime=1))
    assert len(corpus.load_pair("dev", "en", "de", tmp_path)[1]) == 20


def test_unknown_splits_and_languages_get_near_names(local, tmp_path):
    with pytest.raises(ValueError, match="tiny has no split 'tset'; close: test"):
        local[0].load_pair("tset", "en", "de", tmp_path)
    with pytest.raises(ValueError, match="tiny has no language 'fr'; known: en, de"):
        local[0].load_pair("dev", "en", "fr", tmp_path)


def test_what_is_missing_is_downloaded_once(server, tmp_path, tiny_texts, build_corpus, write_texts):
    folder, address = server.folder, server.address
    write_texts(folder, tiny_texts)
    corpus = build_corpus(tiny_texts, address)
    assert str(corpus.state(tmp_path)) == "not fetched"
    assert corpus.load_pair("dev", "en", "de", tmp_path)[1] == tiny_texts["dev.de"].split("\n")[:-1]
    assert visible(tmp_path / "tiny") == ["dev.de.gz", "dev.en.gz"]
    assert str(corpus.state(tmp_path)).startswith(f"incomplete at {tmp_path / 'tiny'}: train.en.gz")
    corpus.fetch(tmp_path)
    for path in folder.iterdir():
        path.unlink()  # from here on the server has nothing
    corpus.fetch(tmp_path)
    corpus.verify(tmp_path)
    assert str(corpus.state(tmp_path)) == f"present at {tmp_path / 'tiny'}"


def test_a_local_data_folder_without_the_corpus_does_not_prevent_the_download(
    server, tmp_path, tiny_texts, build_corpus, write_texts, monkeypatch
):
    folder, address = server.folder, server.address
    write_texts(folder, tiny_texts)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path / "data"))
    assert len(build_corpus(tiny_texts, address).load_pair("dev", "en", "de", tmp_path / "cache")[1]) == 20
    assert not list((tmp_path / "data").iterdir())


def test_a_download_with_the_wrong_text_is_refused_and_not_kept(
    server, tmp_path, tiny_texts, build_corpus, write_texts
):
    folder, address = server.folder, server.address
    write_texts(folder, tiny_texts | {"dev.de": tiny_texts["dev.de"].replace("Hund", "Hand", 1)})
    with pytest.raises(DataError, match=rf"{address}/dev\.de\.gz is not the text expected"):
        build_corpus(tiny_texts, address).load_pair("dev", "en", "de", tmp_path)
    assert visible(tmp_path / "tiny") == ["dev.en.gz"]


def test_a_failed_download_says_why_and_what_to_do(server, tmp_path, tiny_texts, build_corpus):
    with pytest.raises(DataError, match=r"cannot fetch http://.*dev\.en\.gz .*404.*set AIAYN_DATA"):
        build_corpus(tiny_texts, server.address).load_pair("dev", "en", "de", tmp_path)
    with pytest.raises(
        DataError, match=r"cannot fetch http://127\.0\.0\.1:9/nothing.*: \[Errno \d+\] Connection refused"
    ):
        build_corpus(tiny_texts).load_pair("dev", "en", "de", tmp_path)
    assert visible(tmp_path / "tiny") == []


def test_the_fingerprint_follows_the_text_of_its_languages(tiny_texts, build_corpus):
    corpus = build_corpus(tiny_texts)
    changed = build_corpus(tiny_texts | {"dev.de": tiny_texts["dev.de"].replace("Hund", "Hand", 1)})
    assert (
        corpus.fingerprint(NOWHERE, ("en", "de"))
        == corpus.fingerprint(NOWHERE, ("de", "en"))
        != changed.fingerprint(NOWHERE, ("en", "de"))
    )
    assert corpus.fingerprint(NOWHERE, ("en",)) == changed.fingerprint(NOWHERE, ("en",))
    assert len(corpus.fingerprint(NOWHERE, ("en", "de"))) == 16


def test_sources_name_every_file_with_its_checksum(tiny_texts, build_corpus):
    sources = build_corpus(tiny_texts, "http://host/raw").sources
    assert {source.file for source in sources} == {f"{name}.gz" for name in tiny_texts}
    assert all(
        source.url == f"http://host/raw/{source.file}" and len(source.checksum) == len("sha256:") + 64
        for source in sources
    )


@pytest.fixture
def generated(stand_in_generator) -> GeneratedCorpus:
    return replace(GRAMMAR, generator="stand_in_generator", splits={"train": 5, "dev": 3})


def test_a_generated_corpus_needs_no_files(generated, tmp_path):
    assert str(generated.state(tmp_path)) == "embedded"
    assert generated.sources == ()
    generated.fetch(tmp_path)
    generated.verify(tmp_path)
    english, french = generated.load_pair("train", "en", "fr", tmp_path)
    assert len(english) == 5
    assert [line[3:] for line in english] == [line[3:] for line in french]
    assert list(tmp_path.iterdir()) == [tmp_path / "modules"]


def test_the_fingerprint_of_a_generated_corpus_follows_source_sizes_and_seed(generated, stand_in_generator):
    original = generated.fingerprint(NOWHERE, ("en", "de"))
    assert replace(generated, seed=2).fingerprint(NOWHERE, ("en", "de")) != original
    assert replace(generated, splits={"train": 6, "dev": 3}).fingerprint(NOWHERE, ("en", "de")) != original
    stand_in_generator.write_text(stand_in_generator.read_text() + "# changed\n")
    assert generated.fingerprint(NOWHERE, ("en", "de")) != original


def test_the_grammar_translates_line_by_line_into_both_languages(tmp_path):
    few = replace(GRAMMAR, splits={"train": 100, "dev": 10, "test": 10})
    for tgt in ("de", "fr"):
        for split, size in few.splits.items():
            src_lines, tgt_lines = few.load_pair(split, "en", tgt, tmp_path)
            assert len(src_lines) == len(tgt_lines) == size


def test_the_grammar_corpus_is_what_the_generator_makes_by_default():
    assert GRAMMAR.splits == grammar.DEFAULT_SIZES
    assert GRAMMAR.seed == grammar.DEFAULT_SEED
    assert GRAMMAR.languages == tuple(grammar.LANGUAGES)


def test_an_unknown_corpus_gets_near_names(tmp_path):
    with pytest.raises(ValueError, match="no corpus 'multi30'; close: multi30k"):
        corpora.get("multi30", tmp_path)
    with pytest.raises(ValueError, match="no corpus 'x'; known: grammar, multi30k"):
        corpora.get("x", tmp_path)


def test_every_corpus_says_where_it_comes_from_and_under_what_terms(tmp_path):
    for name, corpus in corpora.CORPORA.items():
        assert corpora.get(name, tmp_path) is corpus
        assert corpus.name == name
        assert corpus.task == ("parsing" if name in corpora.TREEBANKS and name != "grammar" else "translation")
        assert all((corpus.licence, corpus.citation, corpus.description))
        assert "train" in corpus.splits
        assert corpus.state(tmp_path).kind in ("embedded", "not fetched", "not here")


def test_the_catalogue_needs_neither_torch_nor_tokenizers():
    code = (
        "import sys; from pathlib import Path; from core.data import corpora\n"
        "here = [corpus for corpus in corpora.CORPORA.values() if not corpus.obstacle(Path('nowhere'))]\n"
        "assert len(here) >= 2 and all(len(corpus.fingerprint(Path('nowhere'))) == 16 for corpus in here)\n"
        "assert not {'torch', 'tokenizers', 'pooch', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(corpora.__file__).parents[2])


def test_a_data_error_survives_pickling():
    assert str(pickle.loads(pickle.dumps(DataError("file x: wrong")))) == "file x: wrong"
