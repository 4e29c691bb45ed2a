"""One run in one process, from the claim of an attempt to the word of how it ended.

What the run does is its work (`studies.work`); training is in `studies.trials.trial`. This file is part of a run's code
version: a change here makes new runs.
"""

from __future__ import annotations

import errno
import gc
import math
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch

from core.parallel import ALONE, RankLostError
from core.trainer import DivergedError
from results.records import RunRecord, RunResult
from results.run_folder import ORPHAN_SECONDS, Attempt, RunFolder
from studies.runs import Workspace
from studies.trials.trial import Join, SupersededError, machine_of, require_own, train, train_alone
from studies.work import (
    AttentionProbe,
    BaselineParser,
    CapabilityProbe,
    ComplexityProbe,
    Redecoding,
    SelfTraining,
    StatementProbe,
    TaskProbe,
    Training,
    work_of,
)

HEARTBEAT_EVERY_SECONDS = 10.0
OUT_OF_MEMORY = "out of memory"
# The kinds of work whose micro-batches can be cut for want of memory.
_TRAINS = (Training, SelfTraining)


def execute(
    record: RunRecord,
    workspace: Workspace,
    num_threads: int,
    device: torch.device,
    join: Join = train_alone,
    oom_halvings: int = 0,
) -> None:
    """Carry out one run, from its newest checkpoint if it was begun before.

    One that is done, or that another process works on, is left alone.
    How it ended is in its folder: `result.json`, or the attempt's `error.json` with the reason and `log.txt` with the
    traceback. No error leaves this function, so one failed run leaves the others alone, save RankLostError: the run can
    go on in a new process.

    Args:
        oom_halvings: how often a run that is out of memory may go on with micro-batches half as large. Its updates
            stay the same, filled by more of them.
    """
    folder = RunFolder.create(workspace.runs, record)
    most_halvings = oom_halvings if isinstance(work_of(record.config), _TRAINS) else 0
    attempt = _claim(folder)
    torch.set_num_threads(num_threads)
    while attempt is not None:
        halvings = min(_times_out_of_memory(folder), most_halvings)
        if halvings:
            attempt.note(f"out of memory before: micro-batches are cut into {2**halvings} parts")
        _try(record, folder, attempt, workspace, device, join, 2**halvings)
        again = halvings < min(_times_out_of_memory(folder), most_halvings)
        attempt = folder.claim_after(attempt.number) if again else None
        gc.collect()  # what the attempt held
        torch.cuda.empty_cache()


def _claim(folder: RunFolder) -> Attempt | None:
    """An attempt of this process; None where the run has ended, or another process works on it.

    Several commands may share a home: a run is whose attempt was claimed first. Who seems to work on it is waited for
    as long as a dead command's workers may still show signs of life.
    """
    first_sign = math.inf
    while True:
        newest = folder.newest_number()
        status = folder.status()
        if status.status in ("done", "diverged") or status.damaged:
            return None
        if status.status == "running":
            sign = folder.attempts()[-1].last_sign_of_life()
            first_sign = min(first_sign, sign)
            if sign > first_sign + ORPHAN_SECONDS + HEARTBEAT_EVERY_SECONDS:
                return None
            time.sleep(0.5)
        elif attempt := folder.claim_after(newest):
            return attempt


def _times_out_of_memory(folder: RunFolder) -> int:
    """How many attempts so far ended for want of memory."""
    return sum(attempt.failure().startswith(OUT_OF_MEMORY) for attempt in folder.attempts())


def _try(
    record: RunRecord,
    folder: RunFolder,
    attempt: Attempt,
    workspace: Workspace,
    device: torch.device,
    join: Join,
    parts: int,
) -> None:
    """One attempt to its end, good or bad; `parts` is into how many parts micro-batches are cut."""
    try:
        with _heartbeat(attempt):
            _carry_out(record, folder, attempt, workspace, device, join, parts)
    except SupersededError:
        pass  # the other attempt tells how the run ended
    except DivergedError as error:
        _fail(attempt, str(error), status="diverged")
    except RankLostError as error:
        _fail(attempt, str(error))
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this run's reason and must not stop the others
        reason = _out_of_memory(error, record, parts) or _disk_full(error) or f"{type(error).__name__}: {error}"
        _fail(attempt, reason, log=traceback.format_exc())
    finally:
        with suppress(OSError):
            attempt.close()


def _fail(attempt: Attempt, reason: str, status: str = "failed", log: str = "") -> None:
    """Leave the reason, and then the traceback, as far as a full disk takes them: without, the run is interrupted."""
    with suppress(OSError):
        attempt.fail(reason, status)
        if log:
            attempt.log_file.write_text(log, encoding="utf-8")


def _carry_out(
    record: RunRecord,
    folder: RunFolder,
    attempt: Attempt,
    workspace: Workspace,
    device: torch.device,
    join: Join,
    parts: int,
) -> None:
    attempt.record_machine(machine_of(device, ALONE))
    match work_of(record.config):
        case Training():
            train(record, folder, attempt, workspace, device, join, parts)
        case SelfTraining() as work:
            from studies.trials.self_training import silver_trees

            silver = silver_trees(work, record, folder, workspace, device)
            train(record, folder, attempt, workspace, device, join, parts, silver)
        case AttentionProbe() as probe:
            from studies.trials.attention_probe import measure

            _conclude(folder, attempt, measure(probe, record, folder, workspace, device))
        case ComplexityProbe() as probe:
            from studies.trials.complexity_probe import measure

            _conclude(folder, attempt, measure(probe, record.seed))
        case StatementProbe() as probe:
            from studies.trials.statement_probe import measure

            _conclude(folder, attempt, measure(probe, record.seed))
        case TaskProbe() as probe:
            from studies.trials.task_probe import measure

            _conclude(folder, attempt, measure(probe, record.seed))
        case CapabilityProbe() as probe:
            from studies.trials.capability_probe import measure

            _conclude(folder, attempt, measure(probe, record, device))
        case Redecoding() as work:
            from studies.trials.redecoding import measure

            _conclude(folder, attempt, measure(work, record, workspace, device))
        case BaselineParser() as work:
            from studies.trials.baseline_parsers import measure

            _conclude(folder, attempt, measure(work, record, folder, workspace))


def _conclude(folder: RunFolder, attempt: Attempt, result: RunResult) -> None:
    require_own(folder, attempt)
    folder.finish(result)


def _out_of_memory(error: Exception, record: RunRecord, parts: int) -> str | None:
    """What to lower, where that is what ended the run; None for any other error."""
    # Torch's own kind is for GPUs; its CPU allocator raises a plain RuntimeError.
    if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and "can't allocate memory" not in str(error):
        return None
    if not isinstance(work_of(record.config), _TRAINS):
        return f"{OUT_OF_MEMORY}: run fewer at a time with --max-concurrent"
    tokens = record.config["train"]["micro_batch_tokens"] // parts
    return (
        f"{OUT_OF_MEMORY} with micro-batches of {tokens:,} tokens: start the command again with --oom-halvings "
        f"{parts.bit_length()}, which fills the same updates by more and smaller ones, or run fewer trials at a time "
        "with --max-concurrent"
    )


def _disk_full(error: Exception) -> str | None:
    """What to do where that is what ended the run; None for any other error."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    return f"the disk is full ({error.strerror}): free some space (aiayn clean), and start the same command again"


@contextmanager
def _heartbeat(attempt: Attempt) -> Iterator[None]:
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(HEARTBEAT_EVERY_SECONDS):
            attempt.heartbeat()

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
