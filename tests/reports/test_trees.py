"""Drawn trees: every word and label in its place, differences marked, nothing of a text taken for markup."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from reports import parsing
from reports.trees import brackets, save_trees, tree_figure
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.scorecard import open_store

GOLD = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NN milk))) (. .)))"
MADE = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sees) (PP (NN milk))) (. .)))"


def texts(svg: str) -> list[tuple[str, str, float, float]]:
    """(text, class, x, y) of each text of a picture."""
    return [
        (node.text, node.get("class"), float(node.get("x")), float(node.get("y")))
        for node in ElementTree.fromstring(svg).iter()
        if node.tag.endswith("text")
    ]


def test_words_stand_from_left_to_right_and_labels_above_what_they_hold() -> None:
    found = texts(str(tree_figure(GOLD)))
    words = sorted((x, text) for text, kind, x, _ in found if kind == "word")
    assert [text for _, text in words] == ["the", "dog", "sees", "milk", "."]
    assert all(right - left > 10 for (left, _), (right, _) in pairwise(words))
    height = {text: y for text, _, _, y in found}
    assert height["TOP"] < height["S"] < height["VP"] < height["VBZ"] < height["sees"]


def test_what_the_other_tree_has_not_is_marked_on_both_sides() -> None:
    assert [text for text, kind, _, _ in texts(str(tree_figure(GOLD, MADE))) if kind == "wrong"] == ["NP"]
    assert [text for text, kind, _, _ in texts(str(tree_figure(MADE, GOLD))) if kind == "wrong"] == ["PP"]
    assert not [text for text, kind, _, _ in texts(str(tree_figure(GOLD, GOLD))) if kind == "wrong"]


def test_brackets_are_constituents_with_their_words_and_no_tags() -> None:
    assert brackets(GOLD) == {("TOP", 0, 5): 1, ("S", 0, 5): 1, ("NP", 0, 2): 1, ("VP", 2, 4): 1, ("NP", 3, 4): 1}
    assert brackets("(NP (NP (NP (NN a))) b)") == {("NP", 0, 2): 1, ("NP", 0, 1): 2}


def test_hostile_words_are_text(tmp_path: Path) -> None:
    line = "(TOP (NP (NN <script>alert</script>) (-LRB- -LRB-) (NN &amp;)))"
    found = [text for text, kind, _, _ in texts(str(tree_figure(line))) if kind == "word"]
    assert found == ["<script>alert</script>", "(", "&amp;"]
    save_trees(tmp_path / "two.svg", [line, GOLD])
    assert len(texts((tmp_path / "two.svg").read_text(encoding="utf-8"))) == len(texts(str(tree_figure(line)))) + len(
        texts(str(tree_figure(GOLD)))
    )


def test_pictures_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tree.pdf is no .svg file"):
        save_trees(tmp_path / "tree.pdf", [GOLD])
    with pytest.raises(ValueError, match="there is no tree to draw"):
        save_trees(tmp_path / "tree.svg", [])
    with pytest.raises(ValueError, match="cannot write"):
        save_trees(tmp_path / "absent" / "tree.svg", [GOLD])


def test_fragments_tell_a_run_of_ours(
    parser_run: RunFolder, plan_parsing: Callable[..., list[PlannedRun]], execute: Callable[..., RunFolder]
) -> None:
    workspace = Workspace(parser_run.path.parent.parent)
    execute(plan_parsing(workspace, "right_branching")[0], workspace)
    store, _ = open_store(workspace)
    trials = parsing.all_trials(store.database, "smoke")
    assert "wsj_only" in trials
    assert "right_branching" in trials
    for made in (parsing.by_length, parsing.by_label, parsing.errors):
        assert "wsj_only" in made(store.database, "smoke")
    shown = parsing.trees(store.database, workspace.runs, "smoke")
    assert shown.count("<svg") >= 2
    assert f"run {parser_run.path.name}" in shown


def test_fragments_say_so_where_nothing_was_parsed(empty_home: Path) -> None:
    database = empty_home / "results.duckdb"
    for made in (parsing.all_trials, parsing.by_length, parsing.by_label, parsing.errors):
        assert "Nothing has been parsed" in made(database, "small")
    assert "Nothing has been parsed" in parsing.trees(database, empty_home / "runs", "small")
