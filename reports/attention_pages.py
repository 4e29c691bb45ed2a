"""What the reports show of attention: the figures' own sentences, measures beside their nulls, and what each head does.

Numbers come from the database; weights from the file that a probe's run folder holds. A run that is not there, or whose
file cannot be read, is said so in place of its picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports import data
from reports.attention import KIND_NAMES, draw_sentence, find_word, head_color
from reports.drawing import INK, MUTED, PAPER, SERIES, Panel, drawing, panel, plain
from reports.explorer import write_explorer
from reports.pages import EXPLORED_STUDY, HEADS_PAGE, Fragment, number, render
from results.attention_file import AttentionFile, SentenceAttention, load
from results.errors import ResultsError

TRIAL, NULL_TRIAL = "attention", "untrained"
LEAST_VERBS = 5


@dataclass(frozen=True)
class Probed:
    """The probe of a figure that the pictures are of: the lowest seed that is done."""

    run: str
    seed: int
    file: AttentionFile
    scores: dict[str, data.Row]

    @property
    def layer(self) -> int:
        """The figures' layer: the last but one of those kept."""
        layers = self.file.sentences[0].layers
        return layers[max(0, len(layers) - 2)]


def find_probe(database: Path | str, runs: Path | str, study: str, scale: str) -> Probed | None:
    """The probe to draw; None where none is done.

    Raises:
        ResultsError: its file is missing or damaged.
    """
    rows = data.attention_artifacts(database, study, scale, TRIAL)
    if not rows:
        return None
    row = rows[0]
    scores = {score["name"]: score for score in data.run(database, row["run"])["scores"]}
    return Probed(row["run"], row["seed"], load(Path(runs) / row["run"] / row["path"]), scores)


def _empty(text: str) -> Fragment:
    return render("empty.html", text=text)


def pictures(database: Path | str, runs: Path | str, study: str, scale: str) -> Fragment:
    """The figure as the paper draws it, from one of our runs: its sentence, in the last layer but one."""
    try:
        probed = find_probe(database, runs, study, scale)
    except ResultsError as error:
        return _empty(f"No picture: {error}.")
    if probed is None:
        return _empty(f"No picture yet: aiayn run {study} --scale {scale} measures a run and keeps its attention.")
    drawn = {"figure3": _figure3, "figure4": _figure4, "figure5": _figure5}[study](probed)
    panels = []
    for name, label, picture in drawn:
        with picture as figure:
            panels.append(panel(figure, f"{study}-{scale}-{name}", label))
    caption = (
        f"Layer {probed.layer}, run {probed.run} (seed {probed.seed}). Opacity is weight, colour is the head; by whole "
        "words: to a word the sum over its pieces, from a word the mean. Lines below 0.02 are left out."
    )
    return render("figure.html", panels=panels, panel_width="min(30rem, 100%)", caption=caption)


Drawn = tuple[str, str, AbstractContextManager[Figure]]


def _figure3(probed: Probed) -> list[Drawn]:
    """One word's attention, all heads."""
    sentence = probed.file.sentence("paper/figure3")
    example = _measured_example(probed)
    drawn = [_columns(sentence, probed.layer, None, "making", "Figure 3: where making looks", "making")]
    if example is not None:
        drawn.append(_columns(example, probed.layer, None, None, "A sentence that was measured: all heads", "example"))
    return drawn


def _figure4(probed: Probed) -> list[Drawn]:
    """One head's full pattern, and the same two heads for one word."""
    sentence = probed.file.sentence("paper/figure4")
    heads = probed.scores["attention_share"]["details"]["heads"]
    return [
        _columns(sentence, probed.layer, heads[:1], None, f"Figure 4: all of head {heads[0]}", "whole"),
        _columns(sentence, probed.layer, sorted(heads), "its", "Figure 4: where its looks", "its"),
    ]


def _figure5(probed: Probed) -> list[Drawn]:
    """The two heads of the layer that differ most, side by side."""
    sentence = probed.file.sentence("paper/figure4")
    heads = probed.scores["head_distance"]["details"].get("heads", [1])
    return [_columns(sentence, probed.layer, [head], None, f"Figure 5: head {head}", f"head{head}") for head in heads]


def _measured_example(probed: Probed) -> SentenceAttention | None:
    others = [sentence for sentence in probed.file.sentences if not sentence.id.startswith("paper/")]
    return others[0] if others else None


def _columns(
    sentence: SentenceAttention, layer: int, heads: Sequence[int] | None, word: str | None, title: str, name: str
) -> Drawn:
    focus = None if word is None else find_word(sentence.labels("encoder")[0], word)
    picture = draw_sentence(sentence, "encoder", layer, heads, "columns", focus, title=title)
    return name, _in_words(sentence, layer, heads, focus, title), picture


def _in_words(
    sentence: SentenceAttention, layer: int, heads: Sequence[int] | None, focus: Sequence[int] | None, title: str
) -> str:
    """The picture for those who cannot see it: what each head looks at most from the word, or how many words it has."""
    weights = sentence.word_layer("encoder", layer)
    rows, columns = sentence.labels("encoder")
    chosen = range(1, len(weights) + 1) if heads is None else heads
    if focus is None:
        return f"{title}. Sentence: {' '.join(rows)}"
    row = focus[0]
    most = ", ".join(
        f"head {head} {columns[weights[head - 1, row].argmax()]} {weights[head - 1, row].max():.2f}" for head in chosen
    )
    return f"{title}. From {rows[row]}, most weight: {most}"


def all_heads(database: Path | str, runs: Path | str, scale: str) -> Fragment:
    """Every head of the encoder on the sentence of Figure 4, a grid a layer."""
    try:
        probed = find_probe(database, runs, EXPLORED_STUDY, scale)
    except ResultsError as error:
        return _empty(f"No picture: {error}.")
    if probed is None:
        return _empty(
            f"No picture yet: aiayn run {EXPLORED_STUDY} --scale {scale} measures a run and keeps its attention."
        )
    sentence = probed.file.sentence("paper/figure4")
    panels = []
    for layer in sentence.layers:
        title = f"Encoder self-attention, layer {layer}"
        with draw_sentence(sentence, "encoder", layer, view="grid", title=title) as figure:
            panels.append(panel(figure, f"heads-{scale}-layer{layer}", f"{title}: {sentence.text}"))
    caption = f"Rows look, columns are looked at: {sentence.text} Run {probed.run} (seed {probed.seed})."
    return render("figure.html", panels=panels, panel_width="100%", caption=caption)


# Measures beside their nulls ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """A measure and the scores that it is compared with: (score, words, trial); all in one unit."""

    title: str
    unit: str
    parts: tuple[tuple[str, str, str], ...]


COMPARED = {
    "figure3": (
        Compared(
            "Heads at the distant completion", "heads of the layer",
            (("far_heads", "trained", TRIAL), ("far_heads_shuffled", "other words as far", TRIAL),
             ("far_heads", "untrained", NULL_TRIAL)),
        ),
        Compared(
            "Finds the distant completion", "share of the verbs",
            (("far_best_head", "best head", TRIAL), ("far_best_offset", "best fixed offset", TRIAL),
             ("far_best_head", "untrained", NULL_TRIAL)),
        ),
    ),
    "figure4": (
        Compared(
            "Weight on the antecedent", "share of the weight",
            (("antecedent_share", "best head", TRIAL), ("antecedent_shuffled", "other words as far", TRIAL),
             ("antecedent_share", "untrained", NULL_TRIAL)),
        ),
        Compared(
            "Finds the antecedent", "share of the pronouns",
            (("antecedent_hits", "best head", TRIAL), ("antecedent_offset", "best fixed offset", TRIAL),
             ("antecedent_hits", "untrained", NULL_TRIAL)),
        ),
    ),
    "figure5": (
        Compared(
            "How far two heads differ", "total variation",
            (("mean_head_distance", "trained", TRIAL), ("mean_head_distance", "untrained", NULL_TRIAL)),
        ),
    ),
}  # fmt: skip


def against_nulls(database: Path | str, study: str, scale: str) -> Fragment:
    """Each measure beside its nulls, a point a seed; the line is the middle 95% over resampled sentences."""
    scores = data.study_scores(database, study, scale)
    panels = []
    for place, compared in enumerate(COMPARED[study]):
        rows = [
            (words, [s for s in scores if (s["name"], s["trial"]) == (name, trial) and s["value"] is not None])
            for name, words, trial in compared.parts
        ]
        if not any(found for _, found in rows):
            continue
        with drawing(4.8, 0.55 * len(rows) + 1.1) as (figure, axes):
            _draw_compared(axes, rows)
            axes.set_title(compared.title)
            axes.set_xlabel(compared.unit)
            said = "; ".join(
                f"{words} {', '.join(str(number(score['value'], 3)) for score in found) or 'no value'}"
                for words, found in rows
            )
            panels.append(panel(figure, f"{study}-{scale}-nulls-{place}", f"{compared.title}, by seed: {said}"))
    if study == "figure3":
        panels += filter(None, [_distance_panel(scores, f"{study}-{scale}-distance")])
    if not panels:
        return _empty("Nothing is measured yet.")
    caption = (
        "Filled: the trained model. Hollow: a null. A point a seed; its line is the middle 95% over other sentences."
    )
    return render("figure.html", panels=panels, panel_width="26rem", caption=caption)


def _draw_compared(axes: Any, rows: Sequence[tuple[str, Sequence[data.Row]]]) -> None:
    for place, (_, found) in enumerate(rows):
        color, face = (SERIES[1], SERIES[1]) if place == 0 else (SERIES[0], PAPER)
        for turn, score in enumerate(found):
            y = place + 0.5 * ((turn + 0.5) / len(found) - 0.5)
            interval = score["details"].get("test_set_interval")
            if interval:
                axes.hlines(y, interval["low"], interval["high"], color=color, linewidth=1.3)
            axes.plot(score["value"], y, "o", color=color, markerfacecolor=face, markersize=6, markeredgewidth=1.6)
    axes.set_yticks(range(len(rows)), [plain(words) for words, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)


def _distance_panel(scores: Sequence[data.Row], name: str) -> Panel | None:
    """Figure 3: heads at the completion by how far away it is, a line a seed, trained and untrained."""
    scores = [score for score in scores if score["name"] == "far_heads" and score["value"] is not None]
    if not scores:
        return None
    with drawing(4.8, 2.75) as (figure, axes):
        named = set()
        for score in scores:
            found = {int(distance): at for distance, at in score["details"]["by_distance"].items()}
            distances = sorted(distance for distance, at in found.items() if at["verbs"] >= LEAST_VERBS)
            trained = score["trial"] == TRIAL
            color, words = (SERIES[1], "trained") if trained else (SERIES[0], "untrained")
            axes.plot(
                distances, [found[distance]["heads"] for distance in distances],
                "o-" if trained else "o--", color=color, markerfacecolor=color if trained else PAPER, markersize=5,
                linewidth=1.3, label=None if words in named else words,
            )  # fmt: skip
            named.add(words)
        axes.set_title("Heads at the completion, by distance")
        axes.set_xlabel(f"distance in words, of at least {LEAST_VERBS} verbs")
        axes.set_ylabel("heads of the layer")
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend()
        return panel(figure, name, "Heads at the completion by distance, a line a seed")


# What each head does --------------------------------------------------------------------------------------------------


def roles(database: Path | str, scale: str) -> Fragment:
    """A table of the encoder's heads: the relation that each looks along best, and where its weight goes."""
    scores = [
        score
        for score in data.study_scores(database, EXPLORED_STUDY, scale)
        if score["name"] == "relation_heads" and score["trial"] == TRIAL
    ]
    if not scores:
        return _empty(f"Nothing is measured yet: aiayn run {EXPLORED_STUDY} --scale {scale}.")
    first = scores[0]
    rows = [dict(role) for role in first["details"]["roles"]]
    for role in rows:
        role["color"] = head_color(role["head"])
    return render(
        "heads.html", heads=rows, run=first["run"], seed=first["seed"], aligned=sum(r["aligned"] for r in rows)
    )


def roles_drawn(database: Path | str, scale: str) -> Fragment:
    """Where the encoder's heads put their weight, a bar a head: neighbours, itself, the end, marks, and the rest."""
    scores = [
        score
        for score in data.study_scores(database, EXPLORED_STUDY, scale)
        if score["name"] == "relation_heads" and score["trial"] == TRIAL
    ]
    if not scores:
        return _empty("Nothing is measured yet.")
    heads = scores[0]["details"]["roles"]
    parts = (
        ("to_previous", "word before", SERIES[0]),
        ("to_itself", "itself", SERIES[2]),
        ("to_next", "word after", SERIES[5]),
        ("to_punctuation", "marks", SERIES[4]),
        ("to_end", "end symbol", SERIES[3]),
    )
    with drawing(7.2, 0.2 * len(heads) + 1.3) as (figure, axes):
        left = np.zeros(len(heads))
        places = [index + 0.6 * (head["layer"] - 1) for index, head in enumerate(heads)]
        for name, label, color in parts:
            widths = np.array([head[name] for head in heads])
            axes.barh(places, widths, left=left, color=color, label=label, height=0.8)
            left += widths
        axes.set_yticks(places, [f"{head['layer']}.{head['head']}" for head in heads], fontsize=7.5)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set_xlabel("share of the weight; the rest goes to other words")
        axes.set_ylabel("layer.head", color=MUTED)
        axes.set_title("Where each head's weight goes", color=INK)
        axes.grid(visible=False, axis="y")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.04), ncols=5, fontsize=8, columnspacing=1)
        label = "Where each head's weight goes; the table has the numbers"
        panels = [panel(figure, f"heads-{scale}-weights", label)]
    return render("figure.html", panels=panels, panel_width="min(46rem, 100%)", caption="")


# The explorer ---------------------------------------------------------------------------------------------------------


def explorer_name(scale: str) -> str:
    """The explorer's file in the site's folder."""
    return f"attention-{scale}.html"


def explorer_link(scale: str) -> Fragment:
    """Where to look further; the page stands beside the report."""
    return render("explorer_link.html", href=explorer_name(scale))


def heads_link(scale: str) -> Fragment:
    """The page on what each head does."""
    return render("heads_link.html", href=f"{HEADS_PAGE}-{scale}.html")


def build_explorer(database: Path | str, runs: Path | str, scale: str, output: Path) -> Path | None:
    """Write the explorer of a scale into the site's folder; None, and no page is left, where nothing was measured.

    Raises:
        ResultsError: the file of weights is missing or damaged.
    """
    page = output / explorer_name(scale)
    probed = find_probe(database, runs, EXPLORED_STUDY, scale)
    if probed is None:
        page.unlink(missing_ok=True)
        return None
    kinds = ", ".join(KIND_NAMES[kind] for kind in probed.file.sentences[0].weights)
    lead = (
        f"Run {probed.file.notes['measured']} (base, seed {probed.seed}, {scale} scale): {kinds}. "
        "The first two sentences are those of Figures 3 to 5."
    )
    write_explorer(
        page, probed.file.sentences, f"Attention at {scale} scale", probed.layer, lead=lead, home="index.html"
    )
    return page
