"""Using a finished run: finding it by name, and loading it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.config import RunConfig
from core.data.corpus import DataError
from core.data.vocabulary import Vocabulary
from results.errors import ResultsError
from results.records import RunRecord, RunResult
from results.run_folder import DAMAGED, RunFolder
from studies.runs import Workspace
from studies.scheduling.survey import finished_runs
from studies.work import TRAINS, work_of

if TYPE_CHECKING:
    from core.sequence_model import SequenceModel


@dataclass(frozen=True)
class TrainedRun:
    """A finished run, ready to be used: its record, model in eval mode, and vocabulary."""

    record: RunRecord
    config: RunConfig
    model: SequenceModel
    vocabulary: Vocabulary


def find_run(workspace: Workspace, name: str) -> RunFolder:
    """The finished run that `name` means: an id, the beginning of one, or STUDY/TRIAL (the newest of that trial).

    Raises:
        ValueError: no finished run, or several, of that name.
    """
    folders = list(finished_runs(workspace))
    study, slash, trial = name.partition("/")
    if slash:
        of_trial = []
        for folder in folders:
            with suppress(ResultsError):  # as `finished_runs` passes over what cannot be read
                if (folder.record().study, folder.record().trial) == (study, trial):
                    of_trial.append((folder.result().finished, folder))
        if not of_trial:
            raise ValueError(f"no finished run of {name}; what is there: aiayn status --all")
        return max(of_trial, key=lambda pair: pair[0])[1]
    found = [folder for folder in folders if name and folder.path.name.startswith(name)]
    if not found:
        raise ValueError(f"no finished run {name!r}; give a run's id or STUDY/TRIAL; what is there: aiayn status --all")
    if len(found) > 1:
        some = ", ".join(folder.path.name for folder in found[:5])
        raise ValueError(f"{name!r} begins {len(found)} runs: {some}; give more of the id")
    return found[0]


def load_finished(record: RunRecord, workspace: Workspace) -> TrainedRun:
    """The run that another one, of this record, measures or learns from.

    Raises:
        ValueError: it is not done.
        ResultsError, CheckpointError, DataError: as `load_run`.
    """
    work = record.config["work"]
    source = RunFolder(workspace.runs / work["run"])
    status = source.status()
    if status.status != "done":
        begun = f"is {status.status}" + f" ({status.reason})" * bool(status.reason)
        state = begun if source.exists() else "was not begun"
        raise ValueError(
            f"it measures {work['study']}/{work['trial']} seed {record.seed} ({source.path.name}), which {state}; "
            "when that is done, start the command again"
        )
    return load_run(source)


def read_finished(folder: RunFolder) -> tuple[RunRecord, RunResult]:
    """What a finished run is and how it ended. Raises ResultsError, with what to do, where a file is damaged."""
    try:
        return folder.record(), folder.result()
    except ResultsError as error:
        raise ResultsError(f"run {folder.path.name}: {error}; {DAMAGED}") from error


def load_run(folder: RunFolder) -> TrainedRun:
    """Load a finished run's model and vocabulary from its folder; nothing else is needed.

    Raises:
        ResultsError, CheckpointError, DataError: a file is missing or damaged.
    """
    from core.architectures import build_model
    from core.checkpoint import load_payload

    record, result = read_finished(folder)
    work = record.config.get("work")
    if work is not None and not isinstance(work_of(record.config), TRAINS):
        other = f"measures a run and has no model; name that run: {work['run']}" if work.get("run") else "has no model"
        raise ValueError(f"{record.study}/{record.trial} {other}")
    path = folder.path / "model.pt"
    payload = load_payload(path, remedy=DAMAGED)
    if payload.get("run") != record.run:
        raise ResultsError(f"{path} is of run {payload.get('run')}, not of {record.run}; {DAMAGED}")
    config = RunConfig.from_dict(payload["config"])
    model = build_model(config.model)
    model.load_state_dict(payload["model"])
    return TrainedRun(record, config, model.eval(), _load_vocabulary(folder, result))


def _load_vocabulary(folder: RunFolder, result: RunResult) -> Vocabulary:
    """The vocabulary that the run was trained with; with another one its output would be nonsense."""
    path = folder.path / "vocabulary.json"
    try:
        vocabulary = Vocabulary.load(path)
    except DataError as error:
        raise DataError(f"{error}; {DAMAGED}") from error
    if folder.artifact("vocabulary", path) not in result.artifacts:
        raise DataError(f"{path} is not the one that the run was trained with; {DAMAGED}")
    return vocabulary
