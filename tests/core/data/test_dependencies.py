"""Dependencies read off trees: the grammar's own gold arcs, sentences by hand, and what holds of any tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.attention_measures import completions
from core.data.dependencies import dependencies
from core.data.grammar import generate_splits
from core.data.trees import TRACE, Tree, parse_line


def arcs(text: str) -> list[str]:
    """Each word that is no mark as word<governor:relation."""
    (tree,) = parse_line(text)
    found = dependencies(tree)
    governors = [found.english[head] if head >= 0 else "" for head in found.heads]
    parts = zip(found.english, governors, found.relations, strict=True)
    return [f"{word}<{governor}:{relation}" for word, governor, relation in parts if relation != "punct"]


def test_the_grammars_own_arcs_are_found_in_its_trees() -> None:
    """They are made beside the trees, by rules of another kind; only their name for `to` of an infinitive is older."""
    num_arcs = 0
    for example in generate_splits({"attention": 2_000}, 5)["attention"]:
        found = dependencies(example.tree)
        assert found.english == example.english
        for word, relation in enumerate(example.relations):
            if relation == "punct":
                continue
            num_arcs += 1
            named = "mark" if example.english[word] == "to" and relation == "aux" else relation
            assert (found.heads[word], found.relations[word]) == (example.heads[word], named), str(example.tree)
    assert num_arcs > 10_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "( (S (NP-SBJ (DT The) (NN rule)) (VP (VBD made) (S (NP-SBJ (DT the) (NN vote)) (ADJP-PRD (RBR more) "
            "(JJ difficult)))) (. .)) )",
            "The<rule:det rule<made:nsubj made<:root the<vote:det vote<difficult:nsubj more<difficult:advmod "
            "difficult<made:xcomp",
        ),
        (
            "(S (NP-SBJ-1 (NNP Anna)) (VP (VBZ wants) (S (NP-SBJ (-NONE- *-1)) (VP (TO to) (VP (VB buy) (NP (NP (DT a) "
            "(NN house)) (SBAR (WHNP-2 (WDT that)) (S (NP-SBJ (PRP she)) (VP (VBD saw) (NP (-NONE- *T*-2)) (NP-TMP "
            "(NN yesterday)))))))))) (. .))",
            "Anna<wants:nsubj wants<:root to<buy:mark buy<wants:xcomp a<house:det house<buy:obj that<saw:obj "
            "she<saw:nsubj saw<house:acl:relcl yesterday<saw:obl",
        ),
        (
            "(S (NP-SBJ (JJ Grey) (NNS dogs) (, ,) (NNS cats) (CC and) (NNS birds)) (VP (VBP are) (RB not) (ADJP-PRD "
            "(JJ big))))",
            "Grey<dogs:amod dogs<big:nsubj cats<dogs:conj and<birds:cc birds<dogs:conj are<big:cop not<big:advmod "
            "big<:root",
        ),
        (
            "(S (NP-SBJ (DT The) (JJ old) (, ,) (JJ grey) (NNS dogs) (CC and) (NNS cats)) (VP (VBD slept)))",
            "The<dogs:det old<dogs:amod grey<dogs:amod dogs<slept:nsubj and<cats:cc cats<dogs:conj slept<:root",
        ),
        (
            "(S (NP-SBJ (PRP He)) (VP (MD will) (VP (VB give) (NP (PRP her)) (NP (NP (NNP Paul) (POS 's)) (NN book)) "
            "(PRT (RP back)) (PP-TMP (IN on) (NP (NNP Monday))))))",
            "He<give:nsubj will<give:aux give<:root her<give:iobj Paul<book:nmod:poss 's<Paul:case book<give:obj "
            "back<give:compound:prt on<Monday:case Monday<give:obl",
        ),
        (
            "(S (SBAR-ADV (IN If) (S (NP-SBJ (EX there)) (VP (VBZ is) (NP-PRD (NN time))))) (, ,) (NP-SBJ (PRP they)) "
            "(VP (VBP say) (SBAR (-NONE- 0) (S (NP-SBJ (PRP it)) (VP (VBZ works))))))",
            "If<time:mark there<time:expl is<time:cop time<say:advcl they<say:nsubj say<:root it<works:nsubj "
            "works<say:ccomp",
        ),
        (
            "(S (NP-SBJ (NP (DT the) (NN price)) (PP (IN of) (NP (CD two) (JJ new) (NN city) (NNS houses)))) (VP (VBD "
            "was) (VP (VBN paid) (NP (-NONE- *)))))",
            "the<price:det price<paid:nsubj of<houses:case two<houses:nummod new<houses:amod city<houses:compound "
            "houses<price:nmod was<paid:aux paid<:root",
        ),
        (
            "(S (NP-SBJ (JJ political) (CC and) (JJ economic) (NNS reforms)) (VP (VBP hurt) (NP (DT the) (NN oil) "
            "(CC and) (NN gas) (NN industry))))",
            "political<reforms:amod and<economic:cc economic<political:conj reforms<hurt:nsubj hurt<:root "
            "the<industry:det oil<industry:compound and<gas:cc gas<oil:conj industry<hurt:obj",
        ),
        (
            "(S (NP-SBJ (PRP It)) (VP (VBD paid) (NP (QP ($ $) (CD 1.5) (CD billion)))))",
            "It<paid:nsubj paid<:root $<paid:obj 1.5<$:nummod billion<$:nummod",
        ),
        (
            "(S (SBAR-ADV (IN If) (S (NP-SBJ (NNS rates)) (VP (VBP rise)))) (, ,) (S (NP-SBJ (NNS stocks)) (VP (VBP "
            "fall))) (CC and) (S (NP-SBJ (NNS bonds)) (VP (VBP slide))))",
            "If<rise:mark rates<rise:nsubj rise<fall:advcl stocks<fall:nsubj fall<:root and<slide:cc bonds<slide:nsubj "
            "slide<fall:conj",
        ),
        (
            "(SBARQ (WHNP-1 (WHADJP (WRB how) (JJ many)) (NNS cars)) (SQ (VBD did) (NP-SBJ (PRP he)) (VP (VB buy) (NP "
            "(-NONE- *T*-1)))))",
            "how<many:advmod many<cars:amod cars<buy:obj did<buy:aux he<buy:nsubj buy<:root",
        ),
        (
            "(SQ (VBZ Is) (NP-SBJ (PRP he)) (ADJP-PRD (JJ rich)))",
            "Is<rich:cop he<rich:nsubj rich<:root",
        ),
        (
            "(S (NP-SBJ (DT The) (NN trouble)) (VP (VBZ is) (SBAR-PRD (IN that) (S (NP-SBJ (NNS buyers)) (VP "
            "(VBP wait))))))",
            "The<trouble:det trouble<is:nsubj is<:root that<wait:mark buyers<wait:nsubj wait<is:ccomp",
        ),
        (
            "(S (S-NOM-SBJ (NP-SBJ (-NONE- *)) (VP (VBG Selling) (NP (NNS cars)))) (VP (VBZ is) (ADJP-PRD (ADJP (JJR "
            "harder)) (SBAR (IN than) (S (NP-SBJ (PRP we)) (VP (VBD thought)))))))",
            "Selling<harder:csubj cars<Selling:obj is<harder:cop harder<:root than<thought:mark we<thought:nsubj "
            "thought<harder:advcl",
        ),
        (
            "(NP (NP (DT the) (NN car)) (SBAR (WHNP-1 (-NONE- 0)) (S (S (NP-SBJ (PRP I)) (VP (VBD bought) (NP (-NONE- "
            "*T*-1)))) (CC and) (S (NP-SBJ (PRP you)) (VP (VBD sold) (NP (-NONE- *T*-1)))))))",
            "the<car:det car<:root I<bought:nsubj bought<car:acl:relcl and<sold:cc you<sold:nsubj sold<bought:conj",
        ),
        (
            "(S (CC But) (S (NP-SBJ (NNS Stocks)) (VP (VP (VBD rose)) (, ,) (VP (VBD fell)) (: ;) (VP (VBD slid)))) "
            "(CC and) (S (NP-SBJ (PRP we)) (VP (VBD asked) (SBAR (WHADVP (WRB why)) (S (NP-SBJ "
            "(PRP they)) (VP (VBD did)))))))",
            "But<rose:cc Stocks<rose:nsubj rose<:root fell<rose:conj slid<rose:conj and<asked:cc we<asked:nsubj "
            "asked<rose:conj why<did:mark they<did:nsubj did<asked:ccomp",
        ),
    ],
)
def test_sentences_worked_out_by_hand(text: str, expected: str) -> None:
    assert arcs(text) == expected.split()


def test_a_comparative_said_of_the_object_is_a_distant_completion() -> None:
    """Figure 3's pattern: from `made`, past the object, to `more difficult`."""
    (tree,) = parse_line(
        "(S (NP-SBJ (PRP It)) (VP (VBD made) (S (NP-SBJ (DT the) (NN vote)) (ADJP-PRD (RBR more) (JJ difficult)))))"
    )
    assert [(i.word, sorted(i.targets)) for i in completions([dependencies(tree)])] == [(1, [4, 5])]


LABELS = st.sampled_from(
    ["S", "SBAR", "VP", "NP", "PP", "ADJP", "ADVP", "QP", "PRN", "SQ", "X", "WHNP", "NP-SBJ", "NP-TMP", "ADJP-PRD"]
)
TAGS = st.sampled_from(
    ["NN", "NNS", "VBD", "VBZ", "MD", "DT", "JJ", "IN", "CC", ",", ".", "RB", "TO", "PRP", "POS", "CD", "WDT", TRACE]
)
WORDS = TAGS.map(lambda tag: Tree(tag, ("is" if tag == "VBZ" else "w",)))
TREES = st.recursive(WORDS, lambda inner: st.builds(Tree, LABELS, st.lists(inner, min_size=1, max_size=5).map(tuple)))


@given(TREES)
def test_any_tree_gives_each_word_one_governor_and_no_circle(tree: Tree) -> None:
    words = [word for tag, word in tree.tagged() if tag != TRACE]
    if not words:
        with pytest.raises(ValueError, match="no word but traces"):
            dependencies(tree)
        return
    found = dependencies(tree)
    assert list(found.english) == words
    assert [relation == "root" for relation in found.relations] == [head < 0 for head in found.heads]
    assert found.heads.count(-1) == 1
    for word in range(len(words)):
        for _ in words:
            word = found.heads[word] if word >= 0 else word
        assert word == -1


def test_a_tree_may_nest_deeper_than_python_calls() -> None:
    tree = Tree("NN", ("end",))
    for depth in range(5_000):
        tree = Tree("NP" if depth % 2 else "S", (tree,))
    assert dependencies(tree).heads == (-1,)


def test_a_word_without_a_tag_is_refused() -> None:
    with pytest.raises(ValueError, match="a word of NP has no tag"):
        dependencies(Tree("NP", (Tree("DT", ("the",)), "dog")))
