from __future__ import annotations

import gzip
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data import lines as lines_module
from core.data.corpus import DataError
from core.data.download import in_bytes
from core.data.lines import LineStream, decode_lines


@pytest.fixture
def small_blocks(monkeypatch):
    """Files are read a few bytes at a time, so that every place of a text is at the end of a block once."""
    return lambda size: monkeypatch.setattr(lines_module, "_BLOCK_BYTES", size)


@given(text=st.text(alphabet="aé\u2028\r\n \u3000😀", max_size=40), size=st.integers(1, 9))
def test_a20_a_text_is_cut_at_line_feeds_alone_wherever_a_block_ends(text, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_BLOCK_BYTES", size)
        expected = text.split("\n")
        if expected[-1] == "":
            expected.pop()
        assert decode_lines(text.encode(), "x") == expected


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_counts_and_checksum_are_those_of_the_text(tmp_path, small_blocks, name):
    small_blocks(7)
    raw = "eins\nzwei\n\ndrei für vier".encode()
    (tmp_path / name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    stream = LineStream.of_file(tmp_path / name)
    for _ in range(2):  # each reading begins anew
        assert list(stream) == ["eins", "zwei", "", "drei für vier"]
        assert stream.num_lines == 4
        assert stream.sha256 == hashlib.sha256(raw + b"\n").hexdigest()


def test_a_byte_that_is_no_utf8_is_named_by_its_line_in_every_block(small_blocks):
    small_blocks(3)
    with pytest.raises(DataError, match=r"x line 5 is not UTF-8 \(invalid start byte\)"):
        decode_lines(b"one\ntwo\nthree\nfour\nfi\xffve\nsix\n", "x")


def test_a_file_that_is_none_is_told(tmp_path):
    with pytest.raises(DataError, match="nothing cannot be read: No such file"):
        LineStream.of_file(tmp_path / "nothing").read_through()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        LineStream.of_file(tmp_path).read_through()


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (80_418_416, "80.4 MB"), (2.6e9, "2.6 GB")]
)
def test_sizes_are_written_for_a_person(number, text):
    assert in_bytes(number) == text
