"""The files of one run, which are the truth about it: HOME/runs/<run id>/.

    run.json          what the run is and where it came from (RunRecord); the folder appears with it in one rename
    attempt-001/      one folder per start, claimed by mkdir, so no two processes ever write the same file
        started.json  when, by which process, on which host
        machine.json  what it ran on, and of how many ranks
        metrics.jsonl one JSON object per line and metric, only ever appended to
        heartbeat     touched while the attempt lives
        checkpoints/  written by the trainer; log.txt: the traceback of a failure
        notes.jsonl   what the attempt found amiss and went on without, such as a damaged checkpoint
        error.json    why the attempt failed
    result.json       how the run ended well (RunResult); written last, in one rename

A process may be killed at any byte: each JSON file is whole or absent, and only the last line of metrics.jsonl
can be torn. What state a run is in follows from the files alone (`RunFolder.status`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from results import provenance
from results.errors import ResultsError
from results.records import Artifact, RunRecord, RunResult, utc_now

# An attempt that gave no sign of life for this long is taken for dead.
HEARTBEAT_SECONDS = 60.0
# The workers of a killed command live on for a few seconds, those of a killed node for a dozen.
ORPHAN_SECONDS = 15.0

# The kind of artifact that an attempt's metrics.jsonl is.
METRICS = "metrics"

# Where JSON may have what no database keeps: surrogates, and numbers that are none or too large. One by one they are
# found ten times as fast as together, and every command looks at every result.
_SUSPECT = tuple(map(re.compile, (rb"\\u[dD][89a-fA-F]", rb"NaN", rb"Infinity", rb"[eE]\+?\d{3,}[,\s\]}]")))
ATTEMPT_NAME = re.compile(r"attempt-(\d{3,})")


@dataclass(frozen=True)
class RunStatus:
    """`status` is queued, running, done, failed or diverged; `reason` is one line, empty where there is none.

    `damaged`: its files are not as a run leaves them, so that it is not tried again before they are put right.
    """

    status: str
    reason: str = ""
    damaged: bool = False


DAMAGED = "put the original file back, or run it again with --rerun"


def unreadable(error: OSError) -> str:
    """What an odd file or folder of a run is told as, in a line."""
    where = Path(error.filename).name if isinstance(error.filename, str) else "a file"
    return f"{where} cannot be read ({error.strerror or error})"


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file that is whole or absent, whenever the process or the machine stops. NaN raises ValueError."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises ResultsError that names the file and what is wrong with it."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ResultsError(f"{path.name} is missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(f"{path.name} cannot be read: {error}") from None


def storable_json(value: Any) -> str:
    """The value as JSON text that UTF-8 and SQL can keep.

    Raises ValueError for numbers that are not finite, and for half of a surrogate pair; Python's JSON takes both.
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    require_characters(text)
    return text


def _require_storable(file: Path, content: RunRecord | RunResult) -> None:
    """Raises ValueError where the database could not keep what was read from the file."""
    text = file.read_bytes()
    if any(pattern.search(text) for pattern in _SUSPECT):
        storable_json(content.to_json())


def require_characters(text: str) -> None:
    """Raises ValueError for half of a surrogate pair, which JSON can spell and neither UTF-8 nor SQL can keep."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{error.object[error.start]!r} in it is no character") from None


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file of lines, none where there is no file; what is torn or no object is left out."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict):
                yield row


def _process_exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Attempt:
    """One start of a run and the files it alone writes. `RunFolder.claim_attempt` makes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = int(ATTEMPT_NAME.fullmatch(path.name)[1])
        self.started_file = path / "started.json"
        self.machine_file = path / "machine.json"
        self.metrics_file = path / "metrics.jsonl"
        self.heartbeat_file = path / "heartbeat"
        self.notes_file = path / "notes.jsonl"
        self.error_file = path / "error.json"
        self.log_file = path / "log.txt"
        self.checkpoints = path / "checkpoints"
        self._metrics: TextIO | None = None

    def log_metrics(self, step: int, split: str, values: Mapping[str, float | None], seconds: float) -> None:
        """Append the metrics of one step, a line each; they are with the operating system when this returns.

        `split` is train, dev or test; `seconds` is training time since the run first started, carried over resumes.
        A NaN or infinite value is kept in the file and becomes NULL in the database.
        """
        if self._metrics is None:
            self._metrics = self.metrics_file.open("a", encoding="utf-8")
        for name, value in values.items():
            number = None if value is None else float(value)
            row = {"step": int(step), "split": split, "name": name, "value": number, "seconds": float(seconds)}
            self._metrics.write(json.dumps(row) + "\n")
        self._metrics.flush()

    def logged(self, split: str, name: str) -> dict[int, float]:
        """One metric by step, as far as its lines can be read; values that are not finite are left out."""
        found = {}
        for row in _json_lines(self.metrics_file):
            match row:
                case {"step": int(step), "split": s, "name": n, "value": float(value)} if (s, n) == (split, name):
                    if math.isfinite(value):
                        found[step] = value
        return found

    def note(self, text: str) -> None:
        """Write down, as one line, what is amiss and does not end the attempt."""
        with self.notes_file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": utc_now(), "note": " ".join(text.split())}) + "\n")

    def notes(self) -> list[str]:
        """What `note` was told, oldest first."""
        return [row["note"] for row in _json_lines(self.notes_file) if isinstance(row.get("note"), str)]

    def record_machine(self, machine: Mapping[str, Any]) -> None:
        """Keep what the attempt runs on: `provenance.machine` of its process, `ranks`, and its `gpus` by name."""
        write_json(self.machine_file, machine)

    def machine(self) -> Mapping[str, Any]:
        """What `record_machine` was told; empty where there is nothing that can be read."""
        try:
            machine = read_json(self.machine_file)
        except ResultsError:
            return {}
        return machine if isinstance(machine, dict) else {}

    def heartbeat(self) -> None:
        """Tell that the attempt lives; due well within `HEARTBEAT_SECONDS` whenever no metrics are logged."""
        self.heartbeat_file.touch()

    def is_alive(self) -> bool:
        """Whether the attempt's process still works on it, as far as its files and this machine tell.

        On the machine that started it, a process that is gone is known at once; elsewhere, or where the process number
        may have passed to another, silence for `HEARTBEAT_SECONDS` decides.
        """
        try:
            started = read_json(self.started_file)
            local, process = started["host"] == socket.gethostname(), int(started["pid"])
        except (ResultsError, KeyError, TypeError, ValueError):  # killed before it could say who it is
            local, process = False, 0
        if local and not _process_exists(process):
            return False
        return time.time() - self.last_sign_of_life() < HEARTBEAT_SECONDS

    def last_sign_of_life(self) -> float:
        """Unix time at which the attempt was claimed, logged or touched its heartbeat, whichever is newest."""
        times = [self.path.stat().st_mtime]
        for file in (self.heartbeat_file, self.metrics_file):
            if file.exists():
                times.append(file.stat().st_mtime)
        return max(times)

    def fail(self, reason: str, status: str = "failed") -> None:
        """Record that the attempt failed or diverged, with the reason made one line."""
        if status not in ("failed", "diverged"):
            raise ValueError(f"status={status!r} must be 'failed' or 'diverged'")
        line = " ".join(reason.split()) or "no reason was given"
        write_json(self.error_file, {"reason": line, "status": status, "finished": utc_now()})
        self.close()

    def failure(self) -> str:
        """The reason that `fail` was given; empty where there is none that can be read."""
        try:
            return str(read_json(self.error_file)["reason"])
        except (ResultsError, KeyError, TypeError):
            return ""

    def close(self) -> None:
        """Close the metrics; what `log_metrics` was told is written already."""
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None


class RunFolder:
    """A run's folder. Making the object touches nothing; `create` makes the folder."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @property
    def run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def result_file(self) -> Path:
        return self.path / "result.json"

    def exists(self) -> bool:
        """Whether there is anything of this name, were it a file or a link to nothing."""
        return os.path.lexists(self.path)

    @classmethod
    def create(cls, runs_dir: Path, record: RunRecord) -> RunFolder:
        """The folder of `record`, made unless it exists; many processes may ask at once.

        Raises:
            ResultsError: the folder cannot be made, or the one that is there does not tell that it is this run's.
        """
        folder = cls(Path(runs_dir).absolute() / record.run)
        if not folder.run_file.exists():
            folder._make(record)
        try:
            folder.record()
        except ResultsError as error:
            raise ResultsError(f"{folder.path}: {error}; {DAMAGED}") from None
        return folder

    def _make(self, record: RunRecord) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            temporary.mkdir(parents=True)
            write_json(temporary / "run.json", record.to_json())
            temporary.rename(self.path)  # fails if another process was first: its folder is not empty
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if self.exists():
                return  # another process was first, or what is there is none of ours: its record tells
            raise ResultsError(f"cannot make {self.path} ({error.strerror}); choose another home") from None

    def record(self) -> RunRecord:
        """What the run is. Raises ResultsError if run.json is missing, wrong, or not what this run is named by."""
        try:
            record = RunRecord.from_json(read_json(self.run_file))
            what = (record.study, record.trial, record.seed, record.scale, record.config)
            named = provenance.run_id(*what, record.data_fingerprint, record.code_version)
            _require_storable(self.run_file, record)
        except ValueError as error:
            raise ResultsError(f"run.json is wrong: {error}") from None
        if record.run != self.path.name:
            raise ResultsError(f"run.json is of run {record.run}, the folder of {self.path.name}")
        if named != record.run:
            raise ResultsError(f"run.json was changed: what it says is of run {named}, not of {record.run}")
        return record

    def result(self) -> RunResult:
        """How the run ended. Raises ResultsError if result.json is missing, wrong, or another run's."""
        values = read_json(self.result_file)
        # Those of earlier versions do not say whose they are.
        owner = values.pop("run", self.path.name) if isinstance(values, dict) else self.path.name
        if owner != self.path.name:
            raise ResultsError(f"result.json is of run {owner}, the folder of {self.path.name}")
        try:
            result = RunResult.from_json(values)
            _require_storable(self.result_file, result)
        except ValueError as error:
            raise ResultsError(f"result.json is wrong: {error}") from None
        return result

    def attempt_names(self) -> list[str]:
        """The names of all attempts' folders, oldest first. Raises OSError: the run's or an attempt's is no folder."""
        with os.scandir(self.path) as entries:
            found = {entry: match[1] for entry in entries if (match := ATTEMPT_NAME.fullmatch(entry.name))}
        for entry in found:
            if not entry.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), entry.path)
        return [entry.name for entry in sorted(found, key=lambda entry: int(found[entry]))]

    def attempts(self) -> list[Attempt]:
        """All attempts, oldest first."""
        return [Attempt(self.path / name) for name in self.attempt_names()]

    def claim_attempt(self) -> Attempt:
        """A new attempt for the calling process alone, numbered above all others."""
        while True:
            attempt = self.claim_after(self.newest_number())
            if attempt is not None:
                return attempt

    def newest_number(self) -> int:
        """The number of the newest attempt; 0 before the first."""
        attempts = self.attempts()
        return attempts[-1].number if attempts else 0

    def claim_after(self, number: int) -> Attempt | None:
        """The attempt after `number` for the calling process alone; None if another process claimed it first.

        Whoever decided by the state of attempt `number` that the run is free finds out here whether it still is.
        """
        attempt = Attempt(self.path / f"attempt-{number + 1:03d}")
        try:
            attempt.path.mkdir()
        except FileExistsError:
            return None
        except OSError as error:
            raise ResultsError(f"cannot make {attempt.path} ({error.strerror})") from None
        write_json(attempt.started_file, {"started": utc_now(), "pid": os.getpid(), "host": socket.gethostname()})
        attempt.heartbeat()
        return attempt

    def may_commit(self, attempt: Attempt) -> bool:
        """Whether the run is still this attempt's: no later one was claimed, and it is not done.

        One that was taken for dead must ask this before it commits a checkpoint or a result.
        """
        return self.newest_number() == attempt.number and not self.result_file.exists()

    def machine(self) -> Mapping[str, Any]:
        """What the newest attempt that tells of it ran on; empty where none does."""
        return next(filter(None, (attempt.machine() for attempt in reversed(self.attempts()))), {})

    def artifact(self, kind: str, path: Path) -> Artifact:
        """The record of a file inside this folder, with its size and checksum."""
        with Path(path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        relative = Path(path).absolute().relative_to(self.path.absolute()).as_posix()
        return Artifact(kind=kind, path=relative, bytes=Path(path).stat().st_size, sha256=digest)

    def finish(self, result: RunResult) -> None:
        """Record that the run is done. Nothing of the run may be written after this."""
        write_json(self.result_file, {"run": self.path.name, **result.to_json()})

    def set_aside(self) -> Path:
        """Move the run to runs/.set-aside/, so that the same id can run from nothing; returns where it went."""
        shelf = self.path.parent / ".set-aside"
        shelf.mkdir(exist_ok=True)
        target = shelf / f"{self.path.name}-{secrets.token_hex(4)}"
        self.path.rename(target)
        return target

    def status(self, record: RunRecord | None = None) -> RunStatus:
        """The state that the files tell; `record` is this run's, where it has been read already.

        result.json makes a run done. Else the newest attempt decides: it failed or diverged, it lives (running), or its
        process is gone and the run waits to be resumed (queued), as does a run never started. Whatever is amiss with
        the files is a status too, since one odd folder is no reason to say nothing of the others.
        """
        try:
            return self._status(record)
        except ResultsError as error:
            return RunStatus("failed", f"{error}; {DAMAGED}", damaged=True)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and not self.exists():
                return RunStatus("queued")  # never started, or set aside in this very moment
            return RunStatus("failed", f"{unreadable(error)}; {DAMAGED}", damaged=True)

    def _status(self, record: RunRecord | None) -> RunStatus:
        attempts = self.attempts()
        newest = attempts[-1] if attempts else None
        ended = newest is not None and newest.error_file.exists()
        done = self.result_file.exists()
        if newest is not None and not ended and not done and newest.is_alive():
            return RunStatus("running")
        if record is None:
            self.record()  # without it nothing that reads runs knows whose result this is, nor can it go on
        if done:
            self.result()
            return RunStatus("done")
        if newest is None:
            return RunStatus("queued")
        if ended:
            try:
                error = read_json(newest.error_file)
                return RunStatus("diverged" if error["status"] == "diverged" else "failed", str(error["reason"]))
            except (ResultsError, KeyError, TypeError) as problem:
                return RunStatus("failed", f"attempt {newest.number} left an unreadable error.json ({problem})")
        return RunStatus("queued", f"interrupted at attempt {newest.number}; the same command resumes it")
