"""Text through a finished run: what counts as a line, what is refused, and that lines keep their order."""

from __future__ import annotations

import io
import os
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.corpus import DataError
from core.search import Hypothesis
from results.run_folder import RunFolder
from studies.trained.loading import TrainedRun, load_run
from studies.trained.translation import LineTranslator, TranslatedLine, read_chunks


@pytest.fixture(scope="module")
def trained(unbroken: RunFolder) -> TrainedRun:
    return load_run(unbroken)


def translate_lines(run: TrainedRun, lines: Sequence[str], **settings) -> list[TranslatedLine]:
    translator = LineTranslator(run, replace(run.config.decode, **settings))
    return [line for ready in translator.translate([lines]) for line in ready]


# --- translating


def test_every_line_has_its_translation_and_empty_ones_stay_empty(trained: TrainedRun):
    lines = ["The old teacher sleeps.", "", "A dog sees the red house.", "   ", "The old teacher sleeps."]
    found = translate_lines(trained, lines)
    assert [one.source for one in found] == lines
    assert [one.line for one in found] == [1, 2, 3, 4, 5]
    assert [one.output for one in found][1::2] == ["", ""]
    assert [one.score for one in found][1::2] == [None, None]
    assert found[0].output == found[4].output != ""
    assert all(one.score < 0 for one in found if one.output)
    assert not any("\n" in one.output for one in found)


def test_text_that_no_corpus_has_is_translated_too(trained: TrainedRun):
    assert len(translate_lines(trained, ["🙂 ⟨pad⟩ \u2028 ﷽", "x" * 300, "a\0b"])) == 3
    assert translate_lines(trained, []) == []
    assert [one.output for one in translate_lines(trained, ["", ""])] == ["", ""]


def test_a9_lines_come_back_in_their_order_one_chunk_or_many(trained: TrainedRun):
    lines = ["x" * length if length % 5 else "" for length in range(40)]
    random.Random(1).shuffle(lines)
    translator = LineTranslator(trained, replace(trained.config.decode, beam_size=2, batch_sentences=3))
    together = [line for ready in translator.translate([lines]) for line in ready]
    apart = [line for ready in translator.translate([lines[:7], lines[7:8], [], lines[8:]]) for line in ready]
    assert [one.source for one in together] == lines == [one.source for one in apart]
    assert [one.line for one in together] == list(range(1, 41)) == [one.line for one in apart]
    for one, other in zip(together, apart, strict=True):
        assert one.output == other.output
        assert one.score is None or one.score == pytest.approx(other.score, rel=1e-4)


class _Echo:
    """Stands for a model that puts out what it is given, one sentence a batch, the last one first."""

    def decoded_batches(self, sources: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], list[Hypothesis]]]:
        for index in reversed(range(len(sources))):
            yield [index], [Hypothesis(tuple(sources[index]), -1.0, -1.0, True)]


@pytest.fixture(scope="module")
def echo(trained: TrainedRun) -> LineTranslator:
    translator = LineTranslator(trained, trained.config.decode)
    translator._translator = _Echo()
    return translator


@settings(deadline=None)
@given(lines=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), max_size=6))
def test_a11_the_way_back_to_text_is_the_inverse_of_the_way_to_pieces(echo: LineTranslator, lines: list[str]):
    found = [one for ready in echo.translate([lines]) for one in ready]
    assert [one.output for one in found] == [line if line.strip() else "" for line in lines]


def test_line_breaks_that_a_model_puts_out_become_spaces(echo: LineTranslator):
    ((found,),) = echo.translate([["one\ntwo\r\nthree"]])
    assert found.output == "one two  three"


def test_lines_are_handed_out_as_soon_as_they_and_those_before_are_done(trained: TrainedRun):
    class InOrder:
        def decoded_batches(self, sources):
            for index, source in enumerate(sources):
                yield [index], [Hypothesis(tuple(source), -1.0, -1.0, True)]

    translator = LineTranslator(trained, trained.config.decode)
    translator._translator = InOrder()
    ready = list(translator.translate([["", "a", "b", "", "c", ""]]))
    assert [[one.line for one in lines] for lines in ready] == [[1, 2], [3, 4], [5, 6]]


# --- what is refused


def test_a_line_of_too_many_pieces_is_refused_after_those_before_it(trained: TrainedRun, tmp_path: Path):
    translator = LineTranslator(trained, trained.config.decode)
    translator._most_pieces = 30
    ready = translator.translate([["a"], ["", "b", "x" * 500, "c"]])
    assert [[one.line for one in next(ready)] for _ in range(2)] == [[1], [2, 3]]
    with pytest.raises(DataError, match=r"line 4 has \d+ word pieces, and the run can take 30 at most"):
        next(ready)
    # A file is looked through before any work.
    file = tmp_path / "source.txt"
    file.write_text("a\n\nb\n" + "x" * 500 + "\nc\n")
    with pytest.raises(DataError, match=r"line 4 has \d+ word pieces"):
        translator.check(file)
    file.write_text("a\n" * 2_500)
    assert translator.check(file) == 2_500


def test_d11_learned_positions_bound_the_input_so_that_no_output_runs_out_of_them(trained: TrainedRun):
    model = replace(trained.config.model, positions="learned", max_learned_positions=400)
    data = replace(trained.config.data, max_train_pieces=256)
    learned = replace(trained, config=replace(trained.config, model=model, data=data))
    assert LineTranslator(learned, replace(trained.config.decode, max_extra_pieces=50))._most_pieces == 350
    with pytest.raises(ValueError, match=r"max_extra_pieces=400 leaves no room among .* 400 learned positions"):
        LineTranslator(learned, replace(trained.config.decode, max_extra_pieces=400))


# --- reading


def lines_of(raw: bytes, tmp_path: Path) -> list[str]:
    file = tmp_path / "source.txt"
    file.write_bytes(raw)
    return [line for chunk in read_chunks(file) for line in chunk]


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        ("one\u2028still one\n\ntwo\x85\x0c\x1c\u2029\n".encode(), ["one\u2028still one", "", "two\x85\x0c\x1c\u2029"]),
        (b"a\r\n\r\nb\r", ["a", "", "b"]),
        (b"a\rb\r\r\n", ["a\rb\r"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"\xef\xbb\xbf\n", [""]),
        (b" a \n\tb", [" a ", "\tb"]),
    ],
)
def test_a20_a_line_ends_at_a_line_feed_and_nowhere_else(raw: bytes, lines: list[str], tmp_path: Path):
    assert lines_of(raw, tmp_path) == lines


@settings(deadline=None, max_examples=30)
@given(
    lines=st.lists(
        st.text(st.characters(exclude_characters="\n\0\ufeff", codec="utf-8")).map(lambda t: t + "."), max_size=50
    )
)
def test_every_text_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, lines: list[str]):
    assert lines_of("".join(f"{line}\n" for line in lines).encode(), tmp_path_factory.mktemp("read")) == lines


def test_chunks_are_bounded(tmp_path: Path):
    file = tmp_path / "source.txt"
    file.write_bytes(b"".join(b"%d\n" % number for number in range(300_000)))
    chunks = list(read_chunks(file))
    assert max(len(chunk) for chunk in chunks) <= 1_024
    assert [int(line) for chunk in chunks for line in chunk] == list(range(300_000))


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (b"good\n\xff\xfe\n", "line 2 is not UTF-8"),
        ("good\nwide".encode("utf-16-le"), "line 1 has a NUL byte, as UTF-16"),
        ("good\nwide".encode("utf-16"), "line 1 has a NUL byte|line 1 is not UTF-8"),
        (b"good\nb\0d\n", "line 2 has a NUL byte"),
        (b"good\n\n" + b"x" * (1 << 21), r"line 3 has more than 1,048,576 bytes"),
        (b"good\n\n" + b"x" * (1 << 21) + b"\nmore\n", r"line 3 has more than 1,048,576 bytes"),
    ],
)
def test_what_is_no_text_is_refused_with_the_place(raw: bytes, match: str, tmp_path: Path):
    with pytest.raises(DataError, match=rf"source\.txt {match}" if "|" not in match else match):
        lines_of(raw, tmp_path)


def test_lines_before_a_refused_one_are_handed_out(tmp_path: Path):
    file = tmp_path / "source.txt"
    file.write_bytes(b"one\ntwo\n\xff\nfour\n")
    chunks = read_chunks(file)
    assert next(chunks) == ["one", "two"]
    with pytest.raises(DataError, match="line 3"):
        next(chunks)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    with pytest.raises(DataError, match=r"cannot read .*absent\.txt \(No such file"):
        next(read_chunks(tmp_path / "absent.txt"))
    with pytest.raises(DataError, match=r"cannot read .* \(Is a directory\)"):
        next(read_chunks(tmp_path))


def test_what_arrives_is_handed_out_before_more_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    reading, writing = os.pipe()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(os.fdopen(reading, "rb")))
    chunks = read_chunks(None)
    os.write(writing, b"one\ntwo\nthr")
    assert next(chunks) == ["one", "two"]
    os.write(writing, b"ee\r\n")
    assert next(chunks) == ["three"]
    late = threading.Timer(0.05, lambda: (os.write(writing, b"\nlast"), os.close(writing)))
    late.start()
    assert [line for chunk in chunks for line in chunk] == ["", "last"]
    late.join()
