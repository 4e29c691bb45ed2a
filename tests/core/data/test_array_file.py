from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data.array_file import ArrayFile, map_array


@given(parts=st.lists(st.lists(st.integers(0, 2**16 - 1), max_size=50), max_size=8), cut=st.integers(0, 20))
def test_what_numpy_reads_is_what_was_appended(tmp_path_factory, parts, cut):
    path = tmp_path_factory.mktemp("arrays") / "a.npy"
    with ArrayFile(path, np.uint16) as file:
        for part in parts:
            file.append(np.array(part, dtype=np.uint16))
        kept = min(cut, len(file))
        file.truncate(kept)
        file.append(np.arange(3))
        file.commit()
    assert np.load(path).tolist() == [*[value for part in parts for value in part][:kept], 0, 1, 2]
    assert map_array(path).tolist() == np.load(path).tolist()


def test_a_later_writer_goes_on_behind_the_last_value(tmp_path):
    path = tmp_path / "a.npy"
    with ArrayFile(path, np.int64) as file:
        file.append(np.arange(4))
    with ArrayFile(path, np.int64) as file:
        assert len(file) == 4
        file.append(np.arange(4, 6))
        file.commit()
    assert np.load(path).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("bytes_left", [0, 5, 127, 128, 129, 131])
def test_what_a_killed_process_left_can_be_opened(tmp_path, bytes_left):
    path = tmp_path / "a.npy"
    with ArrayFile(path, np.int32) as file:
        file.append(np.arange(2))
    path.write_bytes(path.read_bytes()[:bytes_left])
    with ArrayFile(path, np.int32) as file:
        assert len(file) == 0
        with pytest.raises(ValueError, match=r"a\.npy holds 0 values, not 1"):
            file.truncate(1)
        file.append(np.array([7]))
        file.commit()
    assert np.load(path).tolist() == [7]


def test_a_file_of_another_suffix_has_no_header(tmp_path):
    path = tmp_path / "a.txt"
    with ArrayFile(path, np.uint8) as file:
        file.append(np.frombuffer(b"one\ntwo\n", dtype=np.uint8))
        file.truncate(4)
    assert path.read_bytes() == b"one\n"
    assert map_array(path, np.uint8).tobytes() == b"one\n"
