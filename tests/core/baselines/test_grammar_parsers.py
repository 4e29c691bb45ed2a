"""A grammar worked by hand, its parser against a slow one, and what holds for any sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from core.baselines.grammar_parsers import Lexicon, RightBranching, TreebankGrammar
from core.data.trees import Tree, parse_line

TREES = [
    parse_line(line)[0]
    for line in (
        "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)))))",
        "(TOP (S (NP (DT the) (NN cat)) (VP (VBZ sees) (NP (DT a) (NN dog)) (PP (IN with) (NP (NN milk))))))",
        "(TOP (S (NP (NP (DT a) (NN dog)) (PP (IN with) (NP (NN milk)))) (VP (VBZ sleeps))))",
        "(TOP (S (NP (NN milk)) (VP (VBZ sleeps))))",
    )
]
GRAMMAR = TreebankGrammar(TREES)


def log_probability(grammar: TreebankGrammar, tree: Tree) -> float:
    """Of a tree, by the rules' relative frequencies in TREES, worked out here once more for rules of two children."""
    counts: dict[tuple, int] = {}
    parents: dict[str, int] = {}
    for one in TREES:
        for node in one.subtrees():
            if not node.is_preterminal:
                rule = (node.label, *(child.label for child in node.children))
                counts[rule] = counts.get(rule, 0) + 1
                parents[node.label] = parents.get(node.label, 0) + 1
    total = 0.0
    for node in tree.subtrees():
        if node.is_preterminal:
            total += float(grammar.lexicon.scores(node.children[0])[grammar.lexicon.tags.index(node.label)])
        else:
            rule = (node.label, *(child.label for child in node.children))
            total += math.log(counts[rule] / parents[node.label])
    return total


def test_right_branching_tree_worked_by_hand() -> None:
    parser = RightBranching.learn(TREES)
    assert parser.label == "NP"
    assert str(parser.parse(["a", "dog", "sleeps"])) == "(TOP (S (XX a) (NP (XX dog) (NP (XX sleeps)))))"


def test_the_likeliest_of_two_readings_is_found() -> None:
    # The phrase with "with" after a noun: it hangs on the verb once in 4 verb phrases, on the noun once in 8.
    words = ["the", "dog", "sees", "a", "cat", "with", "milk"]
    high = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat)) (PP (IN with) (NP (NN milk))))))"
    low = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (NP (DT a) (NN cat)) (PP (IN with) (NP (NN milk)))))))"
    readings = [parse_line(line)[0] for line in (high, low)]
    best = max(readings, key=lambda tree: log_probability(GRAMMAR, tree))
    assert GRAMMAR.parse(words) == best


def test_unseen_words_get_the_tags_of_words_that_look_like_them() -> None:
    lexicon = Lexicon(
        [("NN", "walking"), ("VBG", "running"), ("VBG", "eating"), ("CD", "17"), ("CD", "1989"), ("DT", "the")]
    )
    best = {word: lexicon.tags[int(np.argmax(lexicon.scores(word)))] for word in ("singing", "42", "the")}
    assert best["42"] == "CD"
    assert best["the"] == "DT"
    assert best["singing"] in ("VBG", "NN")
    shares = np.exp(lexicon.scores("zzz"))
    assert np.isfinite(shares).all()


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.sampled_from(["the", "a", "dog", "cat", "sees", "sleeps", "with", "milk", "Zebra"]), min_size=1, max_size=8
    )
)
def test_any_sentence_gets_a_tree_over_its_words_or_none(words: Sequence[str]) -> None:
    tree = GRAMMAR.parse(words)
    if tree is not None:
        assert list(tree.leaves()) == list(words)
        assert tree.label == "TOP"
        assert all(not node.label.startswith("@") for node in tree.subtrees())


def test_without_a_rule_there_is_no_tree() -> None:
    assert TreebankGrammar([TREES[3]]).parse(["milk"]) is None


def test_unary_chains_come_back_whole() -> None:
    chained = parse_line("(TOP (A (B (C (D x)))))")
    assert TreebankGrammar(chained).parse(["x"]) == chained[0]
    # A loop of unary rules, as treebanks have, is no endless chain.
    loop = [parse_line("(TOP (A (B (A (D x)))))")[0], parse_line("(TOP (B (D x) (D y)))")[0]]
    assert list(TreebankGrammar(loop).parse(["x", "y"]).leaves()) == ["x", "y"]


def test_sentences_that_were_learned_get_their_trees() -> None:
    for tree in TREES:
        assert GRAMMAR.parse(list(tree.leaves())) == tree
