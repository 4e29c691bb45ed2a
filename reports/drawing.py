"""How figures are drawn: one style, inline SVG whose colours follow the page, and the same drawing as a PDF.

Each figure is a set of panels that the page lays out side by side or, on a phone, below one another; text stays text.
Published values are hollow, measured ones filled, so colour is never the only difference.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from matplotlib.transforms import Bbox

# Drawn in these colours, then each becomes a CSS variable of the page (style.css has the light and the dark value);
# the hex value stays as the fallback where the page's style is absent. The series are after Okabe and Ito.
INK, MUTED, GRID, PAPER = "#1d2431", "#5b6473", "#e3e4e8", "#fefefd"
SERIES = ("#0072b2", "#c8500a", "#00805c", "#a2557f", "#7d6a00", "#3c8fc4", "#5b6474")
# Two more where eight things are told apart, as heads are.
MORE_SERIES = ("#b0413e", "#4a4e9c")
_VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid", PAPER: "card"} | {
    color: f"series-{number}" for number, color in enumerate((*SERIES, *MORE_SERIES), start=1)
}
DASHES = ((4, 1.5), (1.5, 1.2), (5, 1.5, 1.5, 1.5), (7, 1.5), (2.5, 1), (1, 1), (8, 1, 1, 1))
_STYLE = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 11,
    "axes.labelsize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.7,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "svg.hashsalt": "aiayn",  # the same drawing gets the same ids
    "font.family": "sans-serif",
}


@contextmanager
def drawing(width: float, height: float, rows: int = 1, columns: int = 1) -> Iterator[tuple[Figure, Any]]:
    """A figure in the reports' style and its axes, or an array of them where there are several; sizes in inches.

    Without pyplot, which keeps a list of figures and looks for a display, and without a canvas before there is
    something to write: seaborn draws the whole figure for each matrix in it where it finds one.
    """
    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns)


@dataclass(frozen=True)
class Panel:
    """One drawing on a page: inline SVG in the page's colours, its words for those who cannot see it, and, where it is
    worth keeping, the same drawing as a PDF, inside the page as a link.
    """

    svg: Markup
    label: str
    name: str
    pdf: str | None = None


def panel(figure: Figure, name: str, label: str, pdf: bool = True) -> Panel:
    """The finished figure as a panel; `name` sets its ids apart from other panels' and names the PDF."""
    figure.draw_without_rendering()
    figure.set_layout_engine(None)  # its places are settled, once for both files
    return Panel(_svg(figure, name), label, name, _pdf(figure) if pdf else None)


def _svg(figure: Figure, name: str) -> Markup:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]  # the XML declaration and document type do not belong inside a page
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, f"var(--{variable}, {color})")
    return Markup(svg)


def _pdf(figure: Figure) -> str:
    """The figure as a data address that a link of the page can hold, with fonts that printers take."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="pdf", metadata={"CreationDate": None, "Creator": None, "Producer": None})
    return "data:application/pdf;base64," + base64.b64encode(buffer.getvalue()).decode()


def log_ticks(axis: Axis) -> None:
    """Ticks of a logarithmic axis of ordinary numbers, such as perplexities: 1, 2, 5, 10 instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_formatter(NullFormatter())


# Where a name may stand beside its point: offset in points, and which side of the text is at it.
_PLACES = (
    ((0, 6), "center", "bottom"),
    ((0, -6), "center", "top"),
    ((8, 0), "left", "center"),
    ((-8, 0), "right", "center"),
    ((0, 16), "center", "bottom"),
    ((0, -16), "center", "top"),
)


def name_points(axes: Axes, points: Sequence[tuple[float, float, str]]) -> None:
    """Write a name beside each point (x, y, name), at the first place where it covers no other name and no point."""
    axes.figure.draw_without_rendering()  # the scales are settled, so that sizes on paper are known
    taken = [Bbox.from_bounds(*(axes.transData.transform((x, y)) - 5), 10, 10) for x, y, _ in points]
    for x, y, name in points:
        for offset, across, along in _PLACES:
            text = axes.annotate(
                plain(name), (x, y), offset, textcoords="offset points", ha=across, va=along, fontsize=7.5, color=MUTED
            )
            box = text.get_window_extent()
            if not box.count_overlaps(taken) or offset == _PLACES[-1][0]:
                taken.append(box)
                break
            text.remove()


def plain(text: str) -> str:
    """Text that Matplotlib draws as it is, since a pair of dollar signs would start a formula."""
    return text.replace("$", r"\$")
