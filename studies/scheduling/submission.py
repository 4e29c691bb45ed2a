"""Commands as Ray jobs: started on a cluster from elsewhere, followed, found again, stopped.

The cluster keeps what a job is and what it prints; nothing of it is kept here. A job runs this source tree on the head
node's Python, in whose environment the packages are.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from studies.scheduling.ray_session import ClusterError, require_listener, worker_environment

if TYPE_CHECKING:
    from ray.job_submission import JobSubmissionClient

# What our jobs are known by among others of the cluster; its value is the command.
_MARK = "aiayn"
_ADVICE = "give the URL of the cluster's dashboard, such as http://HEAD:8265"
# Loggers of Ray's that tell of every package and connection.
_TALKATIVE = ("ray", "ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk")
ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True)
class Job:
    """A submitted command: `state` is Ray's (PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED), `started` in UTC."""

    id: str
    command: str
    state: str
    message: str
    started: datetime | None


class JobCluster:
    """A cluster that takes jobs, by the URL of its dashboard.

    Raises:
        ClusterError: nothing answers there, it takes no jobs, or what is needed to talk to it is not installed.
    """

    def __init__(self, dashboard: str) -> None:
        self.dashboard = dashboard
        parts = urlsplit(dashboard if "://" in dashboard else f"http://{dashboard}")
        if not parts.hostname or parts.scheme not in ("http", "https"):
            raise ClusterError(f"{dashboard!r} is no dashboard's address; {_ADVICE}")
        port = parts.port or (443 if parts.scheme == "https" else 80)
        require_listener(f"{parts.hostname}:{port}", "Ray dashboard", _ADVICE)
        self._client = self._connect(parts.geturl())

    def _connect(self, url: str) -> JobSubmissionClient:
        try:
            from ray.job_submission import JobSubmissionClient

            for name in _TALKATIVE:
                logging.getLogger(name).setLevel(logging.ERROR)
            return JobSubmissionClient(url)
        except (ImportError, RuntimeError) as error:
            if isinstance(error, ImportError) or "ray[default]" in str(error):
                raise ClusterError("Ray's jobs are not installed; pip install 'aiayn[cluster]' adds them") from error
            raise self._refused(error) from error
        except ConnectionError as error:
            raise self._refused(error) from error

    def _refused(self, error: Exception) -> ClusterError:
        reason = " ".join(str(error).split())[:300]
        return ClusterError(f"the Ray dashboard at {self.dashboard} refuses: {reason}; {_ADVICE}")

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Whatever the cluster answers is about the cluster."""
        try:
            yield
        except (RuntimeError, ConnectionError) as error:
            raise self._refused(error) from error

    def submit(self, arguments: Sequence[str], python: str = "python") -> str:
        """Start `aiayn ARGUMENTS` on the cluster; returns the job's id. The command must say `--address auto`."""
        with tempfile.TemporaryDirectory(prefix="aiayn-") as folder, self._errors_named():
            return self._client.submit_job(
                entrypoint=shlex.join([python, "-m", "aiayn", *arguments]),
                runtime_env=worker_environment(Path(folder)),
                metadata={_MARK: shlex.join(["aiayn", *arguments])},
            )

    def jobs(self) -> list[Job]:
        """All our jobs that the cluster knows of, the newest first."""
        with self._errors_named():
            found = self._client.list_jobs()
        ours = [each for each in found if each.metadata and _MARK in each.metadata and each.submission_id]
        ours.sort(key=lambda each: each.start_time or 0, reverse=True)
        return [
            Job(
                id=each.submission_id,
                command=each.metadata[_MARK],
                state=each.status.value,
                message=" ".join((each.message or "").split()),
                started=datetime.fromtimestamp(each.start_time / 1000, UTC) if each.start_time else None,
            )
            for each in ours
        ]

    def find(self, job: str | None) -> Job:
        """The job of this id, or the newest.

        Raises:
            ClusterError: there is none.
        """
        jobs = self.jobs()
        for each in jobs:
            if job in (None, each.id):
                return each
        listing = ", ".join(each.id for each in jobs) or "none"
        raise ClusterError(f"no job {job or 'of aiayn'} at {self.dashboard}; there: {listing}")

    def follow(self, job: str, show: Callable[[str], None]) -> Job:
        """Hand on what the job has printed, and what it prints, until it ends. Leaving by Ctrl-C leaves it running."""

        async def hand_on() -> None:
            async for lines in self._client.tail_job_logs(job):
                show(lines)

        with self._errors_named():
            asyncio.run(hand_on())
        return self.find(job)

    def log(self, job: str) -> str:
        """What the job has printed so far."""
        with self._errors_named():
            return self._client.get_job_logs(job)

    def stop(self, job: str) -> None:
        """Ask the job to end. Its trials end with it; what they have done up to their last checkpoints is kept."""
        with self._errors_named():
            self._client.stop_job(job)
