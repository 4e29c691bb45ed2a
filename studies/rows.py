"""The registry as the store's rows: claims with their identity, and the paper's tables as printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from results.records import (
    ClaimRow,
    PublishedCapabilityRow,
    PublishedFigureRow,
    PublishedRow,
    PublishedTable1Row,
    PublishedTable2Row,
    PublishedTable3Row,
    PublishedTable4Row,
    StudyRow,
)
from studies import capabilities, figures, table1, table2, table3, table4
from studies.claim import METRICS, Claim
from studies.registry import STUDIES
from studies.scales import PAPER
from studies.study import Study


def study_rows() -> list[StudyRow]:
    """All studies, in the registry's order."""
    return [StudyRow(study.name, study.title, study.cells) for study in STUDIES]


def claim_rows() -> list[ClaimRow]:
    """All claims, in the registry's order."""
    return [_claim_row(study, claim) for study in STUDIES for claim in study.claims]


def _claim_row(study: Study, claim: Claim) -> ClaimRow:
    direction = claim.bound
    if claim.kind == "order":
        direction = "<" if METRICS[claim.metric].lower_is_better else ">"
    identity = claim.identity
    return ClaimRow(
        claim=claim.id,
        study=study.name,
        cell=claim.cell,
        statement=claim.statement,
        kind=claim.kind,
        metric=claim.metric,
        expected=claim.expected,
        tolerance=claim.tolerance,
        unit=claim.unit,
        source=claim.source,
        direction=direction,
        trials=claim.trials,
        dataset=identity and identity.dataset,
        num_items=identity and identity.num_items,
        protocol=identity and identity.protocol,
        budget=identity and json.dumps([asdict(budget) for budget in identity.budgets]),
        reading=claim.reading,
        misquote=claim.misquote,
        quoted=claim.quoted,
        full_size=claim.full_size,
    )


def published_rows() -> list[PublishedRow]:
    """Every row of Tables 1 to 4 as printed, the figures, and the lectures' capability table."""
    return [*_table1(), *_table2(), *_table3(), *_table4(), *_figures(), *_capabilities()]


def _table1() -> Iterator[PublishedRow]:
    for position, row in enumerate(table1.ROWS):
        yield PublishedTable1Row(
            position, row.id, row.label, row.complexity_formula, row.sequential_formula, row.path_formula
        )


def _table2() -> Iterator[PublishedRow]:
    for position, row in enumerate(table2.ROWS):
        yield PublishedTable2Row(
            position=position,
            model=row.id,
            label=row.model,
            quoted=not row.ours,
            ensemble=row.ensemble,
            bleu_ende=row.bleu_ende,
            bleu_enfr=row.bleu_enfr,
            flops_ende=row.flops_ende,
            flops_enfr=row.flops_enfr,
        )


def _table3() -> Iterator[PublishedRow]:
    """Each row's configuration at the paper's sizes, with the cells that the paper leaves to the base row filled in."""
    for position, (row, trial) in enumerate(zip(table3.ROWS, table3.STUDY.trials, strict=True)):
        config = trial.config(PAPER)
        model = config.model
        yield PublishedTable3Row(
            position=position,
            row=row.group,
            trial=row.trial,
            N=model.num_layers,
            d_model=model.d_model,
            d_ff=model.d_ff,
            h=model.num_heads,
            d_k=model.d_k,
            d_v=model.d_v,
            p_drop=model.dropout,
            eps_ls=config.optim.label_smoothing,
            positions=model.positions,
            train_steps=config.train.train_steps,
            ppl=row.ppl,
            bleu=row.bleu,
            params_millions=row.params_millions,
        )


def _table4() -> Iterator[PublishedRow]:
    for position, row in enumerate(table4.ROWS):
        yield PublishedTable4Row(position, row.parser, row.training, row.trial, row.f1)


def _figures() -> Iterator[PublishedRow]:
    for position, figure in enumerate(figures.FIGURES):
        yield PublishedFigureRow(
            position=position,
            figure=figure.name,
            title=figure.title,
            sentence=figure.sentence,
            layer=figures.LAYER,
            num_layers=figures.NUM_LAYERS,
            shows=figure.shows,
        )


def _capabilities() -> Iterator[PublishedCapabilityRow]:
    cells = [(row, subject) for row in capabilities.PROPERTIES for subject in capabilities.SUBJECTS]
    for position, (row, subject) in enumerate(cells):
        has_it = None if subject.column is None else row.lecture[subject.column]
        yield PublishedCapabilityRow(
            position=position,
            property=row.id,
            label=row.label,
            model=subject.trial,
            model_label=subject.label,
            has_it=has_it,
            metric=row.metric,
            threshold=row.threshold,
            at_least=row.at_least,
            claim=None if subject.column is None else capabilities.claim_id(row, subject),
        )
