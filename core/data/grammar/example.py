"""What one sentence of the corpus offers: three token sequences, a tree, dependency arcs, antecedents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.data.trees import Tree

LANGUAGES = ("en", "de", "fr")

_CLOSING = frozenset({".", ","})


@dataclass(frozen=True, slots=True)
class Example:
    """One sentence in three languages with the gold analysis of its English side.

    Every index counts `english` tokens from 0; punctuation marks are tokens of their own.

    Attributes:
        english, german, french: tokens in the case of real writing.
        tree: constituency; its leaves are `english`.
        heads: index of each token's governor, -1 for the root.
        relations: UD-like relation of each token to its governor; "root" for the root.
        antecedents: pairs (pronoun, head noun of what it refers to), by pronoun. First persons have none.
    """

    english: tuple[str, ...]
    german: tuple[str, ...]
    french: tuple[str, ...]
    tree: Tree
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    antecedents: tuple[tuple[int, int], ...]

    @property
    def tags(self) -> tuple[str, ...]:
        """The part-of-speech tag of each token of `english`."""
        return tuple(tag for tag, _ in self.tree.tagged())

    def tokens(self, language: str) -> tuple[str, ...]:
        """The tokens in "en", "de" or "fr".

        Raises:
            ValueError: another language.
        """
        if language not in LANGUAGES:
            raise ValueError(f"language={language!r} is not in the grammar corpus; it has {', '.join(LANGUAGES)}")
        return {"en": self.english, "de": self.german, "fr": self.french}[language]

    def text(self, language: str) -> str:
        """The detokenised line in "en", "de" or "fr"; ValueError for another language."""
        return detokenise(self.tokens(language))


def detokenise(tokens: Sequence[str]) -> str:
    """Join tokens as people write: no space before a full stop or comma, none after an elided French word."""
    pieces: list[str] = []
    for token in tokens:
        if pieces and token not in _CLOSING and not pieces[-1].endswith("'"):
            pieces.append(" ")
        pieces.append(token)
    return "".join(pieces)
