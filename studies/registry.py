"""The list of studies, by explicit import: a study that cannot be imported is an error, never a shorter list."""

from __future__ import annotations

from studies import budget, capabilities, figures, section3, section5, table1, table2, table3, table4
from studies.study import Study, no_such

STUDIES: tuple[Study, ...] = (
    table1.STUDY,
    table2.STUDY,
    table3.STUDY,
    table4.STUDY,
    *figures.STUDIES,
    capabilities.STUDY,
    section3.STUDY,
    section5.STUDY,
    budget.STUDY,
)

if len({study.name for study in STUDIES}) != len(STUDIES):
    raise ValueError("two studies have the same name")


def get_study(name: str) -> Study:
    """The study of that name.

    Raises:
        ValueError: no such study; the message has near names.
    """
    for study in STUDIES:
        if study.name == name:
            return study
    raise no_such("study", name, [study.name for study in STUDIES], "aiayn list")
