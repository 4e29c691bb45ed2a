"""Attention as pictures: two columns of tokens with lines between them as in the paper, a matrix, a grid of all heads.

Everything here takes arrays and labels: rows are the tokens that look, columns the tokens that are looked at, and every
row sums to 1. Opacity is weight, colour is the head. Labels are drawn as they are, whatever they hold.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike, NDArray

from reports.drawing import GRID, INK, MORE_SERIES, MUTED, PAPER, SERIES, drawing
from results.attention_file import SentenceAttention

View = Literal["columns", "matrix", "grid"]
VIEWS: tuple[View, ...] = get_args(View)
FORMATS = ("png", "svg", "pdf")

HEAD_COLORS = (*SERIES[:6], *MORE_SERIES)
"""One for each of the base model's 8 heads; more heads begin anew."""

# A line of less weight is too pale to be seen and there are thousands of it.
LEAST_DRAWN = 0.02
_ROW_INCHES = 0.22
_GAP_INCHES = 2.2
_FONT_SIZE = 9.5
# Beyond this many tokens a matrix names only some of them.
_MOST_NAMED = 80


def head_color(head: int) -> str:
    """The colour of a head, counted from 1."""
    return HEAD_COLORS[(head - 1) % len(HEAD_COLORS)]


@contextmanager
def columns_picture(
    weights: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    heads: Sequence[int],
    title: str,
    focus: Sequence[int] | None = None,
    sides: tuple[str, str] = ("looks", "is looked at"),
) -> Iterator[Figure]:
    """The paper's picture: who looks at the left, what is looked at on the right, a line for each weight.

    Args:
        weights: (heads, T, S), those of `heads` alone and in their order.
        heads: their numbers, from 1.
        focus: only these rows have lines; what they look at is shaded, a stripe for each head (Figure 3). None means
            all rows. Lines below a weight of 0.02 are left out.

    Raises:
        ValueError: the weights do not fit the labels and heads, or a row of `focus` is not there.
    """
    weights = _checked(weights, heads, rows, columns)
    lit = range(len(rows)) if focus is None else focus
    if any(not 0 <= row < len(rows) for row in lit):
        raise ValueError(f"focus={list(lit)} names a row that is not among {len(rows)}")
    left, right = (max((_text_inches(label) for label in labels), default=0.5) for labels in (rows, columns))
    width = left + _GAP_INCHES + right + 0.5
    height = (max(len(rows), len(columns)) + 1) * _ROW_INCHES + 0.75 + 0.22 * math.ceil(len(heads) / 8)
    with drawing(max(width, 1.25 * _text_inches(title) + 0.4), height) as (figure, axes):
        axes.set_title(title, fontsize=10.5, parse_math=False)
        axes.axis("off")
        deepest = max(len(rows), len(columns))
        axes.set_ylim(deepest - 0.4, -1.2)
        axes.set_xlim(-left - 0.1, _GAP_INCHES + right + 0.1)
        segments, colors = [], []
        for place, head in enumerate(heads):
            for row in lit:
                for column in np.flatnonzero(weights[place, row] >= LEAST_DRAWN):
                    # Heads side by side by a hair, so that equal lines do not hide each other.
                    shift = 0.05 * (place - (len(heads) - 1) / 2) if len(heads) > 1 else 0.0
                    segments.append([(0.06, row + shift), (_GAP_INCHES - 0.06, column + shift)])
                    colors.append(to_rgba(head_color(head), float(weights[place, row, column]) ** 0.8))
        axes.add_collection(LineCollection(segments, colors=colors, linewidths=1.6, capstyle="round"))
        if focus is not None:
            _shade(axes, weights[:, list(focus)].mean(axis=1), heads, right)
        for labels, x, side, side_name in ((rows, 0.0, "right", sides[0]), (columns, _GAP_INCHES, "left", sides[1])):
            axes.text(x, -0.95, side_name, ha=side, va="center", fontsize=8, color=MUTED, style="italic")
            for place, label in enumerate(labels):
                faint = side == "right" and focus is not None and place not in focus
                lit_alone = side == "right" and focus is not None and not faint
                _write(axes, x, place, label, side, MUTED if faint else INK, lit_alone)
        _name_heads(axes, heads)
        yield figure


def _shade(axes: Axes, looked_at: NDArray[np.floating], heads: Sequence[int], width: float) -> None:
    """Behind each token on the right, a stripe for each head, as opaque as its weight."""
    stripe = (width + 0.06) / len(heads)
    for place, head in enumerate(heads):
        for column in np.flatnonzero(looked_at[place] >= LEAST_DRAWN):
            corner = (_GAP_INCHES - 0.03 + place * stripe, column - 0.45)
            opacity = 0.75 * float(looked_at[place, column])
            axes.add_patch(Rectangle(corner, stripe, 0.9, facecolor=head_color(head), alpha=opacity, linewidth=0))


def _name_heads(axes: Axes, heads: Sequence[int]) -> None:
    handles = [Rectangle((0, 0), 1, 1, facecolor=head_color(head), linewidth=0) for head in heads]
    names = [f"head {head}" if len(heads) <= 3 else str(head) for head in heads]
    title = "head" if len(heads) > 3 else None
    axes.legend(
        handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=min(8, len(heads)), title=title,
        handlelength=0.9, handleheight=0.9, columnspacing=0.9, handletextpad=0.35, title_fontsize=8, fontsize=8.5,
    )  # fmt: skip


@contextmanager
def matrix_picture(
    weights: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    head: int,
    title: str,
    sides: tuple[str, str] = ("looks", "is looked at"),
) -> Iterator[Figure]:
    """One head as a heat map (T, S): the darker, the more weight.

    Raises:
        ValueError: the weights do not fit the labels.
    """
    matrix = _checked(np.asarray(weights)[None], [head], rows, columns)[0]
    size = 0.21 if max(matrix.shape) <= _MOST_NAMED else 16 / max(matrix.shape)
    left = max(_text_inches(label) for label in rows)
    below = max(_text_inches(label) for label in columns)
    width = max(size * len(columns) + left + 1.5, left + 1.25 * _text_inches(title) + 0.5)
    with drawing(width, size * len(rows) + below + 1.1) as (figure, axes):
        _heat(axes, matrix, rows, columns, head, bar=True)
        axes.set_title(title, fontsize=10.5, parse_math=False)
        axes.set_ylabel(sides[0])
        axes.set_xlabel(sides[1])
        yield figure


@contextmanager
def grid_picture(
    weights: ArrayLike, rows: Sequence[str], columns: Sequence[str], heads: Sequence[int], title: str
) -> Iterator[Figure]:
    """All these heads (heads, T, S) side by side as small matrices, with the tokens named where they can be read.

    Raises:
        ValueError: the weights do not fit the labels and heads.
    """
    weights = _checked(weights, heads, rows, columns)
    across = min(4, len(heads))
    down = math.ceil(len(heads) / across)
    size = min(0.17, 5.5 / max(len(rows), len(columns)))
    named = size >= 0.12
    left = max(_text_inches(label) for label in rows) * 0.8 if named else 0.2
    below = max(_text_inches(label) for label in columns) * 0.8 if named else 0.2
    width = across * max(size * len(columns) + 0.35, 1.3) + left + 0.4
    height = down * (size * len(rows) + 0.45) + below + 0.5
    with drawing(width, height, rows=down, columns=across) as (figure, panels):
        for place, axes in enumerate(np.ravel(panels)):
            if place >= len(heads):
                axes.axis("off")
                continue
            head = heads[place]
            at_left, at_bottom = place % across == 0, place + across >= len(heads)
            _heat(
                axes, weights[place],
                rows if named and at_left else None, columns if named and at_bottom else None, head,
                font_size=7.5,
            )  # fmt: skip
            axes.set_title(f"head {head}", fontsize=9, color=head_color(head))
        figure.suptitle(title, fontsize=10.5, fontweight="bold", color=INK, parse_math=False)
        yield figure


def _heat(
    axes: Axes,
    matrix: NDArray[np.floating],
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    head: int,
    bar: bool = False,
    font_size: float = 8.5,
) -> None:
    import seaborn as sns

    # From clear to opaque, so that the page's ground shows through, light or dark.
    color = to_rgba(head_color(head))
    palette = LinearSegmentedColormap.from_list("head", [(*color[:3], 0.0), color])
    with _boxes_for_missing():
        sns.heatmap(
            matrix, ax=axes, vmin=0, vmax=1, cmap=palette, square=True, cbar=bar, xticklabels=False, yticklabels=False,
            linewidths=0, cbar_kws={"shrink": 0.6, "label": "weight"} if bar else None, rasterized=True,
        )  # fmt: skip
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set(visible=True, color=GRID)
    for labels, axis, turn in ((rows, axes.yaxis, 0), (columns, axes.xaxis, 90)):
        if labels is None:
            continue
        step = math.ceil(len(labels) / _MOST_NAMED)
        places = range(0, len(labels), step)
        axis.set_ticks(
            [place + 0.5 for place in places], [labels[place] for place in places],
            rotation=turn, fontsize=font_size, parse_math=False, fontfamily=_fonts_for("".join(labels)),
        )  # fmt: skip
        axis.set_tick_params(length=0)


def _checked(
    weights: ArrayLike, heads: Sequence[int], rows: Sequence[str], columns: Sequence[str]
) -> NDArray[np.floating]:
    """The weights as an array, if each is where its labels say (pitfalls F1 to F3).

    Raises:
        ValueError: another shape, or rows that are no distributions.
    """
    weights = np.asarray(weights, dtype=float)
    expected = (len(heads), len(rows), len(columns))
    if weights.shape != expected or not weights.size:
        raise ValueError(f"weights are {weights.shape}; these heads, rows and columns need {expected}")
    if not np.allclose(weights.sum(axis=-1), 1.0, atol=5e-3):
        worst = weights.sum(axis=-1).flat[np.abs(weights.sum(axis=-1) - 1).argmax()]
        raise ValueError(f"a row of the weights sums to {worst:.3g}, not to 1; are rows and columns exchanged?")
    return weights


def writable_form(path: Path) -> str:
    """The form that a file's name ends in: a picture's or `html`.

    Raises:
        ValueError: another form, or there is no such folder.
    """
    form = path.suffix.lower().removeprefix(".")
    if form not in (*FORMATS, "html"):
        raise ValueError(f"cannot draw {path.name}: its name must end in .png, .svg, .pdf or .html")
    if not path.parent.is_dir():
        raise ValueError(f"cannot write {path}: there is no folder {path.parent}; choose another file with -o")
    return form


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture in the form that its name ends in; whole or not at all.

    Raises:
        ValueError: another form, or the file cannot be written.
    """
    form = writable_form(path)
    temporary = path.with_name(f".{path.name}.tmp")
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
    try:
        with _boxes_for_missing():
            figure.savefig(temporary, format=form, dpi=200, metadata=metadata, facecolor=PAPER)
        temporary.replace(path)
    except OSError as error:
        raise ValueError(f"cannot write {path} ({error.strerror}); choose another file with -o") from error
    finally:
        temporary.unlink(missing_ok=True)


# From a stored sentence ----------------------------------------------------------------------------------------------

KIND_NAMES = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "attention of the decoder to the source",
}


def draw_sentence(
    sentence: SentenceAttention,
    kind: str,
    layer: int,
    heads: Sequence[int] | None = None,
    view: View = "columns",
    focus: Sequence[int] | None = None,
    words: bool = True,
    title: str = "",
) -> AbstractContextManager[Figure]:
    """One of the pictures of a sentence's layer, by words or by pieces.

    Args:
        heads: numbers from 1; None means all.
        focus: of the view `columns`, see `columns_picture`.

    Raises:
        ValueError: no such layer, kind or head; or a matrix of more than one head.
    """
    weights = sentence.word_layer(kind, layer) if words else sentence.layer(kind, layer)
    rows, columns = sentence.labels(kind, words)
    chosen = _chosen_heads(heads, layer, len(weights))
    weights = weights[[head - 1 for head in chosen]]
    sides = ("target, looks", "source, is looked at") if kind == "cross" else ("looks", "is looked at")
    title = title or f"{KIND_NAMES[kind].capitalize()}, layer {layer}"
    if view == "columns":
        return columns_picture(weights, rows, columns, chosen, title, focus, sides)
    if view == "grid":
        return grid_picture(weights, rows, columns, chosen, title)
    if len(chosen) != 1:
        raise ValueError(f"a matrix shows one head and {len(chosen)} are asked for; name one, or take the view grid")
    return matrix_picture(weights[0], rows, columns, chosen[0], title, sides)


def find_word(labels: Sequence[str], word: str) -> list[int]:
    """Where a word stands among labels: as it is written, else whatever its case.

    Raises:
        ValueError: it is not there.
    """
    for same in (str, str.casefold):
        places = [place for place, label in enumerate(labels) if same(label) == same(word)]
        if places:
            return places
    raise ValueError(f"no word {word!r} in: {' '.join(labels)}")


def strongest(
    sentence: SentenceAttention,
    kind: str,
    layer: int,
    heads: Sequence[int] | None = None,
    focus: Sequence[int] | None = None,
    words: bool = True,
    wide: bool = True,
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Column names and rows that say what each token looks at most: a column for each head, or a row for each.

    Raises:
        ValueError: no such layer, kind or head.
    """
    weights = sentence.word_layer(kind, layer) if words else sentence.layer(kind, layer)
    chosen = _chosen_heads(heads, layer, len(weights))
    rows, columns = sentence.labels(kind, words)
    most = weights.argmax(axis=-1)  # (H, T)
    places = range(len(rows)) if focus is None else focus
    if wide:
        table = [
            (rows[i], *(f"{columns[most[h - 1, i]]} {weights[h - 1, i, most[h - 1, i]]:.2f}" for h in chosen))
            for i in places
        ]
        return ("looks", *(f"head {head}" for head in chosen)), table
    found = [
        (rows[i], i, h, columns[most[h - 1, i]], int(most[h - 1, i]), float(weights[h - 1, i, most[h - 1, i]]))
        for i in places
        for h in chosen
    ]
    return ("looks", "position", "head", "at", "at_position", "weight"), found


def _chosen_heads(heads: Sequence[int] | None, layer: int, num_heads: int) -> list[int]:
    every = range(1, num_heads + 1)
    chosen = list(every) if heads is None else list(dict.fromkeys(heads))
    wrong = [head for head in chosen if head not in every]
    if wrong:
        raise ValueError(f"no head {wrong[0]}: layer {layer} has heads 1 to {num_heads}")
    return chosen


# Text ----------------------------------------------------------------------------------------------------------------


@contextmanager
def _boxes_for_missing() -> Iterator[None]:
    """Characters that no font has are drawn as boxes without a warning for each: `missing_characters` tells of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+")
        yield


def _write(axes: Axes, x: float, y: float, label: str, side: str, color: str, bold: bool) -> None:
    axes.text(
        x, y, label, ha=side, va="center", color=color, fontsize=_FONT_SIZE, parse_math=False,
        fontweight="bold" if bold else "normal", fontfamily=_fonts_for(label),
    )  # fmt: skip


@cache
def _text_inches(label: str) -> float:
    """How wide a label is on paper, a little more where it may be bold."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = Figure(figsize=(1, 1), dpi=72)
    canvas = FigureCanvasAgg(figure)
    text = figure.text(0, 0, label, fontsize=_FONT_SIZE, parse_math=False, fontfamily=_fonts_for(label))
    with _boxes_for_missing():
        return text.get_window_extent(canvas.get_renderer()).width / 72 * 1.12 + 0.05


@cache
def _fonts_for(text: str) -> tuple[str, ...]:
    """DejaVu Sans, and where it lacks a character the installed fonts that have it."""
    lacking = {character for character in text if not character.isspace()} - _characters_of("DejaVu Sans")
    families = ["DejaVu Sans"]
    for family in _families() if lacking else ():
        if lacking & _characters_of(family):
            families.append(family)
            lacking -= _characters_of(family)
    return tuple(families)


def missing_characters(labels: Sequence[str]) -> str:
    """The characters in labels that no installed font can draw; they become boxes in PNG and PDF, and stay in SVG."""
    wanted = {character for label in labels for character in label if not character.isspace()}
    return "".join(sorted(wanted - set().union(*(_characters_of(family) for family in _fonts_for("".join(wanted))))))


@cache
def _families() -> tuple[str, ...]:
    """Installed families for text, the plain ones first."""
    from matplotlib import font_manager

    entries = font_manager.fontManager.ttflist
    names = {entry.name for entry in entries if entry.style == "normal" and entry.weight == 400}
    unfit = ("cm", "STIX", "Last Resort")  # mathematics, and pictures of what is missing
    return tuple(sorted(name for name in names if not name.startswith(unfit)))


@cache
def _characters_of(family: str) -> frozenset[str]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    path = font_manager.findfont(font_manager.FontProperties(family=[family]), fallback_to_default=True)
    return frozenset(map(chr, FT2Font(path).get_charmap()))
