"""Records refuse what must never be stored."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.errors import BusyError, QueryError, ResultsError
from results.records import Artifact, ClaimRow, RunRecord, RunResult, Score, VerdictRow, parse_time


def make_score(**changes: Any) -> Score:
    return Score(**{"name": "dev_bleu", "value": 25.8, "signature": "s", "dataset": "d", "num_items": 3, **changes})


@pytest.mark.parametrize("signature", ["", "  ", None])
def test_score_without_signature_is_refused(signature: Any) -> None:
    with pytest.raises(ValueError, match="score dev_bleu: signature"):
        make_score(signature=signature)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, numpy.float32("nan"), "25.8", True])
def test_score_that_is_no_finite_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"score dev_bleu: value=.*must be finite"):
        make_score(value=value)


@pytest.mark.parametrize(
    ("name", "value"), [("dev_bleu", 100.1), ("test_bleu", -0.1), ("wsj_f1", 101), ("dev_chrf", 200)]
)
def test_percent_scores_lie_on_0_to_100(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"score {name}.*0-100"):
        make_score(name=name, value=value)


def test_perplexity_may_exceed_100() -> None:
    assert make_score(name="dev_ppl", value=4000.0).value == 4000.0


def test_missing_score_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="must say why"):
        make_score(value=None)
    assert make_score(value=None, details={"reason": "all outputs empty"}).value is None


def test_nan_hidden_in_details_is_refused() -> None:
    with pytest.raises(ValueError, match="details cannot be written as JSON"):
        make_score(details={"lengths": [1.0, math.nan]})


def test_numpy_score_becomes_a_plain_float() -> None:
    assert type(make_score(value=numpy.float32(0.5)).value) is float


@given(
    st.lists(
        st.builds(
            Score,
            name=st.text(min_size=1, max_size=5).map(lambda text: f"score {text}"),
            value=st.floats(allow_nan=False, allow_infinity=False),
            signature=st.just("s"),
            dataset=st.just("d"),
            num_items=st.integers(0, 2**63 - 1),
            details=st.dictionaries(st.text(), st.integers() | st.text() | st.none()),
        ),
        unique_by=lambda score: score.name,
    )
)
def test_result_survives_json(scores: list[Score]) -> None:
    result = RunResult(1.0, 5, {"train": 1.0}, tuple(scores), (Artifact("log", "a/b", 3, "00"),))
    assert RunResult.from_json(json.loads(json.dumps(result.to_json()))) == result


@pytest.mark.parametrize(
    "broken",
    [
        [],
        {},
        {"status": "done"},
        {"status": "failed", "seconds": 1.0, "params": 1, "phases": {}},
        {"status": "done", "seconds": math.nan, "params": 1, "phases": {}},
        {"status": "done", "seconds": 1.0, "params": 1, "phases": {}, "scores": [{"name": "x"}]},
        {"status": "done", "seconds": 1.0, "params": 1, "phases": {}, "scores": 5},
        {"status": "done", "seconds": 1.0, "params": 1, "phases": {}, "finished": "yesterday"},
        {"status": "done", "seconds": 1.0, "params": 1, "phases": {}, "surprise": 1},
    ],
)
def test_broken_result_is_one_kind_of_error(broken: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        RunResult.from_json(broken)


def test_same_score_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="score dev_bleu is given twice"):
        RunResult(1.0, 1, {}, (make_score(), make_score(value=3.0)))


@pytest.mark.parametrize(
    ("field", "value"),
    [("run", "xyz"), ("seed", -1), ("seed", 1.5), ("scale", "tiny"), ("trial", ""), ("created", "now")],
)
def test_wrong_run_record_names_the_field(field: str, value: Any) -> None:
    fields = {
        "run": "0123456789ab",
        "study": "table3",
        "trial": "base",
        "seed": 1,
        "scale": "smoke",
        "config": {},
        "code_version": "c",
        "data_fingerprint": "d",
        "provenance": {},
    }
    with pytest.raises(ValueError, match=f"{field}="):
        RunRecord(**{**fields, field: value})


def test_unknown_verdict_and_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="verdict='maybe'"):
        VerdictRow("c", "smoke", "maybe", None, None, None, 0, "")
    with pytest.raises(ValueError, match="kind='guess'"):
        ClaimRow("c", "s", "cell", "text", "guess", "bleu", None, None, "", "")


def test_times_are_read_as_utc_whatever_their_zone() -> None:
    assert (
        parse_time("2026-01-01T02:00:00+02:00")
        == parse_time("2026-01-01T00:00:00Z")
        == parse_time("2026-01-01T00:00:00")
    )


@pytest.mark.parametrize("kind", [ResultsError, QueryError, BusyError])
def test_errors_survive_pickling(kind: type[Exception]) -> None:
    copy = pickle.loads(pickle.dumps(kind("what, why, what to do")))
    assert type(copy) is kind
    assert str(copy) == "what, why, what to do"
