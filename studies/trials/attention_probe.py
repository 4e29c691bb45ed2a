"""Figures 3 to 5 measured: a finished run's attention on many sentences with a gold analysis, and on the paper's own.

The sentences are a treebank's, analysed by rules (`core.data.dependencies`), or English ones of the grammar corpus that
no split holds: no run on translations has seen them. They need not be of a run's domain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from core.attention_measures import (
    HeadRole,
    Measure,
    ParsedAttention,
    anaphora,
    completions,
    divergence,
    head_roles,
    long_distance,
    pronouns,
    total_variation,
)
from core.data.corpora import get_treebank
from core.data.corpus import TRAIN_SPLIT
from core.data.dependencies import Analysed, Dependencies, dependencies
from core.data.grammar import DEFAULT_SEED, DEFAULT_SIZES, LANGUAGES, Example, detokenise, generate_splits
from core.scoring.bootstrap import LEVEL, SAMPLES, SEED
from core.sequence_model import num_parameters
from core.transformer import Transformer
from results.attention_file import KINDS, SentenceAttention, TokenSide, merge_words, save
from results.records import RunRecord, RunResult, Score
from results.run_folder import RunFolder
from studies.figures import FIGURES, LAW_WORDS, MAKING_WORDS, PAPER_SENTENCES
from studies.runs import Workspace
from studies.trained.attention import Reading, figures_layer, own_translations, read_sentences
from studies.trained.loading import TrainedRun, load_finished
from studies.trials.phases import Phases
from studies.work import AttentionProbe

NUM_SENTENCES = 1_000
# Of these, so many are kept with their weights, to be looked at.
NUM_KEPT = 18
ATTENTION_FILE = "attention.npz"
# Sentences whose weights are held at one time, beside the encoder's states.
_AT_ONCE = 250
# Of a treebank, sentences with so many words: shorter ones are headings, longer ones take memory by their square.
_NUM_WORDS = range(5, 41)
_QUOTES = {"``": '"', "''": '"'}
_CLOSING = frozenset(".,;:?!")


@dataclass(frozen=True)
class ProbeSentence:
    """A sentence to be measured on: as it is written, with its analysis, and in other languages where it has them."""

    text: str
    analysis: Analysed
    translations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ProbeSet:
    """The sentences that a probe measures on, and their name as a score's data set has it."""

    name: str
    sentences: Sequence[ProbeSentence]

    @property
    def dataset(self) -> str:
        """What scores on it are of."""
        return f"{self.name}/en"


@lru_cache(maxsize=1)
def probe_examples() -> list[Example]:
    """Sentences that are in no split of the corpus; the same ones always."""
    return generate_splits(DEFAULT_SIZES | {"attention": NUM_SENTENCES}, DEFAULT_SEED)["attention"]


def probe_set(probe: AttentionProbe, cache_dir: Path) -> ProbeSet:
    """The sentences that a probe is to look at, the same ones always.

    Raises:
        DataError: the treebank is not here, or damaged.
    """
    if probe.treebank is None:
        sentences = [
            ProbeSentence(example.text("en"), example, {language: example.text(language) for language in LANGUAGES})
            for example in probe_examples()
        ]
        return ProbeSet("grammar/attention", sentences)
    trees = get_treebank(probe.treebank).read_annotated(TRAIN_SPLIT, cache_dir)
    analysed = (_written(dependencies(tree)) for tree in trees)
    fit = islice((each for each in analysed if len(each.english) in _NUM_WORDS), NUM_SENTENCES)
    return ProbeSet(f"{probe.treebank}/{TRAIN_SPLIT}", [ProbeSentence(_text(each.english), each) for each in fit])


def _written(analysis: Dependencies) -> Dependencies:
    """With the quotation marks that people write."""
    return replace(analysis, english=tuple(_QUOTES.get(word, word) for word in analysis.english))


def _text(words: Sequence[str]) -> str:
    """A treebank's words as a line in which each is still told apart: a mark stands at a word of letters or digits, and
    what is split off another word, such as n't, stays so.
    """
    text = words[0]
    for word in words[1:]:
        attached = text[-1].isalnum() and (word in _CLOSING or (word[0] == "'" and len(word) > 1))
        text += word if attached else f" {word}"
    return text


def measure(
    probe: AttentionProbe, record: RunRecord, folder: RunFolder, workspace: Workspace, device: torch.device
) -> RunResult:
    """Carry out one probe: its scores, and its sentences' weights as a file of its folder.

    Raises:
        ValueError: the run to be measured is not done, or reads another language.
        DataError: the treebank is not here, or damaged.
    """
    phase = Phases()
    with phase("setup"):
        run = _measured_run(probe, record, workspace)
        run.model.to(device)
        measured = probe_set(probe, workspace.data)
    with phase("measure"):
        scores = list(_scores(probe.figure, run, measured))
    with phase("keep"):
        path = folder.path / ATTENTION_FILE
        kept = _kept_sentences(probe, run, measured)
        save(path, kept, {"figure": probe.figure, "measured": record.config["work"]["run"], "trained": probe.trained})
    return RunResult(
        seconds=sum(phase.seconds.values()),
        params=num_parameters(run.model),
        phases=phase.seconds,
        scores=tuple(scores),
        artifacts=(folder.artifact("attention", path),),
    )


def _measured_run(probe: AttentionProbe, record: RunRecord, workspace: Workspace) -> TrainedRun:
    run = load_finished(record, workspace)
    if run.config.data.src != "en":
        raise ValueError(f"the figures are about English sources, and {run.record.run} reads {run.config.data.src}")
    if probe.trained:
        return run
    torch.manual_seed(record.seed)  # as the trainer starts, so it is this very run before its first update
    return replace(run, model=Transformer(run.config.model).eval())


# Scores ---------------------------------------------------------------------------------------------------------------


def _scores(figure: int, run: TrainedRun, measured: ProbeSet):
    num_layers = run.config.model.num_layers
    layer = figures_layer(num_layers)
    layers = list(range(1, num_layers + 1)) if figure == 5 else [layer]
    parsed = _parse(run, measured.sentences, layers)
    place = layers.index(layer)
    signature = f"attention:encoder|layer:{layer} of {num_layers}|words:to-sum,from-mean"
    measures = {3: long_distance, 4: anaphora, 5: divergence}[figure](parsed, place)
    for name, found in measures.items():
        yield _score(name, found, signature, measured)
    if figure == 5:
        signature_of_all = f"attention:encoder|layers:{layers[0]}-{layers[-1]}|words:to-sum,from-mean"
        yield from _role_scores(parsed, layers, signature_of_all, measured)
    (own,) = read_sentences(run.model, run.vocabulary, [_paper_reading(run, figure)], [layer], ["encoder"])
    for name, value, details in _paper_measures(figure, own, layer):
        yield Score(name, value, signature, f"paper/figure{figure}/en", 1, details)


def _parse(run: TrainedRun, sentences: Sequence[ProbeSentence], layers: Sequence[int]) -> list[ParsedAttention]:
    parsed = []
    pieces = run.vocabulary.encode_batch([sentence.text for sentence in sentences])
    for start in range(0, len(sentences), _AT_ONCE):
        some = sentences[start : start + _AT_ONCE]
        readings = [Reading(str(i), each.text, pieces[i]) for i, each in enumerate(some, start)]
        for each, read in zip(
            some, read_sentences(run.model, run.vocabulary, readings, layers, ["encoder"]), strict=True
        ):
            words = words_of_pieces(read.sides["source"], each.analysis.english)
            weights = np.stack([merge_words(read.layer("encoder", layer), words, words) for layer in layers])
            parsed.append(ParsedAttention(weights, each.analysis))
    return parsed


def words_of_pieces(side: TokenSide, words: Sequence[str]) -> list[int]:
    """For each piece of a sentence the number of the analysis's word that it belongs to; the end symbol is the last.

    A word of the analysis may be several of the pieces' words, as `U.S.` is, and never a part of one.

    Raises:
        ValueError: the two are not the same text.
    """
    numbers, place, text = [], 0, ""
    for label in side.word_labels[:-1]:
        numbers.append(place)
        text += label
        if place == len(words) or not words[place].startswith(text):
            raise ValueError(f"the pieces read {' '.join(side.word_labels[:-1])}, and the analysis {' '.join(words)}")
        if text == words[place]:
            place, text = place + 1, ""
    if place < len(words):
        raise ValueError(f"the pieces end before {' '.join(words[place:])}")
    numbers.append(place)
    return [numbers[word] for word in side.words]


def _score(name: str, measure: Measure, signature: str, measured: ProbeSet) -> Score:
    details = {"instances": measure.num_instances, "test_set_interval": None, **measure.details}
    if measure.interval is not None:
        details["test_set_interval"] = {
            **asdict(measure.interval),
            **{"level": LEVEL, "samples": SAMPLES, "seed": SEED},
            "replicates": [round(value, 5) for value in measure.replicates.tolist()],
        }
    return Score(name, measure.value, signature, measured.dataset, len(measured.sentences), details)


def _role_scores(parsed: Sequence[ParsedAttention], layers: Sequence[int], signature: str, measured: ProbeSet):
    roles, null = (head_roles(parsed, layers, shuffled) for shuffled in (False, True))
    aligned, by_chance = _aligned(roles), _aligned(null)
    relations = sorted({role.relation for role in aligned})
    for name, value, details in (
        ("relation_heads", len(aligned), {"roles": [asdict(role) for role in roles]}),
        ("relation_heads_over_shuffled", len(aligned) - len(by_chance), {"shuffled": len(by_chance)}),
        ("relations_covered", len(relations), {"relations": relations}),
    ):
        more = {"heads_looked_at": len(roles)} | details
        yield Score(name, value, signature, measured.dataset, len(measured.sentences), more)


def _aligned(roles: Sequence[HeadRole]) -> list[HeadRole]:
    return [role for role in roles if role.aligned]


def _paper_measures(figure: int, sentence: SentenceAttention, layer: int):
    """What the captions say, of the figure's own sentence: (name, value, details)."""
    weights = sentence.word_layer("encoder", layer)  # (H, words, words)
    labels, _ = sentence.labels("encoder")
    if figure == 5:
        distances = total_variation(weights)[:, :-1].mean(axis=1)
        if not len(distances):
            yield "head_distance", None, {"reason": "one head differs from none"}
            return
        pairs = [(a + 1, b + 1) for a in range(len(weights)) for b in range(a + 1, len(weights))]
        yield "head_distance", float(distances.max()), {"heads": list(pairs[int(distances.argmax())])}
        return
    looker, targets = MAKING_WORDS if figure == 3 else LAW_WORDS
    places = [labels.index(word) for word in targets]
    row = weights[:, labels.index(looker)]
    share = row[:, places].sum(axis=1)  # (H,)
    if figure == 3:
        hits = np.isin(row.argmax(axis=1), places)
        yield "num_heads_attending", int(hits.sum()), {"heads": (np.flatnonzero(hits) + 1).tolist()}
        yield "attention_share", float(share.mean()), {"by_head": share.round(4).tolist()}
        return
    best = np.argsort(-share, kind="stable")[:2]
    yield "num_heads_attending", int((share > 0.5).sum()), {"by_head": share.round(4).tolist()}
    yield "attention_share", float(share[best].mean()), {"heads": (best + 1).tolist()}


# What is kept ---------------------------------------------------------------------------------------------------------


def _paper_reading(run: TrainedRun, figure: int) -> Reading:
    words = next(each for each in FIGURES if each.number == figure).sentence.split()
    text = detokenise(words)
    (pieces,) = run.vocabulary.encode_batch([text])
    return Reading(f"paper/figure{figure}", text, pieces)


def _kept_sentences(probe: AttentionProbe, run: TrainedRun, measured: ProbeSet) -> list[SentenceAttention]:
    """The paper's two sentences, and some that were measured: of Figures 3 and 4 the layer's encoder attention where
    there is something to see, of Figure 5 all layers and kinds.
    """
    paper = [_paper_reading(run, number) for number in PAPER_SENTENCES]
    shown = {3: completions, 4: pronouns}.get(probe.figure)
    analyses = [sentence.analysis for sentence in measured.sentences]
    numbers = sorted({instance.sentence for instance in shown(analyses)}) if shown else range(len(analyses))
    chosen = {number: measured.sentences[number] for number in list(numbers)[:NUM_KEPT]}
    sources = run.vocabulary.encode_batch([sentence.text for sentence in chosen.values()])
    readings = [
        Reading(f"{measured.name}/{number}", sentence.text, source)
        for (number, sentence), source in zip(chosen.items(), sources, strict=True)
    ]
    if probe.figure != 5:
        layers = [figures_layer(run.config.model.num_layers)]
        return read_sentences(run.model, run.vocabulary, [*paper, *readings], layers, ["encoder"])
    if not probe.trained:  # it cannot translate, and what its decoder reads would be noise
        return read_sentences(run.model, run.vocabulary, [*paper, *readings], None, ["encoder"])
    targets = _targets(run, list(chosen.values()), sources)
    paper_targets = own_translations(run, [reading.source for reading in paper])
    whole = [
        replace(reading, target=target)
        for reading, target in zip([*paper, *readings], [*paper_targets, *targets], strict=True)
    ]
    return read_sentences(run.model, run.vocabulary, whole, None, tuple(KINDS))


def _targets(
    run: TrainedRun, sentences: Sequence[ProbeSentence], sources: Sequence[Sequence[int]]
) -> list[Sequence[int]]:
    """What the decoder reads: the corpus's translation where it has that language, else the run's own."""
    language = run.config.data.tgt
    if not all(language in sentence.translations for sentence in sentences):
        return own_translations(run, sources)
    return run.vocabulary.encode_batch([sentence.translations[language] for sentence in sentences])
