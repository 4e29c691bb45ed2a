"""Every architecture under one budget: the table with both costs, and quality against counted operations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from reports import data
from reports.drawing import DASHES, SERIES, Panel, drawing, log_ticks, panel, plain
from reports.pages import Fragment, number, render

if TYPE_CHECKING:
    import pandas as pd

_NAMES = {
    "transformer": "Transformer",
    "lstm_attention": "LSTM + attention",
    "lstm": "LSTM",
    "convs2s": "ConvS2S",
    "bytenet": "ByteNet",
}


def _label(trial: str) -> str:
    return _NAMES.get(trial, trial)


def costs(database: Path | str, scale: str) -> Fragment:
    """The architectures with their scores and both of their costs; and what the rate was measured by."""
    rows = data.budget(database, scale)
    machines = defaultdict(list)
    for row in rows:
        row["label"] = _label(row["trial"])
        if row["hardware"]:
            machines[row["hardware"], row["benchmark"]].append(row["flops_per_second"])
    measured = [
        {"hardware": hardware, "benchmark": benchmark, "rate": fmean(rates)}
        for (hardware, benchmark), rates in machines.items()
    ]
    return render("budget.html", rows=rows, machines=measured, scale=scale)


def quality_against_cost(database: Path | str, scale: str) -> Fragment:
    """Over counted operations on a log axis, of the development set: BLEU of a part of it translated greedily, and
    perplexity of all of it.
    """
    rows = [row for row in data.budget(database, scale) if row["bleu"] is not None]
    if not rows:
        return Fragment('<p class="empty">No training under the budget is done yet.</p>')
    import pandas as pd

    bleu, ppl = (
        pd.DataFrame(
            data.budget_curve(database, scale, metric), columns=["trial", "seed", "counted_flops", "value"]
        ).dropna(subset="value")
        for metric in ("greedy_bleu_paper", "ppl")
    )
    if ppl.empty:
        return Fragment('<p class="empty">No training under the budget is done yet.</p>')
    order = [row["trial"] for row in rows]
    panels = [_curves(bleu, order, scale, "bleu"), _curves(ppl, order, scale, "ppl")]
    caption = (
        "Development set: BLEU of 100 of its sentences by greedy search, and perplexity of all of it, by counted "
        "operations of training (log scale); means over seeds. The table has the test set."
    )
    return render("figure.html", panels=panels, panel_width="min(27rem, 100%)", caption=caption)


def _curves(curves: pd.DataFrame, order: Sequence[str], scale: str, metric: str) -> Panel:
    """One metric of all architectures; with the best at the end listed first."""
    import seaborn as sns

    shown = [trial for trial in order if (curves["trial"] == trial).any()]
    labels = [_label(trial) for trial in shown]
    means = curves.groupby(["trial", "counted_flops"], as_index=False)["value"].mean()
    means["label"] = means["trial"].map(_label)
    with drawing(4.8, 3.6) as (figure, axes):
        sns.lineplot(
            data=means, x="counted_flops", y="value", hue="label", hue_order=labels,
            palette=list(SERIES[: len(labels)]), style="label", style_order=labels,
            dashes=["", *DASHES][: len(labels)], marker="o", markersize=4.5, markeredgewidth=0, ax=axes,
        )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xlabel("counted operations of training (log scale)")
        if metric == "ppl":
            axes.set_yscale("log")
            log_ticks(axes.yaxis)
            axes.set_ylabel("perplexity per word piece")
        else:
            axes.set_ylim(bottom=0)
            axes.set_ylabel("BLEU")
        handles, names = axes.get_legend_handles_labels()
        axes.legend(handles, [plain(name) for name in names], title=None)
        last = means.sort_values("counted_flops").groupby("label", sort=False)["value"].last()
        words = "; ".join(f"{label} {number(last[label], 1)}" for label in labels)
        title = "Perplexity" if metric == "ppl" else "BLEU"
        axes.set_title(title)
        return panel(
            figure, f"budget-{scale}-{metric}", f"{title} by counted operations of training, at the end: {words}"
        )
