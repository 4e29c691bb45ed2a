"""What holds for every test, and a study small enough to be trained in one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from results.run_folder import RunFolder
from studies.runs import PlannedRun, Workspace, plan_runs
from studies.scales import SMOKE, Scale
from studies.table3 import STUDY

# Tests that start a command elsewhere must still find the folder that was named relative to this one.
if os.environ.get("AIAYN_DATA"):
    os.environ["AIAYN_DATA"] = str(Path(os.environ["AIAYN_DATA"]).absolute())

# A property holds however long its proof takes on a machine that does other work too.
settings.register_profile("without clocks", deadline=None)
settings.load_profile("without clocks")


@pytest.fixture(scope="session")
def tiny() -> Scale:
    """The smoke scale at a size that trains in a second: 12 updates, checkpoints not where a line of the log ends."""
    base = SMOKE.base
    return replace(
        SMOKE,
        base=replace(
            base,
            model=replace(base.model, vocab_size=600, d_model=32, d_ff=32, d_k=4, d_v=4),
            data=replace(base.data, vocab_size=600),
            train=replace(
                base.train,
                train_steps=12,
                micro_batch_tokens=256,  # less than an update's 400, so that gradients accumulate
                log_every_steps=3,
                eval_every_steps=6,
                checkpoint_every_steps=5,
                average_last=3,
                average_every_steps=2,
            ),
            decode=replace(base.decode, beam_size=1, max_extra_pieces=1, batch_sentences=300),
        ),
    )


@pytest.fixture(scope="session")
def diverging(tiny: Scale) -> Scale:
    """`tiny`, but Adam divides by nothing where a gradient is 0, as it is for positions that no sentence reaches."""
    return replace(
        tiny,
        base=replace(
            tiny.base,
            model=replace(tiny.base.model, positions="learned"),
            optim=replace(tiny.base.optim, warmup_steps=1, eps=0.0),
        ),
    )


@pytest.fixture(scope="session")
def impossible(tiny: Scale) -> Scale:
    """`tiny` with micro-batches that hold no sentence of the corpus, which shows when training begins."""
    return replace(tiny, base=replace(tiny.base, train=replace(tiny.base.train, micro_batch_tokens=4)))


@pytest.fixture(scope="session")
def tiny_data(tiny: Scale, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The corpus of `tiny`, prepared once."""
    from core.data.prepare import prepare

    folder = tmp_path_factory.mktemp("data")
    prepare(tiny.base.data, folder)
    return folder


@pytest.fixture(scope="session")
def new_workspace(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Workspace]:
    """Makes workspaces without runs, whose data is prepared."""

    def make() -> Workspace:
        workspace = Workspace(tmp_path_factory.mktemp("home"))
        workspace.data.symlink_to(tiny_data)
        return workspace

    return make


@pytest.fixture(scope="session")
def plan(tiny: Scale) -> Callable[..., list[PlannedRun]]:
    """Plans trials of Table 3 at the tiny scale: `plan(workspace, "base", "h1", seeds=2)`."""

    def make(workspace: Workspace, *trials: str, seeds: int = 1, scale: Scale = tiny) -> list[PlannedRun]:
        return plan_runs(STUDY, scale, seeds, workspace, trials)

    return make


@pytest.fixture(scope="session")
def execute() -> Callable[[PlannedRun, Workspace], RunFolder]:
    """Carries out one run in this process, as a worker does."""

    import torch

    from studies.trials import execution

    def carry_out(run: PlannedRun, workspace: Workspace) -> RunFolder:
        execution.execute(run.record, workspace, num_threads=1, device=torch.device("cpu"))
        return run.folder

    return carry_out


@pytest.fixture(scope="session")
def unbroken(
    new_workspace: Callable[[], Workspace],
    plan: Callable[..., list[PlannedRun]],
    execute: Callable[[PlannedRun, Workspace], RunFolder],
) -> RunFolder:
    """table3/base, seed 1, trained without a break. Only to be read."""
    workspace = new_workspace()
    return execute(plan(workspace, "base")[0], workspace)


@pytest.fixture(scope="session")
def few_trees() -> Iterator[str]:
    """The name of a treebank of few trees, the grammar's, for as long as the session lasts, in this process alone."""
    from core.data import corpora
    from core.data.generated_corpus import GRAMMAR
    from core.data.treebanks import GRAMMAR_TREES

    splits = {"train": 300, "dev": 30, "test": 30}
    few = replace(GRAMMAR_TREES, name="few-trees", splits=splits, corpus=replace(GRAMMAR, splits=splits))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "TREEBANKS", {**corpora.TREEBANKS, few.name: few})
        yield few.name


@pytest.fixture(scope="session")
def tiny_parsing(tiny: Scale, few_trees: str) -> Scale:
    """`tiny` for Table 4: 30 updates on 300 trees, then greedy search."""
    wsj_only = replace(
        tiny.parsing.wsj_only,
        model=replace(tiny.base.model, vocab_size=400, num_layers=1),
        data=replace(tiny.parsing.wsj_only.data, corpus=few_trees, vocab_size=400, bare_words=False),
        train=replace(tiny.base.train, train_steps=30),
        decode=replace(tiny.base.decode, max_extra_pieces=40),
    )
    semi = replace(wsj_only, data=replace(wsj_only.data, train_share=0.5))
    return replace(tiny, parsing=replace(tiny.parsing, wsj_only=wsj_only, semi=semi))


@pytest.fixture(scope="session")
def plan_parsing(tiny_parsing: Scale) -> Callable[..., list[PlannedRun]]:
    """Plans trials of Table 4 at the tiny scale."""
    from studies.table4 import STUDY as TABLE4

    return lambda workspace, *trials, seeds=1: plan_runs(TABLE4, tiny_parsing, seeds, workspace, trials)


@pytest.fixture(scope="session")
def parser_run(
    plan_parsing: Callable[..., list[PlannedRun]],
    execute: Callable[[PlannedRun, Workspace], RunFolder],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunFolder:
    """table4/wsj_only, seed 1, hardly trained. Only to be read."""
    workspace = Workspace(tmp_path_factory.mktemp("parsing"))
    return execute(plan_parsing(workspace, "wsj_only")[0], workspace)
