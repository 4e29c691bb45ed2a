"""What a request would take before anything starts: runs, operations, hours, wall time, disk, money; and what it could
decide.

Everything follows from configurations, run folders and stated rates (`studies.planning.devices`), without torch or Ray.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from core.complexity import num_parameters, training_flops
from results.errors import ResultsError
from results.records import RunRecord, RunResult
from studies.claim import Budget
from studies.measurements import same_budget
from studies.planning.devices import CPU, Device, choose_device, measured_devices, stated_devices
from studies.planning.prospects import LIKELY, Prospect, prospects
from studies.runs import PlannedRun, Workspace
from studies.scales import Scale
from studies.scheduling.survey import finished_runs
from studies.study import Study
from studies.work import AttentionProbe

# As core.checkpoint keeps them: the newest two and the best. One more is being written.
KEPT_CHECKPOINTS = 3
BYTES_PER_PARAMETER = 4
# Adam keeps two moments of each parameter beside it.
CHECKPOINT_BYTES_PER_PARAMETER = 3 * BYTES_PER_PARAMETER


@dataclass(frozen=True)
class Job:
    """A run to be scheduled: how long it takes on how many devices at once."""

    seconds: float
    devices: int


@dataclass(frozen=True)
class Line:
    """What one study of the plan takes, or all of them (`total`).

    `runs` are asked for: `done` of them are there and skipped, `blocked` lack something, `to_run` would be started. The
    rest of the line is the price of both of these, since whoever asks for it has not yet got what is lacking.
    `other_code` of them exist as made by other code. `device_hours` are of one device, `disk_bytes` what is kept at the
    end.
    """

    study: str
    trials: int
    runs: int
    done: int
    blocked: int
    other_code: int
    to_run: int
    updates: int
    flops: float
    device_hours: float
    disk_bytes: int
    money: float | None


@dataclass(frozen=True)
class Alternative:
    """The same runs on other devices, as many of them."""

    type: str
    precision: str
    tflops: float
    basis: str
    device_hours: float
    wall_hours: float


@dataclass(frozen=True)
class Plan:
    """A request's whole price. `peak_disk_bytes` is while runs go on, with their checkpoints."""

    scale: str
    seeds: int
    device: Device
    devices: int
    devices_per_trial: int
    price: float | None
    lines: tuple[Line, ...]
    total: Line
    wall_hours: float
    peak_disk_bytes: int
    alternatives: tuple[Alternative, ...]
    prospects: tuple[Prospect, ...]
    notes: tuple[str, ...]


def schedule(jobs: Sequence[Job], capacity: int) -> float:
    """Seconds until all jobs have ended that start in this order, each as soon as its devices are free.

    A job that does not fit yet lets later, smaller ones pass, as Ray does.

    Raises:
        ValueError: a job needs more devices than there are, and would wait forever.
    """
    for job in jobs:
        if job.devices > capacity:
            raise ValueError(f"a trial asks for {job.devices} devices and there are {capacity}; it would wait forever")
    # By size, each in order: of one size only the first can be next, so that thousands of jobs take no time.
    waiting: dict[int, deque[tuple[int, float]]] = {}
    for place, job in enumerate(jobs):
        waiting.setdefault(job.devices, deque()).append((place, job.seconds))
    free, now = capacity, 0.0
    running: list[tuple[float, int]] = []
    while waiting or running:
        while fitting := [devices for devices in waiting if devices <= free]:
            devices = min(fitting, key=lambda devices: waiting[devices][0])
            _, seconds = waiting[devices].popleft()
            if not waiting[devices]:
                del waiting[devices]
            free -= devices
            heapq.heappush(running, (now + seconds, devices))
        now, devices = heapq.heappop(running)
        free += devices
    return now


def make_plan(
    requested: Sequence[tuple[Study, Sequence[PlannedRun]]],
    scale: Scale,
    num_seeds: int,
    workspace: Workspace,
    num_devices: int | None = None,
    device_type: str | None = None,
    price: float | None = None,
) -> Plan:
    """The price of a request.

    Args:
        requested: each study with its planned runs (`studies.runs.plan_runs`).
        num_devices: GPUs, or processor cores at a scale that asks for none; None is one trial's GPUs, or all cores
            of this machine.
        device_type: one of `studies.planning.devices`; None chooses.
        price: of an hour of one device, in any currency.

    Raises:
        ValueError: fewer than one device, a price below 0, or no such device.
    """
    if num_devices is not None and num_devices < 1:
        raise ValueError(f"{num_devices} GPUs: at least 1 is needed; at a scale that needs none leave --gpus out")
    if price is not None and price < 0:
        raise ValueError(f"a price of {price:g} an hour is below 0")
    on_gpus = bool(scale.gpus_per_trial or num_devices or device_type)
    per_trial = (scale.gpus_per_trial or 1) if on_gpus else scale.cpus_per_trial
    capacity = num_devices or (per_trial if on_gpus else os.cpu_count() or 1)
    notes = list(_notes(requested, scale, capacity, per_trial))
    per_trial = min(per_trial, capacity)

    finished = list(_finished(workspace))
    measured = measured_devices(finished, scale)
    everything = [run for _, runs in requested for run in runs]
    to_pay = _to_pay(everything)
    device = choose_device([*measured, *stated_devices()], device_type, "float32", on_gpus)
    made = {(record.study, record.trial, record.seed, record.scale) for record, *_ in finished}
    return Plan(
        scale=scale.name,
        seeds=num_seeds,
        device=device,
        devices=capacity,
        devices_per_trial=per_trial,
        price=price,
        lines=tuple(_line(study.name, runs, scale, device, price, made) for study, runs in requested if runs),
        total=_line("total", everything, scale, device, price, made),
        wall_hours=_wall_hours(to_pay, scale, device, per_trial, capacity),
        peak_disk_bytes=peak_disk(to_pay, capacity // per_trial),
        alternatives=tuple(
            _alternative(other, to_pay, scale, per_trial, capacity)
            for other in (*measured, *stated_devices())
            if (other.type == CPU) != on_gpus
        ),
        prospects=tuple(
            prospect for study, runs in requested if runs for prospect in prospects(study, scale, num_seeds)
        ),
        notes=tuple(notes),
    )


def _finished(workspace: Workspace) -> Iterator[tuple[RunRecord, RunResult, Mapping[str, Any]]]:
    """The workspace's finished runs and what they ran on, whatever code made them; what cannot be read, `aiayn status`
    tells.
    """
    for folder in finished_runs(workspace):
        with suppress(ResultsError, OSError):
            yield folder.record(), folder.result(), folder.machine()


def _flops(run: PlannedRun, scale: Scale) -> float:
    if not run.trains:
        return 0.0  # seconds on a core, for any model here
    return training_flops(run.config.model, run.config.train, scale.sentence_pieces)


def _device_seconds(run: PlannedRun, scale: Scale, device: Device) -> float:
    """Seconds of a whole run on one device; on several it is taken to be as many times shorter."""
    return _flops(run, scale) / device.flops * device.overhead


def _to_pay(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    return [run for run in runs if run.is_to_start or run.status.status == "blocked"]


def _line(
    name: str,
    runs: Sequence[PlannedRun],
    scale: Scale,
    device: Device,
    price: float | None,
    made: Collection[tuple[str, str, int, str]],
) -> Line:
    to_pay = _to_pay(runs)
    blocked = sum(run.status.status == "blocked" for run in runs)
    hours = sum(_device_seconds(run, scale, device) for run in to_pay) / 3600
    return Line(
        study=name,
        trials=len({(run.record.study, run.record.trial) for run in runs}),
        runs=len(runs),
        done=sum(run.status.status == "done" for run in runs),
        blocked=blocked,
        other_code=sum(
            (run.record.study, run.record.trial, run.record.seed, run.record.scale) in made for run in to_pay
        ),
        to_run=len(to_pay) - blocked,
        updates=sum(run.config.train.train_steps for run in to_pay if run.trains),
        flops=sum(_flops(run, scale) for run in to_pay),
        device_hours=hours,
        disk_bytes=sum(BYTES_PER_PARAMETER * num_parameters(run.config.model) for run in to_pay if run.trains),
        money=None if price is None else hours * price,
    )


def _wall_hours(runs: Sequence[PlannedRun], scale: Scale, device: Device, per_trial: int, capacity: int) -> float:
    """Hours of the whole on these devices, the longest run first, as `aiayn run` starts them."""
    seconds = sorted((_device_seconds(run, scale, device) / per_trial for run in runs), reverse=True)
    return schedule([Job(each, per_trial) for each in seconds], capacity) / 3600


def peak_disk(runs: Sequence[PlannedRun], at_once: int) -> int:
    """Bytes at the worst moment: all weights that are kept, and checkpoints of the largest runs, `at_once` of them.

    A run holds its newest checkpoints and the one that is being written, and the weights that it will average.
    """
    working = []
    runs = [run for run in runs if run.trains]
    for run in runs:
        parameters, members = num_parameters(run.config.model), run.config.train.average_last
        averaged = members * BYTES_PER_PARAMETER if members > 1 else 0
        working.append(parameters * ((KEPT_CHECKPOINTS + 1) * CHECKPOINT_BYTES_PER_PARAMETER + averaged))
    weights = sum(BYTES_PER_PARAMETER * num_parameters(run.config.model) for run in runs)
    return weights + sum(sorted(working, reverse=True)[:at_once])


def _alternative(
    device: Device,
    runs: Sequence[PlannedRun],
    scale: Scale,
    per_trial: int,
    capacity: int,
) -> Alternative:
    hours = sum(_device_seconds(run, scale, device) for run in runs) / 3600
    return Alternative(
        type=device.type,
        precision=device.precision,
        tflops=device.flops / 1e12,
        basis=device.basis,
        device_hours=hours,
        wall_hours=_wall_hours(runs, scale, device, per_trial, capacity),
    )


# What a person must know beside the numbers ---------------------------------------------------------------------------


def _notes(
    requested: Sequence[tuple[Study, Sequence[PlannedRun]]], scale: Scale, capacity: int, per_trial: int
) -> Iterator[str]:
    if per_trial > capacity:
        yield (
            f"a trial asks for {per_trial} GPUs and there are {capacity}: planned for --gpus-per-trial {capacity}, "
            "which fills the same batch by accumulation; without it aiayn run refuses"
        )
    blocked = Counter(run.status.reason for _, runs in requested for run in runs if run.status.status == "blocked")
    for reason, number in blocked.items():
        yield f"blocked: {number} runs, {reason}; their price is in the plan"
    damaged = [run for _, runs in requested for run in runs if run.status.damaged]
    if damaged:
        first = damaged[0]
        yield f"damaged, so not to run: {len(damaged)} runs, such as {first.record.run}: {first.status.reason}"
    alive = sum(run.status.status == "running" for _, runs in requested for run in runs)
    if alive:
        yield f"running now, so not to run again: {alive} runs"
    yield from _sentences_looked_at(requested, scale)
    idle = [study.name for study, _ in requested if not study.trials]
    if idle:
        yield f"no runs of {', '.join(idle)}: their claims are computed, quoted, or await trials of a later version"
    yield from budget_warnings(requested, scale)
    yield (
        f"operations are those of the matrix products, attention's own for sentences of "
        f"{scale.sentence_pieces:g} pieces; GPUs of one trial are taken to share it without loss"
    )


def _sentences_looked_at(requested: Sequence[tuple[Study, Sequence[PlannedRun]]], scale: Scale) -> Iterator[str]:
    """On what attention will be measured, where a treebank could be it."""
    banks: dict[str | None, list[str]] = {}
    for study, runs in requested:
        for run in runs:
            if isinstance(run.work, AttentionProbe) and not run.work.needs_antecedents and scale.treebanks:
                banks.setdefault(run.work.treebank, []).append(study.name)
    for bank, studies in banks.items():
        names = " and ".join(dict.fromkeys(studies))
        if bank is not None:
            yield f"{names}: attention is measured on sentences of {bank}"
        else:
            wanted = " or ".join(scale.treebanks)
            yield f"{names}: attention is measured on generated sentences, since {wanted} is not here (aiayn data list)"


def budget_warnings(requested: Sequence[tuple[Study, Sequence[PlannedRun]]], scale: Scale) -> Iterator[str]:
    """Runs whose batches or updates are not those that the claims at this scale are about, a line for each trial."""
    for study, runs in requested:
        configs = {run.record.trial: run.config.train for run in runs}
        wrong: dict[str, list[tuple[Budget, str]]] = {}
        for claim in study.claims:
            if claim.identity is None or claim.identity.scale != scale.name:
                continue
            for trial, budget in zip(claim.trials, claim.identity.budgets, strict=True):
                train = configs.get(trial)
                if train and not same_budget(
                    Budget(train.source_tokens, train.target_tokens, train.train_steps), budget
                ):
                    wrong.setdefault(trial, []).append((budget, claim.id))
        for trial, claims in wrong.items():
            train, budget = configs[trial], claims[0][0]
            yield (
                f"other budget: {study.name}/{trial} would train {train.train_steps:,} updates of about "
                f"{train.source_tokens:,} + {train.target_tokens:,} pieces, the paper's numbers are of "
                f"{budget.train_steps:,} of {budget.source_tokens:,} + {budget.target_tokens:,}: "
                f"{len(claims)} claims are not comparable, such as {claims[0][1]}"
            )


# As tables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """A part of the plan for people: a title, column heads, rows of text and numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def tables(plan: Plan) -> list[Table]:
    """The plan as a person reads it: what it takes by study, then on other devices."""
    device = plan.device
    seeds = f"{plan.seeds} seed{'s' if plan.seeds != 1 else ''} a trial"
    price = "" if plan.price is None else f", {plan.price:g} an hour"
    by_study = Table(
        f"{plan.scale} scale, {seeds}, on {plan.devices} x {device.type}{price}: {device.precision}, "
        f"{device.flops / 1e12:.3g} TFLOPS each ({device.basis})",
        (
            "study",
            "trials",
            "runs",
            "done",
            "blocked",
            "by other code",
            "to run",
            "updates",
            "FLOPs",
            "device-hours",
            "disk kept",
            *(["money"] if plan.price is not None else []),
        ),
        tuple(
            (
                line.study,
                line.trials,
                line.runs,
                line.done,
                line.blocked,
                line.other_code,
                line.to_run,
                line.updates,
                line.flops,
                _amount(line.device_hours),
                _bytes(line.disk_bytes),
                *([_amount(line.money)] if line.money is not None else []),
            )
            for line in (*plan.lines, plan.total)
        ),
    )
    elsewhere = Table(
        f"the same on {plan.devices} of another kind",
        ("device", "precision", "TFLOPS each", "device-hours", "until all are done", "the rate"),
        tuple(
            (
                other.type,
                other.precision,
                f"{other.tflops:.3g}",
                _amount(other.device_hours),
                _duration(other.wall_hours),
                other.basis,
            )
            for other in plan.alternatives
        ),
    )
    decidable = Table(
        f"what {seeds} could settle, by made-up runs around the printed numbers with the known spread between seeds",
        (
            "study",
            "kind",
            "score",
            "claims",
            "settled on average",
            f"settled in {LIKELY:.0%}",
            "least difference seen",
            "",
        ),
        tuple(
            (
                prospect.study,
                prospect.kind,
                prospect.metric,
                prospect.claims,
                None if prospect.expected is None else f"{prospect.expected:.1f}",
                prospect.likely,
                None if prospect.smallest_difference is None else f"{prospect.smallest_difference:.2g}",
                prospect.obstacle,
            )
            for prospect in plan.prospects
        ),
    )
    return [by_study, elsewhere, decidable]


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bytes(value: float) -> str:
    return f"{value / 1e9:,.1f} GB" if value >= 1e9 else f"{value / 1e6:,.1f} MB"


def _duration(hours: float) -> str:
    return f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h" if hours >= 2 else f"{hours * 60:.1f} min"


def run_table(requested: Sequence[tuple[Study, Sequence[PlannedRun]]], scale: Scale) -> Table:
    """Every run that was asked for, with its state and its size."""
    return Table(
        "runs",
        ("study", "trial", "seed", "run", "status", "steps", "params", "flops"),
        tuple(
            (
                run.record.study, run.record.trial, run.record.seed, run.record.run, run.status.status,
                run.config.train.train_steps if run.trains else 0, _parameters(run), _flops(run, scale),
            )
            for _, runs in requested
            for run in runs
        ),
    )  # fmt: skip


def _parameters(run: PlannedRun) -> int:
    return num_parameters(run.config.model) if run.work.is_of_model else 0


def summary(plan: Plan) -> str:
    """The plan in a sentence."""
    total = plan.total
    money = "" if total.money is None else f", {total.money:,.0f} of money at {plan.price:g} an hour"
    blocked = f", and {total.blocked} that are blocked," if total.blocked else ""
    return (
        f"{total.runs} runs, {total.done} done and skipped; to run: {total.to_run}{blocked} with {total.updates:,} "
        "updates and "
        f"{total.flops:.2e} FLOPs: {_amount(total.device_hours)} device-hours, {_duration(plan.wall_hours)} on "
        f"{plan.devices} ({plan.devices_per_trial} a trial), at most {_bytes(plan.peak_disk_bytes)} of disk{money}"
    )
