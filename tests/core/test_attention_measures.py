"""Measures of heads on heads that are made up: what is found is what was put in, and nulls find nothing."""

from __future__ import annotations

import numpy as np
import pytest

from core.attention_measures import (
    ParsedAttention,
    anaphora,
    completions,
    divergence,
    entropy,
    head_roles,
    long_distance,
    mean_over,
    pronouns,
    relation_arcs,
    total_variation,
)
from core.data.grammar import Example, generate_splits
from core.data.trees import parse_line

MAKES = Example(
    english=("The", "law", "makes", "the", "voting", "process", "more", "difficult", "."),
    german=("x",),
    french=("x",),
    tree=parse_line(
        "(S (NP (DT The) (NN law)) (VP (VBZ makes) (S (NP (DT the) (NN voting) (NN process)) (ADJP (RBR more) "
        "(JJ difficult)))) (. .))"
    )[0],
    heads=(1, 2, -1, 5, 5, 2, 7, 2, 2),
    relations=("det", "nsubj", "root", "det", "amod", "obj", "advmod", "xcomp", "punct"),
    antecedents=(),
)


@pytest.fixture(scope="module")
def examples() -> list[Example]:
    return generate_splits({"attention": 300}, 11)["attention"]


def noise(num_heads: int, num_words: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.ones(num_words), (num_heads, num_words)).astype(np.float32)


def sharp(num_words: int, targets: dict[int, int]) -> np.ndarray:
    """One head that gives 0.9 to the targets of some words, and spreads evenly from the others."""
    weights = np.full((num_words, num_words), 1 / num_words, dtype=np.float32)
    for word, target in targets.items():
        weights[word] = 0.1 / (num_words - 1)
        weights[word, target] = 0.9
    return weights


def parsed(examples: list[Example], head) -> list[ParsedAttention]:
    """One layer of four heads: the third is `head(example)`, the others are noise."""
    made = []
    for seed, example in enumerate(examples):
        weights = noise(4, len(example.english) + 1, seed)
        weights[2] = head(example)
        made.append(ParsedAttention(weights[None], example))
    return made


def test_completions_are_distant_and_a_comparative_is_taken_whole() -> None:
    """As in Figure 3: `makes` is completed by its object, 3 words away, and by `more difficult`, 5 words away."""
    assert [(i.word, sorted(i.targets), i.distance) for i in completions([MAKES])] == [(2, [5], 3), (2, [6, 7], 5)]


def test_pronouns_look_at_their_antecedents(examples: list[Example]) -> None:
    found = pronouns(examples)
    assert len(found) == sum(len(example.antecedents) for example in examples) > 50
    words = {examples[instance.sentence].english[instance.word].lower() for instance in found}
    assert words <= {"he", "she", "it", "they", "him", "her", "them", "his", "its", "their"}


def test_weights_of_other_words_are_refused(examples: list[Example]) -> None:
    with pytest.raises(ValueError, match="weights are of 4 words and the analysis of"):
        ParsedAttention(noise(2, 4, 1)[None], examples[0])


def test_head_that_resolves_pronouns_is_found_and_beats_its_nulls(examples: list[Example]) -> None:
    found = anaphora(parsed(examples, lambda e: sharp(len(e.english) + 1, dict(e.antecedents))), 0)
    assert found["antecedent_share"].value == pytest.approx(0.9, abs=1e-6)
    assert found["antecedent_hits"].value == 1.0
    assert found["antecedent_over_shuffled"].interval.low > 0.5
    assert found["antecedent_over_offset"].interval.low > 0.3
    assert found["antecedent_sharpness"].value > 1.0
    assert found["antecedent_entropy"].value < 1.5


def test_head_of_a_fixed_offset_is_no_better_than_the_offset(examples: list[Example]) -> None:
    def always_three_back(example: Example) -> np.ndarray:
        return sharp(len(example.english) + 1, {word: word - 3 for word in range(3, len(example.english))})

    found = anaphora(parsed(examples, always_three_back), 0)
    assert found["antecedent_over_offset"].value < 0.05  # the noise beside it may be right now and then


def test_noise_finds_nothing(examples: list[Example]) -> None:
    seeds = {id(example): 1_000 + seed for seed, example in enumerate(examples)}
    sentences = parsed(examples, lambda e: noise(1, len(e.english) + 1, seeds[id(e)])[0])
    assert anaphora(sentences, 0)["antecedent_over_shuffled"].interval.low < 0.02
    far = long_distance(sentences, 0)
    assert abs(far["far_heads_over_shuffled"].value) < 0.25
    assert far["far_head_over_offset"].value < 0
    assert not any(role.aligned for role in head_roles(sentences, [1]))


def test_head_at_the_completion_is_counted_by_distance(examples: list[Example]) -> None:
    def completes(example: Example) -> np.ndarray:
        instances = completions([example])
        return sharp(len(example.english) + 1, {i.word: max(i.targets) for i in instances})

    sentences = parsed(examples, completes)
    found = long_distance(sentences, 0)
    # A verb with two completions can look at one of them only.
    assert 0.8 < found["far_best_head"].value <= 1.0
    assert found["far_heads"].value > 0.8
    assert found["far_heads_over_shuffled"].interval.low > 0.5
    counted = found["far_heads"].details["by_distance"]
    assert sum(at["verbs"] for at in counted.values()) == found["far_heads"].num_instances
    assert min(map(int, counted)) == 3


def test_head_along_one_relation_is_named(examples: list[Example]) -> None:
    def subject_to_verb(example: Example) -> np.ndarray:
        arcs = enumerate(zip(example.heads, example.relations, strict=True))
        return sharp(len(example.english) + 1, {word: head for word, (head, name) in arcs if name == "nsubj"})

    roles = head_roles(parsed(examples, subject_to_verb), [2])
    (aligned,) = [role for role in roles if role.aligned]
    assert (aligned.layer, aligned.head, aligned.relation) == (2, 3, "nsubj to its governor")
    assert aligned.accuracy == 1.0 > aligned.offset_accuracy
    assert not any(role.aligned for role in head_roles(parsed(examples, subject_to_verb), [2], shuffled=True))


def test_relations_go_both_ways_and_leave_out_marks(examples: list[Example]) -> None:
    names = {arcs.name for arcs in relation_arcs(examples)}
    assert {"nsubj to its governor", "governor to its nsubj"} <= names
    assert not any("punct" in name or "root" in name for name in names)


def test_entropy_and_total_variation_by_hand() -> None:
    assert entropy(np.array([0.25] * 4)) == pytest.approx(2.0)
    assert entropy(np.array([1.0, 0.0])) == pytest.approx(0.0)
    heads = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]])
    assert total_variation(heads).ravel().tolist() == [1.0, 0.5, 0.5]


def test_equal_heads_do_not_diverge_and_one_head_differs_from_none(examples: list[Example]) -> None:
    same = []
    for seed, example in enumerate(examples):
        one = noise(1, len(example.english) + 1, seed)
        same.append(ParsedAttention(np.concatenate([one, one])[None], example))
    assert divergence(same, 0)["mean_head_distance"].value == 0.0
    single = [ParsedAttention(each.weights[:, :1], each.example) for each in same]
    measure = divergence(single, 0)["mean_head_distance"]
    assert measure.value is None
    assert measure.details["reason"]


def test_the_mean_is_over_instances_and_the_interval_over_sentences() -> None:
    measure = mean_over([1.0, 0.0, 0.0, 1.0] * 10, [s for s in range(20) for _ in (0, 1)], 25)
    assert measure.value == 0.5
    assert measure.interval.low == measure.interval.high == 0.5  # every sentence has one of each
    apart = mean_over([1.0, 1.0, 0.0, 0.0] * 10, [s for s in range(20) for _ in (0, 1)], 25)
    assert apart.interval.low < 0.4 < 0.6 < apart.interval.high
    assert mean_over([], [], 5).value is None
