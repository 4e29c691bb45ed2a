"""What `aiayn doctor` finds amiss in a workspace (the whole command: test_cli)."""

from __future__ import annotations

from pathlib import Path

from studies.runs import Workspace
from studies.scheduling import doctor


def test_damaged_corpus_is_a_finding_beside_the_states_of_the_others(workspace: Workspace) -> None:
    record = workspace.data / "own" / "letters" / "corpus.json"
    record.parent.mkdir(parents=True)
    record.write_text("garbage")
    finding = doctor._data(workspace)
    assert not finding.ok
    assert "grammar: embedded" in finding.found
    assert finding.advice.endswith("remove it with: aiayn data remove letters")


def test_home_that_cannot_be_made_is_told_and_one_that_can_is_not_made(tmp_path: Path) -> None:
    assert doctor._home(Workspace(tmp_path / "new" / "home")).ok
    assert list(tmp_path.iterdir()) == []
    assert not doctor._home(Workspace(Path("/proc/home"))).ok
