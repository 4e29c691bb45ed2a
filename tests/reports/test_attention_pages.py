"""The report's parts on attention, on a small workspace that probes have filled, and on ones where something lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reports import attention_pages
from results.attention_file import SentenceAttention, TokenSide, save
from results.errors import ResultsError
from results.provenance import run_id
from results.records import RunRecord, RunResult, Score
from results.run_folder import RunFolder
from results.store import Store

CODE = "c0de00000001"
MAKING = ["It", "is", "making", "the", "registration", "more", "difficult", "."]
LAW = ["The", "Law", "is", "good", ",", "but", "its", "application", "$should$", "be", "<just>", "."]
PROVENANCE = {"hardware": {}, "gpus": [], "versions": {}, "git_commit": None, "dirty": False}


def sentence(id_: str, words: list[str], layers: tuple[int, ...], kinds: tuple[str, ...]) -> SentenceAttention:
    draw = np.random.default_rng(len(words))
    source = TokenSide(tuple(words), tuple(range(len(words))), tuple(words))
    target = TokenSide(("⟨bos⟩", "▁ja"), (0, 1), ("⟨bos⟩", "ja"))
    sizes = {"encoder": (len(words), len(words)), "decoder": (2, 2), "cross": (2, len(words))}
    weights = {kind: draw.dirichlet(np.full(sizes[kind][1], 0.3), (len(layers), 8, sizes[kind][0])) for kind in kinds}
    sides = {"source": source} | ({"target": target} if len(kinds) > 1 else {})
    return SentenceAttention(id_, " ".join(words), sides, layers, weights)


ROLE = {
    "layer": 2, "head": 3, "relation": "nsubj to its governor", "accuracy": 0.9, "offset_accuracy": 0.4,
    "aligned": True, "entropy": 1.5, "to_itself": 0.1, "to_previous": 0.2, "to_next": 0.3, "to_end": 0.1,
    "to_punctuation": 0.05,
}  # fmt: skip
INTERVAL = {"low": 0.4, "high": 0.6, "replicates": [0.5]}
BY_DISTANCE = {"3": {"heads": 0.5, "verbs": 9}, "12": {"heads": 0.1, "verbs": 6}}
SCORES = {
    "figure3": {"far_heads": (0.5, {"by_distance": BY_DISTANCE}),
                "far_heads_shuffled": (0.4, {}), "far_best_head": (0.3, {}), "far_best_offset": (0.6, {}),
                "attention_share": (0.1, {})},
    "figure4": {"antecedent_share": (0.5, {}), "antecedent_shuffled": (0.1, {}), "antecedent_hits": (0.5, {}),
                "antecedent_offset": (0.2, {}), "attention_share": (0.6, {"heads": [5, 2]})},
    "figure5": {"mean_head_distance": (0.5, {}), "head_distance": (0.7, {"heads": [2, 7]}),
                "relation_heads": (1, {"roles": [ROLE, ROLE | {"head": 4, "relation": "", "aligned": False}]})},
}  # fmt: skip


def add_probe(home: Path, study: str, trial: str, seed: int = 1) -> RunFolder:
    """A finished probe with its scores and its file."""
    config = {"work": {"kind": "AttentionProbe", "run": "abcdef012345"}}
    run = run_id(study, trial, seed, "smoke", config, "da7a", CODE)
    record = RunRecord(run, study, trial, seed, "smoke", config, CODE, "da7a", PROVENANCE)
    folder = RunFolder.create(home / "runs", record)
    folder.claim_attempt().close()
    layers = (1, 2, 3) if study == "figure5" else (2,)
    kinds = ("encoder", "decoder", "cross") if study == "figure5" else ("encoder",)
    path = folder.path / "attention.npz"
    kept = [("paper/figure3", MAKING), ("paper/figure4", LAW), ("grammar/attention/4", ["He", "sleeps", "."])]
    save(path, [sentence(id_, words, layers, kinds) for id_, words in kept], {"measured": "abcdef012345"})
    scores = tuple(
        Score(name, value, "attention", "grammar/attention/en", 1_000, {"test_set_interval": INTERVAL} | details)
        for name, (value, details) in SCORES[study].items()
    )
    folder.finish(RunResult(1.0, 100, {"measure": 1.0}, scores, (folder.artifact("attention", path),)))
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which every figure's probes are done."""
    home = tmp_path_factory.mktemp("probed {home}")
    for study in SCORES:
        for trial in ("attention", "untrained"):
            add_probe(home, study, trial)
    Store(home).ingest()
    return home


def places(home: Path) -> tuple[Path, Path]:
    return home / "results.duckdb", home / "runs"


@pytest.mark.parametrize(
    ("study", "number", "words"), [("figure3", 2, "making"), ("figure4", 2, "its"), ("figure5", 2, "Law")]
)
def test_each_figure_is_drawn_from_a_run(study: str, number: int, words: str, home: Path) -> None:
    html = attention_pages.pictures(*places(home), study, "smoke")
    assert html.count("<svg") == number
    assert words in html
    assert "Layer 2, run " in html


def test_the_heads_drawn_are_those_that_were_measured_best(home: Path) -> None:
    """F7: a head is chosen by a measure, and named."""
    figure4 = attention_pages.pictures(*places(home), "figure4", "smoke")
    assert "all of head 5" in figure4
    assert "head 2 " in figure4
    figure5 = attention_pages.pictures(*places(home), "figure5", "smoke")
    assert "Figure 5: head 2" in figure5
    assert "Figure 5: head 7" in figure5


def test_markup_in_a_sentence_stays_text(home: Path) -> None:
    html = attention_pages.pictures(*places(home), "figure4", "smoke")
    assert "&lt;just&gt;" in html
    assert "<just>" not in html
    assert "$should$" in html


@pytest.mark.parametrize(("study", "panels"), [("figure3", 3), ("figure4", 2), ("figure5", 1)])
def test_measures_stand_beside_their_nulls(study: str, panels: int, home: Path) -> None:
    html = attention_pages.against_nulls(places(home)[0], study, "smoke")
    assert html.count('class="panel"') == panels
    assert "untrained" in html


def test_what_each_head_does_is_a_table_and_a_picture(home: Path) -> None:
    table = attention_pages.roles(places(home)[0], "smoke")
    assert "1 of 2 heads" in table
    assert "nsubj to its governor" in table
    assert attention_pages.roles_drawn(places(home)[0], "smoke").count("<svg") == 1
    assert attention_pages.all_heads(*places(home), "smoke").count("<svg") == 3


def test_the_explorer_has_all_sentences_of_the_run(home: Path, tmp_path: Path) -> None:
    page = attention_pages.build_explorer(*places(home), "smoke", tmp_path)
    assert page == tmp_path / "attention-smoke.html"
    text = page.read_text(encoding="utf-8")
    for id_ in ("paper/figure3", "paper/figure4", "grammar/attention/4"):
        assert f'"{id_}"' in text
    assert attention_pages.build_explorer(*places(home), "small", tmp_path) is None


def test_without_a_probe_the_page_says_how_to_make_one(empty_home: Path, tmp_path: Path) -> None:
    database, runs = places(empty_home)
    for study in SCORES:
        assert f"aiayn run {study} --scale smoke" in attention_pages.pictures(database, runs, study, "smoke")
        assert "Nothing is measured yet" in attention_pages.against_nulls(database, study, "smoke")
    assert "aiayn run figure5" in attention_pages.roles(database, "smoke")
    assert "aiayn run figure5" in attention_pages.all_heads(database, runs, "smoke")
    (tmp_path / "attention-smoke.html").write_text("of yesterday", encoding="utf-8")
    assert attention_pages.build_explorer(database, runs, "smoke", tmp_path) is None
    assert list(tmp_path.glob("attention-*")) == []


def test_a_file_that_is_damaged_is_named_in_place_of_the_picture(tmp_path: Path) -> None:
    folder = add_probe(tmp_path, "figure5", "attention")
    Store(tmp_path).ingest()
    (folder.path / "attention.npz").write_bytes(b"torn")
    html = attention_pages.pictures(*places(tmp_path), "figure5", "smoke")
    assert "No picture" in html
    assert "attention.npz" in html
    with pytest.raises(ResultsError, match=r"attention\.npz is damaged and holds no attention weights"):
        attention_pages.build_explorer(*places(tmp_path), "smoke", tmp_path)
