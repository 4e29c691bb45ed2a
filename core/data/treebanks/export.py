"""Treebanks as text for other programs: bracketed, CoNLL-U, or plain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, get_args

from core.data.dependencies import Analysed, dependencies
from core.data.treebanks.grammar import GrammarTreebank
from core.data.treebanks.treebank import Treebank
from core.data.trees import format_tree

Format = Literal["bracketed", "conllu", "text"]
FORMATS: tuple[Format, ...] = get_args(Format)

# Universal tags of Penn tags, where the relation does not decide.
_UNIVERSAL = {
    ",": "PUNCT",
    ".": "PUNCT",
    ":": "PUNCT",
    "``": "PUNCT",
    "''": "PUNCT",
    "-LRB-": "PUNCT",
    "-RRB-": "PUNCT",
    "$": "SYM",
    "#": "SYM",
    "SYM": "SYM",
    "EX": "PRON",
    "PDT": "DET",
    "POS": "PART",
    "UH": "INTJ",
    "WP$": "PRON",
    "CC": "CCONJ",
    "CD": "NUM",
    "DT": "DET",
    "IN": "ADP",
    "MD": "AUX",
    "NNP": "PROPN",
    "PRP": "PRON",
    "PRP$": "PRON",
    "RP": "ADP",
    "TO": "PART",
    "WDT": "PRON",
    "WP": "PRON",
    "WRB": "ADV",
}
_UNIVERSAL_BY_RELATION = {
    ("IN", "mark"): "SCONJ",
    ("TO", "case"): "ADP",
    ("WRB", "mark"): "SCONJ",
}
_UNIVERSAL_BY_CLASS = {"JJ": "ADJ", "NN": "NOUN", "RB": "ADV", "VB": "VERB"}


def export_lines(bank: Treebank, split: str, form: Format, cache_dir: Path) -> Iterator[str]:
    """The lines of a split in a form, without line feeds.

    - `bracketed`: a tree in normal form a line, (TOP (S ...)), brackets in words escaped.
    - `conllu`: dependency arcs, the grammar's own, of other treebanks as `core.data.dependencies` reads them off the
      trees. XPOS has the Penn tag. Of the grammar, a pronoun's MISC has Antecedent=ID, the head noun of what it refers
      to, and SpaceAfter=No stands where the text has no blank.
    - `text`: the words of a sentence a line, blanks between them, as a parser is given them.

    Raises:
        ValueError: no such split.
        DataError: as `Treebank.read_trees`.
    """
    bank.require(split)
    if form == "bracketed":
        return (format_tree(tree) for tree in bank.read_trees(split, cache_dir))
    if form == "text":
        return (" ".join(tree.leaves()) for tree in bank.read_trees(split, cache_dir))
    if isinstance(bank, GrammarTreebank):
        return _conllu(bank, split, ((example.text("en"), example) for example in bank.examples(split)))
    analysed = (dependencies(tree) for tree in bank.read_annotated(split, cache_dir))
    return _conllu(bank, split, ((" ".join(each.english), each) for each in analysed))


def write_lines(lines: Iterable[str], path: Path) -> None:
    """Write lines to a file, whole or not at all.

    Raises:
        ValueError: the file cannot be written.
        DataError: the lines end in an error; the file is left as it was.
    """
    try:
        if path.exists() and not path.is_file():
            _write(lines, path)  # a device or a named pipe, which another file in its place would destroy
            return
        partial = path.with_name(f".partial.{path.name}")
        try:
            _write(lines, partial)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write {path} ({error.strerror}); choose another file with -o") from error


def _write(lines: Iterable[str], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def _conllu(bank: Treebank, split: str, sentences: Iterable[tuple[str, Analysed]]) -> Iterator[str]:
    for number, (text, analysis) in enumerate(sentences, 1):
        yield f"# sent_id = {bank.name}-{split}-{number}"
        yield f"# text = {text}"
        yield from _rows(text, analysis)
        yield ""


def _rows(text: str, analysis: Analysed) -> Iterator[str]:
    antecedents, place = dict(analysis.antecedents), 0
    for index, (word, tag, head, relation) in enumerate(
        zip(analysis.english, analysis.tags, analysis.heads, analysis.relations, strict=True)
    ):
        misc = [f"Antecedent={antecedents[index] + 1}"] if index in antecedents else []
        place += len(word)
        if place < len(text) and text[place] != " ":
            misc.append("SpaceAfter=No")
        place += text[place : place + 1] == " "
        columns = (index + 1, word, "_", _universal_tag(tag, relation, word), tag, "_", head + 1, relation, "_")
        yield "\t".join((*map(str, columns), "|".join(misc) or "_"))


def _universal_tag(tag: str, relation: str, word: str) -> str:
    if relation in ("aux", "cop"):
        return "PART" if tag == "TO" else "AUX"
    if word == "not":
        return "PART"
    return _UNIVERSAL_BY_RELATION.get((tag, relation)) or _UNIVERSAL.get(tag) or _UNIVERSAL_BY_CLASS.get(tag[:2], "X")
