"""The corpora that a run may name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from core.data.corpus import Corpus, require_name
from core.data.generated_corpus import GRAMMAR
from core.data.multi30k import MULTI30K
from core.data.treebanks import BERKELEY_PARSES, GRAMMAR_TREES, TREEBANK_SAMPLE, WSJ, Treebank

CORPORA: Mapping[str, Corpus] = {
    corpus.name: corpus for corpus in (GRAMMAR, MULTI30K, TREEBANK_SAMPLE, WSJ, BERKELEY_PARSES)
}
# The grammar is a corpus of either task.
TREEBANKS: Mapping[str, Treebank] = {
    treebank.name: treebank for treebank in (GRAMMAR_TREES, TREEBANK_SAMPLE, WSJ, BERKELEY_PARSES)
}


def known(cache_dir: Path) -> Mapping[str, Corpus]:
    """All corpora by name, those that a person added to the workspace of this data folder last."""
    return CORPORA


def get(name: str, cache_dir: Path) -> Corpus:
    """The corpus of this name; ValueError with near names where there is none."""
    corpora = known(cache_dir)
    require_name(name, corpora, "no corpus")
    return corpora[name]


def get_treebank(name: str) -> Treebank:
    """The treebank of this name; ValueError with near names where there is none."""
    require_name(name, TREEBANKS, "no treebank")
    return TREEBANKS[name]
