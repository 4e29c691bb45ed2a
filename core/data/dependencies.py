"""Dependencies read off a Penn tree: which word governs which, and how.

The head of a constituent is found by rules of the kind of Collins (1999), with the choices of Universal Dependencies
2: content words govern, so that a preposition, an auxiliary, a complementiser and a copula hang below what they
introduce, and a coordination hangs below its first part. Names of relations are theirs too. Function tags and traces
are read where the tree has them; where it has none, as the generated grammar's, places tell subject from object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from core.data.trees import TRACE, Tree, base_label

_PUNCTUATION = frozenset({",", ".", ":", "``", "''", "-LRB-", "-RRB-", "#", "SYM", "HYPH", "NFP"})
_NOUNS = frozenset({"NN", "NNS", "NNP", "NNPS"})
_VERBS = frozenset({"VB", "VBD", "VBZ", "VBP", "VBG", "VBN"})
_NOMINAL = frozenset({"NP", "NX", "NAC", "NML", "WHNP", "QP"})
_CLAUSES = frozenset({"S", "SINV", "SQ", "SBARQ", "VP"})
_ADVERBIAL = frozenset({"ADV", "TMP", "LOC", "MNR", "DIR", "EXT", "PRP", "BNF", "VOC", "CLR"})
_JOINING = frozenset({"CC", "CONJP"})
_BE = frozenset({"be", "am", "is", "are", "was", "were", "been", "being", "'s", "'re", "'m"})
# A complement clause begins with one of these, or with none; `if` is mostly a condition's.
_COMPLEMENTISERS = frozenset({"that", "whether"})

# Where the head of a constituent is: the first of these groups of labels that is there, from the left or the right.
_LEFT, _RIGHT = 1, -1
_CLAUSE_HEADS = (
    (_LEFT, ("VP",)),
    (_LEFT, ("S", "SINV", "SQ", "SBARQ", "SBAR")),
    (_RIGHT, ("ADJP", "NP", "PP", "ADVP")),
)
_NOUN_HEADS = (
    (_RIGHT, ("NN", "NNS", "NNP", "NNPS", "NX", "NML", "NAC")),
    (_LEFT, ("NP", "WHNP")),
    (_LEFT, ("$",)),
    (_RIGHT, ("PRP", "WP", "EX", "CD", "QP", "ADJP", "JJ", "JJR", "JJS", "VBG", "VBN", "DT", "WDT", "RB", "PRN")),
)
_ADJECTIVE_HEADS = (
    (_LEFT, ("JJ", "JJR", "JJS", "VBN", "VBG", "ADJP")),
    (_LEFT, ("$",)),
    (_RIGHT, ("NN", "NNS", "CD", "QP", "NP", "RB")),
)
_HEADS: dict[str, Sequence[tuple[int, tuple[str, ...]]]] = {
    "S": _CLAUSE_HEADS,
    "SINV": _CLAUSE_HEADS,
    "SQ": ((_LEFT, ("VP", "SQ")), (_LEFT, tuple(_VERBS)), (_LEFT, ("MD",))),
    "SBARQ": ((_LEFT, ("SQ", "S", "SINV", "SBARQ")),),
    "SBAR": ((_LEFT, ("S", "SINV", "SQ", "SBAR")),),
    "VP": (
        (_LEFT, ("VP",)), (_LEFT, tuple(_VERBS)), (_LEFT, ("MD", "TO")), (_LEFT, ("NN", "NNS", "JJ", "ADJP", "NP")),
    ),
    "PP": ((_RIGHT, ("NP", "WHNP", "NX")), (_RIGHT, ("S", "SBAR", "VP", "ADJP", "ADVP", "PP", "UCP", "QP"))),
    "WHPP": ((_RIGHT, ("WHNP", "WHADVP", "NP")),),
    "ADJP": _ADJECTIVE_HEADS,
    "WHADJP": _ADJECTIVE_HEADS,
    "ADVP": ((_RIGHT, ("RB", "RBR", "RBS", "WRB", "ADVP")), (_LEFT, ("IN", "RP")), (_RIGHT, ("NP", "NN", "JJ"))),
    "WHADVP": ((_RIGHT, ("WRB", "WHADVP", "RB")),),
    "QP": ((_LEFT, ("$",)), (_RIGHT, ("CD", "NN", "NNS"))),
    "PRN": ((_LEFT, ("S", "SINV", "NP", "SBAR", "VP", "PP")),),
} | dict.fromkeys(("NP", "NX", "NAC", "NML", "WHNP"), _NOUN_HEADS)  # fmt: skip


class Analysed(Protocol):
    """A sentence with its gold analysis; every index counts `english` from 0.

    Attributes:
        english: tokens; punctuation marks are tokens of their own.
        tags: their parts of speech, as the Penn Treebank names them.
        heads: index of each token's governor, -1 for the root.
        relations: each token's relation to it; "root" for the root, "punct" for marks.
        antecedents: pairs (pronoun, head noun of what it refers to).
    """

    english: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    antecedents: tuple[tuple[int, int], ...]

    @property
    def tags(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The words of a tree with their governors; an `Analysed` sentence, of which nobody has marked antecedents."""

    english: tuple[str, ...]
    tags: tuple[str, ...]
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    antecedents: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    """A constituent or word of the tree that is not all traces: its head word's index, and its parts in order.

    `tagged`: the tree has function tags. `without_subject`, of a clause. `relative`: it begins with a relative pronoun
    or adverb, if only a trace of one.
    """

    node: Tree
    word: int
    tagged: bool
    parts: tuple[_Part, ...] = ()
    without_subject: bool = False
    relative: bool = False

    @property
    def label(self) -> str:
        return base_label(self.node.label)

    @property
    def tags(self) -> frozenset[str]:
        return frozenset(self.node.label[len(self.label) :].split("-")) - {""}

    @property
    def first_word(self) -> str:
        return next(word for tag, word in self.node.tagged() if tag != TRACE).lower()

    @property
    def is_mark(self) -> bool:
        return not self.parts and self.node.label in _PUNCTUATION


def dependencies(tree: Tree) -> Dependencies:
    """The dependencies of one tree, as it is written or in normal form.

    Raises:
        ValueError: it has no word but traces, or a word beside other constituents without a tag.
    """
    tagged = any("-SBJ" in node.label for node in tree.subtrees())
    words: list[tuple[str, str]] = []
    governed: dict[int, tuple[int, str]] = {}
    # Nothing recurses, as elsewhere with trees: one may nest as deep as its file says.
    node, rest, found = tree, iter((tree,)), []
    above: list[tuple[Tree, Iterator[Tree | str], list[_Part | None]]] = []
    while True:
        child = next(rest, None)
        if child is None:
            if not above:
                break
            part = _govern(node, found, tagged, governed)
            node, rest, found = above.pop()
            found.append(part)
        elif isinstance(child, str):
            raise ValueError(f"a word of {node.label} has no tag, which dependencies need: {str(tree)[:200]}")
        elif child.is_preterminal:
            found.append(_leaf(child, words, tagged))
        else:
            above.append((node, rest, found))
            node, rest, found = child, iter(child.children), []
    (part,) = found
    if part is None:
        raise ValueError(f"tree has no word but traces: {str(tree)[:200]}")
    governed[part.word] = -1, "root"
    heads, relations = zip(*(governed[place] for place in range(len(words))), strict=True)
    english, tags = zip(*words, strict=True)
    return Dependencies(english, tags, heads, relations)


def _leaf(node: Tree, words: list[tuple[str, str]], tagged: bool) -> _Part | None:
    """The next word, which joins `words` with its tag; nothing for a trace."""
    if node.label == TRACE:
        return None
    words.append((node.children[0], node.label))
    return _Part(node, len(words) - 1, tagged)


def _govern(
    node: Tree, found: Sequence[_Part | None], tagged: bool, governed: dict[int, tuple[int, str]]
) -> _Part | None:
    """A constituent of the parts that were found for its children: all but its head word get their governor."""
    parts = tuple(part for part in found if part is not None)
    if not parts:
        return None
    label = base_label(node.label)
    head = _head(label, parts)
    firsts = _joined_before(parts, head)
    named = {
        place: (firsts[place], "conj") if place in firsts else (head, _relation(label, parts, place, head))
        for place in range(len(parts))
        if place != head
    }
    for place, (governor, relation) in named.items():
        if relation == "cc":  # below what it joins to another
            later = (other for other in named if other > place and named[other][1] == "conj")
            governor = next(later, head) if place > min(head, *firsts.values(), len(parts)) else head
        governed[parts[place].word] = parts[governor].word, relation
    if parts[head].label in ("S", "SINV", "SQ") and label in _CLAUSES:
        without_subject = parts[head].without_subject
    else:
        lost = any(part is None and "SBJ" in child.label for child, part in zip(node.children, found, strict=True))
        without_subject = lost or not any(part.label == "NP" or "SBJ" in part.tags for part in parts[:head])
    relative = any(child.label.startswith("WH") for child in node.children)
    return _Part(node, parts[head].word, tagged, parts, without_subject, relative)


def _head(label: str, parts: Sequence[_Part]) -> int:
    """The place of the part that governs the others."""
    places = [place for place, part in enumerate(parts) if not part.is_mark]
    if not places:
        return 0
    begun = next((place for place in places if parts[place].label not in _JOINING), places[0])
    joined = [place for place in places if place > begun and parts[place].label in _JOINING]
    if joined and not _joins_modifiers(label, parts, joined):
        places = _first_joined(parts, [place for place in places if place >= begun], joined)
    labels_there = {parts[place].label for place in places}
    if label in ("VP", "SQ") and any(_is_be(parts[place]) for place in places) and "VP" not in labels_there:
        predicates = [place for place in places if _is_predicate(parts[place], label)]
        if predicates:
            return predicates[0]
    if label in ("S", "SINV", "SBARQ") and "VP" not in labels_there:
        predicates = [place for place in places if "PRD" in parts[place].tags]
        if predicates:
            return predicates[0]
    for direction, labels in _HEADS.get(label, ()):
        for place in places[::direction]:
            if parts[place].label in labels:
                return place
    return places[-1] if label in _NOMINAL else places[0]


def _first_joined(parts: Sequence[_Part], places: Sequence[int], joined: Sequence[int]) -> list[int]:
    """The places of the first of what conjunctions join: up to the first comma, if it is of the last one's kind."""
    before = [place for place in places if place < joined[0]]
    last = _kind(parts[places[-1]].label)
    stretches: list[list[int]] = [[]]
    for place in range(before[0], joined[0]):
        if parts[place].label == ",":
            stretches.append([])
        elif place in before:
            stretches[-1].append(place)
    return next((some for some in stretches if any(_kind(parts[place].label) == last for place in some)), before)


def _joins_modifiers(label: str, parts: Sequence[_Part], joined: Sequence[int]) -> bool:
    """Whether a conjunction stands among what modifies the head, or belongs to a phrase without parts of equal rank.

    As in `political and economic reforms` or `the oil and gas industry`: what could as well be read as two heads,
    `bread and peanut butter`, is read so too.
    """
    if label in ("QP", "PRN"):
        return True
    before, after = parts[joined[-1] - 1], [part for part in parts[joined[-1] + 1 :] if not part.is_mark]
    if label in ("PP", "WHPP"):
        return before.label not in ("PP", "WHPP") and len(after) > 1
    if label not in _NOMINAL or (before.parts and before.label != "ADJP") or not after:
        return False
    if _kind(before.label) == "adjective" or before.label in ("VBN", "VBG", "CD"):
        return len(after) > 1 and after[-1].label in _NOUNS
    single = before.label in ("NN", "NNP") and len(after) > 1
    alone = joined[0] < 2 or parts[joined[0] - 2].label not in ("NN", "NNP", "JJ")
    return single and alone and after[-1].label in _NOUNS and after[0].label in ("NN", "NNP", "JJ")


def _joined_before(parts: Sequence[_Part], head: int) -> dict[int, int]:
    """The places of what is coordinated among the parts before the head, each with the first of its coordination."""
    found: dict[int, int] = {}
    for place in range(1, head - 1):
        if parts[place].label not in _JOINING or parts[place - 1].label in _JOINING or place + 1 == head:
            continue
        left = place - 1
        while left >= 2 and parts[left - 1].label == "," and _kind(parts[left - 2].label) == _kind(parts[left].label):
            left -= 2
        if not parts[left].is_mark and not parts[place + 1].is_mark:
            found |= {other: left for other in (*range(left + 2, place, 2), place + 1)}
    return found


def _is_be(part: _Part) -> bool:
    return part.label in _VERBS and part.first_word in _BE


def _is_predicate(part: _Part, label: str) -> bool:
    """What is said of the subject by a form of `be`, but no clause; in a tree without function tags, an adjective or a
    noun phrase of the verb's phrase.
    """
    if part.tagged:
        return "PRD" in part.tags and part.label not in (*_CLAUSES, "SBAR")
    return label == "VP" and part.label in ("ADJP", "NP")


def _relation(label: str, parts: Sequence[_Part], place: int, head: int) -> str:
    """How a part of a constituent hangs below the head of another part."""
    part, governor = parts[place], parts[head]
    if part.is_mark:
        return "punct"
    if part.label in _JOINING:
        return "cc"
    if place > head and _is_joined(label, parts, place, head):
        return "conj"
    if label in ("PP", "WHPP"):
        if part.label == "NP":
            return "obl"
        before = "mark" if governor.label in ("S", "SBAR", "VP") else "case"
        return before if part.label in ("IN", "TO", "VBG", "VBN") else "advmod"
    if label == "SBAR" or (label == "SBARQ" and part.label.startswith("WH")):
        return "advmod" if part.label == "WHADVP" and label == "SBARQ" else _introduces(part, governor)
    if label == "QP" and part.label == "CD" and governor.label != "$":
        return "compound"
    if label in _NOMINAL or governor.label in _NOUNS:
        return _of_noun(part, place > head)
    if label in _CLAUSES:
        return _of_clause(label, parts, place, head)
    return _of_other(part, any(other.node.children[0] in ("so", "such") for other in parts[:head]))


def _is_joined(label: str, parts: Sequence[_Part], place: int, head: int) -> bool:
    """Whether a part is coordinated with the head: of its kind, behind a conjunction, or a comma before one."""
    part, between = parts[place], parts[head + 1 : place]
    if _kind(part.label) != _kind(parts[head].label) and label != "UCP":
        return False
    if part.label == parts[head].label == "VP" or any(other.node.children[0] == ";" for other in between):
        return part.label not in ("S", "SINV") or any(other.label in _JOINING for other in parts[head:])
    if any(other.label in _JOINING for other in between):
        return True
    later = any(other.label in _JOINING for other in parts[place:])
    return later and any(other.label == "," for other in between)


def _kind(label: str) -> str:
    if label in _NOUNS or label in _NOMINAL or label in ("PRP", "CD", "$"):
        return "noun"
    if label in _VERBS or label in ("VP", "MD"):
        return "verb"
    if label in ("JJ", "JJR", "JJS", "ADJP"):
        return "adjective"
    return "clause" if label in _CLAUSES else label


def _introduces(part: _Part, clause: _Part) -> str:
    """What stands before a subordinate clause."""
    if part.label in ("IN", "TO", "WHADVP", "WRB"):
        return "mark"
    if part.label in ("WHNP", "WP", "WDT"):
        return "nsubj" if clause.without_subject else "obj"
    return {"WHPP": "obl", "NP": "obl", "PP": "obl"}.get(part.label, "advmod")


def _of_noun(part: _Part, behind: bool) -> str:
    if part.label in ("PRP$", "WP$") or (part.label in _NOMINAL and any(p.node.label == "POS" for p in part.parts)):
        return "nmod:poss"
    if part.label in ("NP", "NX", "NAC", "NML", *_NOUNS):
        return "nmod" if part.tags & _ADVERBIAL else "appos" if behind else "compound"
    if part.label == "SBAR":
        return "acl:relcl" if part.relative and part.first_word != "to" else "acl"
    if part.first_word == "$" and not behind:
        return "compound"
    names = {
        "DT": "det", "PDT": "det", "WDT": "det", "POS": "case", "CD": "nummod", "QP": "nummod", "$": "nummod",
        "PP": "nmod", "S": "acl", "VP": "acl", "RRC": "acl", "PRN": "parataxis", "IN": "case",
    } | dict.fromkeys(("JJ", "JJR", "JJS", "ADJP", "WHADJP", "VBN", "VBG"), "amod")  # fmt: skip
    return names.get(part.label, "advmod")


def _of_clause(label: str, parts: Sequence[_Part], place: int, head: int) -> str:
    part, governor = parts[place], parts[head]
    if part.label == "MD" or part.label in _VERBS:
        return "cop" if _is_be(part) and governor.label != "VP" else "aux"
    if part.label in ("NP", "WHNP", "EX", "PRP", *_NOUNS):
        return _of_verb(label, parts, place, head)
    if "SBJ" in part.tags:
        return "csubj"
    if "TPC" in part.tags and part.label in (*_CLAUSES, "SBAR"):
        return "ccomp"
    if part.label == "SBAR":
        if part.tagged:
            return "advcl" if part.tags & _ADVERBIAL or label != "VP" else "ccomp"
        begins = part.parts[0].label if part.parts else part.label
        return "ccomp" if part.first_word in _COMPLEMENTISERS or begins in ("WHNP", "S") else "advcl"
    if part.label in ("S", "SINV", "SQ", "SBARQ"):
        if part.label == governor.label and place > head:
            return "parataxis"
        if part.tags & _ADVERBIAL or label != "VP":
            return "advcl"
        return "xcomp" if part.without_subject or not any(p.label == "VP" for p in part.parts) else "ccomp"
    names = {
        "TO": "mark", "IN": "mark", "PP": "obl", "WHPP": "obl", "PRT": "compound:prt", "RP": "compound:prt",
        "VP": "xcomp", "PRN": "parataxis", "INTJ": "discourse", "UH": "discourse",
    } | dict.fromkeys(("ADJP", "JJ", "JJR", "JJS"), "xcomp" if place > head else "advmod")  # fmt: skip
    if part.label == "PP" and any(p.label in ("S", "VP") and p.word == part.word for p in part.parts):
        return "advcl"
    return names.get(part.label, "advmod")


def _of_verb(label: str, parts: Sequence[_Part], place: int, head: int) -> str:
    """A noun phrase of a clause: its subject before the verb, else an object, the first of two an indirect one."""
    part = parts[place]
    if part.label == "EX" or any(p.node.label == "EX" for p in part.parts):
        return "expl"
    if "SBJ" in part.tags:
        return "nsubj"
    if part.tags & _ADVERBIAL:
        return "obl"
    if "PRD" in part.tags:
        return "xcomp"
    if label != "VP":
        return "nsubj" if place < head else "obl"
    if place < head:
        return "obl"
    objects = [p for p, other in enumerate(parts) if p > head and other.label == "NP" and not other.tags]
    return "iobj" if len(objects) > 1 and place == objects[0] else "obj"


def _of_other(part: _Part, to_a_degree: bool) -> str:
    """A part of an adjective's or adverb's phrase, or of one without a rule."""
    if part.label == "SBAR":
        return "advcl" if to_a_degree or part.first_word not in _COMPLEMENTISERS else "ccomp"
    names = {"PP": "obl", "NP": "obl", "S": "xcomp", "VP": "xcomp", "CD": "nummod", "QP": "nummod"}
    adverbs = ("RB", "RBR", "RBS", "WRB", "ADVP", "WHADVP", "IN", "NN")
    return names.get(part.label, "advmod" if part.label in adverbs else "dep")
