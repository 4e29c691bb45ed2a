"""`aiayn attend`: a person's own sentence told, drawn and explored; in this process, since each start takes seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import aiayn
from results.run_folder import RunFolder
from studies.trained.attention import attend as attend_to
from studies.trained.loading import load_run

Attend = Callable[..., tuple[int, str, str]]
SENTENCE = "The man saw <b> & $his$ law."


@pytest.fixture
def attend(unbroken: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Attend:
    """Runs `aiayn attend table3/base ...`; returns exit code, output and errors."""
    home = unbroken.path.parent.parent

    def run(*arguments: object) -> tuple[int, str, str]:
        asked = ["aiayn", "attend", "table3/base", *map(str, arguments), "--home", str(home)]
        monkeypatch.setattr("sys.argv", asked)
        with pytest.raises(SystemExit) as end:
            aiayn.main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out, said.err

    return run


def test_what_heads_look_at_is_told(attend: Attend, unbroken: RunFolder) -> None:
    code, told, _ = attend(SENTENCE, "--head", 3, "--head", 5)
    assert code == 0
    assert "head 3" in told
    assert "head 4" not in told
    code, told, _ = attend(SENTENCE, "--head", 3, "--word", "man", "--json")
    (row,) = json.loads(told)
    assert (row["looks"], row["head"]) == ("man", 3)
    weights = attend_to(load_run(unbroken), SENTENCE, layers=[2], kinds=["encoder"]).word_layer("encoder", 2)
    assert row["weight"] == pytest.approx(float(weights[2, row["position"]].max()))
    assert row["at_position"] == int(np.argmax(weights[2, row["position"]]))


def test_pictures_and_a_page_are_written(attend: Attend, tmp_path: Path) -> None:
    for name, more in (
        ("columns.svg", ["--word", "man"]),
        ("grid.png", ["--view", "grid"]),
        ("matrix.pdf", ["--view", "matrix", "--head", "1", "--pieces"]),
        ("cross.svg", ["--target", "Der Mann sah sein Gesetz."]),
        ("explore.html", []),
    ):
        code, _, said = attend(SENTENCE, "-o", tmp_path / name, *more)
        assert code == 0, said
        assert (tmp_path / name).stat().st_size > 1_000
    assert "table3/base seed 1: encoder attention, layer 2 of 3" in (tmp_path / "columns.svg").read_text()
    cross = (tmp_path / "cross.svg").read_text()
    assert "cross attention" in cross
    assert "Gesetz" in cross
    assert "Attention of table3/base" in (tmp_path / "explore.html").read_text()


def test_without_a_target_the_decoder_reads_the_runs_own_translation(unbroken: RunFolder) -> None:
    from core.decode import translate

    run = load_run(unbroken)
    (source,) = run.vocabulary.encode_batch(["The man sleeps."])
    (own,) = translate(run.model, [source], run.config.decode)
    sentence = attend_to(run, "The man sleeps.", kinds=["cross"])
    assert sentence.sides["target"].pieces == ("⟨bos⟩", *run.vocabulary.pieces(own.pieces))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["A law.", "--head", "9"], ["no head 9: layer 2 has heads 1 to 8"]),
        (["A law.", "--layer", "4"], ["no layer 4: this model has layers 1 to 3"]),
        ([" "], ["there is no text", "give a sentence"]),
        (["a " * 600], ["the text has 601 word pieces", "more than 512"]),
        (["A law.", "--word", "its"], ["no word 'its' in: A law"]),
        (["A law.", "-o", "law.gif"], ["cannot draw law.gif", ".png, .svg, .pdf or .html"]),
        (["A law.", "-o", "none/law.png"], ["cannot write none/law.png", "-o"]),
        (["A law.", "--view", "matrix", "-o", "law.png"], ["a matrix shows one head"]),
        (["A law.", "--layer", "77", "-o", "law.html"], ["no layer 77: this model has layers 1 to 3"]),
        (["A law.", "--head", "1", "--pieces", "-o", "law.html"], ["--head and --pieces cannot", "page to explore"]),
        (["A law.", "--word", "law", "-o", "law.html"], ["--word cannot be had with a page to explore"]),
        (["A law.", "--view", "columns", "-o", "law.html"], ["--view cannot be had with a page to explore"]),
        (["A law.", "--view", "grid"], ["--view cannot be had with an answer in words", "-o"]),
        (["A law.", "--json", "-o", "law.svg"], ["--json cannot be had with a picture"]),
    ],
    ids=[
        *("head", "layer", "no text", "long", "word", "form", "folder", "matrix"),
        *("page's layer", "page's head", "page's word", "page's view", "view in words", "picture in JSON"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_line(arguments: list[str], parts: list[str], attend: Attend) -> None:
    code, told, said = attend(*arguments)
    assert code == 2
    assert told == ""
    assert len(said.strip().splitlines()) == 1
    for part in parts:
        assert part in said
    assert not Path("law.html").exists()


def test_page_is_opened_at_a_layer_that_is_there(attend: Attend, tmp_path: Path) -> None:
    code, _, said = attend(SENTENCE, "-o", tmp_path / "explore.html", "--layer", 3, "--kind", "cross")
    assert code == 0, said
    assert '"start":{"layer":3,"kind":"cross"}' in (tmp_path / "explore.html").read_text()
