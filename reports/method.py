"""What the page on method shows: how verdicts are reached, and how often they were wrong where the truth was known."""

from __future__ import annotations

from typing import Any


def context() -> dict[str, Any]:
    """The context of `site/method.html`."""
    return {}
