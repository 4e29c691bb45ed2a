"""The corpora that a run may name."""

from __future__ import annotations

from collections.abc import Mapping

from core.data.corpus import Corpus, require_name
from core.data.generated_corpus import GRAMMAR
from core.data.multi30k import MULTI30K

CORPORA: Mapping[str, Corpus] = {corpus.name: corpus for corpus in (GRAMMAR, MULTI30K)}


def get(name: str) -> Corpus:
    """The corpus of this name; ValueError with near names where there is none."""
    require_name(name, CORPORA, "no corpus")
    return CORPORA[name]
