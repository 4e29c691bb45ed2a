"""What a request would take: the schedule by hand, prices that add up, what is skipped, and what seeds could settle."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.checkpoint import NEWEST_KEPT
from core.complexity import num_parameters, training_flops
from core.config import TrainConfig, paper_base, paper_big
from results.run_folder import RunFolder
from studies import section5, table2, table3
from studies.figures import STUDIES as FIGURES
from studies.planning import plan as planning
from studies.planning.devices import CPU, Device, choose_device, measured_devices, stated_devices
from studies.planning.plan import Job, Plan, budget_warnings, make_plan, schedule, summary, tables
from studies.planning.prospects import printed_value, prospects
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import PAPER, SMALL, SMOKE, SeedSpread
from studies.study import Study

Pretend = Callable[..., RunFolder]


def request(workspace: Workspace, *studies: Study, scale=SMOKE, seeds: int = 1) -> list[tuple[Study, list[PlannedRun]]]:
    return [(study, plan_runs(study, scale, seeds, workspace)) for study in studies]


def planned(workspace: Workspace, *studies: Study, scale=SMOKE, seeds: int = 1, **options) -> Plan:
    return make_plan(request(workspace, *studies, scale=scale, seeds=seeds), scale, seeds, workspace, **options)


# The schedule ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "capacity", "by_hand"),
    [
        ([], 1, 0.0),
        ([(5, 1)], 1, 5.0),
        ([(5, 1), (3, 1)], 1, 8.0),
        ([(5, 1), (3, 1), (2, 1)], 2, 5.0),  # 5 beside 3 + 2
        ([(5, 8), (3, 8)], 8, 8.0),
        ([(5, 8), (3, 8)], 16, 5.0),
        ([(5, 8), (3, 8)], 15, 8.0),  # seven devices idle, which is too few
        ([(4, 2), (9, 4), (3, 2)], 4, 13.0),  # the job of 2 passes the waiting one of 4: done at 3, then 4 to 13
        ([(2, 1), (2, 2), (3, 1)], 2, 5.0),  # and may keep it waiting: 0 to 3, then 3 to 5
    ],
)
def test_schedule_by_hand(jobs: list[tuple[float, int]], capacity: int, by_hand: float) -> None:
    assert schedule([Job(*job) for job in jobs], capacity) == by_hand


def test_b55_a_job_that_never_fits_is_refused() -> None:
    """B55: 8 GPUs where there are 4 would wait for ever."""
    with pytest.raises(ValueError, match="asks for 8 devices and there are 4; it would wait forever"):
        schedule([Job(1.0, 8)], 4)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 4)), min_size=1, max_size=20), st.integers(4, 12))
def test_schedule_lies_between_perfect_use_and_one_after_the_other(jobs: list, capacity: int) -> None:
    span = schedule([Job(float(seconds), devices) for seconds, devices in jobs], capacity)
    assert span >= max(seconds for seconds, _ in jobs)
    assert span * capacity >= sum(seconds * devices for seconds, devices in jobs)
    assert span <= sum(seconds for seconds, _ in jobs)


# Operations and devices -----------------------------------------------------------------------------------------------


def test_operations_count_attentions_own_products() -> None:
    """40 x (64 + 64) x 8 multiply-adds in each of base's 6 layers for a source piece, twice that for a target piece."""
    train = TrainConfig(train_steps=1, source_tokens=1, target_tokens=1)
    attention = training_flops(paper_base(), train, 40.0) - training_flops(paper_base(), train)
    assert attention == 6 * 3 * 6 * 40 * 8 * (64 + 64)


def test_papers_own_gpus_take_the_papers_own_time_for_the_base_model() -> None:
    p100 = next(device for device in stated_devices() if device.type == "P100")
    base = training_flops(PAPER.base.model, PAPER.base.train, PAPER.sentence_pieces)
    assert base / (8 * p100.flops) / 3600 == pytest.approx(12.0)
    # By the same rate the big one takes half again as long as it did: its products are larger, and so faster.
    big = training_flops(paper_big(), TrainConfig(train_steps=300_000), PAPER.sentence_pieces)
    assert big / (8 * p100.flops) / 3600 == pytest.approx(122, abs=2)


def test_stated_rates_say_where_they_come_from() -> None:
    for device in stated_devices():
        assert device.basis
        assert device.flops > 0
        assert not device.measured
    types = {device.type for device in stated_devices()}
    assert types == {"K80", "K40", "M40", "P100", "V100", "A100", "H100", "H200", CPU}


def test_finished_runs_give_the_machines_rate(workspace: Workspace, pretend: Pretend) -> None:
    """Runs that are pretended take 1 second of training, and their whole is as long."""
    runs = plan_runs(table3.STUDY, SMOKE, 1, workspace, ("base", "N2"))
    for run in runs:
        pretend(run, {"dev_ppl": 9.0})
    finished = [(run.record, run.folder.result(), run.folder.machine()) for run in runs]
    (device,) = measured_devices(finished, SMOKE)
    rates = [training_flops(run.config.model, run.config.train, SMOKE.sentence_pieces) for run in runs]
    assert device.flops == pytest.approx(sum(rates) / 2)  # the median of two
    assert (device.type, device.measured, device.overhead) == (CPU, True, 1.0)
    assert "2 finished runs at smoke" in device.basis
    assert measured_devices(finished, SMALL) == []


@pytest.mark.parametrize("config", [{"vocab": 5}, {"work": {"kind": "Weighing"}}])
def test_runs_of_another_version_give_no_rate_and_stop_no_plan(
    workspace: Workspace, pretend: Pretend, config: dict[str, object]
) -> None:
    (run,) = plan_runs(table3.STUDY, SMOKE, 1, workspace, ("base",))
    result = pretend(run).result()
    assert measured_devices([(replace(run.record, config=config), result, {})], SMOKE) == []


def test_the_rate_is_of_one_device_however_many_ranks_a_run_had(workspace: Workspace, pretend: Pretend) -> None:
    (run,) = plan_runs(table3.STUDY, SMOKE, 1, workspace, ("base",))
    pretend(run, {"dev_ppl": 9.0})
    (alone,), (on_cores,), (on_gpus,) = (
        measured_devices([(run.record, run.folder.result(), machine)], SMOKE)
        for machine in ({"ranks": 1, "gpus": []}, {"ranks": 4, "gpus": []}, {"ranks": 2, "gpus": ["H100", "H100"]})
    )
    assert (on_cores.type, alone.flops / on_cores.flops) == (CPU, pytest.approx(4))
    assert (on_gpus.type, alone.flops / on_gpus.flops) == ("H100", pytest.approx(2))


A100_FLOAT = Device("A100", "float32", 1.0, "stated")
A100_BF16 = Device("A100", "bfloat16", 8.0, "stated")
V100 = Device("V100", "float32", 1.0, "stated")
CORE = Device(CPU, "float32", 0.1, "stated")
DEVICES = (V100, A100_FLOAT, A100_BF16, CORE)


def test_device_is_chosen_by_type_and_precision_and_a_measured_one_comes_first() -> None:
    assert choose_device(DEVICES, "a100", "bfloat16", wants_gpu=True) is A100_BF16
    assert choose_device(DEVICES, None, "float32", wants_gpu=True) is A100_FLOAT
    assert choose_device(DEVICES, None, "float32", wants_gpu=False) is CORE
    measured = replace(V100, measured=True)
    assert choose_device((*DEVICES, measured), "V100", "float32", wants_gpu=True) is measured
    assert choose_device((*DEVICES, measured), None, "float32", wants_gpu=True) is measured


def test_unknown_device_and_precision_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no GPU type 'A10'; close: .*A100"):
        choose_device(DEVICES, "A10", "float32", wants_gpu=True)
    with pytest.raises(ValueError, match="V100 does not train in bfloat16; types that do: A100"):
        choose_device(DEVICES, "V100", "bfloat16", wants_gpu=True)


# The plan -------------------------------------------------------------------------------------------------------------


def test_plan_adds_up(workspace: Workspace) -> None:
    plan = planned(workspace, table2.STUDY, table3.STUDY, scale=PAPER, seeds=3, num_devices=64, price=2.0)
    assert [line.study for line in plan.lines] == ["table2", "table3"]
    for field in ("runs", "to_run", "blocked", "updates", "disk_bytes"):
        assert getattr(plan.total, field) == sum(getattr(line, field) for line in plan.lines), field
    for field in ("flops", "device_hours", "money"):
        assert getattr(plan.total, field) == pytest.approx(sum(getattr(line, field) for line in plan.lines)), field
    assert (plan.total.runs, plan.total.to_run, plan.total.blocked) == (72, 0, 72)
    assert plan.total.updates == 3 * (2 * 400_000 + 19 * 100_000 + 300_000)
    assert plan.total.money == pytest.approx(2.0 * plan.total.device_hours)
    assert plan.total.device_hours == pytest.approx(plan.total.flops / plan.device.flops / 3600)
    # 64 GPUs are 8 trials at once; nothing is faster than all of them always busy.
    assert plan.wall_hours >= plan.total.device_hours / 64
    assert plan.wall_hours < 1.3 * plan.total.device_hours / 64


def test_one_run_on_eight_gpus_takes_an_eighth_of_its_device_hours(workspace: Workspace) -> None:
    runs = plan_runs(table3.STUDY, PAPER, 1, workspace, ("base",))
    plan = make_plan([(table3.STUDY, runs)], PAPER, 1, workspace, device_type="P100")
    assert (plan.devices, plan.devices_per_trial) == (8, 8)
    assert plan.total.device_hours == pytest.approx(96.0)
    assert plan.wall_hours == pytest.approx(12.0)


def test_disk_is_weights_that_stay_and_checkpoints_of_what_runs(workspace: Workspace) -> None:
    """Weights are 4 bytes a number, a checkpoint has two moments of each beside them; four may lie there at once."""
    assert NEWEST_KEPT + 1 == planning.KEPT_CHECKPOINTS
    runs = plan_runs(table2.STUDY, PAPER, 1, workspace, ("base.ende", "big.ende"))
    plan = make_plan([(table2.STUDY, runs)], PAPER, 1, workspace, num_devices=8)
    base, big = (num_parameters(run.config.model) for run in runs)
    assert plan.total.disk_bytes == 4 * (base + big)
    assert plan.peak_disk_bytes == 4 * (base + big) + big * (4 * 12 + 20 * 4)
    both = make_plan([(table2.STUDY, runs)], PAPER, 1, workspace, num_devices=16)
    assert both.peak_disk_bytes == plan.peak_disk_bytes + base * (4 * 12 + 5 * 4)


def test_what_is_done_costs_nothing_and_is_measured_by(workspace: Workspace, pretend: Pretend) -> None:
    before = planned(workspace, table3.STUDY)
    pretend(plan_runs(table3.STUDY, SMOKE, 1, workspace, ("base",))[0], {"dev_ppl": 9.0})
    after = planned(workspace, table3.STUDY)
    assert (before.total.done, after.total.done) == (0, 1)
    assert (before.total.to_run, after.total.to_run) == (20, 19)
    assert not before.device.measured
    assert after.device.measured
    assert after.alternatives[0].basis.startswith("measured")


def test_runs_that_other_code_made_are_counted_and_made_again(
    workspace: Workspace, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B62."""
    pretend(plan_runs(table3.STUDY, SMOKE, 1, workspace, ("base",))[0], {"dev_ppl": 9.0})
    monkeypatch.setattr("studies.runs.code_version", lambda: "0123456789ab")
    plan = planned(workspace, table3.STUDY)
    assert (plan.total.done, plan.total.to_run, plan.total.other_code) == (0, 20, 1)


def test_damaged_run_folder_does_not_stop_a_plan(workspace: Workspace, pretend: Pretend) -> None:
    folder = pretend(plan_runs(table3.STUDY, SMOKE, 1, workspace, ("base",))[0], {"dev_ppl": 9.0})
    folder.result_file.write_text("{")
    plan = planned(workspace, table3.STUDY)
    assert (plan.total.done, plan.total.to_run) == (0, 19)
    (note,) = (note for note in plan.notes if note.startswith("damaged"))
    assert note.startswith(f"damaged, so not to run: 1 runs, such as {folder.path.name}: result.json cannot be read")


def test_what_run_would_not_start_is_not_to_run(workspace: Workspace, pretend: Pretend) -> None:
    base, h1 = plan_runs(table3.STUDY, SMOKE, 1, workspace, ("base", "h1"))
    pretend(base, failure=("loss nan", "diverged"))
    pretend(h1, failure=("no memory", "failed"))
    assert planned(workspace, table3.STUDY).total.to_run == 19


def test_a_run_that_is_running_is_told_and_not_to_run(workspace: Workspace) -> None:
    run = plan_runs(table3.STUDY, SMOKE, 1, workspace, ("base",))[0]
    RunFolder.create(workspace.runs, run.record)
    run.folder.claim_attempt()
    plan = planned(workspace, table3.STUDY)
    assert (plan.total.done, plan.total.to_run) == (0, 19)
    assert "running now, so not to run again: 1 runs" in plan.notes


@pytest.mark.parametrize("here", [True, False])
def test_what_attention_will_be_measured_on_is_told(
    here: bool, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIAYN_DATA", str(tmp_path))
    if here:
        (tmp_path / "treebank-sample").mkdir()
        (tmp_path / "treebank-sample" / "treebank.zip").write_bytes(b"its place is enough to plan")
    told = [note for note in planned(workspace, *FIGURES, scale=SMALL).notes if "attention is measured" in note]
    assert told == [
        "figure3 and figure5: attention is measured on sentences of treebank-sample"
        if here
        else "figure3 and figure5: attention is measured on generated sentences, since treebank-sample is not here "
        "(aiayn data list)"
    ]
    assert not any("attention is measured" in note for note in planned(workspace, *FIGURES, scale=SMOKE).notes)


def test_fewer_gpus_than_a_trial_asks_for_are_planned_for_and_told(workspace: Workspace) -> None:
    """B55 the other way round: the plan says what aiayn run would refuse."""
    plan = planned(workspace, table2.STUDY, scale=PAPER, num_devices=4)
    assert plan.devices_per_trial == 4
    assert any("asks for 8 GPUs and there are 4: planned for --gpus-per-trial 4" in note for note in plan.notes)
    assert not any("asks for" in note for note in planned(workspace, table2.STUDY, scale=PAPER).notes)


def test_b17_one_gpu_with_4096_tokens_is_another_budget(workspace: Workspace) -> None:
    """B17: no accumulation, 4,096 tokens an update, for a claim of Table 2."""
    train = replace(PAPER.base.train, source_tokens=4_096, target_tokens=4_096)
    small_batches = replace(PAPER, base=replace(PAPER.base, train=train), gpus_per_trial=1)
    asked = request(workspace, table2.STUDY, scale=small_batches)
    warnings = list(budget_warnings(asked, small_batches))
    assert len(warnings) == 4
    assert warnings[0].startswith("other budget: table2/base.ende would train 100,000 updates of about 4,096 + 4,096")
    assert "100,000 of 25,000 + 25,000" in warnings[0]
    assert "not comparable, such as table2.base.ende.bleu" in warnings[0]
    assert set(warnings) <= set(make_plan(asked, small_batches, 1, workspace).notes)
    assert list(budget_warnings(request(workspace, table2.STUDY, table3.STUDY, scale=PAPER), PAPER)) == []
    assert list(budget_warnings(request(workspace, table2.STUDY), SMOKE)) == []


def test_studies_without_runs_are_named(workspace: Workspace) -> None:
    plan = planned(workspace, section5.STUDY, table3.STUDY)
    assert [line.study for line in plan.lines] == ["table3"]
    assert any(note.startswith("no runs of section5: ") for note in plan.notes)


def test_blocked_runs_have_a_price_and_say_what_is_missing(workspace: Workspace) -> None:
    plan = planned(workspace, table3.STUDY, scale=PAPER)
    assert (plan.total.blocked, plan.total.to_run) == (20, 0)
    assert plan.total.device_hours > 0
    assert any(note.startswith("blocked: 20 runs, ") and "wmt14" in note for note in plan.notes)


@pytest.mark.parametrize(("options", "complaint"), [({"num_devices": 0}, "0 GPUs"), ({"price": -1.0}, "below 0")])
def test_impossible_wishes_are_refused(options: dict, complaint: str, workspace: Workspace) -> None:
    with pytest.raises(ValueError, match=complaint):
        planned(workspace, table3.STUDY, **options)


def test_tables_have_as_many_cells_as_heads(workspace: Workspace) -> None:
    for price in (None, 2.0):
        plan = planned(workspace, table2.STUDY, table3.STUDY, scale=PAPER, seeds=3, price=price)
        for table in tables(plan):
            assert all(len(row) == len(table.heads) for row in table.rows)
        assert ("money" in summary(plan)) == (price is not None)


# What seeds could settle ----------------------------------------------------------------------------------------------


def test_printed_values_are_differences_of_printed_cells() -> None:
    by_id = {claim.id: claim for study in (table2.STUDY, table3.STUDY) for claim in study.claims}
    assert printed_value(table3.STUDY, by_id["table3.a.base_over_h1.bleu"]) == pytest.approx(25.8 - 24.9)
    assert printed_value(table3.STUDY, by_id["table3.d.ls0.0_over_base.ppl"]) == pytest.approx(4.67 - 4.92)
    assert printed_value(table3.STUDY, by_id["table3.base.bleu"]) == 25.8
    assert printed_value(table2.STUDY, by_id["table2.big_over_single.enfr"]) == 41.8


def test_more_seeds_settle_more() -> None:
    def settled(seeds: int) -> float:
        return sum(prospect.expected or 0.0 for prospect in prospects(table3.STUDY, PAPER, seeds))

    one, three, ten, hundred = map(settled, (1, 3, 10, 100))
    assert one < 1
    assert one <= three < ten < hundred


def test_a_hundred_seeds_with_no_spread_settle_every_order_that_the_table_prints() -> None:
    quiet = replace(PAPER, seed_spread=dict.fromkeys(PAPER.seed_spread, SeedSpread(0.01, 100, "made up")))
    (orders,) = [p for p in prospects(table3.STUDY, quiet, 100) if (p.kind, p.metric) == ("order", "dev_bleu_paper")]
    assert orders.likely == orders.claims == 13
    assert orders.expected == pytest.approx(13)


def test_least_difference_is_near_what_students_t_needs() -> None:
    """One order alone, 10 seeds, spread 1 with 9 degrees: power 0.8 at 2.5% needs about 2.262 + 0.883 errors."""
    order = next(claim for claim in table3.STUDY.claims if claim.id == "table3.a.base_over_h1.bleu")
    alone = replace(table3.STUDY, claims=(order,))
    scale = replace(PAPER, seed_spread={order.metric: SeedSpread(1 / math.sqrt(2), 10, "made up")})
    (prospect,) = prospects(alone, scale, 10)
    # The observed spread may be the larger one, never the smaller: a little more than the textbook's.
    assert prospect.smallest_difference == pytest.approx((2.262 + 0.883) / math.sqrt(10), rel=0.2)


def test_nothing_is_expected_where_the_spread_or_the_effect_is_unknown() -> None:
    by_kind = {(p.kind, p.metric): p for p in prospects(table3.STUDY, SMOKE, 3)}
    assert "not comparable at scale smoke" in by_kind["value", "dev_ppl"].obstacle
    order = by_kind["order", "dev_ppl"]
    assert (order.likely, order.expected) == (None, None)
    assert order.smallest_difference > 0
    unknown = {(p.kind, p.metric): p for p in prospects(table3.STUDY, SMALL, 1)}["order", "dev_ppl"]
    assert "run at least 2 seeds" in unknown.obstacle


def test_computed_quoted_and_awaited_claims_are_no_prospects() -> None:
    assert prospects(section5.STUDY, PAPER, 3) == []
    assert sum(prospect.claims for prospect in prospects(table2.STUDY, PAPER, 3)) == 14
