"""The command line: one thin function per verb. Parse, call, print; no logic.

Errors end here: what a person got wrong is one line on stderr and exit 2, work that failed is exit 1.
"""

from __future__ import annotations

import dis
import errno
import json
import logging
import os
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from enum import StrEnum
from io import TextIOWrapper
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.exceptions import TyperException

from reports.terminal import cell, markdown_table, print_rows
from studies.claim import Claim
from studies.registry import STUDIES, get_study
from studies.runs import PlannedRun, Workspace, plan_runs, require_seeds, with_needed
from studies.scales import SCALES, Scale, get_scale
from studies.study import Study, no_such

if TYPE_CHECKING:
    from studies.scheduling.submission import JobCluster

app = typer.Typer(
    name="aiayn",
    help="Every claim of 'Attention Is All You Need' as a study: run it, query it, read which claims hold.\n\n"
    "Begin with: aiayn list, then aiayn reproduce.",
    invoke_without_command=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(
    help="Corpora: source, licence, size, checksum, state.\n\n\b\nExample:\n  aiayn data list", rich_markup_mode=None
)
app.add_typer(data_app, name="data")


class _Debug:
    """Whether a traceback is wanted; set by --debug, read where errors end."""

    wanted = False


@app.callback()
def _without_verb(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


def _set_debug(value: bool) -> bool:
    _Debug.wanted = _Debug.wanted or value
    return value


def _home_folder(text: str | Path) -> Path:
    if not str(text):
        raise typer.BadParameter("it is empty; name the workspace's folder, or leave --home out")
    return Path(text)


def _outside_home(context: typer.Context, output: Path | None) -> Path | None:
    """A file to write, refused at once where it is the workspace's own."""
    from results.output import require_outside

    if output is not None:
        require_outside(output, context.params["home"])
    return output


Home = Annotated[
    Path,
    typer.Option(
        "--home",
        envvar="AIAYN_HOME",
        help="The workspace: runs, database, data cache, site.",
        show_default="./workspace",
        metavar="DIR",
        parser=_home_folder,
        is_eager=True,  # files to write are checked against it
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write to this file.", dir_okay=False, callback=_outside_home),
]
DEFAULT_HOME = Path("workspace")
# As shells count: 128 and the signal.
_INTERRUPTED, _TERMINATED = 130, 143
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_STOPPED = "stopped; what is done is kept, and the same command does the rest"
_HEADING_COLUMNS = 120
_PACKAGES = ("aiayn", "core", "results", "studies", "reports", __name__)
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an error.", callback=_set_debug, is_eager=True)
]
AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
ScaleName = Annotated[str, typer.Option("--scale", help=f"One of: {', '.join(scale.name for scale in SCALES)}.")]
Seeds = Annotated[int, typer.Option("--seeds", help="Seeds a trial, numbered from 1.")]
Trials = Annotated[list[str] | None, typer.Option("--trial", help="Only this trial; may be given several times.")]
Address = Annotated[
    str | None, typer.Option("--address", help="A running Ray cluster; without it Ray runs on this machine.")
]
GpusPerTrial = Annotated[
    list[str] | None,
    typer.Option(
        "--gpus-per-trial",
        metavar="G or TRIAL=G",
        help="Instead of the scale's number, for all trials or for one; may be given several times. A rank has a GPU.",
    ),
]
CpuRanks = Annotated[
    int, typer.Option("--cpu-ranks", min=1, help="Processes that train a trial together where it has no GPU.")
]
OomHalvings = Annotated[
    int,
    typer.Option(
        "--oom-halvings",
        min=0,
        max=16,
        help="How often a run that is out of memory goes on with half as large micro-batches, its updates the same.",
    ),
]
MaxConcurrent = Annotated[int | None, typer.Option("--max-concurrent", min=1, help="Most trials at one time.")]
CorpusName = Annotated[str, typer.Argument(help="A corpus, as in aiayn data list.")]
PairName = Annotated[str | None, typer.Option("--pair", help="Only this pair of languages, such as en-de.")]
Rerun = Annotated[bool, typer.Option("--rerun", help="Run again what is done; the old runs are set aside.")]


class Format(StrEnum):
    """Forms of a query's answer."""

    table = "table"
    csv = "csv"
    json = "json"
    markdown = "markdown"
    latex = "latex"
    parquet = "parquet"


class TreeForm(StrEnum):
    """Forms of an exported treebank."""

    bracketed = "bracketed"
    conllu = "conllu"
    text = "text"


class ClaimsFormat(StrEnum):
    """Forms of the scorecard: two for people, two for programs."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"


@app.command("list")
def list_(
    study: Annotated[str | None, typer.Argument(help="A study; without it all studies are listed.")] = None,
    claims: Annotated[bool, typer.Option("--claims", help="The claims alone, of all studies or of this one.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Studies, or one study's trials and claims.

    \b
    Examples:
      aiayn list
      aiayn list table3
      aiayn list table3 --claims
    """
    from core.complexity import num_parameters, training_flops

    if claims:
        _print_claims([get_study(study)] if study else STUDIES, as_json)
    elif study is None:
        rows = [
            (s.name, s.title, s.cells, len(s.trials), len(s.claims), sum(bool(s.awaited_by(c)) for c in s.claims))
            for s in STUDIES
        ]
        print_rows(("study", "title", "cells", "trials", "claims", "awaiting trials"), rows, as_json)
        if not as_json:
            print("\n" + "\n".join(f"scale {scale.name}: {scale.description}" for scale in SCALES))
    else:
        chosen = get_study(study)
        rows = []
        for trial in chosen.trials:
            configs = [trial.config(scale) for scale in SCALES]
            params = [num_parameters(config.model) if trial.work.is_of_model else None for config in configs]
            flops = [
                training_flops(config.model, config.train, scale.sentence_pieces) if trial.trains else 0.0
                for config, scale in zip(configs, SCALES, strict=True)
            ]
            rows.append((trial.name, trial.group, trial.label, *params, *(flops if as_json else ())))
        numbers = ("params", "flops") if as_json else ("params",)  # aiayn plan is about costs
        heads = [f"{number}_{scale.name}" for number in numbers for scale in SCALES]
        if rows or as_json:
            print_rows(("trial", "row", "change", *heads), rows, as_json)
        if not as_json:
            _print_claims([chosen], as_json)


def _print_claims(studies: Sequence[Study], as_json: bool) -> None:
    rows = [_claim_fields(study, claim) for study in studies for claim in study.claims]
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    heads = ("claim", "kind", "expected", "unit", "cell", "statement", "remark")
    print_rows(heads, [[row[head] for head in heads] for row in map(_claim_in_words, rows)], False)


def _claim_fields(study: Study, claim: Claim) -> dict[str, Any]:
    """All that is stated about a claim, and the trials that it waits for."""
    fields = {name: value for name, value in asdict(claim).items() if name not in ("id", "compute")}
    awaited = list(study.awaited_by(claim))
    return {"claim": claim.id, "study": study.name, **fields, "unit": claim.unit, "awaited": awaited}


def _claim_in_words(fields: dict[str, Any]) -> dict[str, Any]:
    expected = "" if fields["expected"] is None else cell(fields["expected"])
    if fields["bound"]:
        expected = f"{fields['bound']} {expected}"
    elif fields["tolerance"]:
        expected = f"{expected} ± {cell(fields['tolerance'])}"
    remarks = [
        fields["reading"] and f"reading: {fields['reading']}",
        fields["misquote"] and "a misquotation: should fail",
        fields["quoted"] and "quoted: another system's number",
        fields["awaited"] and f"awaits {', '.join(fields['awaited'])}",
    ]
    return fields | {"expected": expected, "remark": "; ".join(filter(None, remarks))}


@app.command()
def plan(
    studies: Annotated[list[str] | None, typer.Argument(help="Studies, as in aiayn list; without one, all.")] = None,
    scale: ScaleName = "smoke",
    seeds: Seeds = 1,
    trial: Trials = None,
    gpus: Annotated[
        int | None, typer.Option("--gpus", min=1, max=1_000_000, help="GPUs there are, by default one trial's.")
    ] = None,
    gpu_type: Annotated[str | None, typer.Option("--gpu-type", help="Such as P100, A100, H100.")] = None,
    price: Annotated[float | None, typer.Option("--price", min=0, max=1e6, help="Of an hour of one GPU.")] = None,
    runs: Annotated[bool, typer.Option("--runs", help="Every run, with its state.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="As Markdown, to hand on.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """What would run, what it would take, what is done already and what it could decide; starts nothing.

    \b
    Examples:
      aiayn plan table3 --scale small --seeds 3 --runs
      aiayn plan --scale paper --seeds 3 --gpus 64 --gpu-type H100 --price 2.5 --markdown
    """
    from studies.planning.plan import make_plan, run_table, summary, tables

    workspace, chosen = Workspace(home), get_scale(scale)
    requested = with_needed(_request(studies, chosen, seeds, trial, workspace))
    priced = make_plan(requested, chosen, seeds, workspace, gpus, gpu_type, price)
    each = run_table(requested, chosen)
    if as_json:
        rows = [dict(zip(each.heads, row, strict=True)) for row in each.rows]
        print(json.dumps(asdict(priced) | {"runs": rows}, indent=1, ensure_ascii=False))
        return
    for table in ([each] if runs else []) + tables(priced):
        if markdown:
            print(markdown_table(table.title, table.heads, table.rows))
        else:
            print(textwrap.fill(table.title, min(_HEADING_COLUMNS, shutil.get_terminal_size().columns)))
            print_rows(table.heads, table.rows, as_json=False)
    print(summary(priced))
    for note in priced.notes:
        print(f"- {note}")


def _request(
    names: Sequence[str] | None, scale: Scale, seeds: int, trials: Sequence[str] | None, workspace: Workspace
) -> list[tuple[Study, list[PlannedRun]]]:
    """Each study that is asked for, all without a name, with its runs."""
    studies = [get_study(name) for name in dict.fromkeys(names)] if names else STUDIES
    return [(study, plan_runs(study, scale, seeds, workspace, trials or ())) for study in studies]


def _plan(
    names: Sequence[str] | None, scale: Scale, seeds: int, trials: Sequence[str] | None, workspace: Workspace
) -> list[PlannedRun]:
    return [run for _, runs in _request(names, scale, seeds, trials, workspace) for run in runs]


@app.command()
def run(
    studies: Annotated[list[str], typer.Argument(help="Studies, as in aiayn list.")],
    scale: ScaleName = "smoke",
    seeds: Seeds = 1,
    trial: Trials = None,
    address: Address = None,
    gpus_per_trial: GpusPerTrial = None,
    cpu_ranks: CpuRanks = 1,
    max_concurrent: MaxConcurrent = None,
    oom_halvings: OomHalvings = 0,
    rerun: Rerun = False,
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Schedule the runs with Ray Tune: what is done is skipped, what was interrupted goes on.

    \b
    Examples:
      aiayn run table3
      aiayn run table3 --scale small --trial base --trial h1
    """
    from studies.scheduling.campaign import carry_out
    from studies.scheduling.resources import Sizes

    sizes = Sizes.parse(gpus_per_trial or (), cpu_ranks)
    planned = _plan(studies, get_scale(scale), seeds, trial, Workspace(home))
    outcome = carry_out(planned, Workspace(home), get_scale(scale), sizes, address, max_concurrent, rerun, oom_halvings)
    print(outcome.summary())
    raise typer.Exit(0 if outcome.complete else 1)


@app.command()
def reproduce(
    scale: ScaleName = "smoke",
    seeds: Seeds = 1,
    address: Address = None,
    gpus_per_trial: GpusPerTrial = None,
    cpu_ranks: CpuRanks = 1,
    max_concurrent: MaxConcurrent = None,
    oom_halvings: OomHalvings = 0,
    rerun: Rerun = False,
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """All studies, then verdicts, then reports: the main job.

    \b
    Example:
      aiayn reproduce --scale smoke --seeds 3
    """
    from reports.build import build_site
    from reports.site_folder import require_site_folder
    from studies.scheduling.campaign import carry_out
    from studies.scheduling.interrupts import sigterm_in_order
    from studies.scheduling.resources import Sizes

    workspace, sizes = Workspace(home), Sizes.parse(gpus_per_trial or (), cpu_ranks)
    require_site_folder(workspace.site, workspace.home)  # now, rather than after hours of training
    planned = _plan(None, get_scale(scale), seeds, None, workspace)
    outcome = carry_out(planned, workspace, get_scale(scale), sizes, address, max_concurrent, rerun, oom_halvings)
    print(outcome.summary())
    with sigterm_in_order():
        index = build_site(workspace.database, workspace.site, on_progress=_say)
    print(f"report: {index}")
    raise typer.Exit(0 if outcome.complete else 1)


@app.command()
def submit(
    dashboard: Annotated[str, typer.Option("--dashboard", help="The cluster's dashboard, http://HEAD:8265.")],
    home: Annotated[str, typer.Option("--home", help="The workspace: a folder that all its nodes share.")],
    studies: Annotated[list[str] | None, typer.Argument(help="Studies to run; without one, reproduce.")] = None,
    scale: ScaleName = "smoke",
    seeds: Seeds = 1,
    trial: Trials = None,
    gpus_per_trial: GpusPerTrial = None,
    cpu_ranks: CpuRanks = 1,
    max_concurrent: MaxConcurrent = None,
    oom_halvings: OomHalvings = 0,
    rerun: Rerun = False,
    python: Annotated[str, typer.Option("--python", help="The interpreter on the head node.")] = "python",
    detach: Annotated[bool, typer.Option("--detach", help="Do not follow the job's output.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Ctrl-C stops the job; without this it goes on.")] = False,
    debug: Debug = False,
) -> None:
    """The same as run or reproduce, as a Ray job on a cluster: this source goes there, data and results stay there.

    Its output is followed; Ctrl-C leaves it running, and status --dashboard URL comes back to it.

    \b
    Examples:
      aiayn submit --scale paper --seeds 3 --dashboard http://head:8265 --home /shared/aiayn
      aiayn submit table3 --trial base --dashboard http://head:8265 --home /shared/aiayn --detach
    """
    from studies.scheduling.resources import Sizes
    from studies.scheduling.submission import JobCluster

    if not home.startswith("/"):
        raise ValueError(f"--home {home!r} is a folder of the cluster, not of here; give its whole path, /shared/aiayn")
    if trial and not studies:
        raise ValueError("--trial is of a study, and none is named; reproduce takes all")
    chosen = get_scale(scale)
    require_seeds(seeds)
    asked = [
        study.trial(wanted).name
        for study in (map(get_study, studies) if studies else STUDIES)
        for wanted in trial or [each.name for each in study.trials]
    ]
    Sizes.parse(gpus_per_trial or (), cpu_ranks).require_asked(asked)
    arguments = ["run", *studies] if studies else ["reproduce"]
    arguments += ["--address", "auto", "--home", home, "--scale", chosen.name, "--seeds", str(seeds)]
    arguments += [part for each in trial or () for part in ("--trial", each)]
    arguments += [part for each in gpus_per_trial or () for part in ("--gpus-per-trial", each)]
    arguments += ["--cpu-ranks", str(cpu_ranks)] if cpu_ranks > 1 else []
    arguments += ["--max-concurrent", str(max_concurrent)] if max_concurrent else []
    arguments += ["--oom-halvings", str(oom_halvings)] if oom_halvings else []
    arguments += ["--rerun"] if rerun else []
    cluster = JobCluster(dashboard)
    job = cluster.submit(arguments, python)
    _say(f"job {job}; come back to it with: aiayn status --dashboard {dashboard} --job {job}")
    if not detach:
        _follow(cluster, job, cancel)


def _follow(cluster: JobCluster, job: str, cancel: bool) -> None:
    """Show a job's output until it ends, and end as it did; Ctrl-C leaves it, or stops it where that was asked for."""
    try:
        ended = cluster.follow(job, lambda text: print(text, end="", flush=True))
    except KeyboardInterrupt:
        if not cancel:
            _say(f"job {job} goes on; aiayn status --dashboard {cluster.dashboard} --job {job} comes back to it")
            sys.exit(_INTERRUPTED)
        cluster.stop(job)
        _say(f"job {job} was stopped; what it has done is kept, and the same command does the rest")
        sys.exit(_INTERRUPTED)
    if ended.state != "SUCCEEDED":
        _say(f"job {job} {ended.state.lower()}: {ended.message}")
    raise typer.Exit(0 if ended.state == "SUCCEEDED" else 1)


def _show_jobs(dashboard: str, job: str | None, follow: bool, cancel: bool, as_json: bool) -> None:
    """The cluster's jobs; the newest one, or the one named, is followed, stopped, or shown with its last lines."""
    from studies.scheduling.submission import ENDED, JobCluster

    cluster = JobCluster(dashboard)
    if job is None and not follow and not cancel:
        heads = ("job", "state", "started", "command", "message")
        rows = [
            (each.id, each.state, each.started and each.started.isoformat(timespec="seconds"), each.command,
             "" if each.state == "SUCCEEDED" else each.message)
            for each in cluster.jobs()
        ]  # fmt: skip
        print_rows(heads, rows, as_json)
        return
    found = cluster.find(job)
    if cancel:
        cluster.stop(found.id)
        _say(f"job {found.id} was asked to stop; what it has done is kept")
    elif found.state in ENDED:
        print(cluster.log(found.id), end="")
        _say(f"job {found.id} {found.state.lower()}: {found.message}")
    else:
        _follow(cluster, found.id, cancel=False)


@app.command()
def status(
    all_: Annotated[bool, typer.Option("--all", help="Every run, also those that are done.")] = False,
    dashboard: Annotated[
        str | None, typer.Option("--dashboard", help="Jobs of the cluster with this dashboard, instead of runs.")
    ] = None,
    job: Annotated[str | None, typer.Option("--job", help="Follow this job's output.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow the newest job's output.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop the job, or the newest one.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Runs by state; those that failed with their reason and where their log is.

    \b
    Examples:
      aiayn status
      aiayn status --all --json
      aiayn status --dashboard http://head:8265 --follow
    """
    if dashboard is None and (job or follow or cancel):
        raise ValueError("--job, --follow and --cancel are about a cluster's jobs; name it with --dashboard")
    if dashboard is not None:
        _show_jobs(dashboard, job, follow, cancel, as_json)
        return
    from studies.scheduling.survey import survey

    workspace = _existing(home, may_be_new=True)
    runs = survey(workspace)
    if as_json or all_:
        heads = ("run", "study", "trial", "scale", "seed", "status", "step", "reason", "log")
        print_rows(
            heads,
            [(r.run, r.study, r.trial, r.scale, r.seed, r.status, r.step, r.reason, r.log) for r in runs],
            as_json,
        )
        return
    if not runs:
        print(f"no runs in {workspace.runs}; start some with: aiayn run table3")
        return
    states = ("done", "running", "queued", "failed", "diverged")
    counts: dict[tuple[str, str], dict[str, int]] = {}
    studies, scales = [study.name for study in STUDIES], [scale.name for scale in SCALES]
    # As aiayn list has them; at the end those of another version, which this one does not know.
    places = {(study, scale): place for place, (study, scale) in enumerate(product(studies, scales))}
    for r in sorted(runs, key=lambda r: places.get((r.study, r.scale), len(places))):
        counts.setdefault((r.study, r.scale), dict.fromkeys(states, 0))[r.status] += 1
    print_rows(("study", "scale", *states), [(*key, *count.values()) for key, count in counts.items()], False)
    for r in runs:
        if r.reason:
            print(
                f"{r.study}/{r.trial} {r.scale} seed {r.seed} ({r.run}) {r.status}: {r.reason}"
                + (f"; log: {r.log}" if r.log else "")
            )


@app.command()
def claims(
    studies: Annotated[list[str] | None, typer.Argument(help="Only these studies' claims.")] = None,
    verdict: Annotated[str | None, typer.Option("--verdict", help="Only claims with this verdict.")] = None,
    scale: Annotated[str | None, typer.Option("--scale", help="Only at this scale.")] = None,
    format_: Annotated[
        ClaimsFormat, typer.Option("--format", help="Text for people, Markdown, or every column as csv or json.")
    ] = ClaimsFormat.table,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """The scorecard: how each claim stands, what was measured with its interval, and why.

    \b
    Examples:
      aiayn claims figure3 figure4 --scale smoke
      aiayn claims --verdict "not run"
      aiayn claims --format markdown > scorecard.md
    """
    from results.records import VERDICTS
    from studies.scorecard import claim_verdicts

    for study in studies or ():
        get_study(study)
    if verdict is not None and verdict not in VERDICTS:
        raise no_such("verdict", verdict, VERDICTS, ", ".join(VERDICTS))
    if scale is not None:
        get_scale(scale)
    found = claim_verdicts(_store(home), studies or (), verdict, scale)
    form = ClaimsFormat.json if as_json else format_
    if form in (ClaimsFormat.csv, ClaimsFormat.json):
        from results.output import write

        write(found, form.value)
    elif not found.num_rows:
        of = f" of {', '.join(studies)}" if studies else ""
        at = f" at scale {scale}" if scale else ""
        print(f"no claim{of}{at}" + (f" has the verdict {verdict}" if verdict else ""))
    else:
        from reports.scorecard_text import as_markdown, print_text, sections

        shown = sections(found.to_pylist(), gather=verdict is None)
        if form is ClaimsFormat.markdown:
            sys.stdout.write(as_markdown(shown))
        else:
            print_text(shown, sys.stdout)


@app.command()
def query(
    sql: Annotated[str | None, typer.Argument(help="One SELECT; a single dash reads it from standard input.")] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Form of the answer; by default what the file's ending says, or table."),
    ] = None,
    output: Output = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build the database anew from the run folders first.")
    ] = False,
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Read-only SQL over the results, also while runs go on.

    \b
    Examples:
      aiayn query "SELECT * FROM table3"
      aiayn query "FROM curves WHERE trial = 'base'" -o base.csv
      aiayn query "SELECT trial, measured_bleu FROM table3 WHERE scale = 'smoke'" -o table3.tex
      aiayn query "SHOW TABLES"
    """
    from results.output import format_of, write
    from results.query import confined
    from results.query import query as ask

    if sql is None and not rebuild:
        raise ValueError('no SQL was given; for example: aiayn query "SELECT * FROM table3"')
    form = format_of(output, format_.value if format_ else None)
    store = _store(home, rebuild=rebuild)
    if sql is None:
        return
    question = _read_sql() if sql == "-" else sql
    with confined():
        answer = ask(store, question)
    write(answer, form, output)


def _read_sql() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise ValueError(f"the SQL on standard input is not UTF-8 ({error.reason}); save it as UTF-8") from error


@app.command()
def report(
    studies: Annotated[list[str] | None, typer.Argument(help="Only these studies' pages.")] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The site's folder.", show_default="HOME/site")
    ] = None,
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Render the notebooks with papermill; index.html is the scorecard.

    \b
    Examples:
      aiayn report
      aiayn report table3 -o site
    """
    from reports.build import build_site
    from reports.site_folder import require_site_folder
    from studies.scheduling.interrupts import sigterm_in_order

    for name in studies or ():
        get_study(name)
    workspace = _existing(home)
    site = (output or workspace.site).absolute()
    require_site_folder(site, workspace.home)
    with sigterm_in_order():
        print(build_site(_store(home).database, site, studies or None, on_progress=_say))


class Split(StrEnum):
    """Parts of a corpus that a run is scored on."""

    dev = "dev"
    test = "test"


class TextMetric(StrEnum):
    """Scores of translated text."""

    bleu = "bleu"
    bleu_paper = "bleu_paper"
    chrf = "chrf"


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="A finished run: its id, the beginning of it, or STUDY/TRIAL.")],
    second: Annotated[str, typer.Argument(help="Another finished run, scored on the same text.")],
    split: Annotated[Split, typer.Option("--split", help="Whose output.")] = Split.dev,
    metric: Annotated[
        TextMetric, typer.Option("--metric", help="sacreBLEU, BLEU as the paper computes it, or chrF.")
    ] = TextMetric.bleu,
    samples: Annotated[
        int, typer.Option("--samples", min=100, max=1_000_000, help="Test sets that the bootstrap draws.")
    ] = 1_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the bootstrap's draws.")] = 12_345,
    examples: Annotated[int, typer.Option("--examples", min=0, help="Show so many sentences that differ most.")] = 0,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Whether one run's translations are better than another's: paired bootstrap over the sentences.

    \b
    Examples:
      aiayn compare table3/base table3/h1
      aiayn compare 3f2a 77b0 --split test --metric bleu_paper --examples 5
    """
    from studies.trained.comparison import COLUMNS, compare_runs

    found = compare_runs(Workspace(home), (first, second), split.value, metric.value, samples, seed, examples)
    if as_json:
        print(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
        return
    print_rows(COLUMNS, found.rows, as_json)
    print(found.summary())


@data_app.command("list")
def data_list(home: Home = DEFAULT_HOME, as_json: AsJson = False, debug: Debug = False) -> None:
    """Corpora and their state here.

    \b
    Example:
      aiayn data list
    """
    from core.data import corpora

    folder = Workspace(home).data
    rows = [
        (
            corpus.name,
            corpus.task,
            " ".join(corpus.languages),
            None if None in corpus.splits.values() else sum(corpus.splits.values()),
            corpus.licence,
            str(state),
        )
        for corpus, state in corpora.known(folder, on_damage=_say)
    ]
    print_rows(("corpus", "task", "languages", "lines", "licence", "state"), rows, as_json)


@data_app.command("show")
def data_show(name: CorpusName, home: Home = DEFAULT_HOME, as_json: AsJson = False, debug: Debug = False) -> None:
    """One corpus: splits, steps of cleaning with their counts, sources with their checksums, terms, state.

    \b
    Example:
      aiayn data show wmt14
    """
    from core.data import corpora
    from core.data.describe import describe, facts

    folder = Workspace(home).data
    description = describe(corpora.get(name, folder), folder)
    if as_json:
        print(json.dumps(description, indent=1, ensure_ascii=False))
    else:
        print_rows(("property", "value"), facts(description), False)


@data_app.command("fetch")
def data_fetch(name: CorpusName, pair: PairName = None, home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """Download a corpus and verify it; does nothing where it is here already.

    Files that AIAYN_DATA/NAME holds are used instead of downloads.

    \b
    Examples:
      aiayn data fetch multi30k
      aiayn data fetch wmt14 --pair en-de
    """
    import logging

    from core.data import corpora

    logging.basicConfig(format="%(message)s")
    logging.getLogger("core.data").setLevel(logging.INFO)
    folder = Workspace(home).data
    corpus = corpora.get(name, folder)
    languages = _languages(corpus, pair)
    corpus.fetch(folder, languages)
    print(f"{name}: {corpus.state(folder, languages)}")


@data_app.command("add")
def data_add(
    name: Annotated[str, typer.Argument(help="What the corpus is to be called.")],
    src: Annotated[Path, typer.Option("--src", help="Source side of the training text: one segment a line, UTF-8.")],
    tgt: Annotated[Path, typer.Option("--tgt", help="Its target side, line by line translations; .gz is read too.")],
    src_lang: Annotated[str, typer.Option("--src-lang", help="Language of the source, such as en.")],
    tgt_lang: Annotated[str, typer.Option("--tgt-lang", help="Language of the target, such as de.")],
    dev_src: Annotated[Path | None, typer.Option("--dev-src", help="Source side of the split dev.")] = None,
    dev_tgt: Annotated[Path | None, typer.Option("--dev-tgt", help="Its target side.")] = None,
    test_src: Annotated[Path | None, typer.Option("--test-src", help="Source side of the split test.")] = None,
    test_tgt: Annotated[Path | None, typer.Option("--test-tgt", help="Its target side.")] = None,
    clean: Annotated[
        list[str] | None,
        typer.Option(
            "--clean", help="Filter training pairs: empty, markup, long, ratio, copies or repeated; in order."
        ),
    ] = None,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Leave the files where they are and remember their checksums.")
    ] = False,
    licence: Annotated[str, typer.Option("--licence", help="Terms, to be shown with the corpus.")] = "not stated",
    citation: Annotated[str, typer.Option("--citation", help="What to cite.")] = "not stated",
    description: Annotated[str, typer.Option("--description", help="A few words.")] = "",
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Make aligned files of your own a corpus of this workspace: checked, remembered, to be shown and exported.

    Studies keep to the corpora of their scales; what trains on yours is a scale that names it (studies/scales.py).

    \b
    Example:
      aiayn data add letters --src train.en --tgt train.de --src-lang en --tgt-lang de --dev-src dev.en --dev-tgt dev.de
    """
    from core.data import corpora, own_corpora

    files = {"train": (src, tgt)}
    for split, one, other in (("dev", dev_src, dev_tgt), ("test", test_src, test_tgt)):
        if (one is None) != (other is None):
            raise ValueError(f"split {split} has one side; give both --{split}-src and --{split}-tgt, or neither")
        if one is not None:
            files[split] = (one, other)
    corpus = own_corpora.add(
        Workspace(home).data,
        name,
        (src_lang, tgt_lang),
        files,
        taken=corpora.CORPORA,
        clean=clean or (),
        in_place=in_place,
        licence=licence,
        citation=citation,
        description=description,
    )
    counts = ", ".join(f"{split} {count:,}" for split, count in corpus.splits.items())
    print(f"{name}: {counts} pairs {src_lang}-{tgt_lang}; look for faults with: aiayn data check {name}")


@data_app.command("remove")
def data_remove(name: CorpusName, home: Home = DEFAULT_HOME, debug: Debug = False) -> None:
    """Forget a corpus that was added and delete what was copied of it; files left in place stay.

    \b
    Example:
      aiayn data remove letters
    """
    from core.data import own_corpora

    own_corpora.remove(Workspace(home).data, name)
    print(f"{name}: removed")


@data_app.command("check")
def data_check(
    names: Annotated[list[str] | None, typer.Argument(help="Corpora; without one, all that are here.")] = None,
    pair: PairName = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Read corpora whole and report faults and warnings; exit 1 where there is a fault.

    Faults make numbers wrong: text that the loader refuses, sides that are swapped or not in their language, a test
    set that was trained on, text that is still escaped or in sub-words. Without --pair, every pair with the corpus'
    first language is read.

    \b
    Examples:
      aiayn data check grammar
      aiayn data check multi30k --pair en-fr --json
    """
    from core.data import corpora
    from core.data.check import check
    from core.data.corpus import DataError

    folder = Workspace(home).data
    damaged: list[DataError] = []
    if names:
        chosen = [corpora.get(name, folder) for name in names]
    else:
        found = corpora.known(folder, damaged.append)
        chosen = [corpus for corpus, state in found if state.kind not in ("not fetched", "not here")]
    reports = []
    for corpus in chosen:
        if corpus.state(folder).kind == "not fetched" and corpus.obstacle(folder) is None:
            raise ValueError(f"corpus {corpus.name} is not here; get it with: aiayn data fetch {corpus.name}")
        reports += check(corpus, folder, _languages(corpus, pair))
    if as_json:
        print(json.dumps([report.to_dict() for report in reports], indent=1, ensure_ascii=False))
    else:
        for report in reports:
            for rows in (report.splits, report.findings):
                if rows:
                    print_rows([name.replace("_", " ") for name in rows[0]._fields], rows, False)
            print(f"{report.conclusion}\n{report.basis}".rstrip())
    if damaged:
        raise DataError("; ".join(map(str, damaged)))
    raise typer.Exit(1 if any(report.num_faults for report in reports) else 0)


def _languages(corpus: Any, pair: str | None) -> tuple[str, str] | None:
    """The two languages of a corpus that a pair such as en-de means."""
    from core.data.translation_corpus import TranslationCorpus

    if pair is None:
        return None
    if not isinstance(corpus, TranslationCorpus):
        raise ValueError(f"corpus {corpus.name} is for {corpus.task} and has no pairs of languages; leave out --pair")
    return corpus.find_pair(pair)


@data_app.command("export")
def data_export(
    name: str,
    split: Annotated[str, typer.Option("--split", help="The part to export: train, dev or test.")],
    format_: Annotated[
        TreeForm,
        typer.Option("--format", help="Trees, arcs and antecedents (in MISC, for the grammar alone), or words."),
    ] = TreeForm.bracketed,
    output: Output = None,
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """A treebank's gold trees, as other programs read them.

    \b
    Examples:
      aiayn data export grammar --split test
      aiayn data export grammar --split test --format conllu -o test.conllu
    """
    from core.data.corpora import get_treebank
    from core.data.treebanks.export import export_lines, write_lines

    lines = export_lines(get_treebank(name), split, format_.value, Workspace(home).data)
    if output is not None:
        write_lines(lines, output)
        return
    for line in lines:
        print(line)


@app.command()
def translate(
    run: Annotated[str, typer.Argument(help="A finished run: its id, the beginning of it, or STUDY/TRIAL.")],
    file: Annotated[Path | None, typer.Argument(help="Lines to translate; without it standard input.")] = None,
    output: Output = None,
    beam: Annotated[int | None, typer.Option("--beam", min=1, help="Beam size; 1 is greedy search.")] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", help="Length penalty; 0 is none.")] = None,
    extra: Annotated[int | None, typer.Option("--extra", min=1, help="Most output: input + so many pieces.")] = None,
    as_json: AsJson = False,
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Translate lines with a finished run, in order; without options, as the run was scored.

    Text is UTF-8, one sentence a line, and each line has its line of output, empty ones too. From a pipe, what has
    arrived is translated before more is waited for. With --json each line is an object with the translation's score
    (its log-probability over the length penalty), and whether it is finished. All cores are used.

    \b
    Examples:
      echo "The old teacher sleeps." | aiayn translate table3/base
      aiayn translate 3f2a source.txt -o target.txt
    """
    from studies.trained.loading import find_run, load_run
    from studies.trained.translation import LineTranslator

    trained = load_run(find_run(Workspace(home), run))
    if trained.config.data.task == "parsing":
        name = f"{trained.record.study}/{trained.record.trial}"
        raise ValueError(f"{name} writes trees; use aiayn parse {trained.record.run}")
    with _named_as_typed():
        translator = LineTranslator(trained, _decode_settings(trained.config.decode, beam, alpha, extra))
    for _ in _written_lines("translate", file, output, translator, lambda one: _as_line(one, one.output, as_json)):
        pass


def _written_lines(
    verb: str, file: Path | None, output: Path | None, worker: Any, as_line: Callable[[Any], str]
) -> Iterator[Sequence[Any]]:
    """Hand a text's lines to a worker and write what comes back, as it comes; then give it to the caller too.

    The worker has `check`, which reads a file beforehand, and a method named `verb` that takes chunks of lines.
    """
    from core.data.progress import progress
    from studies.trained.translation import read_chunks

    once = file is None or file.is_fifo() or file.is_char_device()  # what cannot be read twice
    total = None if once else worker.check(file)
    typed = file is None and sys.stdin.isatty()  # a bar would get between a person's keys
    with (
        _written(output) as stream,
        nullcontext(lambda _: None) if typed else progress(verb, total) as on_lines,
        closing(getattr(worker, verb)(read_chunks(file))) as results,
    ):
        for ready in results:
            stream.write("".join(f"{as_line(one)}\n" for one in ready))
            stream.flush()
            on_lines(len(ready))
            yield ready


def _as_line(fields: Any, text: str, as_json: bool) -> str:
    return json.dumps(asdict(fields), ensure_ascii=False) if as_json else text


@app.command()
def parse(
    run: Annotated[str, typer.Argument(help="A finished parser: its id, the beginning of it, or STUDY/TRIAL.")],
    file: Annotated[Path | None, typer.Argument(help="Sentences to parse; without it standard input.")] = None,
    output: Output = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", help="Draw the trees too: FILE.svg.", dir_okay=False, callback=_outside_home),
    ] = None,
    tokenised: Annotated[bool, typer.Option("--tokenised", help="Blanks separate the words already.")] = False,
    beam: Annotated[int | None, typer.Option("--beam", min=1, help="Beam size; 1 is greedy search.")] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", help="Length penalty; 0 is none.")] = None,
    extra: Annotated[int | None, typer.Option("--extra", min=1, help="Most output: input + so many pieces.")] = None,
    as_json: AsJson = False,
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Parse sentences with a finished run of Table 4: a tree a line, in labelled brackets.

    Text is UTF-8, one sentence a line, and is cut into words as in the Penn Treebank. Every tree is over exactly the
    words of its line: an output that is no such tree is repaired, which --json tells. An empty line has an empty line.
    From a pipe, what has arrived is parsed before more is waited for.

    \b
    Examples:
      echo "The old teacher sleeps." | aiayn parse table4/wsj_only
      aiayn parse table4/wsj_only text.txt -o trees.mrg --draw trees.svg
    """
    from reports.trees import require_svg, save_trees
    from studies.trained.loading import find_run, load_run
    from studies.trained.parsing import LineParser

    if draw is not None:
        require_svg(draw)
    trained = load_run(find_run(Workspace(home), run))
    with _named_as_typed():
        parser = LineParser(trained, _decode_settings(trained.config.decode, beam, alpha, extra), tokenised)
    drawn: list[str] = []
    for ready in _written_lines("parse", file, output, parser, lambda one: _as_line(one, one.tree, as_json)):
        if draw is not None:
            drawn += filter(None, (one.tree for one in ready))
    if draw is not None:
        save_trees(draw, drawn)


@contextmanager
def _named_as_typed() -> Iterator[None]:
    """An error about a setting of the search names the option that a person gave."""
    try:
        yield
    except ValueError as error:
        message = str(error)
        for setting, option in (("beam_size", "beam"), ("length_penalty", "alpha"), ("max_extra_pieces", "extra")):
            message = message.replace(f"{setting}=", f"--{option} ")
        raise ValueError(message) from error


def _decode_settings(settings: Any, beam: int | None, alpha: float | None, extra: int | None) -> Any:
    """A run's settings of the search, with those that were given in their place."""
    given = {"beam_size": beam, "length_penalty": alpha, "max_extra_pieces": extra}
    return replace(settings, **{name: value for name, value in given.items() if value is not None})


@contextmanager
def _written(path: Path | None) -> Iterator[TextIO]:
    """A stream of UTF-8 lines into a file, which has its name once it is whole, or to standard output."""
    if path is None:
        yield sys.stdout
        return
    whole_at_once = path.is_file() or not path.exists()  # a device or a named pipe is written as it is
    begun = path.with_name(f"{path.name}.partial") if whole_at_once else path
    try:
        with begun.open("w", encoding="utf-8", newline="\n") as stream:
            yield stream
        if whole_at_once:
            begun.replace(path)
    except OSError as error:
        raise ValueError(f"cannot write {path} ({error.strerror}); choose another file with -o") from error


class AttentionKind(StrEnum):
    """Which attention of the model."""

    encoder = "encoder"
    decoder = "decoder"
    cross = "cross"


class AttentionView(StrEnum):
    """How attention is drawn."""

    columns = "columns"
    matrix = "matrix"
    grid = "grid"


# By the form of what attend writes: what it is, and the options that would say nothing about it.
_UNUSED = {
    None: ("an answer in words; name a picture with -o", ("--view",)),
    "html": ("a page to explore, where all is to choose from", ("--head", "--word", "--view", "--pieces", "--json")),
}
_UNUSED_BY_PICTURES = ("a picture", ("--json",))


def _refuse_unused(form: str | None, given: dict[str, Any]) -> None:
    what, options = _UNUSED.get(form, _UNUSED_BY_PICTURES)
    unused = [option for option in options if given[option]]
    if unused:
        raise ValueError(f"{' and '.join(unused)} cannot be had with {what}")


@app.command()
def attend(
    run: Annotated[str, typer.Argument(help="A finished run: its id, the beginning of it, or STUDY/TRIAL.")],
    text: Annotated[str, typer.Argument(help="A sentence in the run's source language.")],
    target: Annotated[
        str | None, typer.Option("--target", help="What the decoder reads; by default the run's own translation.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option("--layer", min=1, help="From 1; by default the last but one, as in the figures.")
    ] = None,
    head: Annotated[
        list[int] | None, typer.Option("--head", min=1, help="From 1; may be given several times; by default all.")
    ] = None,
    kind: Annotated[
        AttentionKind | None,
        typer.Option("--kind", help="By default the encoder's or, with --target, the decoder's to the source."),
    ] = None,
    word: Annotated[str | None, typer.Option("--word", help="Only where this word looks (Figure 3).")] = None,
    view: Annotated[AttentionView | None, typer.Option("--view", help="How to draw it; by default in columns.")] = None,
    pieces: Annotated[bool, typer.Option("--pieces", help="By word pieces instead of words.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="FILE.png, .svg, .pdf or .html.", dir_okay=False, callback=_outside_home),
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Where a run's heads look in a sentence of your own: a picture, a page to explore, or numbers.

    \b
    Examples:
      aiayn attend table3/base "The man who slept saw his letter." --word his -o his.svg
      aiayn attend table3/base "The old teacher sleeps." --layer 2 --head 3 --head 5
      aiayn attend table3/base "The old teacher sleeps." -o explore.html
    """
    from reports.attention import draw_sentence, find_word, missing_characters, save_picture, strongest, writable_form
    from studies.trained.attention import attend as attend_to
    from studies.trained.attention import figures_layer
    from studies.trained.loading import find_run, load_run

    form = writable_form(output) if output is not None else None
    _refuse_unused(form, {"--head": head, "--word": word, "--view": view, "--pieces": pieces, "--json": as_json})
    trained = load_run(find_run(Workspace(home), run))
    num_layers = trained.config.model.num_layers
    chosen = kind.value if kind else ("encoder" if target is None else "cross")
    name = f"{trained.record.study}/{trained.record.trial} seed {trained.record.seed}"
    if form == "html":
        from core.attention_maps import check_layers
        from reports.explorer import write_explorer

        check_layers(trained.model, layer and [layer])
        everything = attend_to(trained, text, target)
        if kind is not None and chosen not in everything.weights:
            raise ValueError(f"{name} has no {chosen} attention; it has: {', '.join(everything.weights)}")
        write_explorer(output, [everything], f"Attention of {name}", layer, chosen)
        return
    layer = layer or figures_layer(num_layers)
    sentence = attend_to(trained, text, target, [layer], [chosen])
    focus = find_word(sentence.labels(chosen, not pieces)[0], word) if word is not None else None
    title = f"{name}: {chosen} attention, layer {layer} of {num_layers}"
    if output is None:
        heads, rows = strongest(sentence, chosen, layer, head, focus, not pieces, wide=not as_json)
        if not as_json:
            print(title)
        print_rows(heads, rows, as_json)
        return
    drawn_as = (view or AttentionView.columns).value
    with draw_sentence(sentence, chosen, layer, head, drawn_as, focus, not pieces, title) as figure:
        save_picture(figure, output)
    missing = missing_characters([label for labels in sentence.labels(chosen) for label in labels])
    if missing and form != "svg":
        _say(f"no installed font has {missing}: drawn as boxes; install one that has, or write .svg or .html")


@app.command()
def doctor(home: Home = DEFAULT_HOME, as_json: AsJson = False, debug: Debug = False) -> None:
    """Check Python, torch, GPUs, Ray, disk, the database and the notebook kernel; say how to mend what is amiss.

    \b
    Example:
      aiayn doctor
    """
    from studies.scheduling.doctor import examine

    findings = examine(Workspace(home))
    print_rows(("check", "ok", "found", "what to do"), [(f.check, f.ok, f.found, f.advice) for f in findings], as_json)
    raise typer.Exit(0 if all(f.ok for f in findings) else 1)


@app.command()
def clean(
    yes: Annotated[bool, typer.Option("--yes", help="Free it; without this nothing is touched.")] = False,
    other_code: Annotated[
        bool, typer.Option("--other-code", help="Also checkpoints of unfinished runs that other code began.")
    ] = False,
    set_aside: Annotated[bool, typer.Option("--set-aside", help="Also the runs that --rerun has put aside.")] = False,
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """What could be freed: checkpoints that nobody needs, and what killed commands left behind.

    Nothing goes that belongs to a finished run, to one that is under way, or that an unfinished one would go on from.

    \b
    Examples:
      aiayn clean
      aiayn clean --yes
    """
    from studies.scheduling.clean import find_waste, remove

    waste = find_waste(_existing(home, may_be_new=True), other_code, set_aside)
    print_rows(("what", "path", "bytes"), [(w.kind, str(w.path), w.bytes) for w in waste], as_json)
    total = sum(w.bytes for w in waste)
    if yes:
        _say(f"freed {remove(waste):,} bytes in {len(waste)} places")
    elif waste:
        _say(f"{total:,} bytes in {len(waste)} places could be freed, with --yes; nothing was touched")
    else:
        _say("there is nothing to free")


def _existing(home: Path, may_be_new: bool = False) -> Workspace:
    """The workspace to be read. ValueError where there is none, so that what reads makes none.

    With `may_be_new` the default one need not be there yet: then nothing has run, which is an answer too.
    """
    workspace = Workspace(home)
    if not (workspace.is_one() or (may_be_new and home == DEFAULT_HOME and not os.path.lexists(home))):
        raise ValueError(f"no workspace at {workspace.home}; start one with aiayn run, or name another with --home")
    return workspace


def _store(home: Path, rebuild: bool = False):
    """The workspace's database, brought up to date with its run folders and with verdicts on them."""
    from studies.scorecard import open_store

    store, problems = open_store(_existing(home), rebuild)
    for problem in problems:
        _say(f"not read: {problem}")
    return store


def _say(line: str) -> None:
    with suppress(OSError):  # what nobody can hear ends no work
        print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line; every error ends here as one line and an exit code."""
    _prepare_streams()
    logging.basicConfig(format="%(message)s")
    logging.getLogger("core").setLevel(logging.INFO)  # what long work on data says of itself
    # Workers run in other folders: what the user named relative to this one must be found from there too.
    if os.environ.get("AIAYN_DATA"):
        os.environ["AIAYN_DATA"] = str(Path(os.environ["AIAYN_DATA"]).absolute())
    try:
        code = app(standalone_mode=False)
        if code == _INTERRUPTED:  # so typer ends a command that was stopped from the keyboard
            raise KeyboardInterrupt
        sys.stdout.flush()  # now, while a closed pipe can still be handled
    except typer.Exit as error:
        code = error.exit_code
    except TyperException as error:
        context = getattr(error, "ctx", None)
        _say(f"{error.format_message().rstrip('.')}; see: {context.command_path if context else 'aiayn'} --help")
        code = 2
    except (typer.Abort, KeyboardInterrupt):
        _say(_STOPPED)
        code = _INTERRUPTED
    except SystemExit as end:
        # So typer and rich end where the reader of a pipe had enough; that is no error of ours.
        code = 0 if isinstance(end.__context__, OSError) else end.code
        if code == _TERMINATED:
            _say(_STOPPED)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of a pipe had enough
            code = 0
        elif error.errno in _NO_ROOM and not _Debug.wanted:
            _say(f"cannot write {error.filename or 'the output'} ({error.strerror}); make room, or write elsewhere")
            code = 1
        else:
            code = _tell(error)
    except Exception as error:  # noqa: BLE001 - what is no person's mistake is told too, by its kind
        if _was_interrupted(error):
            _say(_STOPPED)
            code = _INTERRUPTED
        else:
            code = _tell(error)
    _drop_lost_output()
    sys.exit(code)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an error began with Ctrl-C: a library that is being loaded then may say that it cannot be loaded."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _tell(error: Exception) -> int:
    """Say what is wrong, and how the command ends."""
    code = _exit_code(error)
    message = "\n".join(" ".join(line.split()) for line in _lines_of(error))
    if _Debug.wanted:
        traceback.print_exc()
    elif code == 2:
        _say(message)
    else:
        _say(f"{type(error).__name__}: {message} (--debug shows where)")
    return code


def _prepare_streams() -> None:
    """Text is UTF-8, whatever the locale says, and what is no character is written out rather than an error.

    A command that was started without a stream, as a batch job may be, gets an empty one.
    """
    for name, mode, errors in (
        ("stdin", "r", "strict"),
        ("stdout", "w", "backslashreplace"),
        ("stderr", "w", "backslashreplace"),
    ):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for the whole process
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def _drop_lost_output() -> None:
    """Leave nothing in a stream that takes no more: it would fail again, and decide the exit code, as Python ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _lines_of(error: Exception) -> list[str]:
    """One line; where a cluster is at fault, as many as there is to mend."""
    from studies.scheduling.preflight import ScheduleError

    return str(error).splitlines() if isinstance(error, ScheduleError) else [str(error)]


def _exit_code(error: Exception) -> int:
    """2 for what a person can put right before any work, 1 for work that failed."""
    from core.data.corpus import DataError
    from reports.site_folder import SiteError
    from results.errors import ResultsError
    from studies.scheduling.preflight import ScheduleError

    # By name, because the class lives beside torch, which most commands never load.
    damaged = "CheckpointError" in (kind.__name__ for kind in type(error).__mro__)
    refused = isinstance(error, ValueError) and _raised_here(error)
    return 2 if damaged or refused or isinstance(error, (DataError, ResultsError, ScheduleError, SiteError)) else 1


def _raised_here(error: Exception) -> bool:
    """Whether a raise statement of this project raised it: then its message is for people.

    A ValueError out of a library, or of a call such as int(text), is a fault of the code that let it through.
    """
    trace = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    package = trace.tb_frame.f_globals["__name__"].partition(".")[0]
    return package in _PACKAGES and dis.opname[code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


if __name__ == "__main__":
    main()
