"""The figures of Table 1 and section 3: growth with its fitted slope, paths, crossovers, and what section 3 says.

What a layer or a part does at work has sizes of its own and is the same run at every scale, so it is read from the
paper's; only trainings on small tasks belong to the page's scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import FixedLocator, NullLocator

from reports import data
from reports.data import Row
from reports.drawing import DASHES, INK, MUTED, PAPER, SERIES, Panel, drawing, log_ticks, panel
from reports.pages import Fragment, number, render

FULL_SIZE = "paper"
LAYERS = {
    "self_attention": "self-attention",
    "recurrent": "recurrent",
    "convolutional": "convolutional",
    "self_attention_restricted": "restricted",
    "contiguous": "contiguous",
}
_COLORS = dict(zip(LAYERS, SERIES, strict=False))
_MARKERS = dict(zip(LAYERS, "osD^v", strict=True))
_PANEL_WIDTH = "min(23rem, 100%)"


def _scores(database: Path | str, study: str, scale: str, name: str) -> list[Row]:
    """One score of every trial that has it, of the lowest seed."""
    found: dict[str, Row] = {}
    for row in data.study_scores(database, study, scale):
        if row["name"] == name and row["value"] is not None:
            found.setdefault(row["trial"], row)
    return list(found.values())


def _empty(study: str) -> Fragment:
    return Fragment(
        f'<p class="empty">Not measured yet: <code>aiayn run {study}</code> does it in a minute or two.</p>'
    )


def _figure(panels: Sequence[Panel], caption: str, study: str) -> Fragment:
    if not panels:
        return _empty(study)
    return render("figure.html", panels=panels, panel_width=_PANEL_WIDTH, caption=caption)


def _logarithmic(axes: Axes, sizes: Sequence[float], name: str) -> None:
    """Both axes logarithmic, with these sizes named on the horizontal one."""
    axes.set_yscale("log")
    _over_sizes(axes, sizes, name)


def _over_sizes(axes: Axes, sizes: Sequence[float], name: str) -> None:
    """A logarithmic horizontal axis with these sizes named."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda size, _: f"{size:g}")
    axes.set_xlabel(name)


# Table 1 --------------------------------------------------------------------------------------------------------------


def growth(database: Path | str) -> Fragment:
    """Operations and seconds of each layer type over n, d, and k or r, with the fitted slopes."""
    panels = []
    for score, title, unit, scaled in (
        ("flops_exponent", "Operations", "operations (log scale)", 1.0),
        ("time_exponent", "Time on this machine", "milliseconds (log scale)", 1e3),
    ):
        rows = _scores(database, "table1", FULL_SIZE, score)
        for sizes in ("n", "d", "kr"):
            chosen = [
                row for row in rows if row["details"].get("size") in sizes and row["trial"].partition(".")[0] in LAYERS
            ]
            if chosen:
                name = f"table1-{score.partition('_')[0]}-{sizes}"
                panels.append(_growth_panel(chosen, f"{title} over {' and '.join(sizes)}", unit, scaled, name))
    return _figure(
        panels,
        "Points: counted by torch, or the median of five rounds of processor time on one core. Lines and powers: the "
        "power law that fits them best, ± the error of the fit. Operations are at n = 256, d = 512, k = 3, r = 65 "
        "where these do not vary; time is at sizes of its own, so heights of layers there are not comparable.",
        "table1",
    )


def _growth_panel(rows: Sequence[Row], title: str, unit: str, scaled: float, name: str) -> Panel:
    words = []
    with drawing(4.4, 3.6) as (figure, axes):
        for row in rows:
            layer, details = row["trial"].partition(".")[0], row["details"]
            sizes, costs = np.array(details["sizes"], float), np.array(details["costs"]) * scaled
            error = details["fit"]["standard_error"]
            power = number(row["value"], 2) + (f" ± {number(error, 2)}" if error >= 0.005 else "")
            label = f"{LAYERS[layer]}, {details['size']}: {power}"
            middle = np.exp(np.log(sizes).mean()), np.exp(np.log(costs).mean())
            axes.plot(sizes, middle[1] * (sizes / middle[0]) ** row["value"], color=_COLORS[layer], linewidth=1.3)
            axes.plot(sizes, costs, _MARKERS[layer], color=_COLORS[layer], markersize=5, label=label)
            words.append(f"{LAYERS[layer]} grows as {details['size']} to the {power}")
        drawn = [size for row in rows for size in row["details"]["sizes"]]
        _logarithmic(axes, _powers_of_2(min(drawn), max(drawn)), "size (log scale)")
        if scaled != 1.0:
            log_ticks(axes.yaxis)
        axes.set_ylabel(unit)
        axes.set_title(title)
        axes.legend(loc="upper left", handletextpad=0.1, borderaxespad=0.1)
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** (0.12 * len(rows)))  # room for the legend
        return panel(figure, name, f"{title}: " + "; ".join(words))


def paths(database: Path | str) -> Fragment:
    """How many hops lie between any two of 27 positions, by layer type, and how the most of them grow with n."""
    rows = {row["trial"]: row for row in data.study_scores(database, "table1", FULL_SIZE) if ".path." in row["trial"]}
    panels = []
    for layer, label in LAYERS.items():
        row = rows.get(f"{layer}.path.n")
        if row is not None and "hops" in row["details"]:
            panels.append(_hops_panel(np.array(row["details"]["hops"]), label, f"table1-hops-{layer}"))
    grown = [row for trial, row in rows.items() if trial.endswith(".path.n") and "costs" in row["details"]]
    if grown:
        panels.append(_paths_panel(grown))
    return _figure(
        panels,
        "Squares: from each position (down) to each (across), the fewer the hops the fuller the colour; empty "
        "where none leads. A hop is a layer of a stack, or a step of a recurrence; kernels have width 3, dilated "
        "in powers of 3 where it says convolutional and side by side where it says contiguous; the neighbourhood "
        "has 9 positions. Last: the longest path of all pairs.",
        "table1",
    )


def _powers_of_2(low: float, high: float) -> list[int]:
    """Those from `low` to `high`."""
    return [2**power for power in range(int(high).bit_length()) if low <= 2**power <= high]


def _hops_panel(hops: np.ndarray, label: str, name: str) -> Panel:
    farthest = int(hops.max())
    picture = np.zeros((*hops.shape, 4))
    picture[...] = to_rgba(SERIES[0])
    # One hop is solid, and the most of them still to be seen.
    picture[..., 3] = np.where(hops > 0, 1.0 - 0.88 * (hops - 1) / max(1, farthest - 1), 0.0)
    with drawing(2.7, 2.9) as (figure, axes):
        axes.imshow(picture, interpolation="nearest")
        axes.set_title(f"{label}: {farthest} hop{'s' if farthest > 1 else ''}")
        axes.grid(visible=False)
        places = [0, len(hops) - 1]
        axes.set_xticks(places, ["1", str(len(hops))])
        axes.set_yticks(places, ["1", str(len(hops))])
        axes.set_xlabel("to position")
        axes.set_ylabel("from position")
        pairs = int((hops > 0).sum())
        words = f"{label}: at most {farthest} hops between {len(hops)} positions; {pairs} pairs are connected"
        return panel(figure, name, words)


def _paths_panel(rows: Sequence[Row]) -> Panel:
    words = []
    with drawing(4.4, 3.6) as (figure, axes):
        for row in rows:
            layer, details = row["trial"].partition(".")[0], row["details"]
            slope = f", power {number(row['value'], 2)}" if row["name"] == "path_exponent" else ", a logarithm"
            axes.plot(
                details["sizes"], details["costs"], f"{_MARKERS[layer]}-", color=_COLORS[layer], markersize=5,
                label=LAYERS[layer] + slope,
            )  # fmt: skip
            words.append(f"{LAYERS[layer]}{slope}")
        _logarithmic(axes, (3, 9, 27, 81, 243, 729), "positions n (log scale)")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_ylabel("longest path in hops (log scale)")
        axes.set_title("Longest path over n")
        axes.legend(loc="upper left")
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** 0.4)
        return panel(figure, "table1-paths", "Longest path over n: " + "; ".join(words))


def crossover(database: Path | str) -> Fragment:
    """Seconds of self-attention over those of a recurrence, over n for each d, beside the operations' ratio n / d."""
    row = next(iter(_scores(database, "table1", FULL_SIZE, "time_ratio")), None)
    if row is None:
        return _empty("table1")
    sizes, ratios = row["details"]["sizes"], np.array(row["details"]["ratios"])
    panels = []
    for title, values, name in (
        ("Operations", np.array(sizes)[:, None] / np.array(sizes)[None, :], "flops"),
        ("Time on this machine", ratios, "time"),
    ):
        with drawing(4.4, 3.6) as (figure, axes):
            for column, d in enumerate(sizes):
                axes.plot(
                    sizes, values[:, column], "o-", color=SERIES[column], markersize=4, label=f"d = {d:,}",
                    dashes=(DASHES[column] if column else (None, None)),
                )  # fmt: skip
                axes.plot(d, values[column, column], "o", markersize=9, markerfacecolor=PAPER,
                          markeredgecolor=SERIES[column], markeredgewidth=1.8)  # fmt: skip
            axes.axhline(1, color=INK, linewidth=1.1)
            _logarithmic(axes, sizes, "positions n (log scale)")
            axes.set_ylabel("self-attention over recurrent (log scale)")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_title(title)
            axes.legend(loc="upper left", ncols=2, columnspacing=1)
            low, high = axes.get_ylim()
            axes.set_ylim(low, high * (high / low) ** 0.3)
            cells = "; ".join(
                f"d {d}: " + ", ".join(number(value, 2) for value in values[:, column])
                for column, d in enumerate(sizes)
            )
            words = f"{title}, self-attention over recurrent at n = {', '.join(map(str, sizes))}: {cells}"
            panels.append(panel(figure, f"table1-crossover-{name}", words))
    crossings = [
        f"d = {d:,}: " + ("none up to " + f"{sizes[-1]:,}" if at is None else f"n = {number(at, 0)}")
        for d, at in zip(sizes, row["details"]["crossovers"], strict=True)
    ]
    return _figure(
        panels,
        "Below the line self-attention is cheaper. Hollow: n = d, where the operations are equal. Four sequences at "
        "a time on one core. Where the times cross: "
        + ", ".join(crossings) + ".",
        "table1",
    )  # fmt: skip


# Section 3 ------------------------------------------------------------------------------------------------------------


def scaling(database: Path | str) -> Fragment:
    """What dividing by sqrt(d_k) does to the variance of the dot products and to the softmax's gradient."""
    panels = []
    for score, title, unit in (
        ("variance_exponent", "Variance of dot products", "variance (log scale)"),
        ("gradient_exponent", "Gradient of the softmax", "trace of its Jacobian (log scale)"),
    ):
        rows = _scores(database, "section3", FULL_SIZE, score)
        if not rows:
            continue
        with drawing(4.4, 3.4) as (figure, axes):
            for place, row in enumerate(rows):
                details = row["details"]
                label = f"{row['trial']}: power {number(row['value'], 2)}"
                axes.plot(
                    details["sizes"], details["values"], "os"[place] + "-", color=SERIES[place], markersize=5,
                    label=label,
                )  # fmt: skip
            _logarithmic(axes, rows[0]["details"]["sizes"], "d_k (log scale)")
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_ylabel(unit)
            axes.set_title(title)
            axes.legend(loc="best")
            words = f"{title} over d_k: " + "; ".join(
                f"{row['trial']} " + ", ".join(number(value, 3) for value in row["details"]["values"]) for row in rows
            )
            panels.append(panel(figure, f"section3-{score.partition('_')[0]}", words))
    return _figure(panels, "Queries and keys with normal components of variance 1, 64 keys a query.", "section3")


def attention_quality(database: Path | str, scale: str) -> Fragment:
    """How often each attention function recalls a value, over d_k: each training a point, the line their mean."""
    rows = _scores(database, "section3", scale, "recall_accuracy")
    return _figure(
        [_accuracies(rows, "Recall of a value", "d_k (log scale)", "section3-recall")] if rows else [],
        "A made-up task: 16 keys with their values, and one of the keys again; the model names its value. Trained with "
        "the paper's Adam and Eq. 3 from several seeds. By chance it would be right in 3% of cases.",
        "section3",
    )


def _accuracies(rows: Sequence[Row], title: str, axis: str, name: str) -> Panel:
    """Accuracy by variant over a size, a panel with a point for each training."""
    variants = dict.fromkeys(row["details"]["variant"] for row in rows)
    words = []
    with drawing(4.6, 3.4) as (figure, axes):
        for place, variant in enumerate(variants):
            points = sorted(
                (size, accuracy)
                for row in rows
                if row["details"]["variant"] == variant
                for training in row["details"]["accuracies"]
                for size, accuracy in zip(row["details"]["sizes"], training, strict=True)
            )
            sizes = sorted({size for size, _ in points})
            means = [float(np.mean([accuracy for at, accuracy in points if at == size])) for size in sizes]
            axes.plot(sizes, means, color=SERIES[place], linewidth=1.7)
            axes.plot(*zip(*points, strict=True), "osD"[place], color=SERIES[place], markersize=4.5, label=variant)
            words.append(f"{variant} " + ", ".join(number(mean, 1) for mean in means))
        _over_sizes(axes, sizes, axis)
        axes.set_ylim(-3, 103)
        axes.set_ylabel("right answers in percent")
        axes.set_title(title)
        axes.legend(loc="lower left")
        return panel(figure, name, f"Right answers in percent at {', '.join(map(str, sizes))}: " + "; ".join(words))


def costs(database: Path | str) -> Fragment:
    """Seconds and memory of dot products over additive attention by d_k, and of h heads over one."""
    panels = []
    rows = [
        row
        for name in ("time_ratio", "memory_ratio", "flops_ratio")
        for row in _scores(database, "section3", FULL_SIZE, name)
    ]
    labels = {"time_ratio": "time", "memory_ratio": "memory", "flops_ratio": "operations"}
    for trial, title, axis in (
        ("dot_product_against_additive", "Dot products over additive", "d_k (log scale)"),
        ("eight_heads_against_one", "h heads over one", "heads h (log scale)"),
    ):
        chosen = [row for row in rows if row["trial"] == trial]
        if not chosen:
            continue
        with drawing(4.4, 3.4) as (figure, axes):
            for place, row in enumerate(chosen):
                details = row["details"]
                axes.plot(
                    details["sizes"], details["ratios"], "os"[place] + "-", color=SERIES[place], markersize=5,
                    label=labels[row["name"]],
                )  # fmt: skip
            axes.axhline(1, color=MUTED, linewidth=1)
            _over_sizes(axes, chosen[0]["details"]["sizes"], axis)
            axes.set_ylim(0, max(1.15, axes.get_ylim()[1]))
            axes.set_ylabel("times")
            axes.set_title(title)
            axes.legend(loc="best")
            words = f"{title}: " + "; ".join(
                f"{labels[row['name']]} " + ", ".join(number(value, 2) for value in row["details"]["ratios"])
                for row in chosen
            )
            panels.append(panel(figure, f"section3-{trial.replace('_', '-')}", words))
    return _figure(
        panels,
        "Seconds are processor time of this machine on one core, memory is what is kept for the backward pass, "
        "operations are torch's count.",
        "section3",
    )


def positions(database: Path | str, scale: str) -> Fragment:
    """How sinusoids and learned positions fare beyond the lengths seen in training, and the wavelengths."""
    rows = _scores(database, "section3", scale, "longer_accuracy")
    panels = []
    if rows:
        panels.append(
            _accuracies(rows, "Beyond the trained lengths", "length, times the longest trained", "section3-longer")
        )
    measured = [
        row for row in _scores(database, "section3", FULL_SIZE, "output_difference") if row["trial"] == "positions"
    ]
    if measured:
        wavelengths = measured[0]["details"]["wavelengths"]
        with drawing(4.4, 3.4) as (figure, axes):
            axes.plot(range(len(wavelengths)), wavelengths, color=SERIES[0])
            axes.set_yscale("log")
            axes.set_xlabel("pair of a sine and a cosine")
            axes.set_ylabel("wavelength in positions (log scale)")
            axes.set_title("Wavelengths of the sinusoid")
            words = f"Wavelengths from {number(wavelengths[0], 2)} to {number(wavelengths[-1], 0)} positions"
            panels.append(panel(figure, "section3-wavelengths", words))
    return _figure(
        panels,
        "A made-up task: at each position, name the symbol before it; trained on 12 to 24 symbols, and asked at the "
        "positions beyond where sequences are longer. By chance a model would be right in 6% of cases.",
        "section3",
    )
