"""The figures of the reports: each reads one or two views of the database and draws them (`reports.drawing`).

pandas and seaborn take longer to load than most pages to make, so only what has something to draw loads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from reports import data
from reports.drawing import DASHES, GRID, INK, MUTED, PAPER, SERIES, drawing, log_ticks, name_points, panel, plain
from reports.pages import Fragment, number, render, slug

if TYPE_CHECKING:
    import pandas as pd

# Names that are longer leave a panel's legend room for one column.
_LONGEST_OF_TWO_COLUMNS = 16
_GROUPS = {"A": "heads", "B": "key size", "C": "size", "D": "dropout and smoothing", "E": "positions"}


def table3_differences(database: Path | str, scale: str) -> Fragment:
    """Difference from base for every row of Table 3, published against measured; a panel for BLEU, one for perplexity.

    Measured values are means over seeds; the line through them is one standard deviation over seeds to either side.
    """
    rows = [row for row in data.table3(database, scale) if row["trial"] != "base"]
    panels = []
    for metric, title, unit in (("bleu", "BLEU", "points"), ("ppl", "Perplexity", "per word piece")):
        with drawing(4.8, 5.6) as (figure, axes):
            _draw_differences(axes, rows, metric)
            axes.set_title(title)
            axes.set_xlabel(f"difference from base, {unit} ({'higher' if metric == 'bleu' else 'lower'} is better)")
            label = _differences_in_words(rows, metric, title)
            panels.append(panel(figure, f"table3-{scale}-differences-{metric}", label))
    missing = sum(row["delta_bleu"] is None for row in rows)
    caption = "Hollow: published, at the paper's size. Filled: measured here, mean over seeds ± one standard deviation."
    if missing:
        caption += f" Rows without a measured difference: {missing} of {len(rows)}."
    return render("figure.html", panels=panels, panel_width="26rem", caption=caption)


def _draw_differences(axes: Axes, rows: Sequence[data.Row], metric: str) -> None:
    import pandas as pd

    table = pd.DataFrame(
        {
            "published": [row[f"published_delta_{metric}"] for row in rows],
            "measured": [row[f"delta_{metric}"] for row in rows],
            "spread": [row[f"{metric}_sd"] for row in rows],
            "group": [row["row"] for row in rows],
        }
    )
    # None becomes NaN, which is not drawn.
    table = table.astype({"published": float, "measured": float, "spread": float})
    # One line per row, and half a line more between the paper's groups of rows.
    place = 1.0 * table.index + 0.5 * (table["group"] != table["group"].shift()).cumsum()
    both = table[["published", "measured"]].dropna()
    axes.hlines(
        place[both.index], both["published"], both["measured"], color=GRID, linewidth=3, zorder=1, capstyle="round"
    )
    axes.plot(
        table["published"], place, "o", label="published", zorder=3,
        markersize=7, markerfacecolor=PAPER, markeredgecolor=SERIES[0], markeredgewidth=1.8,
    )  # fmt: skip
    axes.errorbar(
        table["measured"], place, xerr=table["spread"].fillna(0.0), fmt="o", label="measured", zorder=4,
        color=SERIES[1], markersize=6, elinewidth=1.4,
    )  # fmt: skip
    axes.axvline(0, color=MUTED, linewidth=1, zorder=0)
    names = [row["trial"] if row["row"] == row["trial"] else f"({row['row']}) {row['trial']}" for row in rows]
    axes.set_yticks(place, [plain(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(lambda value, _: number(value, signed=True))
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.margins(y=0.03)
    axes.invert_yaxis()
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, handletextpad=0.2, columnspacing=1)


def _differences_in_words(rows: Sequence[data.Row], metric: str, title: str) -> str:
    """The panel for those who cannot see it."""

    def say(value: float | None) -> str:
        return "no value" if value is None else number(value, 2, signed=True)

    cells = (f"{row['trial']} {say(row[f'published_delta_{metric}'])} / {say(row[f'delta_{metric}'])}" for row in rows)
    return f"{title}, difference from base, published / measured: " + "; ".join(cells)


def bleu_against_cost(database: Path | str, scale: str) -> Fragment:
    """Table 2 as a picture: published BLEU against published cost, earlier systems hollow, one panel a direction.

    What was measured has no place on the paper's axis of cost unless it was measured at the paper's scale; at any other
    scale the picture is the paper's alone.
    """
    rows = data.table2(database, scale)
    panels = []
    for direction, name in (("ende", "English-German"), ("enfr", "English-French")):
        known = [row for row in rows if row[f"published_bleu_{direction}"] and row[f"published_flops_{direction}"]]
        if not known:
            continue
        with drawing(4.8, 3.6) as (figure, axes):
            for quoted, color, face, label in (
                (True, SERIES[0], PAPER, "earlier systems"),
                (False, SERIES[1], SERIES[1], "Transformer"),
            ):
                chosen = [row for row in known if row["quoted"] is quoted]
                axes.plot(
                    [row[f"published_flops_{direction}"] for row in chosen],
                    [row[f"published_bleu_{direction}"] for row in chosen],
                    "o", color=color, markerfacecolor=face, markersize=7, markeredgewidth=1.8, label=label,
                )  # fmt: skip
            axes.set_xscale("log")
            axes.margins(x=0.22, y=0.16)
            name_points(
                axes,
                [
                    (
                        row[f"published_flops_{direction}"],
                        row[f"published_bleu_{direction}"],
                        row["label"].removeprefix("Transformer ").strip("()"),
                    )
                    for row in known
                ],
            )
            axes.set_title(name)
            axes.set_xlabel("training cost in FLOPs (log scale)")
            axes.set_ylabel("BLEU")
            axes.legend(loc="lower right")
            cells = (
                f"{row['label']} {number(row[f'published_bleu_{direction}'], 1)} at "
                f"{row[f'published_flops_{direction}']:.1e}"
                for row in known
            )
            words = f"{name}, published BLEU at training cost in FLOPs: " + "; ".join(cells)
            panels.append(panel(figure, f"table2-{scale}-cost-{direction}", words))
    if not panels:
        return Fragment('<p class="empty">Table 2 is not in this database yet.</p>')
    return render("figure.html", panels=panels, panel_width="26rem", caption="As published: BLEU on newstest2014.")


def recall_by_distance(database: Path | str, scale: str) -> Fragment:
    """How often each kind of model recalls what lies so many pieces back: the mean over seeds, and chance."""
    labels = {row["model"]: row["model_label"] for row in data.capabilities(database, scale)}
    found = [row for row in data.study_scores(database, "capabilities", scale) if row["name"] == "recall_skill"]
    recalled = [
        {"model": labels[row["trial"]], "distance": point["distance"], "accuracy": point["accuracy"]}
        for row in found
        for point in row["details"].get("by_distance", ())
    ]
    if not recalled:
        return Fragment('<p class="empty">No model has been asked to recall anything yet.</p>')
    import pandas as pd
    import seaborn as sns

    points = pd.DataFrame(recalled)
    chance = found[0]["details"]["chance"]
    models = [label for label in labels.values() if (points["model"] == label).any()]
    colors = dict(zip(models, SERIES, strict=False))
    with drawing(7.2, 3.8) as (figure, axes):
        sns.lineplot(
            data=points, x="distance", y="accuracy", hue="model", hue_order=models, palette=colors, style="model",
            style_order=models, dashes=dict(zip(models, ("", *DASHES), strict=False)), errorbar=("pi", 100),
            err_kws={"alpha": 0.13, "linewidth": 0}, ax=axes,
        )  # fmt: skip
        axes.axhline(chance, color=MUTED, linewidth=1)
        axes.annotate("chance", (1, chance), (0, -11), textcoords="offset points", fontsize=8, color=MUTED)
        axes.set_ylim(0, 1.04)
        axes.xaxis.set_major_locator(MaxNLocator(9, integer=True))
        axes.set_xlabel("pieces between what is asked for and the question")
        axes.set_ylabel("accuracy")
        axes.legend(title=None, loc="center left", bbox_to_anchor=(1, 0.5))
        means = points.groupby(["model", "distance"])["accuracy"].mean()
        words = "Accuracy of recall by distance: " + "; ".join(
            f"{model} {number(means[model].iloc[0], 2)} at {means[model].index[0]}, "
            f"{number(means[model].iloc[-1], 2)} at {means[model].index[-1]}"
            for model in models
        )
        recall = panel(figure, f"capabilities-{scale}-recall", words)
    caption = "Accuracy on held-out inputs, mean over seeds; the band reaches from seed to seed."
    return render("figure.html", panels=[recall], panel_width="min(44rem, 100%)", caption=caption)


def learning_curves(database: Path | str, study: str, scale: str) -> Fragment:
    """Development perplexity by training step: one panel per group of Table 3's rows with base in each; of other
    studies one, or a few where colours would not suffice.

    The line is the mean over seeds, the band reaches from the lowest to the highest seed. All share perplexities.
    A value that is not finite (a diverged run) ends the line there.
    """
    scored = [row for row in data.curves(database, study, scale, "dev", "ppl") if row["value"] is not None]
    if not scored:
        return Fragment('<p class="empty">No learning curves yet: no run has been scored on the development set.</p>')
    import pandas as pd

    curves = pd.DataFrame(scored)
    groups = _panels_of_trials(database, study, scale, list(curves["trial"].unique()))
    panels = []
    for label, trials in groups.items():
        drawn = [trial for trial in trials if trial != "base" and (curves["trial"] == trial).any()]
        if label == "base" or not drawn:
            continue
        title = f"({label}) {_GROUPS[label]}" if label in _GROUPS else plain(label)
        with drawing(4.4, 3.3) as (figure, axes):
            _draw_curves(axes, curves, drawn)
            axes.set_title(title)
            words = f"{title}: development perplexity by training step"
            panels.append(panel(figure, f"{study}-{scale}-curves-{slug(label)}", words))
    caption = "Development perplexity per word piece (log scale), mean over seeds; the band reaches from seed to seed."
    return render("figure.html", panels=panels, panel_width="min(24rem, 100%)", caption=caption)


def _panels_of_trials(database: Path | str, study: str, scale: str, trials: Sequence[str]) -> dict[str, list[str]]:
    """Which trials share a panel: the paper's groups of rows in Table 3; of any other study as many as have colours."""
    if study != "table3":
        parts = [part.tolist() for part in np.array_split(sorted(trials), -(-len(trials) // len(SERIES)))]
        return {"all trials" if len(parts) == 1 else f"{part[0]} to {part[-1]}": part for part in parts}
    groups: dict[str, list[str]] = {}
    for row in data.table3(database, scale):
        groups.setdefault(row["row"], []).append(row["trial"])
    return groups


def _draw_curves(axes: Axes, curves: pd.DataFrame, trials: Sequence[str]) -> None:
    import seaborn as sns

    base = ["base"] if (curves["trial"] == "base").any() else []
    order = [*base, *trials]
    colors = dict(zip(order, (*[INK for _ in base], *SERIES), strict=False))
    dashes = dict(zip(order, ("", *DASHES), strict=False))
    drawn = curves[curves["trial"].isin(order)]
    sns.lineplot(
        data=drawn, x="step", y="value", hue="trial", hue_order=order, palette=colors,
        style="trial", style_order=order, dashes=dashes, errorbar=("pi", 100), err_kws={"alpha": 0.13, "linewidth": 0},
        ax=axes,
    )  # fmt: skip
    axes.set_yscale("log")
    low, high = curves["value"].min(), curves["value"].max()
    axes.set_ylim(low / 1.1, high * 1.1)
    axes.set_xlim(drawn["step"].min(), drawn["step"].max())
    log_ticks(axes.yaxis)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}K" if step >= 10_000 else f"{step:g}")
    axes.set_xlabel("training step")
    axes.set_ylabel("perplexity per word piece")
    handles, labels = axes.get_legend_handles_labels()
    columns = 2 if max(map(len, labels)) <= _LONGEST_OF_TWO_COLUMNS else 1
    axes.legend(handles, [plain(label) for label in labels], title=None, ncols=columns, columnspacing=1.2)
