"""Corpora from their files to a finished run."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from core.data import corpora, own_corpora
from core.data.generated_corpus import GRAMMAR
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace
from studies.scales import Scale

Plan = Callable[..., list[PlannedRun]]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, tuple[Path, Path]]:
    corpus = replace(GRAMMAR, splits={"train": 1000, "dev": 20, "test": 10})
    found = {}
    for split in corpus.splits:
        paths = (tmp_path / f"{split}.en", tmp_path / f"{split}.de")
        for path, lines in zip(paths, corpus.load_pair(split, "en", "de", tmp_path), strict=True):
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        found[split] = paths
    return found


def test_a_run_names_an_added_corpus_as_any_other(
    tiny: Scale, plan: Plan, execute: Callable[[PlannedRun, Workspace], RunFolder], workspace: Workspace, files
) -> None:
    data = replace(tiny.base.data, corpus="letters", vocab_size=500)
    scale = replace(tiny, base=replace(tiny.base, data=data, model=replace(tiny.base.model, vocab_size=500)))
    (before,) = plan(workspace, "base", scale=scale)
    assert before.status.status == "blocked"
    assert before.status.reason.startswith("no corpus 'letters'")
    corpus = own_corpora.add(workspace.data, "letters", ("en", "de"), files, taken=corpora.CORPORA)
    (run,) = plan(workspace, "base", scale=scale)
    assert run.status.status == "queued"
    assert run.record.data_fingerprint == corpus.fingerprint(workspace.data)
    folder = execute(run, workspace)
    assert folder.status().status == "done", folder.status().reason
    measured = {each.dataset: each.num_items for each in folder.result().scores if "train" not in each.dataset}
    assert measured == {"letters/dev/en-de": 20, "letters/test/en-de": 10}
    own_corpora.remove(workspace.data, "letters")
    assert plan(workspace, "base", scale=scale)[0].status.status == "blocked"


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("AIAYN_DATA"), reason="set AIAYN_DATA to a folder with multi30k")
def test_multi30k_english_french_from_its_files_to_scores(
    tiny: Scale, plan: Plan, execute: Callable[[PlannedRun, Workspace], RunFolder], workspace: Workspace
) -> None:
    data = replace(
        tiny.base.data, corpus="multi30k", tgt="fr", dev_split="val", test_split="test_2016_flickr", vocab_size=600
    )
    (run,) = plan(workspace, "base", scale=replace(tiny, base=replace(tiny.base, data=data)))
    assert run.record.data_fingerprint == corpora.get("multi30k", workspace.data).fingerprint(
        workspace.data, ("en", "fr")
    )
    folder = execute(run, workspace)
    assert folder.status().status == "done", folder.status().reason
    measured = {each.dataset: each.num_items for each in folder.result().scores if "train" not in each.dataset}
    assert measured == {"multi30k/val/en-fr": 1014, "multi30k/test_2016_flickr/en-fr": 1000}
