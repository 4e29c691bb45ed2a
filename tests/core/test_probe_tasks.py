"""Probe tasks: every answer worked out again by a plain loop, and that nothing but the property tells it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from core.data.vocabulary import EOS_ID
from core.probe_tasks import (
    CONTEXT_CLASSES,
    CONTEXT_FORMS,
    FIRST_ID,
    MARKED_LENGTH,
    MARKED_SYMBOLS,
    RECALL_KEYS,
    RECALL_LENGTH,
    RECALL_VALUES,
    SEEN_LENGTHS,
    TASKS,
    UNSEEN_LENGTHS,
    Examples,
    ProbeTask,
)
from studies.capabilities import PROPERTIES, VOCAB_SIZE

BY_NAME = {task.name: task for task in TASKS}
NUMBER = 300


def draw(name: str, held_out: bool = True) -> Examples:
    return BY_NAME[name].draw(np.random.default_rng(5), NUMBER, held_out)


def rows(examples: Examples) -> list[tuple[list[int], list[int]]]:
    """Each input and its answer without special symbols."""
    return [
        ([piece for piece in src if piece > EOS_ID], [piece for piece in tgt if piece > EOS_ID])
        for src, tgt in zip(examples.src.tolist(), examples.tgt.tolist(), strict=True)
    ]


def solve_order(pieces: list[int]) -> list[int]:
    return [piece for piece in pieces if piece < FIRST_ID + 4][:1]


def solve_context(pieces: list[int]) -> list[int]:
    classes = [0] + [(piece - FIRST_ID) % CONTEXT_CLASSES for piece in pieces]
    first = FIRST_ID + CONTEXT_FORMS * CONTEXT_CLASSES
    return [first + (before + own) % CONTEXT_CLASSES for before, own in pairwise(classes)]


def solve_output(pieces: list[int]) -> list[int]:
    return [FIRST_ID + 8 + (p - FIRST_ID) // 2 for p in pieces if (p - FIRST_ID) % 2 for _ in range(2)]


def solve_recall(pieces: list[int]) -> list[int]:
    *pairs, query = pieces
    blank = FIRST_ID + RECALL_VALUES
    key, first_pair = query - blank - 1, blank + 1 + RECALL_KEYS
    found = [divmod(pair - first_pair, RECALL_VALUES) for pair in pairs if pair != blank]
    assert len({other for other, _ in found}) == len(found) <= RECALL_KEYS
    return [FIRST_ID + value for other, value in found if other == key]


def solve_marked(pieces: list[int]) -> list[int]:
    return [pieces[pieces.index(FIRST_ID + MARKED_SYMBOLS) + 1]]


SOLVE = {
    "order": solve_order,
    "context": solve_context,
    "length": solve_order,
    "output": solve_output,
    "recall": solve_recall,
    "marked": solve_marked,
}


def test_every_trained_property_has_its_task() -> None:
    assert [task.name for task in TASKS] == [row.id for row in PROPERTIES if row.id != "parallel"] == list(SOLVE)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
@pytest.mark.parametrize("held_out", [False, True])
def test_answers_are_those_of_a_plain_loop(task: ProbeTask, held_out: bool) -> None:
    for pieces, answer in rows(draw(task.name, held_out)):
        assert answer == SOLVE[task.name](pieces)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_inputs_and_answers_have_the_form_that_the_task_states(task: ProbeTask) -> None:
    examples = draw(task.name, held_out=False)
    assert examples.src.max() < VOCAB_SIZE
    assert examples.src.shape[1] == task.longest
    assert ((examples.src == EOS_ID).sum(axis=1) == 1).all()
    sources, targets = (examples.src > 0).sum(axis=1), (examples.tgt > 0).sum(axis=1)
    if task.answer == "label":
        assert (targets == 1).all()
    elif task.answer == "labels":
        assert (targets == sources).all()
    else:
        assert (targets > sources).any()
        assert (targets < sources).any()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_the_same_generator_draws_the_same_and_another_does_not(task: ProbeTask) -> None:
    first, again = draw(task.name), draw(task.name)
    assert np.array_equal(first.src, again.src)
    assert not np.array_equal(first.src, task.draw(np.random.default_rng(6), NUMBER, True).src)


def test_of_two_names_each_comes_first_as_often() -> None:
    """Chance is 1/2 for what knows the set of words and not their order."""
    examples = BY_NAME["order"].draw(np.random.default_rng(0), 6_000, True)
    counts: Counter[tuple[tuple[int, ...], int]] = Counter()
    for pieces, (answer,) in rows(examples):
        counts[tuple(sorted(piece for piece in pieces if piece < FIRST_ID + 4)), answer] += 1
    assert len(counts) == 12  # 6 sets of two, and either may be first
    assert all(abs(count - 500) < 110 for count in counts.values())


def test_neither_a_words_class_nor_the_one_before_tells_its_label() -> None:
    counts = np.zeros((2, CONTEXT_CLASSES, CONTEXT_CLASSES))  # (own or before, class, label)
    for pieces, labels in rows(BY_NAME["context"].draw(np.random.default_rng(0), 3_000, True)):
        classes = [(piece - FIRST_ID) % CONTEXT_CLASSES for piece in pieces]
        for place in range(1, len(pieces)):
            label = labels[place] - FIRST_ID - CONTEXT_FORMS * CONTEXT_CLASSES
            counts[0, classes[place], label] += 1
            counts[1, classes[place - 1], label] += 1
    shares = counts / counts.sum(axis=2, keepdims=True)
    assert np.abs(shares - BY_NAME["context"].chance).max() < 0.03


def test_held_out_inputs_are_longer_than_any_seen() -> None:
    for held_out, (low, high) in ((False, SEEN_LENGTHS), (True, UNSEEN_LENGTHS)):
        lengths = (draw("length", held_out).src > EOS_ID).sum(axis=1)
        assert (lengths.min(), lengths.max()) == (low, high)
    assert SEEN_LENGTHS[1] < UNSEEN_LENGTHS[0]


def test_distances_lead_back_to_what_is_asked_for() -> None:
    recall = draw("recall")
    for (pieces, (answer,)), distance in zip(rows(recall), recall.distance, strict=True):
        pair = pieces[-1 - distance]
        assert solve_recall([pair, pieces[-1]]) == [answer]
    assert set(recall.distance) == set(range(1, RECALL_LENGTH + 1))
    marked = draw("marked")
    for (pieces, (answer,)), distance in zip(rows(marked), marked.distance, strict=True):
        assert pieces[MARKED_LENGTH - distance] == answer
