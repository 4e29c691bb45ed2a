"""`aiayn parse` as people use it: files, pipes, drawings, and what is refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

import aiayn
from core.data.trees import parse_line
from results.run_folder import RunFolder

LINES = ["The old teacher sleeps.", "", "A dog (sees) a house.", "A dog sleeps ."]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str


Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Command:
    """The command line in this process and in a temporary folder: `command(verb, run, ...)`."""
    monkeypatch.chdir(tmp_path)

    def run(verb: str, folder: RunFolder, *arguments: str, stdin: bytes = b"") -> Result:
        home = str(folder.path.parent.parent)
        monkeypatch.setattr("sys.argv", ["aiayn", verb, folder.path.name, "--home", home, *arguments])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            aiayn.main()
        return Result(end.value.code or 0, *(text.decode() for text in capsysbinary.readouterr()))

    return run


def words(line: str) -> list[str]:
    return list(parse_line(line)[0].leaves())


def test_each_line_has_a_tree_over_its_words(command: Command, parser_run: RunFolder, tmp_path: Path) -> None:
    piped = command("parse", parser_run, stdin=TEXT)
    assert (piped.code, piped.stderr) == (0, "")
    found = piped.stdout.split("\n")
    assert [words(line) if line else [] for line in found[:-1]] == [
        ["The", "old", "teacher", "sleeps", "."],
        [],
        ["A", "dog", "(", "sees", ")", "a", "house", "."],
        ["A", "dog", "sleeps", "."],
    ]
    assert all(line.startswith("(TOP ") for line in found[:-1] if line)
    (tmp_path / "text.txt").write_bytes(TEXT)
    assert command("parse", parser_run, "text.txt", "-o", "trees.mrg").stdout == ""
    assert (tmp_path / "trees.mrg").read_text(encoding="utf-8") == piped.stdout


def test_blanks_alone_separate_words_that_are_given_as_such(command: Command, parser_run: RunFolder) -> None:
    found = command("parse", parser_run, "--tokenised", stdin=b"don't -LRB- x. -RRB-\n")
    assert words(found.stdout) == ["don't", "(", "x.", ")"]


def test_json_tells_what_was_repaired(command: Command, parser_run: RunFolder) -> None:
    plain = command("parse", parser_run, stdin=TEXT)
    objects = [json.loads(line) for line in command("parse", parser_run, "--json", stdin=TEXT).stdout.splitlines()]
    assert [one["source"] for one in objects] == LINES
    assert [one["tree"] for one in objects] == plain.stdout.split("\n")[:-1]
    assert objects[1] == {"line": 2, "source": "", "tree": "", "repairs": "none", "score": None, "finished": True}
    assert any(one["repairs"] != "none" for one in objects)


def test_trees_are_drawn_into_one_picture(command: Command, parser_run: RunFolder, tmp_path: Path) -> None:
    assert command("parse", parser_run, "--draw", "trees.svg", stdin=TEXT).code == 0
    texts = [node.text for node in ElementTree.parse(tmp_path / "trees.svg").iter() if node.tag.endswith("text")]
    for word in ("teacher", "(", "sleeps", "TOP"):
        assert word in texts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--draw", "trees.png"], "trees.png is no .svg file, and trees are drawn as SVG alone; name it trees.svg"),
        (["--beam", "5000"], "--beam 5000 must lie between 1 and 1,000"),
        (["bad.txt", "-o", "out.txt"], "bad.txt line 2 is not UTF-8"),
        (["absent.txt", "-o", "out.txt"], "cannot read absent.txt (No such file"),
    ],
)
def test_what_cannot_be_is_refused_before_any_output(
    command: Command, parser_run: RunFolder, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "bad.txt").write_bytes(b"A dog sleeps.\n\xff\n")
    result = command("parse", parser_run, *arguments, stdin=TEXT)
    assert (result.code, result.stdout) == (2, "")
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]


def test_a_translator_does_not_parse_nor_a_parser_translate(
    command: Command, parser_run: RunFolder, unbroken: RunFolder
) -> None:
    result = command("parse", unbroken, stdin=TEXT)
    assert (result.code, result.stdout) == (2, "")
    assert f"table3/base writes de and no trees; use aiayn translate {unbroken.path.name}" in result.stderr
    result = command("translate", parser_run, stdin=TEXT)
    assert (result.code, result.stdout) == (2, "")
    assert f"table4/wsj_only writes trees; use aiayn parse {parser_run.path.name}" in result.stderr
