"""What the store holds about each trial, score by score, as verdicts need it: of the runs that speak for each seed.

Of a score's details three things count: `reason`, why there is no value; `test_set_interval`, whose replicates are the
score of resampled test sets; and `fit` or `repeats`, with `standard_error` and `degrees`: how far the value is by
itself uncertain, an exponent by its fit (`studies.inference.fit_exponent`), a mean by what it is a mean of.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.store import Store
from studies.claim import Budget
from studies.inference import Spread
from studies.measurements import Measurements, ScoreIdentity

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """The runs that have ended, well or badly, and their scores; `of` gives what a claim asks for."""

    runs: Mapping[tuple[str, str, str], Sequence[Row]]
    scores: Mapping[tuple[str, str], Row]

    def of(self, study: str, scale: str, trial: str, metric: str) -> Measurements:
        """One trial's measurements of one score."""
        runs = self.runs.get((study, scale, trial), ())
        done = [run for run in runs if run["status"] == "done"]
        scored = [(run, self.scores[run["run"], metric]) for run in done if (run["run"], metric) in self.scores]
        valid = [(run, score) for run, score in scored if score["value"] is not None]
        bad = {run["seed"]: run["status"] for run in runs if run["status"] != "done"}
        if scored:
            bad |= {run["seed"]: "done without it" for run in done if (run["run"], metric) not in self.scores}
        return Measurements(
            values={run["seed"]: score["value"] for run, score in valid},
            bad_seeds=bad,
            unscored={run["seed"]: score["reason"] or "not scored" for run, score in scored if score["value"] is None},
            unmeasured=bool(done) and not scored,
            identities=frozenset(
                ScoreIdentity(score["dataset"], score["num_items"], score["signature"], run["data_fingerprint"])
                for run, score in valid
            ),
            budgets=frozenset(_budget(run) for run, _ in valid if run["train_steps"] is not None),
            code_versions=frozenset(run["code_version"] for run, _ in valid),
            replicates={run["seed"]: json.loads(score["replicates"]) for run, score in valid if score["replicates"]},
            own_errors={run["seed"]: _error(json.loads(score["error"])) for run, score in valid if score["error"]},
        )


def _budget(run: Row) -> Budget:
    return Budget(run["source_tokens"], run["target_tokens"], run["train_steps"])


def _error(error: Mapping[str, Any]) -> Spread:
    return Spread(float(error["standard_error"]), int(error["degrees"]))


def read_measured(store: Store) -> Measured:
    """All that has been measured in a workspace."""
    runs: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for run in store.fetch(
        """
        SELECT run, study, scale, trial, seed, status, code_version, data_fingerprint,
               CAST(config->>'$.train.source_tokens' AS BIGINT) AS source_tokens,
               CAST(config->>'$.train.target_tokens' AS BIGINT) AS target_tokens,
               CAST(config->>'$.train.train_steps' AS BIGINT) AS train_steps
        FROM latest_runs WHERE status IN ('done', 'failed', 'diverged')
        """
    ).to_pylist():
        runs[run["study"], run["scale"], run["trial"]].append(run)
    scores = store.fetch(
        """
        SELECT s.run, s.name, s.value, s.dataset, s.num_items, s.signature, details->>'$.reason' AS reason,
               details->>'$.test_set_interval.replicates' AS replicates,
               coalesce(details->>'$.fit', details->>'$.repeats') AS error
        FROM scores AS s JOIN latest_runs AS r USING (run) WHERE r.status = 'done'
        """
    ).to_pylist()
    return Measured(runs, {(score["run"], score["name"]): score for score in scores})
