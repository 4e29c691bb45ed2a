"""Treebanks as aligned lines, and what is prepared of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from core.config import DataConfig
from core.data.corpora import get_pairs
from core.data.generated_corpus import GRAMMAR
from core.data.prepare import prepare
from core.data.tree_sequences import TAGGED, VINYALS, delinearise
from core.data.treebanks import BERKELEY_PARSES, GRAMMAR_TREES, WSJ
from core.data.treebanks.tree_pairs import TreePairs, source_line
from core.data.trees import Tree
from core.data.vocabulary import Vocabulary

DATA = DataConfig("grammar", "en", "trees", 400, "dev", "test")
_SPLITS = {"train": 300, "dev": 60, "test": 60}
BANK = replace(GRAMMAR_TREES, splits=_SPLITS, corpus=replace(GRAMMAR, splits=_SPLITS))


def test_a_pair_is_the_words_and_the_symbols_of_one_tree(tmp_path: Path) -> None:
    for form in (VINYALS, TAGGED):
        pairs = TreePairs.of(BANK, form)
        trees = BANK.read_trees("dev", tmp_path)
        read = pairs.read_pairs("dev", "en", "trees", tmp_path)
        for (source, target), tree in islice(zip(read, trees, strict=True), 50):
            tags, words = zip(*tree.tagged(), strict=True)
            assert source.split(" ") == list(words)
            assert delinearise(target.split(" "), words, form, tags) == tree


def test_e7_no_word_of_a_source_looks_like_a_symbol() -> None:
    assert source_line(["(", "NP)", "(NP", "[", "dog"]) == "-LRB- NP-RRB- -LRB-NP -LSB- dog"


def test_training_trees_are_a_share_then_more_then_silver(tmp_path: Path) -> None:
    silver = (Tree("TOP", (Tree("NP", (Tree("NN", ("dog",)),)),)),)
    whole = TreePairs.of(BANK, VINYALS)
    part = TreePairs.of(BANK, VINYALS, train_share=0.4, silver=silver)
    read = list(part.read_pairs("train", "en", "trees", tmp_path))
    assert len(read) == part.num_lines("train", ("en", "trees"), tmp_path) == 121
    assert read[:120] == list(islice(whole.read_pairs("train", "en", "trees", tmp_path), 120))
    assert read[120] == ("dog", "(TOP (NP XX )NP )TOP")
    assert part.num_lines("dev", ("en", "trees"), tmp_path) == 60
    assert len({corpus.fingerprint(tmp_path) for corpus in (whole, part, replace(part, silver=silver * 2))}) == 3


def test_recombined_trees_come_after_the_gold_ones_and_hold_their_parts(tmp_path: Path) -> None:
    pairs = TreePairs.of(BANK, VINYALS, train_share=0.4, recombined=2)
    trees = list(pairs.read_trees("train", tmp_path))
    gold, made = trees[:120], trees[120:]
    assert gold == list(islice(BANK.read_trees("train", tmp_path), 120))
    assert len(made) == 240 == pairs.num_lines("train", ("en", "trees"), tmp_path) - 120
    parts = {node for tree in gold for node in tree.subtrees() if sum(1 for _ in node.leaves()) <= 12}
    for number, tree in enumerate(made):
        origin = gold[number % 120]
        assert tree.label == "TOP"
        # Wherever a tree is not its origin, a whole constituent of another one stands under the same label.
        assert _only_swaps(origin, tree, parts)
    assert sum(tree not in gold for tree in made) > 200
    assert list(pairs.read_trees("train", tmp_path)) == trees  # the same ones always


def _only_swaps(origin: Tree | str, made: Tree | str, parts: set[Tree]) -> bool:
    if origin == made or (made in parts and not isinstance(origin, str) and origin.label == made.label):
        return True
    if isinstance(origin, str) or isinstance(made, str) or len(origin.children) != len(made.children):
        return False
    pairs = zip(origin.children, made.children, strict=True)
    return origin.label == made.label and all(_only_swaps(one, other, parts) for one, other in pairs)


def test_languages_are_words_and_trees_that_way_round() -> None:
    pairs = TreePairs.of(GRAMMAR_TREES, VINYALS)
    assert pairs.languages == ("en", "trees")
    pairs.require_pair("test", "en", "trees")
    with pytest.raises(ValueError, match="grammar has trees as a target alone; set src='en', tgt='trees'"):
        pairs.require_pair("test", "trees", "en")
    with pytest.raises(ValueError, match="grammar has no language 'de'"):
        pairs.require_pair("test", "de", "trees")


def test_b74_what_is_missing_is_said_of_both_treebanks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIAYN_DATA", raising=False)
    assert "wsj is not here; it needs a licence" in TreePairs.of(WSJ, VINYALS).obstacle(tmp_path)
    both = TreePairs.of(GRAMMAR_TREES, VINYALS, more=BERKELEY_PARSES)
    assert "berkeley-parses is not here; put files of trees" in both.obstacle(tmp_path)
    assert TreePairs.of(GRAMMAR_TREES, VINYALS).obstacle(tmp_path) is None


def test_a_share_of_a_treebank_of_unknown_size_is_refused(tmp_path: Path) -> None:
    pairs = TreePairs.of(BERKELEY_PARSES, VINYALS, train_share=0.5)
    with pytest.raises(ValueError, match="berkeley-parses does not say how many trees it has"):
        pairs.read_trees("train", tmp_path)


def test_the_target_tells_the_task_and_trees_have_switches_of_their_own(tmp_path: Path) -> None:
    assert DATA.task == "parsing"
    assert isinstance(get_pairs(DATA, tmp_path), TreePairs)
    assert get_pairs(replace(DATA, keep_tags=True), tmp_path).form == TAGGED
    translation = DataConfig("grammar", "en", "de", 400, "dev", "test")
    assert translation.task == "translation"
    assert not isinstance(get_pairs(translation, tmp_path), TreePairs)
    with pytest.raises(ValueError, match="keep_tags set, and tgt='de'; these are for trees: set tgt='trees'"):
        replace(translation, keep_tags=True)
    with pytest.raises(ValueError, match="corpus wsj is for parsing; name one for translation"):
        get_pairs(replace(translation, corpus="wsj"), tmp_path)
    with pytest.raises(ValueError, match="no treebank 'multi30k'"):
        get_pairs(replace(DATA, corpus="multi30k"), tmp_path)


def test_symbols_are_pieces_and_lines_come_back(few_trees: str, tmp_path: Path) -> None:
    data = prepare(replace(DATA, corpus=few_trees), tmp_path)
    split = data.split("dev")
    assert (data.vocab_size, len(split)) == (400, 30)
    vocabulary = data.vocabulary
    symbols = "(TOP (S (NP XX XX )NP (VP XX )VP XX )S )TOP"
    assert vocabulary.pieces(vocabulary.encode_batch([symbols])[0]) == [f"▁{symbol}" for symbol in symbols.split()]
    for side, lines in ((split.src, split.src_lines), (split.tgt, split.tgt_lines)):
        assert vocabulary.decode_batch([side[i] for i in range(30)]) == lines[:30]


def test_words_between_blanks_are_cut_at_blanks_alone() -> None:
    lines = ["(NP a-b )NP", "it's 3.5 (NP", " two  blanks "] * 20
    tokenised = Vocabulary.learn(lines, 300, tokenised=True)
    assert tokenised.pieces(tokenised.encode_batch(["(NP it's 3.5"])[0]) == ["▁(NP", "▁it's", "▁3.5"]
    assert tokenised.decode_batch(tokenised.encode_batch(lines)) == lines
    plain = Vocabulary.learn(lines, 300)
    assert "▁(NP" not in plain.pieces(plain.encode_batch(["(NP"])[0])
