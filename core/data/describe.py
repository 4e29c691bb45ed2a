"""A corpus as it is shown: everything that is known of it, and where it stands in a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.data.corpus import Corpus
from core.data.translation_corpus import TranslationCorpus


def describe(corpus: Corpus, cache_dir: Path) -> dict[str, Any]:
    """All facts of a corpus as plain nested values, ready for JSON.

    `parts` are what a run can name: pairs of languages, or the whole corpus under its own name. A part's `fingerprint`
    is None where its text is not here and nothing pins it.
    """
    if isinstance(corpus, TranslationCorpus):
        parts = {"-".join(pair): pair for pair in corpus.pairs}
    else:
        parts = {corpus.name: None}
    return {
        "name": corpus.name,
        "task": corpus.task,
        "description": corpus.description,
        "languages": list(corpus.languages),
        "splits": dict(corpus.splits),
        "licence": corpus.licence,
        "citation": corpus.citation,
        "state": str(corpus.state(cache_dir)),
        "parts": {
            name: {
                "state": str(corpus.state(cache_dir, languages)),
                "obstacle": (obstacle := corpus.obstacle(cache_dir, languages)),
                "fingerprint": None if obstacle else corpus.fingerprint(cache_dir, languages),
            }
            for name, languages in parts.items()
        },
        "steps": [step._asdict() for step in corpus.steps(cache_dir)],
        "sources": [source._asdict() for source in corpus.sources],
    }


def facts(description: dict[str, Any]) -> list[tuple[str, str]]:
    """`describe` as rows of a property and its value in words."""
    return [
        *((key, description[key]) for key in ("name", "task", "description")),
        ("languages", " ".join(description["languages"])),
        *((f"split {split}", _count(count)) for split, count in description["splits"].items()),
        ("licence", description["licence"]),
        ("citation", description["citation"]),
        ("state", description["state"]),
        *(
            (f"fingerprint {name}", part["fingerprint"] or part["obstacle"])
            for name, part in description["parts"].items()
        ),
        *((f"step {step['part']}", f"{step['name']}: {_count(step['kept'])}") for step in description["steps"]),
        *((f"source {source['file']}", _origin(source)) for source in description["sources"]),
    ]


def _count(count: int | None) -> str:
    return "counted when it is made" if count is None else f"{count:,}"


def _origin(source: dict[str, Any]) -> str:
    return source["url"] + (f" {source['checksum']}" if source["checksum"] else "")
