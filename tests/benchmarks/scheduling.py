"""What scheduling costs above the work: tiny trials through the whole of `aiayn run`, and a thousand of them in memory.

    python tests/benchmarks/scheduling.py [--trials 200] [--work 0.05]

Each trial really goes through planning, Ray Tune, a run folder, an attempt and the database, but instead of training
it computes for `--work` seconds of the processor. Shown are the seconds above the work for each trial, on the clock and
of all processors (the second does not depend on what else the machine does), and the most memory that the command
held. The goals: 0.2 s on the clock on two idle cores, and 1 GiB for 1,000 trials (`--trials 1000`).
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

from results.records import RunRecord, RunResult, Score
from results.run_folder import RunFolder
from studies.registry import get_study
from studies.runs import Workspace, plan_runs
from studies.scales import SMOKE
from studies.scheduling import campaign, schedule


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--work", type=float, default=0.05, help="processor seconds of a trial")
    chosen = parser.parse_args()
    work, cores = chosen.work, os.cpu_count() or 1

    def compute(config: dict) -> None:
        """In place of `studies.trials.execution.execute`."""
        folder = RunFolder.create(Path(config["home"]) / "runs", RunRecord.from_json(config["job"]["record"]))
        attempt = folder.claim_attempt()
        until = time.process_time() + work
        while time.process_time() < until:
            pass
        for step in range(20, 461, 20):
            attempt.log_metrics(step, "train", {"loss": 4.0, "nll": 3.9, "learning_rate": 1e-3}, seconds=work)
        attempt.close()
        score = Score("dev_bleu_paper", 20.0, "made up", "grammar/dev/en-de", 300)
        folder.finish(RunResult(seconds=work, params=1_000, phases={"train": work}, scores=(score,)))

    schedule.carry_out = compute
    study = get_study("table3")
    seeds = -(-chosen.trials // len(study.trials))
    with tempfile.TemporaryDirectory(prefix="aiayn-") as folder:
        workspace = Workspace(Path(folder) / "home")
        started, used = time.perf_counter(), processor_seconds()
        planned = plan_runs(study, SMOKE, seeds, workspace)[: chosen.trials]
        planning = time.perf_counter() - started
        begun: list[float] = []
        original = schedule._fit

        def timed_fit(*arguments: object) -> None:
            begun.append(time.perf_counter())
            original(*arguments)
            begun.append(time.perf_counter())

        schedule._fit = timed_fit
        outcome = campaign.carry_out(planned, workspace, SMOKE, None, None, None, rerun=False)
        whole = time.perf_counter() - started
    in_tune = begun[1] - begun[0]
    overhead = in_tune - chosen.trials * work / cores
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(outcome.summary())
    print(f"planned in {planning:.2f} s; all in {whole:.1f} s, of which {in_tune:.1f} s in Tune on {cores} cores")
    print(f"above the work: {overhead / chosen.trials:.3f} s a trial on the clock")
    print(f"of the processors: {(processor_seconds() - used) / chosen.trials:.3f} s a trial, the work included")
    print(f"most memory of the command: {memory:.2f} GiB")


if __name__ == "__main__":
    main()
