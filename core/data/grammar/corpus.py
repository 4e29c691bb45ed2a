"""Examples from derivations, and splits of examples that share no line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

from core.data.grammar import english, french, german
from core.data.grammar.derivation import Sentence
from core.data.grammar.example import LANGUAGES, Example
from core.data.grammar.sampler import Sampler

DEFAULT_SIZES: dict[str, int] = {"train": 12_000, "dev": 300, "test": 300}
DEFAULT_SEED = 1706
# Tokens of each side, punctuation marks counted.
MIN_TOKENS = 4
MAX_TOKENS = 40
_MAX_REDRAWS = 8


def build_example(sentence: Sentence) -> Example:
    """Linearise one derivation in all three languages."""
    analysis = english.analyse(sentence)
    return Example(
        english=analysis.tokens,
        german=german.linearise(sentence),
        french=french.linearise(sentence),
        tree=analysis.tree,
        heads=analysis.heads,
        relations=analysis.relations,
        antecedents=analysis.antecedents,
    )


def generate_examples(seed: int | str) -> Iterator[Example]:
    """Endless examples of `MIN_TOKENS` to `MAX_TOKENS` tokens a side, decided by the seed alone; lines may recur."""
    sampler = Sampler(Random(seed))
    while True:
        example = build_example(sampler.sentence())
        if all(MIN_TOKENS <= len(example.tokens(language)) <= MAX_TOKENS for language in LANGUAGES):
            yield example


def generate_splits(sizes: Mapping[str, int] = DEFAULT_SIZES, seed: int = DEFAULT_SEED) -> dict[str, list[Example]]:
    """Draw each split from a stream of its own, and keep no line of any language twice.

    The first split is the one to train on. An example of a later split with a word that the first one lacks is drawn
    again, up to a few times: at the default sizes no word of dev or test is unseen, while a tiny first split cannot
    promise it.

    Args:
        sizes: examples per split, in the order of drawing; a line of an earlier split never recurs in a later one.
        seed: the same seed and sizes give the same splits on every machine and Python version.
    Raises:
        ValueError: no split, or a size that is not a whole number of at least 1.
    """
    if not sizes:
        raise ValueError("sizes={} names no split; give for example {'train': 1000}")
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"sizes[{name!r}]={size!r} must be a whole number of at least 1")
    lines: set[tuple[str, tuple[str, ...]]] = set()
    known: set[tuple[str, str]] = set()
    splits: dict[str, list[Example]] = {}
    for name, size in sizes.items():
        stream = generate_examples(f"{seed}/{name}")
        first = not splits
        splits[name] = []
        redraws = 0
        while len(splits[name]) < size:
            example = next(stream)
            own = [(language, example.tokens(language)) for language in LANGUAGES]
            if not lines.isdisjoint(own):
                continue
            words = [(language, word) for language, tokens in own for word in tokens]
            if first:
                known.update(words)
            elif redraws < _MAX_REDRAWS and not known.issuperset(words):
                redraws += 1
                continue
            redraws = 0
            lines.update(own)
            splits[name].append(example)
    return splits
