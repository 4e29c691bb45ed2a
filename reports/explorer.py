"""The explorer: one HTML file in which a person points at a token and sees where each head looks. No network.

Weights are kept in 8 bits: a number on the page is within 1/510 (0.2 points of a per cent) of the stored weight. By
words they are merged on the page by the rule of `results.attention_file.merge_words`.
"""

from __future__ import annotations

import base64
import json
import os
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from reports.attention import HEAD_COLORS, KIND_NAMES
from reports.pages import SITE, Fragment, render
from results.attention_file import KINDS, SentenceAttention

LEVELS = 255
"""A weight w is kept as the whole number nearest to w * LEVELS."""


def quantise(weights: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Weights as whole numbers from 0 to `LEVELS`."""
    return np.rint(np.clip(np.asarray(weights, dtype=np.float32), 0, 1) * LEVELS).astype(np.uint8)


def render_explorer(
    sentences: Sequence[SentenceAttention],
    title: str,
    layer: int | None = None,
    kind: str | None = None,
    lead: str = "",
    home: str | None = None,
) -> Fragment:
    """The whole page.

    Args:
        layer, kind: what is shown first, where the sentence has it; by default the last layer but one.
        lead: a sentence or two on what is shown.
        home: address of the page that this one belongs to.

    Raises:
        ValueError: there is no sentence.
    """
    if not sentences:
        raise ValueError("there is no sentence to explore")
    packed = {
        "sentences": [_pack(sentence) for sentence in sentences],
        "kinds": {kind: {"name": KIND_NAMES[kind], "sides": sides} for kind, sides in KINDS.items()},
        "levels": LEVELS,
        "numColors": len(HEAD_COLORS),
        "start": {"layer": layer, "kind": kind},
    }
    text = json.dumps(packed, ensure_ascii=False, separators=(",", ":"))
    # Inside a script element only these could end it or open a comment.
    data = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return render(
        "explorer.html",
        title=title,
        lead=lead,
        home=home,
        data=Markup(data),
        explorer_css=Markup((SITE / "explorer.css").read_text(encoding="utf-8")),
        explorer_script=Markup((SITE / "explorer.js").read_text(encoding="utf-8")),
        built=datetime.now(UTC),
    )


def _pack(sentence: SentenceAttention) -> dict[str, Any]:
    return {
        "id": sentence.id,
        "text": sentence.text,
        "layers": list(sentence.layers),
        "sides": {name: vars(side) for name, side in sentence.sides.items()},
        "weights": {
            kind: {
                "shape": list(weights.shape),
                "bytes": base64.b64encode(zlib.compress(quantise(weights).tobytes(), 9)).decode(),
            }
            for kind, weights in sentence.weights.items()
        },
    }


def write_explorer(
    path: Path,
    sentences: Sequence[SentenceAttention],
    title: str,
    layer: int | None = None,
    kind: str | None = None,
    lead: str = "",
    home: str | None = None,
) -> None:
    """Write the page; whole or not at all.

    Raises:
        ValueError: there is no sentence, or the file cannot be written.
    """
    text = render_explorer(sentences, title, layer, kind, lead, home)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise ValueError(f"cannot write {path} ({error.strerror}); choose another file") from error
    finally:
        temporary.unlink(missing_ok=True)
