"""What heads do, as numbers over many sentences: the measures behind Figures 3 to 5, each with its nulls.

They were fixed before anything was run. All are of encoder self-attention by words: attention to a word is the sum over
its pieces, attention from a word the mean over its pieces; the end symbol is a word like any other. A head's *target*
from a word is the word that gets most of its weight, itself and the end symbol not excepted.

- **Long distance** (Figure 3). From a verb to the word that completes it: its object, complement clause or particle, or
  an adjective said of the object (`make ... more difficult`), at least `DISTANT` words to its right. Measured: how many
  of the layer's heads have their target in it.
- **Antecedent** (Figure 4). From a pronoun to the noun that it stands for. Measured: the weight of the layer's best
  head; how much sharper that head's attention is at pronouns than at the other words of the same sentences, in bits
  of entropy.
- **Different tasks** (Figure 5). Half the sum of absolute differences between two heads' weights from a word (total
  variation), the mean over words and over pairs of heads of the layer. And how many heads of the encoder look along one
  dependency relation, in one direction, better than any fixed offset does.

Best heads, relations and offsets are chosen on one half of the sentences (even or odd) and measured on the other, both
ways, so that no choice profits from what it is measured on (pitfall F7).

Nulls. *Shuffled targets*: the distance of another instance's target, all of them with equal weight as far as they lie
in the sentence and are not right by chance. *Offset only*: a head that always looks the same number of words away.
*Untrained*: the same measures of the model before its first update.

Shapes: H heads, W words of a sentence, n instances (a verb or pronoun with its target).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.data.dependencies import Analysed
from core.scoring.bootstrap import LEAST_SENTENCES, SAMPLES, SEED, Interval, resample

COMPLETIONS = frozenset({"obj", "xcomp", "ccomp", "compound:prt"})
DISTANT = 3
# Of a relation, in each half of the sentences: fewer say nothing about a head.
LEAST_ARCS = 30
# How far a head that looks at a fixed offset may look.
_MOST_OFFSET = 12
# One-sided 2.5%: by how many standard errors a head must beat the best offset.
_SURE = 1.96

Weights = NDArray[np.float32]


@dataclass(frozen=True)
class ParsedAttention:
    """One sentence: encoder weights by words, (layers, H, W, W), with the gold analysis of all but the end symbol.

    Raises ValueError where the two are not of the same words.
    """

    weights: Weights
    example: Analysed

    def __post_init__(self) -> None:
        num_words = len(self.example.english) + 1
        if self.weights.shape[2:] != (num_words, num_words):
            raise ValueError(
                f"weights are of {self.weights.shape[2]} words and the analysis of {num_words - 1} and the end symbol: "
                f"{' '.join(self.example.english)}"
            )


@dataclass(frozen=True)
class Measure:
    """A mean over instances, its value in resampled sets of sentences, and what else is worth telling.

    `replicates`: (samples,), the same draws of sentences for every measure; empty where there are too few sentences.
    """

    value: float | None
    num_instances: int
    replicates: NDArray[np.float64] = field(repr=False)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def interval(self) -> Interval | None:
        """The middle 95% over resampled sentences."""
        return Interval.of(self.replicates) if len(self.replicates) else None


def mean_over(values: Sequence[float], sentences: Sequence[int], num_sentences: int, **details: Any) -> Measure:
    """The mean of values that belong to sentences, with the sentences resampled, since these are what is drawn."""
    counts = np.zeros((num_sentences, 2))
    np.add.at(counts, np.asarray(sentences, dtype=int), np.stack([values, np.ones(len(values))], 1).reshape(-1, 2))
    if not len(values):
        return Measure(None, 0, np.empty(0), {"reason": "no sentence has an instance"} | details)
    replicates = np.empty(0)
    if np.count_nonzero(counts[:, 1]) >= LEAST_SENTENCES:
        totals = resample(counts, SAMPLES, SEED)
        # A draw without any instance is possible where few sentences have one, and says nothing.
        replicates = totals[:, 0] / np.maximum(totals[:, 1], 1)
    return Measure(float(np.mean(values)), len(values), replicates, details)


# Instances: a word, what it should look at, and what it could have looked at instead ----------------------------------


@dataclass(frozen=True)
class Instance:
    """A word of a sentence that should look at one of `targets`; `distance` in words, to the right if positive."""

    sentence: int
    word: int
    targets: frozenset[int]
    distance: int


def completions(examples: Sequence[Analysed]) -> list[Instance]:
    """Verbs with what completes them at least `DISTANT` words to the right; a comparative's `more` belongs to it."""
    found = []
    for number, example in enumerate(examples):
        for word, (head, relation) in enumerate(zip(example.heads, example.relations, strict=True)):
            if relation in COMPLETIONS and word - head >= DISTANT and example.tags[head].startswith("V"):
                targets = {word}
                if example.english[word - 1].lower() == "more" and example.heads[word - 1] == word:
                    targets.add(word - 1)
                found.append(Instance(number, head, frozenset(targets), word - head))
    return found


def pronouns(examples: Sequence[Analysed]) -> list[Instance]:
    """Pronouns of the third person with the noun that they stand for."""
    return [
        Instance(number, pronoun, frozenset({noun}), noun - pronoun)
        for number, example in enumerate(examples)
        for pronoun, noun in example.antecedents
    ]


@dataclass(frozen=True)
class _Looked:
    """What the heads of one layer did at instances.

    `weight` and `hit`: (n, H), the weight on the targets, and whether the head's target is one of them; `null_weight`
    and `null_hit` the same for shuffled targets; `offset_hit`: (n, offsets) whether a fixed offset finds a target.
    """

    instances: Sequence[Instance]
    weight: NDArray[np.float64]
    hit: NDArray[np.float64]
    null_weight: NDArray[np.float64]
    null_hit: NDArray[np.float64]
    offset_hit: NDArray[np.float64]

    @property
    def sentences(self) -> NDArray[np.int64]:
        return np.array([instance.sentence for instance in self.instances], dtype=int)

    def held_out(self, quality: NDArray[np.float64], measured: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,): `measured` (n, choices) of the choice that has the best mean `quality` in the other half."""
        values = np.empty(len(self.instances))
        for half in (0, 1):
            mine = self.sentences % 2 == half
            if mine.any():
                others = quality[~mine] if (~mine).any() else quality
                values[mine] = measured[mine, int(others.mean(axis=0).argmax())]
        return values


_OFFSETS = np.array([offset for offset in range(-_MOST_OFFSET, _MOST_OFFSET + 1) if offset])


def _look(sentences: Sequence[ParsedAttention], layer: int, instances: Sequence[Instance]) -> _Looked:
    """What the heads of the layer (a place in the weights) did at instances."""
    num_heads = sentences[0].weights.shape[1]
    pool = Counter(instance.distance for instance in instances)
    weight, hit, null_weight, null_hit = (np.empty((len(instances), num_heads)) for _ in range(4))
    offset_hit = np.empty((len(instances), len(_OFFSETS)))
    for place, instance in enumerate(instances):
        row = sentences[instance.sentence].weights[layer, :, instance.word]  # (H, W)
        targets = sorted(instance.targets)
        weight[place] = row[:, targets].sum(axis=1)
        at_most = row.argmax(axis=1)
        hit[place] = np.isin(at_most, targets)
        offset_hit[place] = np.isin(instance.word + _OFFSETS, targets)
        chances = np.zeros(row.shape[1])
        for distance, number in pool.items():
            other = instance.word + distance
            if 0 <= other < row.shape[1] - 1 and other not in instance.targets:
                chances[other] += number
        # Where no other distance fits into the sentence, any other word will do.
        if not chances.any():
            chances[:-1] = 1
            chances[[*targets, instance.word]] = 0
        chances /= max(chances.sum(), 1)
        null_weight[place] = row @ chances * len(targets)
        null_hit[place] = chances[at_most] * len(targets)
    return _Looked(instances, weight, hit, null_weight, null_hit, offset_hit)


# The measures ---------------------------------------------------------------------------------------------------------


def long_distance(sentences: Sequence[ParsedAttention], layer: int) -> dict[str, Measure]:
    """Figure 3 by name: heads that look at the distant completion, and how much more they are than by the nulls."""
    looked = _look(sentences, layer, completions([sentence.example for sentence in sentences]))
    where, total = looked.sentences, len(sentences)
    by_distance = defaultdict(list)
    for instance, hits in zip(looked.instances, looked.hit.sum(axis=1), strict=True):
        by_distance[instance.distance].append(float(hits))
    best, offset = looked.held_out(looked.hit, looked.hit), looked.held_out(looked.offset_hit, looked.offset_hit)
    return {
        "far_heads": mean_over(
            looked.hit.sum(axis=1), where, total,
            by_distance={str(d): {"heads": float(np.mean(v)), "verbs": len(v)} for d, v in sorted(by_distance.items())},
        ),
        "far_heads_shuffled": mean_over(looked.null_hit.sum(axis=1), where, total),
        "far_heads_over_shuffled": mean_over((looked.hit - looked.null_hit).sum(axis=1), where, total),
        "far_best_head": mean_over(best, where, total),
        "far_best_offset": mean_over(offset, where, total),
        "far_head_over_offset": mean_over(best - offset, where, total),
    }  # fmt: skip


def anaphora(sentences: Sequence[ParsedAttention], layer: int) -> dict[str, Measure]:
    """Figure 4 by name: weight on the antecedent by the best head, how sharp it is, and the nulls."""
    looked = _look(sentences, layer, pronouns([sentence.example for sentence in sentences]))
    where, total = looked.sentences, len(sentences)
    share = looked.held_out(looked.weight, looked.weight)
    shuffled = looked.held_out(looked.null_weight, looked.null_weight)
    hit, offset = looked.held_out(looked.hit, looked.hit), looked.held_out(looked.offset_hit, looked.offset_hit)
    here, elsewhere = _entropies(sentences, layer, looked.instances)
    return {
        "antecedent_share": mean_over(share, where, total),
        "antecedent_shuffled": mean_over(shuffled, where, total),
        "antecedent_over_shuffled": mean_over(share - shuffled, where, total),
        "antecedent_hits": mean_over(hit, where, total),
        "antecedent_offset": mean_over(offset, where, total),
        "antecedent_over_offset": mean_over(hit - offset, where, total),
        "antecedent_entropy": mean_over(looked.held_out(looked.weight, here), where, total),
        "antecedent_sharpness": mean_over(looked.held_out(looked.weight, elsewhere - here), where, total),
    }


def _entropies(
    sentences: Sequence[ParsedAttention], layer: int, instances: Sequence[Instance]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(n, H) bits: at the word of each instance, and the mean over the other words of its sentence."""
    here, elsewhere = [], []
    for instance in instances:
        bits = entropy(sentences[instance.sentence].weights[layer])[:, :-1]  # (H, W - 1): the end symbol is no word
        here.append(bits[:, instance.word])
        elsewhere.append(np.delete(bits, instance.word, axis=1).mean(axis=1))
    shape = (len(instances), sentences[0].weights.shape[1])
    return np.reshape(here, shape), np.reshape(elsewhere, shape)


def entropy(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """(..., W) -> (...): bits; 0 where one word has all the weight."""
    weights = np.asarray(weights, dtype=np.float64)
    return -(weights * np.log2(np.maximum(weights, 1e-30))).sum(axis=-1)


def total_variation(weights: NDArray[np.floating]) -> NDArray[np.float64]:
    """(H, W, W) -> (pairs of heads, W): by how much of their weight two heads differ at each word, 0 to 1."""
    pairs = combinations(range(len(weights)), 2)
    halves = [0.5 * np.abs(weights[a] - weights[b]).sum(axis=-1) for a, b in pairs]
    return np.array(halves, dtype=np.float64).reshape(-1, weights.shape[1])


def divergence(sentences: Sequence[ParsedAttention], layer: int) -> dict[str, Measure]:
    """Figure 5: how far the heads of a layer differ, the mean over words and pairs of heads."""
    if sentences[0].weights.shape[1] < 2:
        return {"mean_head_distance": Measure(None, 0, np.empty(0), {"reason": "one head differs from none"})}
    values = [total_variation(sentence.weights[layer])[:, :-1].mean() for sentence in sentences]
    return {"mean_head_distance": mean_over(values, range(len(sentences)), len(sentences))}


# Relations ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Arcs:
    """All arcs of one relation in one direction: `looker` looks along it at any of `targets`."""

    relation: str
    to_governor: bool
    instances: Sequence[Instance]

    @property
    def name(self) -> str:
        return f"{self.relation} to its governor" if self.to_governor else f"governor to its {self.relation}"


def relation_arcs(examples: Sequence[Analysed]) -> list[_Arcs]:
    """Every dependency relation between words, in both directions, that both halves have `LEAST_ARCS` of."""
    to_governor, to_dependent = defaultdict(list), defaultdict(list)
    for number, example in enumerate(examples):
        dependents = defaultdict(set)
        for word, (head, relation) in enumerate(zip(example.heads, example.relations, strict=True)):
            if head < 0 or relation == "punct":
                continue
            to_governor[relation].append(Instance(number, word, frozenset({head}), head - word))
            dependents[head, relation].add(word)
        for (head, relation), words in dependents.items():
            to_dependent[relation].append(Instance(number, head, frozenset(words), min(words) - head))
    found = []
    for direction, table in ((True, to_governor), (False, to_dependent)):
        for relation, instances in sorted(table.items()):
            halves = Counter(instance.sentence % 2 for instance in instances)
            if min(halves[0], halves[1]) >= LEAST_ARCS:
                found.append(_Arcs(relation, direction, instances))
    return found


@dataclass(frozen=True)
class HeadRole:
    """What one head of the encoder does; layers and heads count from 1.

    `relation` is the one that it looks along best, compared with the best fixed offset, chosen on one half of the
    sentences; `accuracy` and `offset_accuracy` are of the other half, and `aligned` says whether the head is better
    there by more than chance (2.5%, one-sided) in both exchanges of the halves. `entropy` in bits; the rest are mean
    weights: on the word itself, its neighbours, the end symbol and punctuation marks.
    """

    layer: int
    head: int
    relation: str
    accuracy: float
    offset_accuracy: float
    aligned: bool
    entropy: float
    to_itself: float
    to_previous: float
    to_next: float
    to_end: float
    to_punctuation: float


def head_roles(sentences: Sequence[ParsedAttention], layers: Sequence[int], shuffled: bool = False) -> list[HeadRole]:
    """What each head of these layers does; `layers` are the numbers of the layers in the weights.

    `shuffled` gives each word of a relation the distance of another one's target in its place, as a null.
    """
    examples = [sentence.example for sentence in sentences]
    arcs = relation_arcs(examples)
    targets = [sentence.weights.argmax(axis=-1) for sentence in sentences]  # (layers, H, W) each
    gains, own, fixed = [], [], []  # by relation and half: (layers, H) and numbers
    for each in arcs:
        instances = _shuffle(each.instances, examples) if shuffled else each.instances
        half = np.array([instance.sentence % 2 for instance in instances])
        hit = np.stack([_hits(targets[i.sentence][:, :, i.word], i.targets) for i in instances])  # (n, layers, H)
        offset = np.stack([np.isin(i.word + _OFFSETS, sorted(i.targets)) for i in instances])  # (n, offsets)
        # The best offset of the very half that is measured: in favour of the null.
        best = [offset[half == h][:, offset[half == h].mean(axis=0).argmax()] for h in (0, 1)]
        differences = [hit[half == h] - best[h][:, None, None].astype(float) for h in (0, 1)]
        gains.append([(d.mean(axis=0), d.std(axis=0) / np.sqrt(len(d))) for d in differences])
        own.append([hit[half == h].mean(axis=0) for h in (0, 1)])
        fixed.append([b.mean() for b in best])
    means = _mean_weights(sentences)
    roles = []
    for place, layer in enumerate(layers):
        for head in range(sentences[0].weights.shape[1]):
            chosen = [_argmax([gain[h][0][place, head] for gain in gains]) for h in (0, 1)]
            sure = [
                chosen[1 - h] is not None
                and gains[chosen[1 - h]][h][0][place, head] > _SURE * gains[chosen[1 - h]][h][1][place, head]
                and gains[chosen[1 - h]][h][0][place, head] > 0
                for h in (0, 1)
            ]
            first = chosen[0]
            roles.append(
                HeadRole(
                    layer, head + 1,
                    arcs[first].name if first is not None else "",
                    float(own[first][1][place, head]) if first is not None else 0.0,
                    float(fixed[first][1]) if first is not None else 0.0,
                    all(sure) and chosen[0] == chosen[1],
                    *(float(mean[place, head]) for mean in means),
                )
            )  # fmt: skip
    return roles


def _argmax(values: Sequence[float]) -> int | None:
    return int(np.argmax(values)) if len(values) else None


def _hits(at_most: NDArray[np.int64], targets: frozenset[int]) -> NDArray[np.float64]:
    return np.isin(at_most, sorted(targets)).astype(float)


def _shuffle(instances: Sequence[Instance], examples: Sequence[Analysed]) -> list[Instance]:
    """Each word with the distance of another instance's target, drawn among those that fit and are not right."""
    draw = np.random.default_rng(SEED)
    distances = np.array([instance.distance for instance in instances])
    found = []
    for instance in instances:
        others = instance.word + distances
        fits = (others >= 0) & (others < len(examples[instance.sentence].english))
        fits &= ~np.isin(others, sorted(instance.targets))
        if fits.any():
            other = int(draw.choice(others[fits]))
            found.append(Instance(instance.sentence, instance.word, frozenset({other}), other - instance.word))
        else:  # a sentence with no other place: anything but the target
            words = [w for w in range(len(examples[instance.sentence].english)) if w not in instance.targets]
            other = int(draw.choice(words))
            found.append(Instance(instance.sentence, instance.word, frozenset({other}), other - instance.word))
    return found


def _mean_weights(sentences: Sequence[ParsedAttention]) -> tuple[NDArray[np.float64], ...]:
    """(layers, H) each: entropy, and the weight on the word itself, the one before, the one after, end, punctuation."""
    sums = np.zeros((6, *sentences[0].weights.shape[:2]))
    num_words = 0
    for sentence in sentences:
        weights = sentence.weights[:, :, :-1]  # from words, to words and the end symbol
        marks = [word for word, relation in enumerate(sentence.example.relations) if relation == "punct"]
        sums += np.stack(
            [
                entropy(weights).sum(axis=-1),
                np.trace(weights, axis1=2, axis2=3),
                np.trace(weights, offset=-1, axis1=2, axis2=3),
                np.trace(weights, offset=1, axis1=2, axis2=3),
                weights[..., -1].sum(axis=-1),
                weights[..., marks].sum(axis=(-1, -2)),
            ]
        )
        num_words += weights.shape[2]
    return tuple(sums / num_words)
