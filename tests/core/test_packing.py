"""Rows and cells: nothing is lost, nothing is mixed up, and padding has no part in anything."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.batching import collate
from core.data.split import ParallelSplit, Sentences
from core.data.vocabulary import BOS_ID, EOS_ID, PAD_ID
from core.packing import AttentionPlan, Packing, pack

CPU = torch.device("cpu")

lengths = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def split_of(pairs: list[tuple[list[int], list[int]]], vocab_size: int = 60) -> ParallelSplit:
    sides = (Sentences.from_lists([pair[side] for pair in pairs], vocab_size) for side in (0, 1))
    return ParallelSplit(*sides, read_lines=lambda: ([], []))


def test_rows_by_hand():
    split = split_of([([7, 8, 9], [4]), ([5], []), ([6, 6], [3, 4])])
    batch = pack(split, np.array([2, 0, 1]), CPU)
    # In rising order of the longer side: pair 1, then 2 and 0.
    assert batch.src.tolist() == [5, EOS_ID, 6, 6, EOS_ID, 7, 8, 9, EOS_ID]
    assert batch.tgt_in.tolist() == [BOS_ID, BOS_ID, 3, 4, BOS_ID, 4]
    assert batch.tgt_out.tolist() == [EOS_ID, 3, 4, EOS_ID, 4, EOS_ID]
    assert batch.encoder.queries.positions.tolist() == [0, 1, 0, 1, 2, 0, 1, 2, 3]


@given(st.lists(st.tuples(*[st.lists(st.integers(3, 59), max_size=30)] * 2), min_size=1, max_size=9), st.data())
@settings(max_examples=40, deadline=None)
def test_a_packed_batch_is_the_padded_one_without_its_padding(pairs, data):
    split = split_of(pairs)
    indices = np.array(data.draw(st.permutations(range(len(pairs)))))
    packed = pack(split, indices, CPU)
    longer = np.maximum(split.src_lengths[indices], split.tgt_lengths[indices])
    padded = collate(split, indices[np.argsort(longer, kind="stable")])
    assert packed.src.tolist() == padded.src[padded.src != PAD_ID].tolist()
    assert packed.tgt_in.tolist() == padded.tgt_in[padded.tgt_out != PAD_ID].tolist()
    assert packed.tgt_out.tolist() == padded.tgt_out[padded.tgt_out != PAD_ID].tolist()


def plan_of(first: list[int], second: list[int] | None = None, causal: bool = False) -> AttentionPlan:
    queries = Packing(np.array(first, dtype=np.int64))
    return AttentionPlan(queries, queries if second is None else Packing(np.array(second)), causal, CPU)


@given(lengths, st.integers(1, 3), st.sampled_from([(4,), (4, 4, 4), (2, 2, 6), (3, 2)]))
@settings(max_examples=60, deadline=None)
def test_rows_survive_the_way_to_cells_and_back_and_each_cell_shows_its_own_row(lengths, num_heads, widths):
    plan = plan_of(sorted(lengths))
    cells = plan.cells("queries", num_heads, widths)
    n, row_width = sum(lengths), num_heads * sum(widths)
    rows = torch.arange(n * row_width, dtype=torch.float64).view(n, row_width) + 1.0
    memory = cells.take(rows)
    assert torch.equal(cells.put(memory), rows)

    zeroed = cells.take_gradient(rows)
    assert torch.equal(cells.put(zeroed), rows)
    assert int((zeroed != 0).sum()) == rows.numel()  # beyond a sentence's end there is nothing
    expected_parts = rows.split([num_heads * width for width in widths], dim=1)
    for part, expected, width in zip(cells.parts(zeroed), expected_parts, widths, strict=True):
        begin_cell = begin_row = 0
        remaining = iter(sorted(lengths))
        for group in plan.groups:
            size = group.num_sentences * num_heads * group.num_queries
            block = part[begin_cell : begin_cell + size].view(-1, num_heads, group.num_queries, width)
            begin_cell += size
            for sentence in range(group.num_sentences):
                length = next(remaining)
                own = expected[begin_row : begin_row + length].view(length, num_heads, width).transpose(0, 1)
                assert torch.equal(block[sentence, :, :length], own)
                begin_row += length


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=9), st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_query_may_attend_to_the_real_keys_of_its_sentence_and_to_its_past_alone(pairs, causal):
    pairs = sorted(pairs, key=max)
    queries, keys = (list(side) for side in zip(*pairs, strict=True))
    plan = plan_of(queries, None if causal else keys, causal)
    first = 0
    for group in plan.groups:
        allowed = torch.ones(group.num_sentences, 1, group.num_queries, group.num_keys, dtype=torch.bool)
        if group.barred is not None:
            assert set(group.barred.unique().tolist()) <= {0.0, -torch.inf}
            allowed = (group.barred == 0.0).expand_as(allowed)
        for i in range(group.num_sentences):
            t, s = queries[first + i], (queries if causal else keys)[first + i]
            real = allowed[i, 0, :t]
            expected = torch.ones(t, group.num_keys).tril() if causal else torch.arange(group.num_keys) < s
            assert torch.equal(real, expected.bool().expand_as(real))
        assert bool(allowed.any(-1).all())  # B9: no row is without a key
        first += group.num_sentences
    assert first == len(pairs)


def test_sentences_of_like_lengths_share_a_group_and_an_unsorted_batch_falls_into_few():
    assert [g.num_sentences for g in plan_of([20, 20, 21, 24]).groups] == [4]
    spread = np.sort(np.random.default_rng(1).lognormal(3.0, 0.6, 300).astype(int) + 1).tolist()
    plan = plan_of(spread)
    cells = plan.cells("queries", 1, (8,)).num_cells
    assert len(plan.groups) < 20
    assert cells < 1.3 * sum(max(length, 16) for length in spread)


@pytest.mark.parametrize("lengths", [[1], [1, 1, 1], [1, 50], [16, 16]])
def test_groups_have_no_fewer_keys_than_a_vector_register(lengths: list[int]):
    assert all(group.num_keys >= 16 for group in plan_of(lengths).groups)
