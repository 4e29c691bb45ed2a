"""How fast a device trains: what it is taken to sustain, where that figure comes from, and what runs here reached.

A plan's hours are its counted operations over such a rate. A stated rate is good to within a factor of two; a run that
has finished on the machine is better, and is used where there is one.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.complexity import training_flops
from core.config import RunConfig
from results.records import RunRecord, RunResult
from studies.scales import PAPER, Scale
from studies.study import no_such
from studies.table2 import NUM_GPUS, SUSTAINED_FLOPS
from studies.work import Training, work_of

CPU = "CPU"


@dataclass(frozen=True)
class Device:
    """One GPU, or one processor core, in one precision.

    Attributes:
        flops: operations a second that it sustains in a training.
        basis: where the figure comes from.
        overhead: time of a whole run, decoding and scoring too, over the time of its training.
        measured: whether runs of this workspace reached it.
    """

    type: str
    precision: str
    flops: float
    basis: str
    overhead: float = 1.0
    measured: bool = False


def _paper_share() -> float:
    """What share of footnote 5's rates the paper's own base training reached: its counted operations in 12 hours."""
    counted = training_flops(PAPER.base.model, PAPER.base.train, PAPER.sentence_pieces)
    return counted / (12 * 3600 * NUM_GPUS * SUSTAINED_FLOPS["P100"])


# Public peaks of dense products in TFLOPS, by precision (NVIDIA's data sheets; SXM modules). The V100 has no bfloat16.
_PEAK_TFLOPS = {
    "V100": {"float32": 15.7},
    "A100": {"float32": 19.5, "bfloat16": 312},
    "H100": {"float32": 67, "bfloat16": 989},
    "H200": {"float32": 67, "bfloat16": 989},
}
# What a training of these sizes is taken to reach of a peak: an assumption, until a run has been measured. Short
# sentences and a model of 65 to 213 million parameters keep the fast units waiting.
_REACHED = {"float32": 0.5, "bfloat16": 0.25}


def stated_devices() -> tuple[Device, ...]:
    """Devices by what is known of them without a run: the paper's own GPUs, newer ones, and a processor core."""
    share = _paper_share()
    earlier = (
        Device(name, "float32", rate * share, f"footnote 5's {rate / 1e12:g} TFLOPS x {share:.2f}, as the paper's base")
        for name, rate in SUSTAINED_FLOPS.items()
    )
    newer = (
        Device(
            name,
            precision,
            peak * 1e12 * _REACHED[precision],
            f"peak {peak:g} TFLOPS x {_REACHED[precision]:g} (assumed)",
        )
        for name, peaks in _PEAK_TFLOPS.items()
        for precision, peak in peaks.items()
    )
    core = Device(CPU, "float32", 2e10, "one core of an AMD EPYC, as table3/base at smoke reached it", overhead=1.2)
    return (*earlier, *newer, core)


def measured_devices(finished: Iterable[tuple[RunRecord, RunResult, Mapping[str, Any]]], scale: Scale) -> list[Device]:
    """What the finished runs of a scale reached, by the device that they ran on (`RunFolder.machine`): the median."""
    rates, overheads = defaultdict(list), defaultdict(list)
    for record, result, machine in finished:
        try:
            if record.scale != scale.name or result.seconds <= 0 or work_of(record.config) != Training():
                continue
            config = RunConfig.from_dict(record.config)
        except ValueError:  # of another version of this code, which knew other settings
            continue
        flops = training_flops(config.model, config.train, scale.sentence_pieces)
        name, number = _device_of(machine, scale)
        rates[name].append(flops / result.seconds / number)
        training = result.phases.get("train", 0.0)
        if training > 0:
            overheads[name].append(sum(result.phases.values()) / training)
    return [
        Device(
            name,
            "float32",
            statistics.median(values),
            f"measured: {len(values)} finished run{'s' if len(values) > 1 else ''} at {scale.name}",
            overhead=statistics.median(overheads[name] or [1.0]),
            measured=True,
        )
        for name, values in rates.items()
    ]


def _device_of(machine: Mapping[str, Any], scale: Scale) -> tuple[str, int]:
    """The device that a run was made on, and how many of them: a rank without a GPU has the scale's cores."""
    gpus = machine.get("gpus") or []
    if gpus:
        return str(gpus[0]), len(gpus)
    return CPU, scale.cpus_per_trial * int(machine.get("ranks", 1))


def choose_device(devices: Sequence[Device], type_: str | None, precision: str, wants_gpu: bool) -> Device:
    """The device that a plan's hours are counted on: a measured one before a stated one of the same type.

    Without a type: what has been measured, else an A100, or a core where the scale asks for no GPU.

    Raises:
        ValueError: no such type; or the type has not this precision.
    """
    types = list(dict.fromkeys(device.type for device in devices))
    if type_ is None:
        measured = [device for device in devices if device.measured and (device.type != CPU) == wants_gpu]
        type_ = measured[0].type if measured else "A100" if wants_gpu else CPU
    of_type = [device for device in devices if device.type.lower() == type_.lower()]
    if not of_type:
        raise no_such("GPU type", type_, types, ", ".join(types))
    fitting = [device for device in of_type if device.precision == precision]
    if not fitting:
        raise ValueError(
            f"{of_type[0].type} does not train in {precision}; types that do: "
            + ", ".join(dict.fromkeys(device.type for device in devices if device.precision == precision))
        )
    return max(fitting, key=lambda device: device.measured)
