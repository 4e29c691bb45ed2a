"""Trees: bracketed text in and out, the normal form, and no limit of depth."""

from __future__ import annotations

import copy
import os
import pickle
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.corpus import DataError
from core.data.trees import (
    Tree,
    base_label,
    escape,
    format_tree,
    normalise,
    parse_line,
    read_trees,
    unescape,
)

untimed = settings(deadline=None)
DEPTH = 5_000


def read(*lines: str) -> list[Tree]:
    return list(read_trees(lines, "made.mrg"))


def tree(line: str) -> Tree:
    (only,) = parse_line(line)
    return only


def chain(depth: int) -> Tree:
    node = Tree("NN", ("dog",))
    for level in range(depth):
        node = Tree(f"X{level % 3}", (Tree("DT", ("a",)), node))
    return node


# Words with brackets, with pieces of escapes, with blanks that are no ASCII blanks; empty ones and such as a file
# cannot hold are left out below.
words = st.text(alphabet="ab()[]{}-LRB'\u00a0\u2028é/", min_size=1, max_size=6)
labels = st.sampled_from(["S", "NP", "NP-SBJ=2", "-LRB-", ",", "``", "PRT|ADVP", "WHNP-1", "X"])
leaves = st.builds(lambda tag, word: Tree(tag, (word,)), labels, words)
trees = st.recursive(
    leaves,
    lambda inner: st.builds(lambda label, children: Tree(label, tuple(children)), labels, st.lists(inner, min_size=1)),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def sample_texts() -> list[str]:
    root = os.environ.get("AIAYN_DATA")
    path = Path(root or ".") / "treebank-sample" / "treebank.zip"
    if not path.is_file():
        pytest.skip("needs the treebank's sample: set AIAYN_DATA to a folder that holds treebank-sample/treebank.zip")
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if name.startswith("treebank/combined/wsj_"))
        return [archive.read(name).decode() for name in names]


# Reading --------------------------------------------------------------------------------------------------------------


def test_pretty_printed_trees_are_read_whatever_their_lines() -> None:
    found = read("( (S ", "    (NP-SBJ (NNP Mr.)  (NNP Vinken) )", "  (VP (VBZ is))", "(. .) )) ( (X (", "NN dog)))")
    one = Tree("NP-SBJ", (Tree("NNP", ("Mr.",)), Tree("NNP", ("Vinken",))))
    first = Tree("", (Tree("S", (one, Tree("VP", (Tree("VBZ", ("is",)),)), Tree(".", (".",)))),))
    assert found == [first, Tree("", (Tree("X", (Tree("NN", ("dog",)),)),))]


def test_a_tag_may_stand_on_another_line_than_its_word() -> None:
    assert read("(NP (NN", "", "dog", "))") == [tree("(NP (NN dog))")]


def test_b42_words_beside_constituents_are_kept_in_order() -> None:
    # https://github.com/tensorflow/tensor2tensor/issues/20, pitfall E8: a word after a nested constituent was lost
    found = tree("(A (B (C c d) e))")
    assert found == Tree("A", (Tree("B", (Tree("C", ("c", "d")), "e")),))
    assert str(found) == "(A (B (C c d) e))"
    assert list(found.tagged()) == [(None, "c"), (None, "d"), (None, "e")]


def test_e7_bracket_words_are_escaped_both_ways() -> None:
    found = tree("(NP (-LRB- -LRB-) (NN a-RRB-b) (-RRB- -RCB-) (NN -LSB-x))")
    assert list(found.leaves()) == ["(", "a)b", "}", "[x"]
    assert [tag for tag, _ in found.tagged()] == ["-LRB-", "NN", "-RRB-", "NN"]
    assert format_tree(found) == "(NP (-LRB- -LRB-) (NN a-RRB-b) (-RRB- -RCB-) (NN -LSB-x))"


def test_other_escapes_of_the_treebank_stay_as_evalb_compares_them() -> None:
    assert list(tree(r"(QP (CD 3\/4) (SYM \*))").leaves()) == [r"3\/4", r"\*"]


def test_only_ascii_blanks_divide() -> None:
    assert list(tree("(NP (CD 1\u00a01\u2044\u20092) (NN a\u2028b))").leaves()) == ["1\u00a01\u2044\u20092", "a\u2028b"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["(S (NN a))", "(S (NN b)))"], "made.mrg line 2 closes a bracket that is not open"),
        (
            ["", "(S (NN a))", "(S", "(NN b)"],
            "made.mrg ends inside the tree that begins in line 3: 1 brackets are open",
        ),
        (["(S (NN a)) dog"], "made.mrg line 1 has 'dog' outside of brackets"),
        (["(S (NP))"], "made.mrg line 1 closes NP, which is empty"),
        (["(S", "())"], "made.mrg line 2 closes a bracket, which is empty"),
        (["( S", ")"], "made.mrg line 2 closes S, which is empty"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_line(lines: list[str], message: str) -> None:
    with pytest.raises(DataError) as caught:
        read(*lines)
    assert str(caught.value) == message


def test_trees_before_a_fault_are_read() -> None:
    stream = read_trees(["(S (NN a))", ")"], "made.mrg")
    assert next(stream) == tree("(S (NN a))")
    with pytest.raises(DataError):
        next(stream)


def test_a_line_may_hold_pieces_or_nothing() -> None:
    assert parse_line("(P this) (Q is)") == (Tree("P", ("this",)), Tree("Q", ("is",)))
    assert parse_line(" ") == ()


def test_a_tree_without_words_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="constituent 'NP' is empty"):
        Tree("NP", ())


# Writing --------------------------------------------------------------------------------------------------------------


@untimed
@given(trees)
def test_what_is_written_is_read_back(made: Tree) -> None:
    if any(unescape(escape(word)) != word for word in made.leaves()):
        with pytest.raises(ValueError, match="cannot be written"):
            format_tree(made)
    else:
        assert parse_line(format_tree(made)) == (made,)


@untimed
@given(st.text(alphabet="ab()[]{} -LRB", max_size=8))
def test_escaped_words_have_no_brackets(word: str) -> None:
    assert not set("()[]{}") & set(escape(word))


@pytest.mark.parametrize("word", ["", "two words", "a\tb", "-LRB-", "-LRB(-", "\n"])
def test_words_that_would_come_back_changed_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        format_tree(Tree("NN", (word,)))


@pytest.mark.parametrize("label", ["N N", "(", "NP)", "\n"])
def test_labels_that_would_break_the_brackets_are_refused(label: str) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        format_tree(Tree("S", (Tree(label, ("dog",)),)))


def test_a_word_first_in_an_unlabelled_bracket_is_refused() -> None:
    with pytest.raises(ValueError, match="'dog' cannot be written first"):
        format_tree(Tree("", ("dog", Tree("NN", ("cat",)))))


def test_all_sample_trees_come_back_and_agree_with_another_reader(sample_texts: list[str]) -> None:
    nltk = pytest.importorskip("nltk", reason="needs nltk: pip install 'aiayn[dev]'")
    count = 0
    for text in sample_texts:
        for made in read_trees(text.split("\n"), "sample"):
            line = format_tree(made)
            assert parse_line(line) == (made,)
            count += 1
            if count % 10 == 0:  # it is slow
                other = nltk.Tree.fromstring(line)
                assert [unescape(word) for word in other.leaves()] == list(made.leaves())
                assert [node.label() for node in other.subtrees()] == [node.label for node in made.subtrees()]
    assert count == 3_914


# Form and depth -------------------------------------------------------------------------------------------------------


def test_trees_of_equal_form_are_equal() -> None:
    one, two = tree("(S (NP (NN a)) b)"), tree("(S (NP (NN a)) b)")
    assert one == two
    assert hash(one) == hash(two)
    for other in ("(S (NP (NN a) b))", "(S (NP (NN b)) b)", "(S (NX (NN a)) b)", "(S (NP NN a) b)"):
        assert one != tree(other)
    assert one != "(S (NP (NN a)) b)"


def test_a_word_is_not_mistaken_for_a_constituent() -> None:
    assert Tree("S", ("a", "b")) != Tree("S", (Tree("a", ("b",)),))


def test_e5_deep_trees_are_read_written_compared_copied_and_normalised() -> None:
    deep = chain(DEPTH)
    line = format_tree(deep)
    assert parse_line(line) == (deep,)
    assert hash(parse_line(line)[0]) == hash(deep)
    assert pickle.loads(pickle.dumps(deep)) == deep
    assert copy.deepcopy(deep) == deep
    assert sum(1 for _ in deep.leaves()) == DEPTH + 1
    assert sum(1 for _ in deep.subtrees()) == 2 * DEPTH + 1
    assert normalise(deep) == Tree("TOP", (deep,))
    assert repr(deep) == f"<Tree {line}>"


def test_subtrees_come_before_those_that_they_hold() -> None:
    found = tree("(S (NP (DT a) (NN b)) (VP (VB c) d))")
    assert [node.label for node in found.subtrees()] == ["S", "NP", "DT", "NN", "VP", "VB"]


# Normal form ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "base"),
    [
        ("NP", "NP"),
        ("NP-SBJ", "NP"),
        ("NP-SBJ-1", "NP"),
        ("NP-SBJ=2", "NP"),
        ("NP=2", "NP"),
        ("ADVP-PRD-LOC=3", "ADVP"),
        ("PRT|ADVP", "PRT"),
        ("ADVP|PRT", "ADVP"),
        ("-LRB-", "-LRB-"),
        ("-NONE-", "-NONE-"),
        ("PRP$", "PRP$"),
        ("", ""),
    ],
)
def test_e18_labels_lose_function_tags_and_indices(label: str, base: str) -> None:
    assert base_label(label) == base


def test_e18_traces_go_with_the_constituents_that_hold_nothing_else() -> None:
    # EVALB's README, section 7: what a trace alone fills is removed with it
    line = "(S (NP-SBJ (PRP he)) (VP (VBD reported) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))) (. .))"
    assert str(normalise(tree(line))) == "(TOP (S (NP (PRP he)) (VP (VBD reported)) (. .)))"


@pytest.mark.parametrize(
    "line",
    ["( (S (NN a)))", "(S (NN a))", "(TOP (S (NN a)))", "(ROOT (S (NN a)))", "(S1 (S (NN a)))", "( (TOP (S (NN a))))"],
)
def test_e19_e6_the_root_is_top_whatever_it_was(line: str) -> None:
    assert str(normalise(tree(line))) == "(TOP (S (NN a)))"


def test_a_root_of_several_pieces_keeps_them() -> None:
    assert str(normalise(tree("( (S (NN a)) (. .))"))) == "(TOP (S (NN a)) (. .))"


def test_tags_are_left_as_they_are() -> None:
    line = "(TOP (NP (JJ|NN a) (-LRB- -LRB-) (NN-X b)))"
    assert str(normalise(tree(line))) == line


def test_a_tree_of_traces_alone_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no word but traces: \(S \(NP \(-NONE- \*\)\)\)"):
        normalise(tree("(S (NP (-NONE- *)))"))


@untimed
@given(trees)
def test_normalising_again_changes_nothing(made: Tree) -> None:
    normal = normalise(made)
    assert normal.label == "TOP"
    assert normalise(normal) == normal
    assert list(normal.leaves()) == list(made.leaves())
    constituents = [node for node in normal.subtrees() if not node.is_preterminal]
    assert all(base_label(node.label) == node.label for node in constituents)
