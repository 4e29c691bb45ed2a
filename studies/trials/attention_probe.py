"""Figures 3 to 5 measured: a finished run's attention on many sentences with a gold analysis, and on the paper's own.

The sentences are English ones of the grammar corpus that no split holds, so that no run has seen them. Runs on another
corpus are measured on them too: the analysis is gold, though the text is not of their domain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import lru_cache

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
from core.data.grammar import DEFAULT_SEED, DEFAULT_SIZES, LANGUAGES, Example, detokenise, generate_splits
from core.scoring.bootstrap import LEVEL, SAMPLES, SEED
from core.sequence_model import num_parameters
from core.transformer import Transformer
from results.attention_file import KINDS, SentenceAttention, save
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


@lru_cache(maxsize=1)
def probe_examples() -> list[Example]:
    """Sentences that are in no split of the corpus; the same ones always."""
    return generate_splits(DEFAULT_SIZES | {"attention": NUM_SENTENCES}, DEFAULT_SEED)["attention"]


def measure(
    probe: AttentionProbe, record: RunRecord, folder: RunFolder, workspace: Workspace, device: torch.device
) -> RunResult:
    """Carry out one probe: its scores, and its sentences' weights as a file of its folder.

    Raises:
        ValueError: the run to be measured is not done, or reads another language.
    """
    phase = Phases()
    with phase("setup"):
        run = _measured_run(probe, record, workspace)
        run.model.to(device)
        examples = probe_examples()
    with phase("measure"):
        scores = list(_scores(probe.figure, run, examples))
    with phase("keep"):
        path = folder.path / ATTENTION_FILE
        kept = _kept_sentences(probe, run, examples)
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


def _scores(figure: int, run: TrainedRun, examples: Sequence[Example]):
    num_layers = run.config.model.num_layers
    layer = figures_layer(num_layers)
    layers = list(range(1, num_layers + 1)) if figure == 5 else [layer]
    parsed = _parse(run, examples, layers)
    place = layers.index(layer)
    signature = f"attention:encoder|layer:{layer} of {num_layers}|words:to-sum,from-mean"
    measures = {3: long_distance, 4: anaphora, 5: divergence}[figure](parsed, place)
    for name, found in measures.items():
        yield _score(name, found, signature)
    if figure == 5:
        yield from _role_scores(
            parsed, layers, f"attention:encoder|layers:{layers[0]}-{layers[-1]}|words:to-sum,from-mean"
        )
    (own,) = read_sentences(run.model, run.vocabulary, [_paper_reading(run, figure)], [layer], ["encoder"])
    for name, value, details in _paper_measures(figure, own, layer):
        yield Score(name, value, signature, f"paper/figure{figure}/en", 1, details)


def _parse(run: TrainedRun, examples: Sequence[Example], layers: Sequence[int]) -> list[ParsedAttention]:
    parsed = []
    texts = [example.text("en") for example in examples]
    pieces = run.vocabulary.encode_batch(texts)
    for start in range(0, len(examples), _AT_ONCE):
        readings = [Reading(str(i), texts[i], pieces[i]) for i in range(start, min(start + _AT_ONCE, len(examples)))]
        for example, read in zip(
            examples[start:], read_sentences(run.model, run.vocabulary, readings, layers, ["encoder"]), strict=False
        ):
            parsed.append(ParsedAttention(np.stack([read.word_layer("encoder", layer) for layer in layers]), example))
    return parsed


def _score(name: str, measure: Measure, signature: str) -> Score:
    details = {"instances": measure.num_instances, "test_set_interval": None, **measure.details}
    if measure.interval is not None:
        details["test_set_interval"] = {
            **asdict(measure.interval),
            **{"level": LEVEL, "samples": SAMPLES, "seed": SEED},
            "replicates": [round(value, 5) for value in measure.replicates.tolist()],
        }
    return Score(name, measure.value, signature, "grammar/attention/en", NUM_SENTENCES, details)


def _role_scores(parsed: Sequence[ParsedAttention], layers: Sequence[int], signature: str):
    roles, null = (head_roles(parsed, layers, shuffled) for shuffled in (False, True))
    aligned, by_chance = _aligned(roles), _aligned(null)
    dataset = "grammar/attention/en"
    common = {"heads_looked_at": len(roles)}
    yield Score(
        "relation_heads", len(aligned), signature, dataset, NUM_SENTENCES,
        common | {"roles": [asdict(role) for role in roles]},
    )  # fmt: skip
    yield Score(
        "relation_heads_over_shuffled", len(aligned) - len(by_chance), signature, dataset, NUM_SENTENCES,
        common | {"shuffled": len(by_chance)},
    )  # fmt: skip
    relations = sorted({role.relation for role in aligned})
    yield Score(
        "relations_covered", len(relations), signature, dataset, NUM_SENTENCES, common | {"relations": relations}
    )


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


def _kept_sentences(probe: AttentionProbe, run: TrainedRun, examples: Sequence[Example]) -> list[SentenceAttention]:
    """The paper's two sentences, and some that were measured: of Figures 3 and 4 the layer's encoder attention where
    there is something to see, of Figure 5 all layers and kinds.
    """
    paper = [_paper_reading(run, number) for number in PAPER_SENTENCES]
    shown = {3: completions, 4: pronouns}.get(probe.figure)
    chosen = sorted({instance.sentence for instance in shown(examples)}) if shown else range(len(examples))
    chosen = list(chosen)[:NUM_KEPT]
    texts = [examples[i].text("en") for i in chosen]
    sources = run.vocabulary.encode_batch(texts)
    readings = [Reading(f"grammar/attention/{i}", t, s) for i, t, s in zip(chosen, texts, sources, strict=True)]
    if probe.figure != 5:
        layers = [figures_layer(run.config.model.num_layers)]
        return read_sentences(run.model, run.vocabulary, [*paper, *readings], layers, ["encoder"])
    if not probe.trained:  # it cannot translate, and what its decoder reads would be noise
        return read_sentences(run.model, run.vocabulary, [*paper, *readings], None, ["encoder"])
    targets = _targets(run, [examples[i] for i in chosen], sources)
    paper_targets = own_translations(run, [reading.source for reading in paper])
    whole = [
        replace(reading, target=target)
        for reading, target in zip([*paper, *readings], [*paper_targets, *targets], strict=True)
    ]
    return read_sentences(run.model, run.vocabulary, whole, None, tuple(KINDS))


def _targets(run: TrainedRun, examples: Sequence[Example], sources: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """What the decoder reads: the corpus's translation where it has that language, else the run's own."""
    language = run.config.data.tgt
    if language not in LANGUAGES:
        return own_translations(run, sources)
    return run.vocabulary.encode_batch([example.text(language) for example in examples])
