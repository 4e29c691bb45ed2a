"""EVALB's parameter files: what is deleted, what is equal, and which sentences are short.

`COLLINS` states the rules of the file of that name, by which parsers of the Penn Treebank are compared; `NEW` those of
EVALB's later file, and `NK` the same for programs that must not stop at errors. Any other file is read by `read_rules`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

Pair = tuple[str, str]


@dataclass(frozen=True)
class EvalbRules:
    """How brackets are counted. The rules are data; `core.scoring.bracketing` carries them out.

    Attributes:
        name: of the parameter file, for people.
        delete_labels: a word with such a tag is not scored, and a constituent with such a label is not counted.
        delete_labels_for_length: a word with such a tag does not count for the length of its sentence.
        quote_labels: tags between which a quotation mark may be mistaken; see `bracketing`.
        equal_labels, equal_words: pairs that count as equal, either way round. A pair of pairs adds up to nothing more.
        labeled: whether a constituent must have the right label.
        cutoff_length: the longest of the short sentences, which are counted apart.
        max_errors: EVALB itself breaks off at two errors more, without a summary.
    """

    name: str
    delete_labels: frozenset[str] = frozenset()
    delete_labels_for_length: frozenset[str] = frozenset()
    quote_labels: frozenset[str] = frozenset()
    equal_labels: frozenset[Pair] = frozenset()
    equal_words: frozenset[Pair] = frozenset()
    labeled: bool = True
    cutoff_length: int = 40
    max_errors: int = 10

    @property
    def sha256(self) -> str:
        """Of the rules, whatever the order and the comments of the file that they were read from."""
        return hashlib.sha256("\n".join(self._lines()).encode()).hexdigest()

    def _lines(self) -> list[str]:
        """The rules as a parameter file would have them, each once and in order."""
        lines = {f"CUTOFF_LEN {self.cutoff_length}", f"LABELED {int(self.labeled)}", f"MAX_ERROR {self.max_errors}"}
        for keyword, name in _LABEL_FIELDS.items():
            lines |= {f"{keyword} {label}" for label in getattr(self, name)}
        for keyword, name in _PAIR_FIELDS.items():
            lines |= {f"{keyword} {' '.join(sorted(pair))}" for pair in getattr(self, name)}
        return sorted(lines)


_LABEL_FIELDS = {
    "DELETE_LABEL": "delete_labels",
    "DELETE_LABEL_FOR_LENGTH": "delete_labels_for_length",
    "QUOTE_LABEL": "quote_labels",
}
_PAIR_FIELDS = {"EQ_LABEL": "equal_labels", "EQ_WORD": "equal_words"}
_NUMBER_FIELDS: Mapping[str, tuple[str, Callable[[int], int | bool]]] = {
    "CUTOFF_LEN": ("cutoff_length", int),
    "LABELED": ("labeled", bool),
    "MAX_ERROR": ("max_errors", int),
}
_IGNORED = ("DEBUG",)  # says only what EVALB prints

_PUNCTUATION = frozenset({",", ":", "``", "''", "."})

COLLINS = EvalbRules(
    name="COLLINS",
    delete_labels=frozenset({"TOP", "-NONE-"}) | _PUNCTUATION,
    delete_labels_for_length=frozenset({"-NONE-"}),
    equal_labels=frozenset({("ADVP", "PRT")}),
)
NEW = replace(
    COLLINS,
    name="new",
    delete_labels=COLLINS.delete_labels | {"S1", "?", "!"},
    quote_labels=frozenset({"``", "''", "POS", "NN", "CD", "VBZ", ":"}),
)
NK = replace(NEW, name="nk", max_errors=10_000)


def read_rules(path: Path) -> EvalbRules:
    """The rules of a parameter file: a keyword and its value a line, as EVALB reads them.

    Lines that begin with # or are shorter than three characters say nothing. Of a keyword with one value the last
    line counts. What EVALB passes over with a warning, an unknown keyword or a value that is no value, is refused.

    Raises:
        ValueError: a line that is none of these; names it.
        OSError: the file cannot be read.
    """
    values: dict[str, int | bool] = {}
    found: dict[str, set] = {name: set() for name in (*_LABEL_FIELDS.values(), *_PAIR_FIELDS.values())}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if line.startswith("#") or len(line.strip()) < 3:
            continue
        keyword, *words = line.split()
        value = " ".join(words)
        where = f"{path} line {number}: {keyword}"
        if keyword in _LABEL_FIELDS:
            _require(len(words) == 1, f"{where} takes one label, found {value!r}")
            found[_LABEL_FIELDS[keyword]].add(words[0])
        elif keyword in _PAIR_FIELDS:
            _require(len(words) == 2, f"{where} takes two values, found {value!r}")
            found[_PAIR_FIELDS[keyword]].add((words[0], words[1]))
        elif keyword in _NUMBER_FIELDS or keyword in _IGNORED:
            _require(value.isdecimal(), f"{where} takes a number, found {value!r}")
            if keyword in _NUMBER_FIELDS:
                name, convert = _NUMBER_FIELDS[keyword]
                values[name] = convert(int(value))
        else:
            known = ", ".join((*_LABEL_FIELDS, *_PAIR_FIELDS, *_NUMBER_FIELDS, *_IGNORED))
            raise ValueError(f"{where} is not a keyword of EVALB; it has {known}")
    return EvalbRules(path.stem, **{name: frozenset(labels) for name, labels in found.items()}, **values)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
