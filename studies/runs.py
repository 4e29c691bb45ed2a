"""From a study, a scale and seeds to the runs that they mean, and where each of them stands.

Needs neither torch nor ray: listing, planning and asking for the state answer at once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from core.config import DataConfig, RunConfig
from results import provenance
from results.database import lock_file
from results.records import RunRecord
from results.run_folder import RunFolder, RunStatus
from studies.registry import get_study
from studies.scales import PAPER, Scale
from studies.study import Study
from studies.work import TRAINING, TRAINS, AttentionProbe, Work

if TYPE_CHECKING:
    from core.data.corpus import Corpus

MOST_SEEDS = 1_000
_ROOT = Path(__file__).resolve().parent.parent
# What of this folder decides a run's numbers; the engine does as a whole.
CARRYING_OUT = ("trials/execution.py", "trials/scoring.py", "trials/trial.py")


@dataclass(frozen=True)
class Workspace:
    """A workspace's places, all below `home`, which is made absolute: Ray's workers run in folders of their own.

    None of them need exist. ValueError, before any work is put into it, where one cannot be: its name is no UTF-8 or
    too long, or a file is in the place of a folder, or a folder in that of a file.
    """

    home: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "home", self.home.absolute())
        folders = (self.home, self.runs, self.data, self.ray, self.site)
        files = (self.database, lock_file(self.database), self.ray_log)
        for meant, places in (("folder", folders), ("file", files)):
            for place in places:
                try:
                    os.fspath(place).encode()  # or neither DuckDB nor Ray can name it
                    found = "folder" if stat.S_ISDIR(place.stat().st_mode) else "file"
                except (FileNotFoundError, PermissionError):  # none yet, or whoever needs it will be told
                    continue
                except (OSError, UnicodeEncodeError) as error:
                    why = error.strerror if isinstance(error, OSError) else "its name is no UTF-8"
                    raise ValueError(f"nothing can be at {place} ({why}); name another home with --home") from None
                if found != meant:
                    raise ValueError(
                        f"{place} is a {found} where a {meant} is meant; move it away, or name another home with --home"
                    )

    @property
    def runs(self) -> Path:
        """Run folders: the truth."""
        return self.home / "runs"

    @property
    def data(self) -> Path:
        """Downloaded and prepared corpora."""
        return self.home / "data"

    @property
    def database(self) -> Path:
        """What `aiayn query` reads; can be rebuilt from the run folders."""
        return self.home / "results.duckdb"

    @property
    def ray(self) -> Path:
        """What Ray Tune keeps for the time of a command."""
        return self.home / "ray"

    @property
    def ray_log(self) -> Path:
        """What Ray's processes print, of all commands."""
        return self.home / "ray.log"

    @property
    def site(self) -> Path:
        """The rendered reports."""
        return self.home / "site"

    def is_one(self) -> bool:
        """Whether the folder has runs or a database, or else nothing but what a workspace has before its first run."""
        if os.path.isdir(self.runs) or os.path.isfile(self.database):
            return True
        try:
            inside = os.listdir(self.home)
        except OSError:
            return False
        own = {place.name for place in (self.data, self.ray, self.site)}
        return all(name in own or name.startswith(self.database.name) for name in inside)


@dataclass(frozen=True)
class PlannedRun:
    """One run of a study: its record, complete, and where it stands in a workspace.

    `config` is of the model that it trains, or that it measures: then `needs` is the run that trains it.
    """

    record: RunRecord
    config: RunConfig
    folder: RunFolder
    status: RunStatus
    work: Work = TRAINING
    needs: PlannedRun | None = None

    @property
    def trains(self) -> bool:
        """Whether it costs a training."""
        return isinstance(self.work, TRAINS)

    @property
    def is_to_start(self) -> bool:
        """Whether a command that asks for it starts it: what has diverged or is damaged only runs again on demand."""
        return self.status.status in ("queued", "failed") and not self.status.damaged


@cache
def code_version() -> str:
    """Hash of all source that decides a run's numbers: the engine, and what carries a run out."""
    return provenance.code_version([_ROOT / "core", *(_ROOT / "studies" / name for name in CARRYING_OUT)])


@cache
def judging_version() -> str:
    """Hash of all source that decides a verdict from a run's numbers, and of what makes the numbers."""
    return provenance.code_version([_ROOT / "core", _ROOT / "studies"])


@cache
def _provenance() -> dict:
    return provenance.collect()


def missing_corpus(config: RunConfig, cache_dir: Path) -> str | None:
    """What a configuration needs and is not here, with what to do; None if nothing. Reads no text."""
    from core.data import corpora  # here, as listing needs no corpus and must answer at once

    return _obstacle(lambda: corpora.get_pairs(config.data, cache_dir), (config.data.src, config.data.tgt), cache_dir)


def corpus_obstacle(name: str, languages: tuple[str, ...] | None, cache_dir: Path) -> str | None:
    """Why a run cannot begin on these languages of a corpus, and what to do; None where it can."""
    from core.data import corpora

    return _obstacle(lambda: corpora.get(name, cache_dir), languages, cache_dir)


def _obstacle(find: Callable[[], Corpus], languages: tuple[str, ...] | None, cache_dir: Path) -> str | None:
    from core.data.corpus import DataError

    try:
        return find().obstacle(cache_dir, languages)
    except (ValueError, DataError) as error:
        return str(error)


def corpus_state(data: DataConfig, cache_dir: Path) -> str:
    """The fingerprint of the text that these splits read, or in words why there is none."""
    from core.data import corpora
    from core.data.corpus import DataError

    try:
        return corpora.get_pairs(data, cache_dir).fingerprint(cache_dir, (data.src, data.tgt))
    except (ValueError, OSError, DataError) as error:
        return f"unusable ({error})"


def data_fingerprint(config: RunConfig, cache_dir: Path) -> str:
    """The fingerprint of the text that a configuration reads; `none` where that is not here and nothing pins it."""
    from core.data import corpora

    if missing_corpus(config, cache_dir):
        return "none"
    return corpora.get_pairs(config.data, cache_dir).fingerprint(cache_dir, (config.data.src, config.data.tgt))


def require_seeds(number: int) -> None:
    """Raise ValueError unless so many seeds can be planned."""
    if number < 1:
        raise ValueError(f"{number} seeds: at least 1 is needed")
    if number > MOST_SEEDS:
        raise ValueError(f"{number} seeds: at most {MOST_SEEDS:,} are planned at once")


def plan_runs(
    study: Study, scale: Scale, num_seeds: int, workspace: Workspace, trials: Sequence[str] = ()
) -> list[PlannedRun]:
    """All runs of a study at a scale, for seeds 1 to `num_seeds`, in the study's order.

    What has sizes of its own (`Work.full_size`) is the same run at every scale, and belongs to the paper's.
    A run whose corpus this version does not have is planned too, with the status `blocked` and the reason; its id is
    provisional.

    Args:
        trials: names of the trials wanted; none means all.

    Raises:
        ValueError: an unknown trial, fewer than one seed, or more than MOST_SEEDS.
        DataError: the corpus's files are not as they should be.
    """
    require_seeds(num_seeds)
    chosen = [study.trial(name) for name in dict.fromkeys(trials)] or list(study.trials)
    planned = []
    data_states: dict[DataConfig, tuple[str | None, str]] = {}
    for trial in chosen:
        work = _on_best_analysis(trial.work_at(scale), scale, workspace.data)
        at = PAPER if work.full_size else scale
        config = trial.config(at)
        if work.reads_corpus and config.data not in data_states:  # most trials of a study share one
            data_states[config.data] = (
                missing_corpus(config, workspace.data),
                data_fingerprint(config, workspace.data),
            )
        missing, fingerprint = data_states[config.data] if work.reads_corpus else (None, "none")
        needed: list[PlannedRun | None] = [None] * num_seeds
        if work.measures is not None:
            other, name = work.measures
            needed = plan_runs(get_study(other), scale, num_seeds, workspace, [name])
        plain = config.to_dict()
        for seed, needs in enumerate(needed, start=1):
            stored = plain | work.to_config(needs and needs.record.run)
            run = provenance.run_id(study.name, trial.name, seed, at.name, stored, fingerprint, code_version())
            record = RunRecord(
                run=run,
                study=study.name,
                trial=trial.name,
                seed=seed,
                scale=at.name,
                config=stored,
                code_version=code_version(),
                data_fingerprint=fingerprint,
                provenance=_provenance(),
            )
            folder = RunFolder(workspace.runs / run)
            status = RunStatus("blocked", missing) if missing else folder.status()
            planned.append(PlannedRun(record, config, folder, status, work, needs))
    return planned


def _on_best_analysis(work: Work, scale: Scale, cache_dir: Path) -> Work:
    """Attention is measured on a treebank's sentences where the scale names one that is here."""
    if not isinstance(work, AttentionProbe) or work.needs_antecedents:
        return work
    from core.data import corpora

    here = (name for name in scale.treebanks if corpora.get(name, cache_dir).state(cache_dir).usable)
    return replace(work, treebank=next(here, None))


def with_needed(requested: Sequence[tuple[Study, Sequence[PlannedRun]]]) -> list[tuple[Study, Sequence[PlannedRun]]]:
    """A request, and before it the runs that it measures and does not ask for, by their study."""
    needed = needed_runs(run for _, runs in requested for run in runs)
    studies = dict.fromkeys(run.record.study for run in needed)
    return [
        *((get_study(name), [run for run in needed if run.record.study == name]) for name in studies),
        *requested,
    ]


def needed_runs(planned: Iterable[PlannedRun]) -> list[PlannedRun]:
    """The runs that these measure and that are not among them, each once."""
    planned = list(planned)
    asked = {run.record.run for run in planned}
    return list(
        {
            run.needs.record.run: run.needs
            for run in planned
            if run.needs is not None and run.needs.record.run not in asked
        }.values()
    )
