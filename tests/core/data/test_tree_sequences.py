"""Trees as sequences and back, and a tree over the input's words out of any sequence."""

from __future__ import annotations

from dataclasses import astuple
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.tree_sequences import (
    MAX_DEPTH,
    TAGGED,
    VINYALS,
    Repairs,
    TreeFormat,
    delinearise,
    linearise,
    repair,
)
from core.data.treebanks import GRAMMAR_TREES, TREEBANK_SAMPLE
from core.data.trees import Tree, format_tree, parse_line

untimed = settings(deadline=None)
BARE = TreeFormat(bare_words=True)
FORMS = [*(TreeFormat(*switches) for switches in product([False, True], repeat=2)), BARE]
WITH_WORDS = TreeFormat(keep_tags=True, keep_words=True)


def tree(line: str) -> Tree:
    (only,) = parse_line(line)
    return only


def back(made: Tree, form: TreeFormat) -> Tree:
    tags, words = zip(*made.tagged(), strict=True)
    return delinearise(linearise(made, form), words, form, tags)


def mended(output: str, words: str, form: TreeFormat = VINYALS, **options) -> tuple[str, Repairs]:
    found, repairs = repair(output.split(), words.split(), form, **options)
    assert list(found.leaves()) == words.split()
    return str(found), repairs


def chain(depth: int) -> Tree:
    node = Tree("NN", ("dog",))
    for level in range(depth):
        node = Tree(f"X{level % 3}", (node,) if level % 2 else (Tree("DT", ("a",)), node))
    return node


words = st.text(alphabet="ab()-LRBX _", min_size=1, max_size=5)
labels = st.sampled_from(["S", "NP", "-LRB-", ",", "XX", "_S"])
trees = st.recursive(
    st.builds(lambda tag, word: Tree(tag, (word,)), labels, words),
    lambda inner: st.builds(
        lambda label, children: Tree(label, tuple(children)), labels, st.lists(st.one_of(inner, words), min_size=1)
    ),
    max_leaves=25,
).filter(lambda made: not made.is_preterminal)
garbage = st.lists(
    st.sampled_from(["(S", "(NP", "(", ")S", ")NP", ")X", ")", "XX", "NN", "a", "b", "((", "", "_", "(XX"])
)
forms = st.sampled_from(FORMS)


# There and back -------------------------------------------------------------------------------------------------------


def test_sequences_worked_by_hand() -> None:
    # Vinyals et al. 2015, figure 2: "Go ." and "John has a dog ."
    made = tree("(S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))")
    assert " ".join(linearise(made)) == "(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S"
    assert " ".join(linearise(made, TAGGED)) == "(S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S"
    assert " ".join(linearise(tree("(NP (DT a) (NN dog))"), WITH_WORDS)) == "(NP (DT a )DT (NN dog )NN )NP"
    assert " ".join(linearise(tree("(NP (DT a) x)"), TreeFormat(keep_words=True))) == "(NP (XX a )XX x )NP"
    assert " ".join(linearise(made, BARE)) == "(S (NP John )NP (VP has (NP a dog )NP )VP . )S"


@pytest.mark.parametrize("form", FORMS)
def test_b42_words_after_a_nested_constituent_come_back(form: TreeFormat) -> None:
    # https://github.com/tensorflow/tensor2tensor/issues/20, pitfall E8
    made = tree("(A (B (C c d) e))")
    assert back(made, form) == made


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("line", ["(S (S (S a)) b)", "(S (S (XX a)) (XX b))", "(XX (XX (XX XX)) XX)", "(S _ _)"])
def test_labels_and_words_of_one_name_are_told_apart(form: TreeFormat, line: str) -> None:
    assert back(tree(line), form) == tree(line)


def test_tags_are_told_by_the_sequence_or_from_outside() -> None:
    made = tree("(NP (DT a) (NN dog))")
    assert delinearise(linearise(made, TAGGED), ["a", "dog"], TAGGED) == made
    assert delinearise(linearise(made), ["a", "dog"], VINYALS, ["DT", "NN"]) == made
    assert str(delinearise(linearise(made), ["a", "dog"])) == "(NP (XX a) (XX dog))"


@untimed
@given(trees, forms)
def test_generated_trees_come_back(made: Tree, form: TreeFormat) -> None:
    assert back(made, form) == made


@pytest.mark.parametrize("form", FORMS)
def test_deep_and_wide_trees_come_back(form: TreeFormat) -> None:
    deep = chain(5_000)
    wide = Tree("S", tuple(Tree("NP", (Tree("NN", (f"word{number}",)), "x")) for number in range(5_000)))
    assert back(deep, form) == deep
    assert back(wide, form) == wide


def test_e8_all_sample_trees_come_back(local_sample: Path, tmp_path: Path) -> None:
    read = [made for split in TREEBANK_SAMPLE.splits for made in TREEBANK_SAMPLE.read_trees(split, tmp_path)]
    assert len(read) == 3_914
    for made in read:
        assert all(back(made, form) == made for form in FORMS)


def test_the_grammars_trees_come_back(tmp_path: Path) -> None:
    for made in GRAMMAR_TREES.read_trees("test", tmp_path):
        assert all(back(made, form) == made for form in FORMS)


def test_words_with_brackets_are_no_brackets() -> None:
    made = Tree("NP", (Tree("-LRB-", ("(",)), Tree("NN", (")NP",))))
    assert linearise(made, WITH_WORDS) == ["(NP", "(-LRB-", "-LRB-", ")-LRB-", "(NN", "-RRB-NP", ")NN", ")NP"]
    assert back(made, WITH_WORDS) == made


def test_bare_words_have_neither_tags_nor_brackets() -> None:
    with pytest.raises(ValueError, match="set neither keep_tags nor keep_words with it"):
        TreeFormat(keep_tags=True, bare_words=True)
    # One word is wrong and one is missing: the others stay where they are.
    found, repairs = mended("(S (NP a cat )NP (VP . )VP )S", "a dog barks .", BARE)
    assert found == "(S (NP (XX a) (XX dog)) (VP (XX barks) (XX .)))"
    assert repairs == Repairs(wrong_leaves=1, missing_leaves=1)


@pytest.mark.parametrize("tag", ["_", "(NN", ")"])
def test_a_tag_that_reads_like_another_symbol_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="of 'dog' would read as another symbol"):
        linearise(Tree("NP", (Tree(tag, ("dog",)),)), TAGGED)


def test_a_sequence_that_is_no_tree_is_refused_with_its_faults() -> None:
    with pytest.raises(ValueError, match="2 symbols are no tree over 2 words: 1 missing closers, 1 missing leaves"):
        delinearise(["(S", "XX"], ["a", "b"])


# Repair ---------------------------------------------------------------------------------------------------------------


@untimed
@given(trees, forms)
def test_e9_a_right_sequence_needs_no_repair(made: Tree, form: TreeFormat) -> None:
    tags, leaves = zip(*made.tagged(), strict=True)
    found, repairs = repair(linearise(made, form), leaves, form, tags, max_depth=50)
    assert found == made
    assert repairs == Repairs()
    assert repairs.total == 0


@pytest.mark.parametrize(
    ("output", "words", "result", "repairs"),
    [
        # cut off: what is open is closed, and the rest of the words goes where the output stood
        ("(S (NP XX", "a b", "(S (NP (XX a) (XX b)))", Repairs(missing_closers=2, missing_leaves=1)),
        ("(S (NP XX )NP", "a b", "(S (NP (XX a)) (XX b))", Repairs(missing_closers=1, missing_leaves=1)),
        # a closer closes what lies inside of its constituent
        ("(S (VP (NP XX )VP XX )S", "a b", "(S (VP (NP (XX a))) (XX b))", Repairs(missing_closers=1)),
        ("(S (NP XX )NP )NP )S", "a", "(S (NP (XX a)))", Repairs(wrong_closers=1)),
        ("(S (NP XX )PP XX )NP )S", "a b", "(S (NP (XX a) (XX b)))", Repairs(wrong_closers=1)),
        # the root ends where the output does
        ("(S XX )S XX", "a b", "(S (XX a) (XX b))", Repairs(extra_closers=1, missing_closers=1)),
        ("(S XX )S (NP XX )NP )S", "a b", "(S (XX a) (NP (XX b)))", Repairs(extra_closers=1)),
        ("(S XX )S )S )S", "a", "(S (XX a))", Repairs(extra_closers=2)),
        (")S (S XX )S", "a", "(S (XX a))", Repairs(extra_closers=1)),
        # other numbers of leaves
        ("(S XX XX XX )S", "a", "(S (XX a))", Repairs(extra_leaves=2)),
        ("(S XX (NP XX )NP )S", "a", "(S (XX a))", Repairs(extra_leaves=1, empty_constituents=1)),
        ("(S (NP )NP XX )S", "a", "(S (XX a))", Repairs(empty_constituents=1)),
        ("(S (NP XX )NP )S", "a b c", "(S (NP (XX a)) (XX b) (XX c))", Repairs(missing_leaves=2)),
        # no root
        ("XX (NP XX )NP", "a b", "(TOP (XX a) (NP (XX b)))", Repairs(missing_roots=1)),
        ("", "a b", "(TOP (XX a) (XX b))", Repairs(missing_roots=1, missing_leaves=2)),
    ],
)
def test_e9_repairs_worked_by_hand(output: str, words: str, result: str, repairs: Repairs) -> None:
    assert mended(output, words) == (result, repairs)


def test_words_that_are_kept_are_found_again() -> None:
    output = "(S (NP (DT the )DT (NN dog )NN )NP (VP (VB barks )VB )VP )S"
    assert mended(output, "the dog barks", WITH_WORDS)[1] == Repairs()
    # a forgotten word goes before the next one that is there, a made-up one is dropped, another one is replaced
    forgotten = "(S (NP (DT the) (XX old) (NN dog)) (VP (VB barks)))"
    assert mended(output, "the old dog barks", WITH_WORDS) == (forgotten, Repairs(missing_leaves=1))
    assert mended(output, "dog barks", WITH_WORDS) == ("(S (NP (NN dog)) (VP (VB barks)))", Repairs(extra_leaves=1))
    replaced = "(S (NP (DT the) (NN cat)) (VP (VB barks)))"
    assert mended(output, "the cat barks", WITH_WORDS) == (replaced, Repairs(wrong_leaves=1))


def test_tags_from_outside_stand_on_leaves_that_the_output_forgot() -> None:
    assert mended("(S XX", "a dog", tags=["DT", "NN"])[0] == "(S (DT a) (NN dog))"
    assert mended("(S DT", "a dog", TAGGED, tags=["XX", "NN"])[0] == "(S (DT a) (NN dog))"


@settings(deadline=None, max_examples=400)
@given(garbage, st.lists(words, min_size=1, max_size=6), forms)
def test_b44_garbage_gives_a_tree_over_the_words(output: list[str], leaves: list[str], form: TreeFormat) -> None:
    found, repairs = repair(output, leaves, form)
    assert list(found.leaves()) == leaves
    assert min(astuple(repairs)) >= 0
    if not found.is_preterminal:  # what came out is a tree, and so right from then on
        again = repair(linearise(found, form), leaves, form, [tag for tag, _ in found.tagged()])
        assert again == (found, Repairs())


@untimed
@given(st.lists(st.text(alphabet="()AB_ \u2028\n", max_size=4), max_size=30), forms)
def test_b44_any_strings_are_symbols_and_the_tree_can_be_written(output: list[str], form: TreeFormat) -> None:
    found, _ = repair(output, ["a", "(", "c"], form)
    assert list(found.leaves()) == ["a", "(", "c"]
    assert parse_line(format_tree(found)) == (found,)


@pytest.mark.parametrize("line", ["(NN dog)", "( (S (NN dog)))"])
def test_what_has_no_sequence_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="dog"):
        linearise(tree(line))


@pytest.mark.parametrize("symbols", [["(S"] * 10_000, ["(S", "XX"] * 10_000, [")S"] * 10_000, ["(S", "(NP"] * 10_000])
def test_b44_e5_deep_output_ends_at_a_depth(symbols: list[str]) -> None:
    found, repairs = repair(symbols, ["a", "b"])
    assert sum(symbol.startswith("(") for symbol in linearise(found)) <= MAX_DEPTH + 2
    assert list(found.leaves()) == ["a", "b"]
    assert repairs.total >= 9_998
    format_tree(found)


def test_what_lies_too_deep_stays_without_its_bracket() -> None:
    found = mended("(A (B (C XX )C XX )B )A", "a b", max_depth=2)
    assert found == ("(A (B (XX a) (XX b)))", Repairs(too_deep=1))


def test_repairs_add_up_and_tell_themselves() -> None:
    total = sum([Repairs(missing_closers=2), Repairs(missing_closers=1, extra_leaves=3)], Repairs())
    assert total == Repairs(missing_closers=3, extra_leaves=3)
    assert total.total == 6
    assert str(total) == "3 missing closers, 3 extra leaves"
    assert str(Repairs()) == "none"


def test_nonsense_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="no words"):
        repair(["(S"], [])
    with pytest.raises(ValueError, match="1 tags for 2 words"):
        repair(["(S"], ["a", "b"], tags=["NN"])
