"""Small generated tasks, each of which asks for one property of a sequence model: what it says it has, it must show.

A task's examples are drawn anew as long as one trains, and no data set is kept. Chance is what is reached by knowing
everything about an input but what the task is about, so that 0 of the way from chance to perfect means: does not have
the property.

Shapes: m examples of S source pieces (the end symbol included, padding on the right) and T answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.data.vocabulary import EOS_ID, PAD_ID

Ids = NDArray[np.int64]
Answer = Literal["label", "labels", "sequence"]
Draw = Callable[[np.random.Generator, int, bool], "Examples"]

FIRST_ID = EOS_ID + 1
"""Ids below are special symbols."""


@dataclass(frozen=True)
class Examples:
    """Inputs and what should come out.

    Attributes:
        src: (m, S) int64.
        tgt: (m, T) int64, end symbol included; for one label a sentence (m, 1), without.
        distance: (m,) how many pieces before the end of the input lies what is asked for, where a task has that.
    """

    src: Ids
    tgt: Ids
    distance: Ids | None = None


@dataclass(frozen=True)
class ProbeTask:
    """One property as a task.

    Attributes:
        name: the task's.
        description: what goes in and what should come out.
        answer: one "label" a sentence; "labels", one a piece; or a "sequence" of another length.
        chance: accuracy of what knows all but this. Of labels it is per piece, of sequences per whole output.
        draw: (generator, m, held_out) -> m examples. Held out are those that differ in kind from those of the training,
            where a task asks for that; of the others, and so in effect never seen, are all.
        longest: source pieces in training, the end symbol included.
        far: for a task with distances, accuracy counts from here on.
    """

    name: str
    description: str
    answer: Answer
    chance: float
    draw: Draw
    longest: int
    far: int | None = None


def _symbols(random: np.random.Generator, shape: tuple[int, ...], first: int, number: int) -> Ids:
    return random.integers(first, first + number, shape)


def _ended(src: Ids, lengths: Ids) -> Ids:
    """(m, S): each input cut to its length, then the end symbol, then padding."""
    places = np.arange(src.shape[1] + 1)
    padded = np.pad(src, ((0, 0), (0, 1)))
    return np.where(places < lengths[:, None], padded, np.where(places == lengths[:, None], EOS_ID, PAD_ID))


def _full(src: Ids) -> Ids:
    """(m, S): all of one length, with the end symbol."""
    return np.pad(src, ((0, 0), (0, 1)), constant_values=EOS_ID)


# Which of 4 names; noise words are others.
_NAMES, _NAME = 4, FIRST_ID
_NOISE_WORDS, _NOISE = 20, FIRST_ID + _NAMES

ORDER_LENGTH = 10


def draw_order(random: np.random.Generator, number: int, held_out: bool) -> Examples:
    """Two different names among noise words; the answer is the one that comes first."""
    src = _symbols(random, (number, ORDER_LENGTH), _NOISE, _NOISE_WORDS)
    places = np.sort(random.permuted(np.tile(np.arange(ORDER_LENGTH), (number, 1)), axis=1)[:, :2], axis=1)
    names = _NAME + random.permuted(np.tile(np.arange(_NAMES), (number, 1)), axis=1)[:, :2]
    np.put_along_axis(src, places, names, axis=1)
    return Examples(_full(src), names[:, :1])


CONTEXT_CLASSES, CONTEXT_FORMS, CONTEXT_LENGTHS = 4, 2, (3, 6)


def draw_context(random: np.random.Generator, number: int, held_out: bool) -> Examples:
    """A label for each word, which its own class and the class of the word before it decide together: neither alone
    tells anything (a Latin square). Before the first word is a class 0."""
    low, high = CONTEXT_LENGTHS
    lengths = random.integers(low, high + 1, number)
    words = random.integers(0, CONTEXT_FORMS * CONTEXT_CLASSES, (number, high))
    classes = words % CONTEXT_CLASSES
    before = np.pad(classes, ((0, 0), (1, 0)))[:, :-1]
    labels = FIRST_ID + CONTEXT_FORMS * CONTEXT_CLASSES + (classes + before) % CONTEXT_CLASSES
    return Examples(_ended(FIRST_ID + words, lengths), _ended(labels, lengths))


SEEN_LENGTHS, UNSEEN_LENGTHS = (4, 10), (11, 20)


def draw_length(random: np.random.Generator, number: int, held_out: bool) -> Examples:
    """One of 4 names among noise words, in whatever place; the answer is that name. Held out are longer inputs."""
    low, high = UNSEEN_LENGTHS if held_out else SEEN_LENGTHS
    lengths = random.integers(low, high + 1, number)
    src = _symbols(random, (number, high), _NOISE, _NOISE_WORDS)
    names = _symbols(random, (number,), _NAME, _NAMES)
    src[np.arange(number), random.integers(0, lengths)] = names
    return Examples(_ended(src, lengths), names[:, None])


COPIED_WORDS, COPIED_LENGTHS = 4, (2, 4)


def draw_output(random: np.random.Generator, number: int, held_out: bool) -> Examples:
    """Words of which one half of the forms is left out and the other is written twice: outputs shorter and longer."""
    low, high = COPIED_LENGTHS
    lengths = random.integers(low, high + 1, number)
    forms = random.integers(0, 2 * COPIED_WORDS, (number, high))
    is_written = (forms % 2 == 1) & (np.arange(high) < lengths[:, None])
    tgt = np.full((number, 2 * high + 1), PAD_ID)
    places = 2 * (is_written.cumsum(axis=1) - 1)
    rows, columns = is_written.nonzero()
    for copy in range(2):
        tgt[rows, places[rows, columns] + copy] = FIRST_ID + 2 * COPIED_WORDS + forms[rows, columns] // 2
    tgt[np.arange(number), 2 * is_written.sum(axis=1)] = EOS_ID
    return Examples(_ended(FIRST_ID + forms, lengths), tgt)


RECALL_LENGTH, RECALL_KEYS, RECALL_VALUES, FAR = 16, 8, 4, 13


def draw_recall(random: np.random.Generator, number: int, held_out: bool) -> Examples:
    """Pairs of a key and a value, one piece each and each key once, among blanks; then a key; the answer is its
    value.

    In training any number of the pairs is left blank too, so that there are easy examples to begin with; held out are
    inputs with all of them.
    """
    blank = FIRST_ID + RECALL_VALUES
    query = blank + 1
    keys = random.permuted(np.tile(np.arange(RECALL_KEYS), (number, 1)), axis=1)
    values = random.integers(0, RECALL_VALUES, keys.shape)
    pairs = query + RECALL_KEYS + keys * RECALL_VALUES + values
    asked, rows = random.integers(0, RECALL_KEYS, number), np.arange(number)
    if not held_out:
        is_blank = random.random(keys.shape) < random.random((number, 1))
        is_blank[rows, asked] = False
        pairs[is_blank] = blank
    src = np.full((number, RECALL_LENGTH + 1), blank)
    places = random.permuted(np.tile(np.arange(RECALL_LENGTH), (number, 1)), axis=1)[:, :RECALL_KEYS]
    np.put_along_axis(src, places, pairs, axis=1)
    src[:, -1] = query + keys[rows, asked]
    return Examples(_full(src), FIRST_ID + values[rows, asked][:, None], RECALL_LENGTH - places[rows, asked])


MARKED_LENGTH, MARKED_SYMBOLS = 12, 8


def draw_marked(random: np.random.Generator, number: int, held_out: bool) -> Examples:
    """Symbols, and once among them a mark; the answer is the symbol after the mark."""
    mark = FIRST_ID + MARKED_SYMBOLS
    src = _symbols(random, (number, MARKED_LENGTH), FIRST_ID, MARKED_SYMBOLS)
    place, rows = random.integers(0, MARKED_LENGTH - 1, number), np.arange(number)
    src[rows, place] = mark
    return Examples(_full(src), src[rows, place + 1][:, None], MARKED_LENGTH - 1 - place)


TASKS = (
    ProbeTask(
        "order",
        f"{ORDER_LENGTH} words with two of {_NAMES} names among them: which of the two came first",
        "label",
        1 / 2,
        draw_order,
        ORDER_LENGTH + 1,
    ),
    ProbeTask(
        "context",
        f"a label for each word, by its class and that of the word before it, of {CONTEXT_CLASSES}",
        "labels",
        1 / CONTEXT_CLASSES,
        draw_context,
        CONTEXT_LENGTHS[1] + 1,
    ),
    ProbeTask(
        "length",
        f"which of {_NAMES} names is among the words; trained on {SEEN_LENGTHS[0]} to {SEEN_LENGTHS[1]} words, "
        f"asked on {UNSEEN_LENGTHS[0]} to {UNSEEN_LENGTHS[1]}",
        "label",
        1 / _NAMES,
        draw_length,
        SEEN_LENGTHS[1] + 1,
    ),
    ProbeTask(
        "output",
        f"{COPIED_LENGTHS[0]} to {COPIED_LENGTHS[1]} words, each to be left out or written twice, by its form",
        "sequence",
        0.0,
        draw_output,
        COPIED_LENGTHS[1] + 1,
    ),
    ProbeTask(
        "recall",
        f"{RECALL_KEYS} pairs of a key and one of {RECALL_VALUES} values among blanks, {RECALL_LENGTH} pieces in all, "
        f"then a key: its value, where the pair lies {FAR} or more pieces back",
        "label",
        1 / RECALL_VALUES,
        draw_recall,
        RECALL_LENGTH + 2,
        far=FAR,
    ),
    ProbeTask(
        "marked",
        f"{MARKED_LENGTH} steps with one mark among {MARKED_SYMBOLS} symbols: the symbol after it",
        "label",
        1 / MARKED_SYMBOLS,
        draw_marked,
        MARKED_LENGTH + 1,
    ),
)
"""One a property, by name."""
