"""The corpora that a run may name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from core.config import DataConfig
from core.data import own_corpora
from core.data.corpus import Corpus, DataError, PairCorpus, State, local_root, require_name
from core.data.generated_corpus import GRAMMAR
from core.data.multi30k import MULTI30K
from core.data.tree_sequences import TreeFormat
from core.data.treebanks import BERKELEY_PARSES, GRAMMAR_TREES, TREEBANK_SAMPLE, WSJ, Treebank
from core.data.treebanks.tree_pairs import TreePairs
from core.data.wmt14 import WMT14

CORPORA: Mapping[str, Corpus] = {
    corpus.name: corpus for corpus in (GRAMMAR, MULTI30K, WMT14, TREEBANK_SAMPLE, WSJ, BERKELEY_PARSES)
}
# The grammar is a corpus of either task.
TREEBANKS: Mapping[str, Treebank] = {
    treebank.name: treebank for treebank in (GRAMMAR_TREES, TREEBANK_SAMPLE, WSJ, BERKELEY_PARSES)
}


def known(cache_dir: Path, on_damage: Callable[[DataError], object]) -> Iterator[tuple[Corpus, State]]:
    """All corpora and where they stand: this project's, then those that a person added to this data folder.

    One of which the record here is damaged is left out and told to `on_damage`, with what to do.

    Raises:
        DataError: AIAYN_DATA names no folder, which is amiss with all of them.
    """
    local_root()
    for name in (*CORPORA, *own_corpora.names(cache_dir)):
        try:
            corpus = get(name, cache_dir)
            state = corpus.state(cache_dir)
        except DataError as error:
            on_damage(error)
        else:
            yield corpus, state


def get(name: str, cache_dir: Path) -> Corpus:
    """The corpus of this name; ValueError with near names where there is none."""
    if name in CORPORA:
        return CORPORA[name]
    added = own_corpora.names(cache_dir)
    require_name(name, (*CORPORA, *added), "no corpus")
    return own_corpora.load(cache_dir, name)


def get_treebank(name: str) -> Treebank:
    """The treebank of this name; ValueError with near names where there is none."""
    require_name(name, TREEBANKS, "no treebank")
    return TREEBANKS[name]


def get_pairs(data: DataConfig, cache_dir: Path) -> PairCorpus:
    """What a run of this configuration reads: aligned lines of two languages, or words and trees.

    Raises:
        ValueError: no such corpus, or one for another task.
    """
    if data.task == "parsing":
        more = None if data.more_trees is None else get_treebank(data.more_trees)
        return TreePairs.of(get_treebank(data.corpus), tree_format(data), data.train_share, data.recombined, more)
    corpus = get(data.corpus, cache_dir)
    if not isinstance(corpus, PairCorpus):
        raise ValueError(f"corpus {data.corpus} is for {corpus.task}; name one for translation")
    return corpus


def tree_format(data: DataConfig) -> TreeFormat:
    """What the symbols of a parsing run's trees tell."""
    return TreeFormat(data.keep_tags, data.keep_words, data.bare_words)
