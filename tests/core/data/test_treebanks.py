"""Treebanks: the layouts that they are found in, their counts, what is refused, and their export."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import aiayn
from core.data import corpora, lines, trees
from core.data.corpus import DataError
from core.data.grammar import Example
from core.data.report import Finding
from core.data.treebanks import BERKELEY_PARSES, GRAMMAR_TREES, TREEBANK_SAMPLE, WSJ
from core.data.treebanks.check import LEAKED, REFUSED, UNSEEN_LABELS, UNSEEN_WORDS, TreeFacts, check_treebank
from core.data.treebanks.export import export_lines, write_lines
from core.data.treebanks.wsj import WsjTreebank
from core.data.trees import format_tree, normalise, parse_line, read_trees

SMALL = replace(WSJ, splits={"train": 40, "dev": 2, "test": 2})
SECTIONS = range(0, 25)


def article(section: int, number: int) -> str:
    """One tree a file, as the release prints it; its words tell where it stands."""
    return f"\n( (S \n    (NP-SBJ (NNP Article) (CD {section:02}{number:02}) )\n    (VP (VBZ ends) )\n    (. .) ))\n"


def lay_out_articles(folder: Path, name: str = "wsj_{:02}{:02}.mrg") -> None:
    for section in SECTIONS:
        (folder / f"{section:02}").mkdir(parents=True)
        for number in (1, 2):
            (folder / f"{section:02}" / name.format(section, number)).write_text(article(section, number))


def lay_out_sections(folder: Path, name: str = "wsj_{:02}.mrg") -> None:
    folder.mkdir(parents=True)
    for section in SECTIONS:
        (folder / name.format(section)).write_text(article(section, 1) + article(section, 2))


LAYOUTS: dict[str, Callable[[Path], None]] = {
    "articles": lay_out_articles,
    "upper case": lambda folder: lay_out_articles(folder, "WSJ_{:02}{:02}.MRG"),
    "the whole release": lambda folder: lay_out_articles(folder / "treebank_3" / "parsed" / "mrg" / "wsj"),
    "sections": lay_out_sections,
    "sections by number": lambda folder: lay_out_sections(folder, "{:02}.mrg"),
    "sections by name": lambda folder: lay_out_sections(folder, "Section-{:02}.MRG"),
}


@pytest.fixture
def wsj_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folder of the release will lie, with AIAYN_DATA set."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "wsj"


def words(bank: WsjTreebank, split: str, cache: Path) -> list[str]:
    return [" ".join(tree.leaves()) for tree in bank.read_trees(split, cache)]


# WSJ ------------------------------------------------------------------------------------------------------------------


def test_e17_the_counts_are_those_of_the_literature() -> None:
    assert WSJ.splits == {"train": 39_832, "dev": 1_700, "test": 2_416}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_e17_sections_are_found_in_every_layout(layout: str, wsj_folder: Path, tmp_path: Path) -> None:
    LAYOUTS[layout](wsj_folder)
    assert str(SMALL.state(tmp_path)) == f"present at {wsj_folder}"
    assert SMALL.obstacle(tmp_path) is None
    assert words(SMALL, "dev", tmp_path) == ["Article 2201 ends .", "Article 2202 ends ."]
    assert words(SMALL, "test", tmp_path) == ["Article 2301 ends .", "Article 2302 ends ."]
    train = words(SMALL, "train", tmp_path)
    assert train == [f"Article {section:02}{number:02} ends ." for section in range(2, 22) for number in (1, 2)]
    SMALL.verify(tmp_path)


def test_trees_come_in_normal_form(wsj_folder: Path, tmp_path: Path) -> None:
    lay_out_articles(wsj_folder)
    tree = next(iter(SMALL.read_trees("dev", tmp_path)))
    assert str(tree) == "(TOP (S (NP (NNP Article) (CD 2201)) (VP (VBZ ends)) (. .)))"


def test_the_workspaces_folder_serves_too(tmp_path: Path) -> None:
    lay_out_articles(tmp_path / "cache" / "wsj")
    assert SMALL.state(tmp_path / "cache").usable


def test_b74_without_the_release_it_is_said_what_is_missing(tmp_path: Path) -> None:
    assert str(WSJ.state(tmp_path)) == "not here"
    assert "it needs a licence" in WSJ.obstacle(tmp_path)
    for act in (WSJ.fetch, WSJ.fingerprint, WSJ.verify):
        with pytest.raises(DataError, match=r"wsj is not here; it needs a licence: put .*LDC99T42"):
            act(tmp_path)


def test_missing_sections_are_named(wsj_folder: Path, tmp_path: Path) -> None:
    lay_out_articles(wsj_folder)
    for section in ("05", "23"):
        shutil.rmtree(wsj_folder / section)
    assert str(SMALL.state(tmp_path)) == f"incomplete at {wsj_folder}: section 05, section 23 missing"
    with pytest.raises(DataError, match="section 05, section 23 missing; it needs a licence"):
        words(SMALL, "dev", tmp_path)


def test_e17_another_number_of_trees_is_refused(wsj_folder: Path, tmp_path: Path) -> None:
    lay_out_articles(wsj_folder)
    (wsj_folder / "22" / "wsj_2202.mrg").unlink()
    with pytest.raises(DataError, match="wsj dev has 1 trees here, it should have 2; restore the original files in"):
        words(SMALL, "dev", tmp_path)
    with pytest.raises(DataError, match="wsj train has 40 trees here, it should have 39,832"):
        words(WSJ, "train", tmp_path)


@pytest.mark.parametrize("twice", ["wsj_2202.mrg", "WSJ_2202.MRG", "wsj_22.mrg"])
def test_an_article_that_is_there_twice_is_refused(twice: str, wsj_folder: Path, tmp_path: Path) -> None:
    lay_out_articles(wsj_folder)
    (wsj_folder / "combined").mkdir()
    (wsj_folder / "combined" / twice).write_text(article(22, 2))
    with pytest.raises(DataError, match=r"holds again what .* holds; keep one of them"):
        words(SMALL, "dev", tmp_path)


def test_a_damaged_file_is_named_with_its_line(wsj_folder: Path, tmp_path: Path) -> None:
    lay_out_articles(wsj_folder)
    file = wsj_folder / "22" / "wsj_2201.mrg"
    file.write_text(article(22, 1) + ")")
    with pytest.raises(DataError, match=r"22/wsj_2201\.mrg line 6 closes a bracket that is not open"):
        words(SMALL, "dev", tmp_path)
    file.write_bytes(article(22, 1).encode() + "( (NN caf\u00e9) )".encode("latin-1"))
    with pytest.raises(DataError, match=r"22/wsj_2201\.mrg line 6 is not UTF-8"):
        words(SMALL, "dev", tmp_path)
    file.write_text("( (S (NP (-NONE- *))) )")
    with pytest.raises(DataError, match=r"wsj dev, tree 1: tree has no word but traces"):
        words(SMALL, "dev", tmp_path)


def test_a_fingerprint_tells_revisions_apart_and_not_layouts(
    wsj_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out_articles(wsj_folder)
    by_article = SMALL.fingerprint(tmp_path)
    lay_out_sections(tmp_path / "cache" / "wsj")
    monkeypatch.delenv("AIAYN_DATA")
    assert SMALL.fingerprint(tmp_path / "cache") == by_article
    (tmp_path / "cache" / "wsj" / "wsj_07.mrg").write_text(article(7, 1) + article(7, 2).replace("ends", "begins"))
    assert SMALL.fingerprint(tmp_path / "cache") != by_article


def test_an_unknown_split_or_treebank_gets_near_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="wsj has no split 'tset'; close: test"):
        WSJ.read_trees("tset", tmp_path)
    with pytest.raises(ValueError, match="no treebank 'treebanksample'; close: treebank-sample"):
        corpora.get_treebank("treebanksample")
    assert corpora.get_treebank("grammar") is GRAMMAR_TREES


# The sample -----------------------------------------------------------------------------------------------------------


def test_the_samples_trees_are_in_normal_form(local_sample: Path, tmp_path: Path) -> None:
    labels = set()
    for tree in TREEBANK_SAMPLE.read_trees("test", tmp_path):
        assert tree.label == "TOP"
        assert normalise(tree) == tree
        labels |= {node.label for node in tree.subtrees()}
    assert not {label for label in labels if "=" in label or "|" in label or "-" in label.strip("-")}
    assert "-NONE-" not in labels
    assert {"S", "NP", "VP", "-LRB-", "PRP$"} <= labels


def copy_archive(source: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> None:
    target.parent.mkdir(parents=True)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = change(name, old.read(name))
            if content is not None:
                new.writestr(name, content)


def test_an_archive_packed_anew_is_as_good(local_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIAYN_DATA")
    copy_archive(local_sample, tmp_path / "treebank-sample" / "treebank.zip", lambda _, content: content)
    assert sum(1 for _ in TREEBANK_SAMPLE.read_trees("test", tmp_path)) == 245


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda name, content: None if "wsj_0190" in name else content, "lacks an article: .*wsj_0190"),
        (lambda name, content: content + b"\n" if "wsj_0190" in name else content, "has other articles than treebank"),
    ],
)
def test_an_archive_with_other_articles_is_refused(
    change: Callable, message: str, local_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIAYN_DATA")
    copy_archive(local_sample, tmp_path / "treebank-sample" / "treebank.zip", change)
    with pytest.raises(DataError, match=message):
        TREEBANK_SAMPLE.verify(tmp_path)


def test_a_broken_archive_is_refused(local_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIAYN_DATA")
    copy = tmp_path / "treebank-sample" / "treebank.zip"
    copy.parent.mkdir()
    whole = local_sample.read_bytes()
    copy.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="is not a complete zip file"):
        TREEBANK_SAMPLE.verify(tmp_path)
    copy.write_bytes(whole[:200_000] + b"\0" * 20_000 + whole[220_000:])  # the directory at the end is whole
    with pytest.raises(DataError, match="is not a complete zip file"):
        TREEBANK_SAMPLE.verify(tmp_path)


def test_the_sample_is_fetched_once_and_checked(
    server, local_sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIAYN_DATA")
    served = server.folder
    bank = replace(TREEBANK_SAMPLE, url=f"{server.address}/treebank.zip")
    (served / "treebank.zip").write_bytes(b"not an archive")
    with pytest.raises(DataError, match="is not a complete zip file"):
        bank.fetch(tmp_path / "cache")
    assert str(bank.state(tmp_path / "cache")) == "not fetched"
    shutil.copyfile(local_sample, served / "treebank.zip")
    bank.fetch(tmp_path / "cache")
    assert str(bank.state(tmp_path / "cache")) == f"present at {tmp_path / 'cache' / 'treebank-sample'}"
    (served / "treebank.zip").unlink()
    bank.fetch(tmp_path / "cache")
    assert bank.fingerprint(tmp_path / "cache") == TREEBANK_SAMPLE.fingerprint(tmp_path)


def test_a_named_data_folder_without_the_archive_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "treebank-sample").mkdir()
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path))
    assert str(TREEBANK_SAMPLE.state(tmp_path / "cache")).endswith("treebank.zip missing")
    with pytest.raises(DataError, match=r"treebank\.zip missing; copy it there, or unset AIAYN_DATA"):
        TREEBANK_SAMPLE.fetch(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


# A user's parses ------------------------------------------------------------------------------------------------------


def parses(numbers: Iterable[int]) -> str:
    return "".join(f"( (S (NP (NN word{number})) (VP (VBZ falls))) )\n" for number in numbers)


@pytest.fixture
def parses_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "berkeley-parses"
    folder.mkdir()
    return folder


def test_parses_are_read_from_plain_and_packed_files_in_order(parses_folder: Path, tmp_path: Path) -> None:
    (parses_folder / "part-2.gz").write_bytes(gzip.compress(parses(range(3, 5)).encode()))
    (parses_folder / "part-1.trees").write_text(parses(range(0, 3)))
    (parses_folder / ".hidden").write_text("no tree")
    assert str(BERKELEY_PARSES.state(tmp_path)) == f"present at {parses_folder}"
    read = [format_tree(tree) for tree in BERKELEY_PARSES.read_trees("train", tmp_path)]
    assert read == [f"(TOP (S (NP (NN word{number})) (VP (VBZ falls))))" for number in range(5)]


def test_lines_without_a_parse_are_passed_over(parses_folder: Path, tmp_path: Path) -> None:
    (parses_folder / "a").write_text(parses([0]) + "(())\n\n( ())\n" + parses([1]) + "(S (NN x)\n")
    stream = BERKELEY_PARSES.read_trees("train", tmp_path)
    assert [next(next(stream).leaves()) for _ in range(2)] == ["word0", "word1"]
    with pytest.raises(DataError, match="a ends inside the tree that begins in line 6"):
        next(stream)


def test_without_parses_it_is_said_what_to_bring(parses_folder: Path, tmp_path: Path) -> None:
    assert "a file of trees missing" in BERKELEY_PARSES.obstacle(tmp_path)
    parses_folder.rmdir()
    assert str(BERKELEY_PARSES.state(tmp_path)) == "not here"
    for act in (BERKELEY_PARSES.fetch, BERKELEY_PARSES.fingerprint, BERKELEY_PARSES.verify):
        with pytest.raises(DataError, match=r"put files of trees, \.gz or plain, into AIAYN_DATA/berkeley-parses"):
            act(tmp_path)


@pytest.mark.parametrize("pack", [lambda text: text, gzip.compress])
def test_a_fingerprint_of_parses_changes_with_any_byte(pack: Callable, parses_folder: Path, tmp_path: Path) -> None:
    text = parses(range(5_000)).encode()
    seen = set()
    for content in (text, text.replace(b"word4999", b"word4998"), text[:-50], text.replace(b"word0)", b"word1)")):
        (parses_folder / "a.gz").write_bytes(pack(content))
        seen.add(BERKELEY_PARSES.fingerprint(tmp_path))
    (parses_folder / "a.gz").rename(parses_folder / "b.gz")
    seen.add(BERKELEY_PARSES.fingerprint(tmp_path))
    assert len(seen) == 5


def test_memory_does_not_grow_with_the_parses(
    parses_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is held at a time is bounded; the bounds are made small, so that few trees reach them.
    monkeypatch.setattr(trees, "_MAX_SHARED_LEAVES", 100)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 10_000)

    def peak(size: int) -> int:
        (parses_folder / "a.gz").write_bytes(gzip.compress(parses(range(size)).encode(), 1))
        tracemalloc.start()
        assert sum(1 for _ in BERKELEY_PARSES.read_trees("train", tmp_path)) == size
        high = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return high

    peak(1_000)  # what is loaded once
    assert abs(peak(4_000) - peak(1_000)) < 30_000


# The grammar ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return GRAMMAR_TREES.examples("test")


def test_the_grammars_trees_are_its_sentences(examples: list[Example], tmp_path: Path) -> None:
    read = list(GRAMMAR_TREES.read_trees("test", tmp_path))
    assert read == [normalise(example.tree) for example in examples]
    assert [tuple(tree.leaves()) for tree in read] == [example.english for example in examples]
    assert GRAMMAR_TREES.state(tmp_path).usable


def test_bracketed_export_is_read_back(examples: list[Example], tmp_path: Path) -> None:
    exported = export_lines(GRAMMAR_TREES, "test", "bracketed", tmp_path)
    assert list(read_trees(exported, "export")) == [normalise(example.tree) for example in examples]


def test_conllu_export_is_what_an_independent_reader_finds(examples: list[Example], tmp_path: Path) -> None:
    conllu = pytest.importorskip("conllu", reason="needs conllu: pip install 'aiayn[dev]'")
    sentences = conllu.parse("\n".join(export_lines(GRAMMAR_TREES, "test", "conllu", tmp_path)) + "\n")
    assert len(sentences) == len(examples) == 300
    num_antecedents = 0
    for number, (sentence, example) in enumerate(zip(sentences, examples, strict=True), 1):
        assert sentence.metadata == {"sent_id": f"grammar-test-{number}", "text": example.text("en")}
        assert [token["form"] for token in sentence] == list(example.english)
        assert [token["head"] - 1 for token in sentence] == list(example.heads)
        assert [token["deprel"] for token in sentence] == list(example.relations)
        assert [token["xpos"] for token in sentence] == [tag for tag, _ in example.tree.tagged()]
        sentence.to_tree()  # raises where the arcs are no tree
        misc = [token["misc"] or {} for token in sentence]
        found = [(place, int(m["Antecedent"]) - 1) for place, m in enumerate(misc) if "Antecedent" in m]
        assert found == list(example.antecedents)
        num_antecedents += len(found)
        blanks = ["" if m.get("SpaceAfter") == "No" else " " for m in misc]
        joined = "".join(token["form"] + blank for token, blank in zip(sentence, blanks, strict=True))
        assert joined.rstrip() == example.text("en")
    assert num_antecedents > 30


def test_conllu_has_universal_tags_that_fit(tmp_path: Path) -> None:
    tags = {}
    for line in export_lines(GRAMMAR_TREES, "train", "conllu", tmp_path):
        if line and not line.startswith("#"):
            _, form, _, upos, xpos, _, _, relation, *_ = line.split("\t")
            tags.setdefault((xpos, relation.split(":")[0]), set()).add(upos)
            assert (form != "not") or upos == "PART"
    universal = {"ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ"}
    assert set().union(*tags.values()) == universal | {"VERB"}
    assert tags["IN", "mark"] == tags["WRB", "mark"] == {"SCONJ"}
    assert tags["IN", "case"] == tags["TO", "case"] == {"ADP"}
    assert tags["VBZ", "cop"] == tags["MD", "aux"] == {"AUX"}
    assert tags["TO", "aux"] == {"PART"}


def test_text_export_has_a_parsers_input(examples: list[Example], tmp_path: Path) -> None:
    assert list(export_lines(GRAMMAR_TREES, "test", "text", tmp_path)) == [" ".join(e.english) for e in examples]


def test_arcs_of_another_treebank_are_read_off_its_trees(local_sample: Path, tmp_path: Path) -> None:
    lines = list(export_lines(TREEBANK_SAMPLE, "dev", "conllu", tmp_path))
    sentences = "\n".join(lines).strip().split("\n\n")
    assert len(sentences) == TREEBANK_SAMPLE.splits["dev"]
    for sentence in sentences:
        identity, text, *rows = sentence.split("\n")
        assert identity.startswith("# sent_id = treebank-sample-dev-")
        columns = [row.split("\t") for row in rows]
        assert text == "# text = " + " ".join(row[1] for row in columns)
        assert [int(row[0]) for row in columns] == list(range(1, len(rows) + 1))
        assert [row[7] for row in columns].count("root") == [row[6] for row in columns].count("0") == 1
        assert all(int(row[6]) <= len(rows) and row[3] and row[9] == "_" for row in columns)


def test_an_export_that_fails_leaves_the_file_as_it_was(wsj_folder: Path, tmp_path: Path) -> None:
    lay_out_articles(wsj_folder)
    target = tmp_path / "out.mrg"
    target.write_text("old")
    with pytest.raises(DataError, match="should have 2,416"):
        write_lines(export_lines(WSJ, "test", "bracketed", tmp_path), target)
    assert target.read_text() == "old"
    assert not list(tmp_path.glob(".partial*"))
    write_lines(export_lines(SMALL, "test", "bracketed", tmp_path), target)
    assert [len(parse_line(line)) for line in target.read_text().split("\n")] == [1, 1, 0]
    with pytest.raises(ValueError, match=r"cannot write .*; choose another file with -o"):
        write_lines(["line"], tmp_path / "nowhere" / "x")


# What is amiss --------------------------------------------------------------------------------------------------------


def test_a_check_tells_figures_and_what_training_has_or_lacks(wsj_folder: Path, tmp_path: Path) -> None:
    lay_out_articles(wsj_folder)
    train = wsj_folder / "03"
    shutil.copyfile(wsj_folder / "23" / "wsj_2302.mrg", train / "wsj_0301.mrg")
    (wsj_folder / "22" / "wsj_2201.mrg").write_text("( (SQ (VBZ Is) (NP-SBJ (NP (PRP it))) (-NONE- *) (. ?)))")
    report = check_treebank(SMALL, tmp_path)
    assert report.splits == (
        TreeFacts("train", 40, 160, 160, 4, 3),
        TreeFacts("dev", 2, 7, 8, 4, 4),
        TreeFacts("test", 2, 8, 8, 4, 3),
    )
    assert report.findings == (
        Finding("fault", "test", LEAKED, 1, 2, 2),
        Finding("warning", "dev", UNSEEN_WORDS, 4, 7, None, "Is, it, ?, 2202"),
        Finding("warning", "dev", UNSEEN_LABELS, 1, 8, None, "SQ"),
        Finding("warning", "test", UNSEEN_WORDS, 1, 8, None, "2301"),
    )
    assert report.conclusion == "wsj: 1 fault, 3 warnings"


def test_a_check_goes_on_after_a_split_that_is_refused(wsj_folder: Path, tmp_path: Path) -> None:
    lay_out_articles(wsj_folder)
    (wsj_folder / "22" / "wsj_2202.mrg").write_text("( (S (NN a))))")
    fault, *warnings = check_treebank(SMALL, tmp_path).findings
    assert fault[:6] == ("fault", "dev", REFUSED, 1, 3, 3)
    assert "wsj_2202.mrg line 1 closes a bracket" in fault.detail
    assert {finding.split for finding in warnings} == {"dev", "test"}


def test_a_check_of_what_is_not_here_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="berkeley-parses is not here"):
        check_treebank(BERKELEY_PARSES, tmp_path)


def test_e17_the_sample_has_its_trees_and_words_and_no_fault(local_sample: Path, tmp_path: Path) -> None:
    report = check_treebank(TREEBANK_SAMPLE, tmp_path)
    assert report.num_faults == 0
    counts = [(facts.split, facts.trees, facts.words) for facts in report.splits]
    assert counts == [("train", 3_396, 81_793), ("dev", 273, 6_327), ("test", 245, 5_964)]
    assert not list(tmp_path.iterdir())  # nothing was unpacked
    assert [finding.count for finding in report.findings if finding.what == LEAKED] == [3]


# The command line -----------------------------------------------------------------------------------------------------


def call(*arguments: str, folder: Path) -> subprocess.CompletedProcess:
    command = [str(Path(sys.executable).with_name("aiayn")), "data", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_treebanks_are_listed_shown_and_checked(wsj_folder: Path, tmp_path: Path) -> None:
    listed = json.loads(call("list", "--json", folder=tmp_path).stdout)
    states = {row["corpus"]: (row["task"], row["lines"], row["state"]) for row in listed}
    assert states["treebank-sample"] == ("parsing", 3_914, "not fetched")
    assert states["wsj"] == ("parsing", 43_948, "not here")
    shown = call("show", "treebank-sample", folder=tmp_path).stdout
    assert "train is wsj_0001 to wsj_0159, dev to wsj_0179, test to wsj_0199" in shown
    missing = call("fetch", "wsj", folder=tmp_path)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr.startswith("wsj is not here; it needs a licence")
    lay_out_articles(wsj_folder)
    counted = call("check", "wsj", "--json", folder=tmp_path)
    assert counted.returncode == 1
    (report,) = json.loads(counted.stdout)
    assert [finding["split"] for finding in report["findings"] if finding["level"] == "fault"] == [
        "dev",
        "test",
        "train",
    ]
    assert "wsj train has 40 trees here, it should have 39,832" in counted.stdout


def test_a_treebank_is_exported(tmp_path: Path) -> None:
    def export(*arguments: str) -> Result:
        return CliRunner().invoke(aiayn.app, ["data", "export", *arguments])

    printed = export("grammar", "--split", "dev")
    assert (printed.exit_code, len(printed.stdout.split("\n"))) == (0, 301)
    assert export("grammar", "--split", "dev", "-o", str(tmp_path / "dev.mrg")).stdout == ""
    assert (tmp_path / "dev.mrg").read_text() == printed.stdout
    assert export("grammar", "--split", "dev", "--format", "conllu").stdout.startswith("# sent_id = grammar-dev-1\n")
    assert "multi30k" in str(export("multi30k", "--split", "val").exception)
