"""Runs that are made up, where training does not matter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from results.records import RunResult, Score
from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "home")


@pytest.fixture
def pretend() -> Callable[..., RunFolder]:
    """Leaves a run as if it had been carried out: done with these scores, or ended with (reason, status)."""

    def make(
        run: PlannedRun,
        scores: Mapping[str, float] | Sequence[Score] = (),
        failure: tuple[str, str] | None = None,
    ) -> RunFolder:
        folder = RunFolder.create(run.folder.path.parent, run.record)
        attempt = folder.claim_attempt()
        attempt.log_metrics(12, "train", {"loss": 2.0}, seconds=1.0)
        attempt.close()
        if failure:
            attempt.fail(*failure)
        else:
            if isinstance(scores, Mapping):
                scores = [Score(name, value, "made up", "grammar/dev/en-de", 300) for name, value in scores.items()]
            folder.finish(RunResult(seconds=1.0, params=1_000, phases={"train": 1.0}, scores=tuple(scores)))
        return folder

    return make
