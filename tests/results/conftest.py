"""A workspace in a temporary folder, and runs as a study would leave them there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from results import provenance
from results.records import PublishedTable3Row, RunRecord, RunResult, Score, StudyRow
from results.run_folder import RunFolder
from results.store import Store

CODE = "c0de00000001"
TRIALS = ("base", *(f"row{number}" for number in range(1, 19)), "big")


class Workspace:
    """A home, its store, and short ways to make what belongs there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store(home)
        self.runs_dir = self.store.runs_dir
        self._others = 0

    def another(self) -> Workspace:
        """A new empty workspace beside this one."""
        self._others += 1
        return Workspace(self.home.with_name(f"{self.home.name}-{self._others}"))

    def record(self, trial: str = "base", seed: int = 1, scale: str = "smoke", **changes: Any) -> RunRecord:
        fields: dict[str, Any] = {
            "study": "table3",
            "trial": trial,
            "seed": seed,
            "scale": scale,
            "config": {"model": {"d_model": 64}},
            "code_version": CODE,
            "data_fingerprint": "da7a00000001",
            **changes,
        }
        evidence = {"hardware": {"cpu": "test"}, "gpus": [], "versions": {}, "git_commit": None, "dirty": False}
        return RunRecord(run=provenance.run_id(**fields), provenance=evidence, **fields)

    def create(self, **fields: Any) -> RunFolder:
        return RunFolder.create(self.runs_dir, self.record(**fields))

    def score(self, name: str, value: float | None, **details: Any) -> Score:
        return Score(name, value, signature="nrefs:1|tok:13a", dataset="grammar/dev", num_items=100, details=details)

    def result(self, *scores: Score, params: int = 1_000_000) -> RunResult:
        return RunResult(seconds=12.5, params=params, phases={"train": 10.0, "decode": 2.5}, scores=scores)

    def add_attempt(
        self, folder: RunFolder, losses: Mapping[int, float], failure: tuple[str, str] | None = None
    ) -> None:
        """One attempt that logs a training loss per step, then perhaps fails with (reason, status)."""
        attempt = folder.claim_attempt()
        for step, loss in losses.items():
            attempt.log_metrics(step, "train", {"loss": loss}, seconds=float(step))
        attempt.close()
        if failure:
            attempt.fail(*failure)

    def add_run(
        self,
        losses: Mapping[int, float] | None = None,
        scores: Sequence[Score] = (),
        failure: tuple[str, str] | None = None,
        params: int = 1_000_000,
        **fields: Any,
    ) -> RunFolder:
        """A run of one attempt, done unless `failure` is given."""
        folder = self.create(**fields)
        self.add_attempt(folder, losses or {1: 2.0, 2: 1.5}, failure)
        if failure is None:
            folder.finish(self.result(*scores, params=params))
        return folder

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.store.read() as connection:
            return connection.execute(sql).fetchall()

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """All rows of the tables that come from run folders."""
        tables = ("runs", "metrics", "scores", "artifacts", "problems", "internal.ingested")
        return {table: self.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in tables}

    def dump_after_rebuild(self) -> dict[str, list[tuple[Any, ...]]]:
        self.store.rebuild()
        return self.dump()

    def start_python(self, code: str, *arguments: object) -> subprocess.Popen[str]:
        """Another Python process of this source tree, with `home` and the arguments in sys.argv[1:]."""
        return subprocess.Popen(
            [sys.executable, "-c", code, str(self.home), *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(provenance.SOURCE_ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def register(self) -> None:
        """The registry with Table 3 and no claims."""
        self.store.sync_registry([TABLE3], [], PUBLISHED)


TABLE3 = StudyRow(study="table3", title="Variations on the Transformer", cells="Table 3")

# As many rows as Table 3 has, with the numbers of its base row and 0.1 BLEU less a row.
PUBLISHED = [
    PublishedTable3Row(
        position=position,
        row="base" if trial == "base" else "A",
        trial=trial,
        N=6,
        d_model=512,
        d_ff=2048,
        h=8,
        d_k=64,
        d_v=64,
        p_drop=0.1,
        eps_ls=0.1,
        positions="sinusoid",
        train_steps=100_000,
        ppl=4.92,
        bleu=25.8 - 0.1 * position,
        params_millions=65.0 if trial == "base" else None,
    )
    for position, trial in enumerate(TRIALS)
]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "home")


@pytest.fixture(scope="module")
def shared_workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """One for all tests of a module that only read: Table 3 registered, one finished run."""
    workspace = Workspace(tmp_path_factory.mktemp("shared") / "home")
    workspace.register()
    workspace.add_run()
    workspace.store.ingest()
    return workspace


@pytest.fixture
def published() -> list[PublishedTable3Row]:
    return list(PUBLISHED)


@pytest.fixture
def table3_study() -> StudyRow:
    return TABLE3
