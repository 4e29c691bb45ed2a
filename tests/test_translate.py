"""`aiayn translate` as people use it: files, pipes, a reader that leaves, a line at a time."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import aiayn
from results.run_folder import RunFolder

SCRIPT = Path(sys.executable).with_name("aiayn")
LINES = ["The old teacher sleeps.", "", "A dog sees a red\u2028house.", "A dog sleeps."]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


@dataclass(frozen=True)
class Result:
    code: int
    stdout: bytes
    stderr: bytes


Translate = Callable[..., Result]


@pytest.fixture(scope="session")
def command(unbroken: RunFolder) -> list[str]:
    return ["translate", unbroken.path.name, "--home", str(unbroken.path.parent.parent)]


@pytest.fixture
def translate(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> Translate:
    """The command line in this process, with more arguments and in a temporary folder; a process of its own would spend
    two seconds on importing torch.
    """
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: bytes = b"") -> Result:
        monkeypatch.setattr("sys.argv", ["aiayn", *command, *arguments])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as end:
            aiayn.main()
        return Result(end.value.code or 0, *capsysbinary.readouterr())

    return run


def test_file_pipe_and_output_file_give_the_same(translate: Translate, tmp_path: Path):
    (tmp_path / "source.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.replace(b"\n", b"\r\n"))
    piped, read = translate(stdin=TEXT), translate("source.txt")
    assert (piped.code, piped.stderr) == (0, b"")
    assert read.stdout == piped.stdout
    assert piped.stdout.count(b"\n") == len(LINES)
    assert [bool(line) for line in piped.stdout.split(b"\n")] == [True, False, True, True, False]
    # Onto the source itself too: the file is replaced when it is whole.
    assert translate("source.txt", "-o", "source.txt").stdout == b""
    assert (tmp_path / "source.txt").read_bytes() == piped.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["source.txt"]


def test_json_has_a_line_for_each_line_with_its_score(translate: Translate):
    plain, found = translate("--beam", "2", stdin=TEXT), translate("--beam", "2", "--json", stdin=TEXT)
    objects = [json.loads(line) for line in found.stdout.decode().split("\n")[:-1]]
    assert [one["source"] for one in objects] == LINES
    assert [one["line"] for one in objects] == [1, 2, 3, 4]
    assert [one["output"] for one in objects] == plain.stdout.decode().split("\n")[:-1]
    assert [one["score"] is None for one in objects] == [False, True, False, False]


def test_settings_are_used(translate: Translate):
    """One piece more than the input at most, as this run is scored, against fifty: the output is longer."""
    short, long = translate(stdin=TEXT), translate("--extra", "50", "--alpha", "1.5", stdin=TEXT)
    assert len(long.stdout) > len(short.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--beam", "5000"], "--beam 5000 must lie between 1 and 1,000"),
        (["--alpha", "-1"], "--alpha -1.0 must lie in [0, 10]"),
        (["--alpha", "nan"], "--alpha nan must lie in [0, 10]"),
        (["--extra", "0"], "'--extra'"),
        (["wide.txt", "-o", "out.txt"], "wide.txt line 1 has a NUL byte"),
        (["bad.txt", "-o", "out.txt"], "bad.txt line 2 is not UTF-8"),
        (["absent.txt", "-o", "out.txt"], "cannot read absent.txt (No such file"),
    ],
)
def test_what_cannot_be_is_refused_before_any_output(
    translate: Translate, tmp_path: Path, arguments: list[str], message: str
):
    (tmp_path / "wide.txt").write_bytes("A dog sleeps.\n".encode("utf-16-le"))
    (tmp_path / "bad.txt").write_bytes(b"A dog sleeps.\n\xff\n")
    result = translate(*arguments, stdin=TEXT)
    assert (result.code, result.stdout) == (2, b"")
    assert message in result.stderr.decode()
    assert len(result.stderr.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"wide.txt", "bad.txt"}


def test_from_a_pipe_what_stands_before_a_refused_line_is_translated(translate: Translate):
    result = translate(stdin=b"A dog sleeps.\n\n\xff\nA dog sleeps.\n")
    assert result.code == 2
    assert b"standard input line 3 is not UTF-8" in result.stderr
    assert result.stdout == translate(stdin=b"A dog sleeps.\n\n").stdout


def test_each_line_is_answered_before_the_next_is_waited_for(command: list[str]):
    with subprocess.Popen([str(SCRIPT), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        answers = []
        for line in (b"A dog sleeps.\n", b"\n", b"The old teacher sleeps.\n"):
            process.stdin.write(line)
            process.stdin.flush()
            answers.append(process.stdout.readline())
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(timeout=60) == 0
    assert [len(answer) > 1 for answer in answers] == [True, False, True]


def test_a_reader_that_had_enough_is_no_error(command: list[str], tmp_path: Path):
    (tmp_path / "many.txt").write_bytes(b"A dog sleeps.\n" * 20_000)
    result = subprocess.run(
        ["bash", "-c", '"$@" many.txt | head -2; exit ${PIPESTATUS[0]}', "bash", str(SCRIPT), *command],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.count(b"\n") == 2


def test_named_pipes_are_read_and_written_as_they_are(command: list[str], tmp_path: Path):
    (tmp_path / "text").write_bytes(TEXT)
    script = 'mkfifo source target; cat text > source & cat target & "$@" source -o target && wait'
    result = subprocess.run(
        ["bash", "-c", script, "bash", str(SCRIPT), *command],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=100,
    )
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.count(b"\n") == len(LINES)
