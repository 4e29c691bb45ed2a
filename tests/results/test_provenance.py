"""Hashes that name a run change with what decides its numbers, and with nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from results import provenance

IDENTITY: dict[str, Any] = {
    "study": "table3",
    "trial": "base",
    "seed": 1,
    "scale": "smoke",
    "config": {"model": {"d_model": 64, "dropout": 0.1}, "train": {"train_steps": 5}},
    "data_fingerprint": "d",
    "code_version": "c",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "core/trainer.py": "steps = 1\n",
        "core/data/corpus.py": "x = 1\n",
        "core/README.md": "a",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_one_line_of_the_trainer_changes_the_code_version(tree: Path) -> None:
    before = provenance.code_version([tree / "core"])
    assert len(before) == 12
    (tree / "core/trainer.py").write_text("steps = 2\n")
    assert provenance.code_version([tree / "core"]) != before


def test_other_files_and_other_places_do_not_change_the_code_version(tree: Path, tmp_path: Path) -> None:
    before = provenance.code_version([tree / "core"])
    (tree / "core/README.md").write_text("b")
    (tree / "core/__pycache__").mkdir()
    (tree / "core/__pycache__/trainer.cpython-311.pyc").write_bytes(b"1")
    assert provenance.code_version([tree / "core"]) == before
    (tree / "elsewhere").mkdir()
    (tree / "core").rename(tree / "elsewhere/core")
    assert provenance.code_version([tree / "elsewhere/core"]) == before


def test_moving_a_module_changes_the_code_version(tree: Path) -> None:
    before = provenance.code_version([tree / "core"])
    (tree / "core/trainer.py").rename(tree / "core/data/trainer.py")
    assert provenance.code_version([tree / "core"]) != before


def test_order_of_roots_does_not_matter_and_files_are_roots_too(tree: Path) -> None:
    (tree / "aiayn.py").write_text("pass")
    roots = [tree / "core", tree / "aiayn.py"]
    assert provenance.code_version(roots) == provenance.code_version(roots[::-1])
    assert provenance.code_version(roots) != provenance.code_version(roots[:1])


def test_absent_or_empty_roots_are_refused(tree: Path) -> None:
    with pytest.raises(ValueError, match="no source at"):
        provenance.code_version([tree / "nowhere"])
    (tree / "empty").mkdir()
    with pytest.raises(ValueError, match="no Python source"):
        provenance.code_version([tree / "empty"])


def test_run_id_does_not_depend_on_the_order_of_the_configuration() -> None:
    other = {"train": {"train_steps": 5}, "model": {"dropout": 0.1, "d_model": 64}}
    assert provenance.run_id(**IDENTITY) == provenance.run_id(**{**IDENTITY, "config": other})


@pytest.mark.parametrize(
    "change",
    [
        {"study": "table2"},
        {"trial": "big"},
        {"seed": 2},
        {"scale": "paper"},
        {"config": {"model": {"d_model": 65}}},
        {"data_fingerprint": "e"},
        {"code_version": "e"},
    ],
)
def test_run_id_changes_with_everything_that_decides_a_run(change: dict[str, Any]) -> None:
    assert provenance.run_id(**IDENTITY) != provenance.run_id(**{**IDENTITY, **change})


def test_run_id_stays_the_same_between_versions_of_this_tool() -> None:
    # Computed once with sha256sum over the canonical JSON; a change would make every finished run start again.
    assert provenance.run_id("s", "t", 1, "smoke", {}, "d", "c") == "64adad4d233e"


def test_collect_is_json_and_imports_no_torch() -> None:
    code = (
        "import sys, json; sys.path.insert(0, sys.argv[1])\n"
        "from results import provenance\n"
        "found = provenance.collect()\n"
        "print(json.dumps([found, sorted({'torch', 'ray', 'numpy', 'duckdb'} & set(sys.modules))]))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(provenance.SOURCE_ROOT)], capture_output=True, text=True, check=True
    ).stdout
    found, imported = json.loads(out)
    assert imported == []
    assert found["versions"]["duckdb"]
    assert found["hardware"]["cores"] >= 1
    assert found["hardware"]["memory_gib"] > 0
    assert set(found) >= {"host", "platform", "hardware", "gpus", "versions", "git_commit", "dirty"}


def test_installed_copy_inside_a_foreign_checkout_claims_no_commit(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(provenance, "SOURCE_ROOT", tmp_path)
    found = provenance.collect()
    assert found["git_commit"] is None
    assert found["dirty"] is None


def test_a_shipped_copy_tells_the_originals_commit(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(provenance, "SOURCE_ROOT", tmp_path)
    monkeypatch.setenv(provenance.GIT_STATE_VARIABLE, '{"git_commit": "abc", "dirty": true}')
    assert provenance.git_state() == {"git_commit": "abc", "dirty": True}
