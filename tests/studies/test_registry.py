"""Names of studies, trials and scales, and what a study or claim must not be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from studies.claim import Budget, Claim, Identity
from studies.registry import STUDIES, get_study
from studies.scales import SCALES, get_scale
from studies.study import Study, Trial
from studies.table3 import STUDY


def test_every_table_figure_and_section_is_a_study_with_claims() -> None:
    assert [study.name for study in STUDIES] == [
        "table1",
        "table2",
        "table3",
        "table4",
        "figure3",
        "figure4",
        "figure5",
        "capabilities",
        "section3",
        "section5",
        "budget",
    ]
    assert [study.name for study in STUDIES if not study.trials] == ["section5"]
    for study in STUDIES:
        assert study.claims
        assert len(study.awaited) == len(set(study.awaited))
        assert get_study(study.name) is study


def test_unknown_study_is_answered_with_near_names() -> None:
    with pytest.raises(ValueError, match=r"^no study 'tabel3'; close: table3, table4, table2; all: aiayn list$"):
        get_study("tabel3")


def test_study_like_no_other_is_answered_with_where_they_are_listed() -> None:
    with pytest.raises(ValueError, match=r"^no study 'xyzzy'; all: aiayn list$"):
        get_study("xyzzy")


@pytest.mark.parametrize(("wrong", "near"), [("H1", "h1"), ("bse", "base"), ("dk8", "dk16"), ("dropout0.2", "drop0.2")])
def test_unknown_trial_is_answered_with_near_names(wrong: str, near: str) -> None:
    with pytest.raises(ValueError, match=rf"no trial '{wrong}' in study table3; close: .*{near}.*aiayn list table3"):
        STUDY.trial(wrong)


def test_unknown_scale_is_answered_with_all_of_them() -> None:
    with pytest.raises(ValueError, match=r"no scale 'smal'.*smoke, small, paper"):
        get_scale("smal")


def test_scales_are_three_and_only_paper_asks_for_gpus() -> None:
    assert [scale.name for scale in SCALES] == ["smoke", "small", "paper"]
    assert [scale.gpus_per_trial for scale in SCALES] == [0, 0, 8]


def test_base_has_the_papers_regularisation_beam_and_schedule_at_every_scale() -> None:
    for scale in SCALES:
        assert scale.base.model.dropout == 0.1
        assert scale.base.optim.label_smoothing == 0.1
        assert (scale.base.optim.beta1, scale.base.optim.beta2, scale.base.optim.eps) == (0.9, 0.98, 1e-9)
        decode = scale.base.decode
        assert (decode.beam_size, decode.length_penalty, decode.max_extra_pieces) == (4, 0.6, 50)


ORDER = Claim("s.a.x", "cell", "statement", "order", "dev_bleu", ("a", "b"), "section 1")
A, B = (Trial(name, "A", name, lambda base: base) for name in "ab")


def test_study_without_faults_is_accepted() -> None:
    assert Study("s", "title", "cells", (A, B), (ORDER,)).trial("a") is A


def test_trial_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="study s has trial 'a' twice"):
        Study("s", "title", "cells", (A, A), ())


def test_claim_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"study s has claim 's\.a\.x' twice"):
        Study("s", "title", "cells", (A, B), (ORDER, ORDER))


def test_claim_on_a_trial_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="names trial 'b', which study s does not have"):
        Study("s", "title", "cells", (A,), (ORDER,))


def test_claim_on_an_awaited_trial_says_which_is_not_there_yet() -> None:
    study = Study("s", "title", "cells", (A,), (ORDER,), awaited=("b",))
    assert study.awaited_by(ORDER) == ("b",)
    assert STUDY.awaited_by(STUDY.claims[0]) == ()


@pytest.mark.parametrize(
    ("awaited", "complaint"), [(("a",), "trial 'a' twice"), (("c",), "awaits trial 'c', which no claim is about")]
)
def test_awaited_trial_that_exists_or_that_nobody_needs_is_refused(awaited: tuple, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"study s .*{complaint}"):
        Study("s", "title", "cells", (A, B), (ORDER,), awaited=awaited)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"trials": ("a",)}, "kind order is about 2 trial"),
        ({"kind": "value"}, "kind value is about 1 trial"),
        ({"metric": "dev_blue"}, "no metric 'dev_blue'"),
        ({"metric": "params_millions"}, "neither direction of params_millions is better"),
        ({"kind": "difference"}, "needs an expected value and a tolerance"),
        ({"kind": "difference", "expected": 1.0}, "needs an expected value and a tolerance"),
        ({"tolerance": 1.0}, "kind order has no tolerance"),
        ({"kind": "exact", "expected": 1.0, "tolerance": 0.1}, "needs a computed number"),
        ({"kind": "difference", "expected": 1.0, "tolerance": 0.1, "compute": float}, "is measured, not computed"),
        ({"kind": "threshold", "expected": 1.0}, "a threshold, and only a threshold, has a bound"),
        ({"kind": "threshold", "bound": ">"}, "needs an expected value, the one that is not crossed"),
        ({"bound": ">"}, "a threshold, and only a threshold, has a bound"),
        ({"quoted": True}, "a quoted number is a value with no trial"),
        ({"identity": Identity("d", 1, "p", (Budget(1, 1, 1),))}, r"1 budget\(s\) for 2 trial"),
    ],
    ids=str,
)
def test_claim_that_cannot_be_decided_is_refused(change: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=rf"claim s\.a\.x: .*{complaint}"):
        replace(ORDER, **change)
