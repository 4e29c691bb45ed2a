"""Table 4 as printed (table4_published.csv), and section 6.3's sentences and settings."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from studies.table4 import DECODE, MODEL, ROWS, STUDY

PUBLISHED = list(csv.DictReader(Path(__file__).with_name("table4_published.csv").open(encoding="utf-8")))
BY_ID = {claim.id: claim for claim in STUDY.claims}


def test_rows_are_the_printed_ones() -> None:
    assert [(row.parser, row.training, row.f1, bool(row.trial)) for row in ROWS] == [
        (row["parser"], row["training"], float(row["wsj23_f1"]), row["ours"] == "yes") for row in PUBLISHED
    ]


def test_every_printed_cell_is_a_claim() -> None:
    for row, printed in zip(ROWS, PUBLISHED, strict=True):
        claim = BY_ID[f"table4.{row.id}.f1"]
        assert claim.expected == float(printed["wsj23_f1"])
        assert claim.quoted == (printed["ours"] == "no")
    assert sum(claim.quoted for claim in STUDY.claims) == 10


def test_own_claims_are_of_the_whole_section_23() -> None:
    own = [claim for claim in STUDY.claims if claim.identity is not None]
    assert {(claim.identity.dataset, claim.identity.num_items) for claim in own} == {("wsj/test/en-trees", 2_416)}


def test_sentences_of_the_text_as_thresholds() -> None:
    expected = {"wsj_only_over_berkeley": 90.4, "wsj_only_over_earlier": 90.4, "semi_over_earlier": 92.1}
    assert {name: BY_ID[f"table4.{name}"].expected for name in expected} == expected


def test_exception_of_the_text_leaves_a_multi_task_parser_above_the_transformer() -> None:
    """6.3 excepts the RNN grammar alone; the table has Luong et al. at 93.0 too, trained on other tasks."""
    assert BY_ID["table4.printed.over_earlier"].compute() == pytest.approx(92.7 - 93.0)
    # 91.3 - 90.4 and 92.7 - 92.1: the lesser.
    assert BY_ID["table4.printed.over_earlier_same_training"].compute() == pytest.approx(0.6)


def test_model_and_search_are_those_of_section_6_3() -> None:
    for model in MODEL.values():
        assert (model.num_layers, model.d_model, model.d_ff, model.num_heads) == (4, 1024, 2048, 8)
        assert model.d_k == model.d_v == 128
        assert model.dropout == 0.1
    assert (DECODE.beam_size, DECODE.length_penalty, DECODE.max_extra_pieces) == (21, 0.3, 300)
