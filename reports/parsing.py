"""What the report shows of parsing beside Table 4: every trial, the search, F1 by length and label, errors, trees."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from reports import data
from reports.drawing import DASHES, SERIES, drawing, panel
from reports.pages import Fragment, number, render
from reports.trees import STYLE, brackets, tree_figure

STUDY = "table4"
TEST, DEV = "test_f1", "dev_f1"
# The trials that the pages are about, in this order, as far as they were run.
_SHOWN = ("wsj_only", "semi", "part", "wsj_only_attention_dropout", "semi_attention_dropout", "wsj_only_code")
# Among which a model is chosen on the development split: the row itself, and the trials of the search.
_SEARCHED = re.compile(r"wsj_only|(?:dropout|rate|beam)[\d.]+")
_NUM_LABELS = 12
_NUM_TREES = 8
# Longer sentences make trees that no screen holds.
_MOST_WORDS = 24


def _scores(database: Path | str, scale: str, name: str) -> list[data.Row]:
    """One score of all trials, one row a trial: its lowest seed, the mean over seeds, and how many these are."""
    by_trial: dict[str, list[data.Row]] = {}
    for row in data.study_scores(database, STUDY, scale):
        if row["name"] == name and row["value"] is not None:
            by_trial.setdefault(row["trial"], []).append(row)
    return [
        rows[0] | {"mean": sum(row["value"] for row in rows) / len(rows), "seeds": len(rows)}
        for rows in by_trial.values()
    ]


def _named(rows: Sequence[data.Row]) -> list[data.Row]:
    order = {name: place for place, name in enumerate(_SHOWN)}
    return sorted((row for row in rows if row["trial"] in order), key=lambda row: order[row["trial"]])


def _empty(scale: str) -> Fragment:
    return render("empty.html", text=f"Nothing has been parsed at this scale yet: aiayn run {STUDY} --scale {scale}")


def all_trials(database: Path | str, scale: str) -> Fragment:
    """Every trial's F1: development and test, with the interval of the test set, and what repair had to do.

    The best of those that differ in dropout, rate or beam alone is marked: what section 6.3 would have chosen.
    """
    tests = {row["trial"]: row for row in _scores(database, scale, TEST)}
    devs = {row["trial"]: row for row in _scores(database, scale, DEV)}
    short = {row["trial"]: row for row in _scores(database, scale, "test_f1_40")}
    raw = {row["trial"]: row for row in _scores(database, scale, "test_f1_unrepaired")}
    silver = {row["trial"]: row for row in _scores(database, scale, "silver_f1")}
    if not devs:
        return _empty(scale)
    rows = [
        {
            "trial": trial,
            "seeds": devs[trial]["seeds"],
            "dev": devs[trial]["mean"],
            "test": tests.get(trial, {}).get("mean"),
            "interval": (tests.get(trial, {}).get("details") or {}).get("test_set_interval"),
            "short": short.get(trial, {}).get("mean"),
            "unrepaired": raw.get(trial, {}).get("mean"),
            "repaired_share": (tests.get(trial, {}).get("details") or {}).get("repaired_share"),
            "silver": silver.get(trial),
        }
        for trial in devs
    ]
    rows.sort(key=lambda row: -row["dev"])
    searched = [row["trial"] for row in rows if _SEARCHED.fullmatch(row["trial"])]
    chosen = searched[0] if len(searched) > 1 else None
    return render("parsing_trials.html", rows=rows, chosen=chosen, scale=scale)


def by_length(database: Path | str, scale: str) -> Fragment:
    """F1 on test sentences by their length, a line a trial."""
    rows = _named(_scores(database, scale, TEST))
    if not rows:
        return _empty(scale)
    labels = [_length_class(each) for each in max((row["details"]["by_length"] for row in rows), key=len)]
    with drawing(5.4, 3.4) as (figure, axes):
        for row, color, dashes in zip(rows, SERIES, ("", *DASHES), strict=False):
            found = {_length_class(each): each["f1"] for each in row["details"]["by_length"]}
            axes.plot(
                range(len(labels)), [found.get(label) for label in labels], "o-", color=color, label=row["trial"],
                **({"dashes": dashes} if dashes else {}),
            )  # fmt: skip
        axes.set_xticks(range(len(labels)), labels)
        axes.set_xlabel("words in the sentence")
        axes.set_ylabel("F1")
        axes.legend()
        said = "; ".join(
            f"{row['trial']} "
            + ", ".join(f"{_length_class(each)} {number(each['f1'], 1)}" for each in row["details"]["by_length"])
            for row in rows
        )
        drawn = panel(figure, f"{STUDY}-{scale}-length", f"F1 by length of the sentence: {said}")
    counts = ", ".join(f"{_length_class(each)}: {each['sentences']}" for each in rows[0]["details"]["by_length"])
    return render("figure.html", panels=[drawn], panel_width="min(30rem, 100%)", caption=f"Sentences: {counts}.")


def _length_class(row: dict[str, Any]) -> str:
    return f"{row['words_from']}–{row['words_to']}" if row["words_to"] else f"over {row['words_from'] - 1}"


def by_label(database: Path | str, scale: str) -> Fragment:
    """F1 of the commonest constituents, a column a trial."""
    rows = _named(_scores(database, scale, TEST))
    if not rows:
        return _empty(scale)
    labels = list(rows[0]["details"]["by_label"])[:_NUM_LABELS]
    lines = [
        {
            "label": label,
            "gold": rows[0]["details"]["by_label"][label]["gold"],
            "f1": [_label_f1(row["details"]["by_label"].get(label)) for row in rows],
        }
        for label in labels
    ]
    return render("parsing_labels.html", trials=[row["trial"] for row in rows], lines=lines, scale=scale)


def _label_f1(counts: dict[str, int] | None) -> float | None:
    if not counts or not counts["gold"] + counts["predicted"]:
        return None
    return 200.0 * counts["matched"] / (counts["gold"] + counts["predicted"])


def errors(database: Path | str, scale: str) -> Fragment:
    """What was wrong: outputs that were no trees, by kind, and constituents of the repaired trees."""
    rows = _named(_scores(database, scale, TEST))
    return render("parsing_errors.html", rows=rows, scale=scale) if rows else _empty(scale)


def trees(database: Path | str, runs: Path | str, scale: str) -> Fragment:
    """Sample sentences of the test set: the gold tree and the predicted one, side by side.

    The first half are the longest that are right, as far as there are so many, the others have most differences.
    """
    rows = _named(_scores(database, scale, TEST))
    if not rows:
        return _empty(scale)
    run = rows[0]["run"]
    try:
        gold, made = (_test_trees(database, Path(runs), run, kind) for kind in ("gold", "trees"))
    except (OSError, StopIteration):
        return render("empty.html", text=f"No trees: the files of run {run} are not there.")
    pairs = [
        _Pair(number, *lines)
        for number, lines in enumerate(zip(gold, made, strict=True), 1)
        if _words(lines[0]) <= _MOST_WORDS
    ]
    right = sorted((pair for pair in pairs if not pair.differences), key=lambda pair: -_words(pair.gold))
    wrong = sorted((pair for pair in pairs if pair.differences), key=lambda pair: -pair.differences)
    chosen = right[: _NUM_TREES // 2]
    chosen += wrong[: _NUM_TREES - len(chosen)]
    return render(
        "parsing_trees.html", style=Markup(STYLE), run=run, trial=rows[0]["trial"],
        examples=[
            {
                "number": pair.number,
                "differences": pair.differences,
                "gold": tree_figure(pair.gold, pair.made, f"Gold tree of sentence {pair.number}"),
                "made": tree_figure(pair.made, pair.gold, f"Predicted tree of sentence {pair.number}"),
            }
            for pair in chosen
        ],
    )  # fmt: skip


class _Pair:
    """A gold and a predicted tree, and how many constituents one has and the other has not."""

    def __init__(self, number: int, gold: str, made: str) -> None:
        self.number, self.gold, self.made = number, gold, made
        ours, theirs = brackets(gold), brackets(made)
        self.differences = (ours - theirs).total() + (theirs - ours).total()


def _test_trees(database: Path | str, runs: Path, run: str, kind: str) -> list[str]:
    artifacts = data.run(database, run)["artifacts"]
    path = next(row["path"] for row in artifacts if row["kind"] == kind and Path(row["path"]).name.startswith("test."))
    return (runs / run / path).read_text(encoding="utf-8").splitlines()


def _words(line: str) -> int:
    """Words of a bracketed line: each ends where a bracket closes at once after it, or a blank follows."""
    return sum(not token.startswith("(") for token in line.split())
