"""The English side: tokens, constituents and dependency arcs from one headed tree.

Each phrase names its head and the relation of every other child, so that constituency and dependencies are two readings
of one object. Labels are the Penn Treebank's, with three simplifications: no traces and function tags, every adverb in
an ADVP, and "make NP ADJP" flat. Relations follow Universal Dependencies: content words govern (cop, aux, case, mark).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from core.data.grammar.derivation import (
    THIRD_SINGULAR,
    Adjunct,
    Clause,
    Coordination,
    Gap,
    Means,
    Nominal,
    NounPhrase,
    Predicate,
    Pronoun,
    Referent,
    Sentence,
    Subordinate,
)
from core.data.grammar.lexicon import BE, MAKING
from core.data.grammar.words import Adverb, EnglishVerb, FiniteForms
from core.data.trees import Tree

_HEAD = "head"
_DETERMINERS = {"the": "DT", "this": "DT", "every": "DT", "some": "DT", "many": "JJ", "two": "CD", "three": "CD"}
_DETERMINER_RELATIONS = {"DT": "det", "JJ": "amod", "CD": "nummod", "PRP$": "nmod:poss"}
_SUBJECT = {"I": "I", "we": "we", "he": "he", "she": "she", "it": "it", "they": "they"}
_OBJECT = {"I": "me", "we": "us", "he": "him", "she": "her", "it": "it", "they": "them"}
_POSSESSIVE = {"I": "my", "we": "our", "he": "his", "she": "her", "it": "its", "they": "their"}
_HAVE = ("have", "has", "have", "have")
_DO = ("do", "does", "do", "do")


class Leaf(NamedTuple):
    """A word. It may introduce a referent (nouns) or refer to one (pronouns)."""

    tag: str
    word: str
    introduces: Referent | None = None
    refers_to: Referent | None = None


class Arc(NamedTuple):
    """A child and its relation to the phrase's head, or to the sibling at position `governor`."""

    relation: str
    child: Leaf | Phrase
    governor: int | None = None


class Phrase(NamedTuple):
    label: str
    arcs: tuple[Arc, ...]


class Analysis(NamedTuple):
    """The English part of an `Example`."""

    tokens: tuple[str, ...]
    tree: Tree
    heads: tuple[int, ...]
    relations: tuple[str, ...]
    antecedents: tuple[tuple[int, int], ...]


def analyse(sentence: Sentence) -> Analysis:
    """Linearise a derivation and read off its tree, arcs and antecedent links."""
    return _Reader().read(_sentence(sentence))


@cache
def _word_tree(tag: str, word: str) -> Tree:
    """One object for all occurrences of a tagged word: a corpus holds some 150,000 of them."""
    return Tree(tag, (word,))


class _Reader:
    """Walks a headed tree once, from left to right."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.heads: list[int] = []
        self.relations: list[str] = []
        self.introduced: dict[Referent, int] = {}
        self.pronouns: list[tuple[int, Referent]] = []

    def read(self, phrase: Phrase) -> Analysis:
        tree, root = self._visit(phrase)
        self.relations[root] = "root"
        antecedents = tuple((index, self.introduced[referent]) for index, referent in self.pronouns)
        return Analysis(tuple(self.tokens), tree, tuple(self.heads), tuple(self.relations), antecedents)

    def _visit(self, node: Leaf | Phrase) -> tuple[Tree, int]:
        """The subtree and the index of its lexical head."""
        if isinstance(node, Leaf):
            index = len(self.tokens)
            word = node.word if index else node.word[0].upper() + node.word[1:]
            self.tokens.append(word)
            self.heads.append(-1)
            self.relations.append("")
            if node.introduces is not None:
                self.introduced[node.introduces] = index
            if node.refers_to is not None:
                self.pronouns.append((index, node.refers_to))
            return _word_tree(node.tag, word), index
        visited = [self._visit(arc.child) for arc in node.arcs]
        head = next(top for arc, (_, top) in zip(node.arcs, visited, strict=True) if arc.relation == _HEAD)
        for arc, (_, top) in zip(node.arcs, visited, strict=True):
            if arc.relation != _HEAD:
                self.heads[top] = head if arc.governor is None else visited[arc.governor][1]
                self.relations[top] = arc.relation
        return Tree(node.label, tuple(tree for tree, _ in visited)), head


def _phrase(label: str, *arcs: Arc | None) -> Phrase:
    return Phrase(label, tuple(arc for arc in arcs if arc is not None))


def _leaf(relation: str, tag: str, word: str) -> Arc:
    return Arc(relation, Leaf(tag, word))


def _adverb(adverb: Adverb) -> Arc:
    return Arc("advmod", _phrase("ADVP", _leaf(_HEAD, "RB", adverb.english)))


def _sentence(sentence: Sentence) -> Phrase:
    stop = _leaf("punct", ".", ".")
    first = _clause(sentence.first)
    if sentence.second is None:
        return Phrase("S", (*first.arcs, stop))
    return _phrase(
        "S",
        Arc(_HEAD, first),
        Arc("punct", Leaf(",", ","), 3),
        Arc("cc", Leaf("CC", str(sentence.conjunction)), 3),
        Arc("conj", _clause(sentence.second)),
        stop,
    )


def _clause(clause: Clause) -> Phrase:
    arcs: list[Arc] = []
    subordinate = clause.subordinate
    if subordinate is not None and subordinate.fronted:
        arcs += [_subordinate(subordinate), _leaf("punct", ",", ",")]
    if isinstance(clause.front, Adjunct):
        arcs.append(_adjunct(clause.front))
    elif clause.front is not None:
        arcs.append(_adverb(clause.front))
        if clause.front.comment:
            arcs.append(_leaf("punct", ",", ","))
    if not isinstance(clause.subject, Gap):
        arcs.append(Arc("nsubj", _nominal(clause.subject, _SUBJECT)))
    verb_phrase = _verb_phrase(clause)
    if subordinate is not None and not subordinate.fronted:
        verb_phrase = Phrase("VP", (*verb_phrase.arcs, _subordinate(subordinate)))
    return Phrase("S", (*arcs, Arc(_HEAD, verb_phrase)))


def _subordinate(subordinate: Subordinate) -> Arc:
    mark = _leaf("mark", "WRB" if subordinate.conjunction.english == "when" else "IN", subordinate.conjunction.english)
    return Arc("advcl", _phrase("SBAR", mark, Arc(_HEAD, _clause(subordinate.clause))))


def _verb_phrase(clause: Clause) -> Phrase:
    """Auxiliaries from the outside in: each takes the rest as its complement, and the rest is the head."""
    verb, person = clause.verb.english, clause.subject.person
    adverbs = [_adverb(clause.frequency)] if clause.frequency else []
    if clause.negation == "never":
        adverbs.append(_leaf("advmod", "RB", "never"))
    negation = [_leaf("advmod", "RB", "not")] if clause.negation == "not" else []
    if clause.modal is not None and clause.modal.to:
        return _want_phrase(clause, negation, adverbs)
    if clause.modal is not None:
        word = clause.modal.english if clause.tense == "present" else str(clause.modal.english_past)
        return _auxiliary("MD", word, [*negation, *adverbs], _core(clause, "VB", verb.base))
    if clause.tense == "future":
        return _auxiliary("MD", "will", [*negation, *adverbs], _core(clause, "VB", verb.base))
    if clause.tense == "perfect":
        tag = _finite_tag("present", person)
        return _auxiliary(tag, _HAVE[person], [*negation, *adverbs], _core(clause, "VBN", verb.participle))
    forms = verb.present if clause.tense == "present" else verb.past
    if clause.verb is BE:
        return _core(clause, _finite_tag(clause.tense, person), forms[person], [*negation, *adverbs])
    if negation:
        return _do_support(clause, negation, adverbs, _core(clause, "VB", verb.base))
    core = _core(clause, _finite_tag(clause.tense, person), forms[person])
    return Phrase("VP", (*adverbs, *core.arcs))


def _finite_tag(tense: str, person: int) -> str:
    if tense == "past":
        return "VBD"
    return "VBZ" if person == THIRD_SINGULAR else "VBP"


def _auxiliary(tag: str, word: str, adverbs: list[Arc], rest: Phrase) -> Phrase:
    return Phrase("VP", (_leaf("aux", tag, word), *adverbs, Arc(_HEAD, rest)))


def _do_support(clause: Clause, negation: list[Arc], adverbs: list[Arc], rest: Phrase) -> Phrase:
    word = "did" if clause.tense == "past" else _DO[clause.subject.person]
    return _auxiliary(_finite_tag(clause.tense, clause.subject.person), word, [*negation, *adverbs], rest)


def _want_phrase(clause: Clause, negation: list[Arc], adverbs: list[Arc]) -> Phrase:
    """Want and "to": want governs, the infinitive is its open complement."""
    person = clause.subject.person
    infinitive = _auxiliary("TO", "to", [], _core(clause, "VB", clause.verb.english.base))
    complement = Arc("xcomp", _phrase("S", Arc(_HEAD, infinitive)))
    if negation:
        return _do_support(clause, negation, adverbs, _phrase("VP", _leaf(_HEAD, "VB", "want"), complement))
    forms: FiniteForms = ("want", "wants", "want", "want") if clause.tense == "present" else ("wanted",) * 4
    finite = _leaf(_HEAD, _finite_tag(clause.tense, person), forms[person])
    return _phrase("VP", *adverbs, finite, complement)


def _core(clause: Clause, tag: str, word: str, adverbs: list[Arc] | None = None) -> Phrase:
    """The verb with its complements and adjuncts; `adverbs` follow the verb at once (be)."""
    copular = clause.verb is BE
    arcs = [_leaf("cop" if copular else _HEAD, tag, word), *(adverbs or [])]
    arcs += _object(clause, clause.verb.english)
    if clause.recipient is not None:
        arcs.append(_prepositional("to", clause.recipient))
    if clause.predicate is not None:
        arcs.append(Arc(_HEAD if copular else "xcomp", _predicate(clause.predicate)))
    if clause.manner is not None:
        arcs.append(_adverb(clause.manner))
    if clause.adjunct is not None:
        arcs.append(_adjunct(clause.adjunct))
    if clause.time is not None:
        arcs.append(_adverb(clause.time))
    if clause.means is not None:
        arcs.append(_means(clause.means))
    if clause.content is not None:
        mark = _leaf("mark", "IN", "that")
        arcs.append(Arc("ccomp", _phrase("SBAR", mark, Arc(_HEAD, _clause(clause.content)))))
    return Phrase("VP", tuple(arcs))


def _object(clause: Clause, verb: EnglishVerb) -> list[Arc]:
    """Object and particle. The particle follows a short object and precedes one that a clause or phrase extends."""
    particle = Arc("compound:prt", _phrase("PRT", _leaf(_HEAD, "RP", verb.particle))) if verb.particle else None
    phrase = clause.object
    if phrase is None or isinstance(phrase, Gap):
        arcs = [None, particle]
    elif verb.preposition:
        arcs = [_prepositional(verb.preposition, phrase)]
    else:
        heavy = isinstance(phrase, NounPhrase) and (phrase.complement is not None or phrase.relative is not None)
        target = Arc("obj", _nominal(phrase, _OBJECT))
        arcs = [particle, target] if heavy else [target, particle]
    return [arc for arc in arcs if arc is not None]


def _prepositional(preposition: str, phrase: Nominal, relation: str = "obl") -> Arc:
    tag = "TO" if preposition == "to" else "IN"
    case = _leaf("case", tag, preposition)
    return Arc(relation, _phrase("PP", case, Arc(_HEAD, _nominal(phrase, _OBJECT))))


def _adjunct(adjunct: Adjunct) -> Arc:
    return _prepositional(adjunct.preposition.english, adjunct.phrase)


def _means(means: Means) -> Arc:
    verb_phrase = _phrase(
        "VP",
        _leaf(_HEAD, "VBG", MAKING),
        Arc("obj", _nominal(means.object, _OBJECT)),
        Arc("xcomp", _predicate(means.predicate)),
    )
    return Arc("advcl", _phrase("PP", _leaf("mark", "IN", "by"), Arc(_HEAD, _phrase("S", Arc(_HEAD, verb_phrase)))))


def _predicate(predicate: Predicate) -> Phrase:
    adjective = predicate.adjective
    if not predicate.comparative:
        return _phrase("ADJP", _leaf(_HEAD, "JJ", adjective.english))
    if adjective.periphrastic:
        arcs = [_leaf("advmod", "RBR", "more"), _leaf(_HEAD, "JJ", adjective.english)]
    else:
        arcs = [_leaf(_HEAD, "JJR", str(adjective.english_comparative))]
    if predicate.standard is not None:
        arcs.append(_prepositional("than", predicate.standard))
    return Phrase("ADJP", tuple(arcs))


def _nominal(nominal: Nominal, pronouns: dict[str, str]) -> Phrase:
    if isinstance(nominal, Pronoun):
        return _phrase("NP", Arc(_HEAD, Leaf("PRP", pronouns[nominal.english], refers_to=nominal.referent)))
    if isinstance(nominal, Coordination):
        left, right = _nominal(nominal.left, pronouns), _nominal(nominal.right, pronouns)
        return _phrase("NP", Arc(_HEAD, left), Arc("cc", Leaf("CC", "and"), 2), Arc("conj", right))
    if isinstance(nominal, Gap):
        raise TypeError("a gap has no words; the relative clause writes its pronoun")
    core = _noun_phrase_core(nominal)
    if nominal.complement is not None:
        core = _phrase("NP", Arc(_HEAD, core), _prepositional("of", nominal.complement, "nmod"))
    if nominal.relative is not None:
        core = _phrase("NP", Arc(_HEAD, core), _relative(nominal.referent, nominal.relative))
    return core


def _noun_phrase_core(phrase: NounPhrase) -> Phrase:
    referent, noun = phrase.referent, phrase.referent.noun
    tag = "NNP" if noun.proper else "NNS" if referent.plural else "NN"
    head = Leaf(tag, noun.english_plural if referent.plural else noun.english, introduces=referent)
    adjectives = [_leaf("amod", "JJ", adjective.english) for adjective in phrase.adjectives]
    following = phrase.adjectives[0].english if phrase.adjectives else head.word
    return Phrase("NP", (*_determiner(phrase, following), *adjectives, Arc(_HEAD, head)))


def _determiner(phrase: NounPhrase, following: str) -> list[Arc]:
    determiner = phrase.determiner
    if determiner in ("none", "bare"):
        return []
    if isinstance(determiner, Pronoun):
        leaf = Leaf("PRP$", _POSSESSIVE[determiner.english], refers_to=determiner.referent)
    elif determiner == "a":
        leaf = Leaf("DT", "an" if following[0] in "aeiou" else "a")
    elif determiner == "this" and phrase.referent.plural:
        leaf = Leaf("DT", "these")
    else:
        leaf = Leaf(_DETERMINERS[determiner], determiner)
    return [Arc(_DETERMINER_RELATIONS[leaf.tag], leaf)]


def _relative(referent: Referent, clause: Clause) -> Arc:
    """The relative clause, with who for people and that for all else, as its subject or object."""
    pronoun = Leaf("WP", "who") if "p" in referent.noun.kinds else Leaf("WDT", "that")
    relation = "nsubj" if isinstance(clause.subject, Gap) else "obj"
    body = _clause(clause)
    return Arc("acl:relcl", _phrase("SBAR", Arc(relation, _phrase("WHNP", Arc(_HEAD, pronoun))), Arc(_HEAD, body)))
