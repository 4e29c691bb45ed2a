"""Small workspaces for the reports: written through run folders and the store, as a real run would."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from reports.build import build_site
from results.provenance import run_id
from results.records import ClaimRow, PublishedTable3Row, RunRecord, RunResult, Score, StudyRow, VerdictRow
from results.run_folder import RunFolder
from results.store import Store

CODE = "c0de00000001"
HOSTILE = "<script>alert('x')</script> & \"quotes\" <unk> $x$ {{ x }}"

_BASE = {"N": 6, "d_model": 512, "d_ff": 2048, "h": 8, "d_k": 64, "d_v": 64, "p_drop": 0.1, "eps_ls": 0.1}
PUBLISHED = [
    PublishedTable3Row(position, row, trial, **(_BASE | change), positions=positions, train_steps=steps,
                       ppl=ppl, bleu=bleu, params_millions=params)
    for position, (row, trial, change, positions, steps, ppl, bleu, params) in enumerate([
        ("base", "base", {}, "sinusoid", 100_000, 4.92, 25.8, 65),
        ("A", "h1", {"h": 1, "d_k": 512, "d_v": 512}, "sinusoid", 100_000, 5.29, 24.9, None),
        ("C", "N2", {"N": 2}, "sinusoid", 100_000, 6.11, 23.7, 36),
        ("D", "drop0.0", {"p_drop": 0.0}, "sinusoid", 100_000, 5.77, 24.6, None),
        ("E", "learned", {}, "learned", 100_000, 4.92, 25.7, None),
        ("big", "big", {"d_model": 1024, "d_ff": 4096, "h": 16, "p_drop": 0.3}, "sinusoid", 300_000, 4.33, 26.4, 213),
    ])
]  # fmt: skip
CLAIMS = [
    ClaimRow("table3.a.h1.bleu", "table3", "Table 3, row (A), h = 1, BLEU", "h = 1 reaches 24.9 BLEU.", "value",
             "dev_bleu_paper", 24.9, 0.5, "BLEU", "Table 3"),
    ClaimRow("table3.a.base_over_h1.bleu", "table3", "Table 3, base against h1", "One head is worse.", "order",
             "dev_bleu_paper", None, None, "BLEU", "6.2", ">", trials=("base", "h1")),
    ClaimRow("table3.d.base_over_drop0.0.bleu", "table3", "Table 3, base against drop0.0", "Dropout helps.", "order",
             "dev_bleu_paper", None, None, "BLEU", "6.2", ">", trials=("base", "drop0.0")),
    ClaimRow("table3.big.params", "table3", "Table 3, big, params", "Big has 213 million parameters.", "exact",
             "params_millions", 213.0, 0.5, "million", "Table 3", trials=("big",), full_size=True),
]  # fmt: skip
PROVENANCE = {
    "host": "host",
    "platform": "Linux",
    "hardware": {"cpu": "Test CPU", "cores": 2, "memory_gib": 8.0},
    "gpus": [],
    "versions": {"python": "3.11.9", "torch": "2.9.1", "sacrebleu": None},
    "git_commit": None,
    "dirty": False,
}


def register(store: Store) -> None:
    """The small registry: Table 3 with six rows and four claims."""
    store.sync_registry([StudyRow("table3", "Variations on the architecture", "Table 3")], CLAIMS, PUBLISHED)
    store.set_code_version(CODE)


def add_run(
    home: Path,
    trial: str,
    seed: int = 1,
    scale: str = "smoke",
    bleu: float = 30.0,
    ppl: float = 5.0,
    failure: tuple[str, str] | None = None,
    started: bool = True,
) -> str:
    """One run's folder: done, failed with (reason, status), or never started. Returns its id."""
    config = {"trial": trial}
    run = run_id("table3", trial, seed, scale, config, "da7a00000001", CODE)
    record = RunRecord(run, "table3", trial, seed, scale, config, CODE, "da7a00000001", PROVENANCE)
    folder = RunFolder.create(home / "runs", record)
    if not started:
        return run
    attempt = folder.claim_attempt()
    for step in (100, 200, 300):
        value = math.nan if failure and step > 100 else ppl * (1 + 100 / step)
        attempt.log_metrics(step, "dev", {"ppl": value}, step / 10)
        attempt.log_metrics(step, "train", {"loss": value}, step / 10)
    if failure:
        attempt.fail(*failure)
        return run
    attempt.close()
    scores = [
        Score("dev_bleu_paper", bleu, "tok:moses-de|smooth:none", "grammar/dev", 50),
        Score("dev_bleu", bleu, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1", "grammar/dev", 50),
        Score("dev_ppl", ppl, "per word piece", "grammar/dev", 50),
    ]
    folder.finish(RunResult(30.0, 312_000, {"train": 28.0, "score": 2.0}, scores))
    return run


def judge(
    claim: str, verdict: str, reason: str, values: Sequence[float | None] = (None, None, None), scale: str = "smoke"
) -> VerdictRow:
    return VerdictRow(claim, scale, verdict, *values, num_runs=4, reason=reason)


@pytest.fixture
def empty_home(tmp_path: Path) -> Path:
    """A workspace with a database and nothing in it, not even the registry."""
    home = tmp_path / "empty home"
    Store(home).ingest()
    return home


@pytest.fixture(scope="session")
def mixed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with runs that are done, failed, diverged, waiting and missing, and hostile text in every place."""
    home = tmp_path_factory.mktemp("mixed {home}")
    store = Store(home)
    register(store)
    for seed in (1, 2):
        add_run(home, "base", seed, bleu=30.0 + seed, ppl=5.0)
        add_run(home, "h1", seed, bleu=28.0 + seed, ppl=5.4)
    add_run(home, "N2", 1, bleu=20.0, ppl=8.0)
    add_run(home, "N2", 2, failure=(f"out of memory {HOSTILE}", "failed"))
    add_run(home, "drop0.0", 1, failure=("the loss is NaN at step 200", "diverged"))
    add_run(home, "learned", 1, started=False)
    store.ingest()
    store.write_verdicts([
        judge("table3.a.h1.bleu", "not comparable", "absolute values need the paper's scale"),
        judge("table3.a.base_over_h1.bleu", "agrees", f"2.0 better {HOSTILE}", (2.0, 1.2, 2.8)),
        judge("table3.d.base_over_drop0.0.bleu", "undecided", "no finished run of drop0.0; 3 seeds would settle it"),
        judge("table3.big.params", "reproduced", "computed", (213.2, None, None), scale="paper"),
    ])  # fmt: skip
    return home


@pytest.fixture(scope="session")
def mixed_database(mixed_home: Path) -> Path:
    return mixed_home / "results.duckdb"


@pytest.fixture(scope="session")
def two_scale_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with one run at each of two scales."""
    home = tmp_path_factory.mktemp("two scales")
    register(Store(home))
    for scale in ("smoke", "small"):
        add_run(home, "base", scale=scale)
    Store(home).ingest()
    return home / "results.duckdb"


@pytest.fixture(scope="session")
def mixed_site(mixed_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the mixed workspace, built once, since it takes seconds."""
    output = tmp_path_factory.mktemp("site") / "new folder"
    build_site(mixed_database, output)
    return output


@pytest.fixture(scope="session")
def hostile() -> str:
    """Text that breaks a page, a formula or a template unless it is escaped; a run's and a verdict's reason hold it."""
    return HOSTILE


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, where there is one."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="install the dev extra: pip install -e '.[dev]'")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on PATH: install your system's chromium package")
    # The sandbox refuses to start as root, which is who containers run as.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Opens a file of the site; afterwards the page must have had no error and asked nobody for anything."""
    contexts, complaints = [], []

    def open_page(path: Path, scheme: str = "light", width: int = 1280, height: int = 900, touch: bool = False):
        context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": height}, has_touch=touch, is_mobile=touch
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
