"""Preparing a million pairs beside the `tokenizers` library alone, and what a run costs that starts on them.

    python tests/benchmarks/prepare.py FOLDER [--pairs 1000000] [--rounds 1]

The text is made first, in FOLDER, and not counted: pseudo-words of syllables, two lexica of 250,000 and 400,000 of
them drawn by Zipf's law, sentences of 21 words on average; the grammar's few words would not give 37,000 pieces.

The contestants take turns, each in a process of its own. The library gets all lines in memory, learns 37,000 pieces
and encodes every line, and keeps nothing. Ours reads the files, learns, encodes, checks, counts and writes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from core.config import DataConfig, TrainConfig
from core.data import own_corpora
from core.data.batching import UpdateStream, epoch_batches
from core.data.lines import LineStream
from core.data.prepare import prepare

VOCAB_SIZE = 37_000
NAME = "pseudo"
DATA = DataConfig(NAME, "en", "de", VOCAB_SIZE, "dev", "test")
PAPER = TrainConfig()
LARGEST = 36_000_000  # pairs of EN-FR
LEXICA = {
    "en": (250_000, "b c d f g l m n p r s t th w st tr", "a e i o u ea ou", " n r s t ng ck"),
    "de": (400_000, "b d f g k l m n r s sch t w z st pf", "a e i o u ä ö ü ei au", " n r s t ch nd"),
}
NUM_PROCESSES = 4


def text_of(folder: Path, split: str, language: str) -> Path:
    return folder / f"{split}.{language}"


def cache_of(folder: Path) -> Path:
    return folder / "cache"


# --- the text


def make_corpus(folder: Path, pairs: int) -> None:
    """Write the text, and make it a person's own corpus, unless that has been done."""
    made = {"train": pairs, "dev": 3_000, "test": 3_003}
    if NAME in own_corpora.names(cache_of(folder)):
        if own_corpora.load(cache_of(folder), NAME).splits == made:
            return
        own_corpora.remove(cache_of(folder), NAME)
    folder.mkdir(parents=True, exist_ok=True)
    _write_text(folder, made)
    files = {split: (text_of(folder, split, "en"), text_of(folder, split, "de")) for split in made}
    own_corpora.add(cache_of(folder), NAME, ("en", "de"), files, taken=(), in_place=True)


def _write_text(folder: Path, splits: Mapping[str, int]) -> None:
    rng = np.random.default_rng(1706)
    words = {language: np.array(_lexicon(rng, *LEXICA[language]), dtype=object) for language in LEXICA}
    for split, size in splits.items():
        with text_of(folder, split, "en").open("w") as src_file, text_of(folder, split, "de").open("w") as tgt_file:
            for start in range(0, size, 50_000):
                count = min(50_000, size - start)
                src_lengths = np.clip(rng.gamma(2.6, 8.5, count), 2, 100).astype(int)
                tgt_lengths = np.clip(src_lengths * rng.normal(0.95, 0.12, count), 2, 100).astype(int)
                src_file.writelines(_sentences(rng, words["en"], src_lengths))
                tgt_file.writelines(_sentences(rng, words["de"], tgt_lengths))


def _lexicon(rng: np.random.Generator, size: int, onsets: str, nuclei: str, codas: str) -> list[str]:
    """Different words, short ones first, of syllables of which some are much more frequent."""
    syllables = [o + n + c for o in onsets.split(" ") for n in nuclei.split(" ") for c in codas.split(" ")]
    found: dict[str, None] = {}
    while len(found) < size:
        length = 1 + int(3 * len(found) / size + rng.random() * 1.5)
        places = (len(syllables) * rng.random(length) ** 2).astype(int)
        found["".join(syllables[place] for place in places)] = None
    return list(found)


def _sentences(rng: np.random.Generator, words: np.ndarray, lengths: np.ndarray) -> Iterator[str]:
    ranks = np.arange(len(words)) + 2.7
    cumulated = np.cumsum(ranks**-1.05)
    drawn = words[np.searchsorted(cumulated, rng.random(lengths.sum()) * cumulated[-1])]
    ends = np.cumsum(lengths)
    return (" ".join(drawn[end - length : end]) + " .\n" for end, length in zip(ends, lengths, strict=True))


# --- preparing


def library_alone(folder: Path) -> dict[str, float]:
    """Seconds to learn and to encode, the lines being in memory."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    lines = [line for language in LEXICA for line in LineStream.of_file(text_of(folder, "train", language))]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    started = time.perf_counter()
    used = time.process_time()
    tokenizer.train_from_iterator(
        lines, trainers.BpeTrainer(vocab_size=VOCAB_SIZE, initial_alphabet=alphabet, show_progress=False)
    )
    learned = time.perf_counter()
    for start in range(0, len(lines), 16_384):  # all at once would fill the memory
        tokenizer.encode_batch_fast(lines[start : start + 16_384], add_special_tokens=False)
    ended, used = time.perf_counter(), time.process_time() - used
    return {"seconds": ended - started, "CPU seconds": used, "learning": learned - started, "encoding": ended - learned}


def ours(folder: Path) -> dict[str, float]:
    """Seconds to prepare everything."""
    for path in cache_of(folder).glob(f"{NAME}-*"):
        shutil.rmtree(path)
    started, used = time.perf_counter(), time.process_time()
    prepared = prepare(DATA, cache_of(folder))
    seconds, used = time.perf_counter() - started, time.process_time() - used
    statistics_ = prepared.statistics["train"]
    return {
        "seconds": seconds,
        "CPU seconds": used,
        "vocabulary": prepared.vocab_size,
        "pieces": statistics_.src_pieces + statistics_.tgt_pieces,
        "MB on disk": sum(path.stat().st_size for path in prepared.folder.iterdir()) / 1e6,
    }


# --- running on what is prepared


def start(folder: Path) -> dict[str, float]:
    """Seconds to the first update of a run, without torch."""
    started = time.perf_counter()
    split = prepare(DATA, cache_of(folder)).split("train")
    opened = time.perf_counter()
    stream = UpdateStream(split, PAPER, seed=1)
    _touch(split, stream.next_update())
    ended = time.perf_counter()
    return {"seconds": ended - started, "opening": opened - started, "first update": ended - opened}


def padding(folder: Path) -> dict[str, float]:
    """The share of padding in an epoch's tokens, with the paper's budget."""
    split = prepare(DATA, cache_of(folder)).split("train")
    return _padding(split.src_lengths, split.tgt_lengths)


def largest_epoch(folder: Path) -> dict[str, float]:
    """Seconds and memory to plan an epoch of EN-FR's size; the lengths are those of the text, again and again."""
    split = prepare(DATA, cache_of(folder)).split("train")
    lengths = [np.resize(side, LARGEST) for side in (split.src_lengths, split.tgt_lengths)]
    before = _peak_megabytes()
    started = time.perf_counter()
    epoch = epoch_batches(*lengths, PAPER.source_tokens, PAPER.target_tokens, PAPER.micro_batch_tokens, 1, 0)
    seconds = time.perf_counter() - started
    kept = (epoch.order.nbytes + epoch.share_starts.nbytes + epoch.drawn.nbytes) / 1e6
    return {"seconds": seconds, "updates": len(epoch), "MB at most": _peak_megabytes() - before, "MB kept": kept}


def _padding(src: np.ndarray, tgt: np.ndarray) -> dict[str, float]:
    updates = epoch_batches(src, tgt, PAPER.source_tokens, PAPER.target_tokens, PAPER.micro_batch_tokens, 1, 0)
    cells = real = spread = 0
    for update in updates:
        for batch in update:
            cells += len(batch) * int(src[batch].max() + tgt[batch].max())
            real += int(src[batch].sum() + tgt[batch].sum())
        spread += np.concatenate([src[batch] for batch in update]).std()
    return {
        "share": 1 - real / cells,
        "updates": len(updates),
        "spread within updates": spread / len(updates) / src.std(),
    }


def _touch(split, update: list[np.ndarray]) -> None:
    for batch in update:
        split.src.padded(batch, 0), split.tgt.padded(batch, 0)


def _run(folder: Path, barrier, memory) -> None:
    """A run's use of its data: an epoch of it. Puts its share of the memory before and after (PSS) into `memory`."""
    np.random.default_rng()  # loads a part of numpy
    barrier.wait()
    before = _proportional_megabytes()
    barrier.wait()
    split = prepare(DATA, cache_of(folder)).split("train")
    stream = UpdateStream(split, PAPER, seed=1)
    while stream.state()["epoch"] == 0:
        _touch(split, stream.next_update())
    barrier.wait()
    memory.put((before, _proportional_megabytes()))
    barrier.wait()


def memory_of(processes: int, folder: Path) -> tuple[float, float]:
    """Megabytes of so many processes at once, shared pages counted once: before they open the data, and at the end."""
    context = multiprocessing.get_context("spawn")
    barrier, memory = context.Barrier(processes), context.Queue()
    runs = [context.Process(target=_run, args=(folder, barrier, memory)) for _ in range(processes)]
    for run in runs:
        run.start()
    rows = [memory.get() for _ in runs]
    for run in runs:
        run.join()
    return tuple(map(sum, zip(*rows, strict=True)))


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _proportional_megabytes() -> float:
    """Memory of this process, of a page that several have mapped only its share."""
    rows = dict(line.split(":", 1) for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return int(rows["Pss"].split()[0]) / 1024


def _alone(what: Callable[[Path], dict[str, float]], folder: Path) -> dict[str, float]:
    """What `what` returns in a process of its own, and the most memory that it had."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(what, folder, sender))
    process.start()
    result = receiver.recv()
    process.join()
    return result


def _send(what: Callable[[Path], dict[str, float]], folder: Path, sender) -> None:
    result = what(folder)
    sender.send(result | {"peak MB": _peak_megabytes()})


def _show(title: str, values: dict[str, float]) -> None:
    shown = ", ".join(
        f"{name} {value:,.3g}" if value < 100 else f"{name} {value:,.0f}" for name, value in values.items()
    )
    print(f"{title}: {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    folder = arguments.folder
    make_corpus(folder, arguments.pairs)
    results: dict[str, list[dict[str, float]]] = {"library_alone": [], "ours": []}
    for _ in range(arguments.rounds):
        for contestant in (library_alone, ours):
            results[contestant.__name__].append(_alone(contestant, folder))
            _show(contestant.__name__, results[contestant.__name__][-1])
    if arguments.rounds:
        for unit in ("seconds", "CPU seconds"):
            theirs, our = (statistics.median(result[unit] for result in rows) for rows in results.values())
            print(f"preparing: {2 * arguments.pairs / our:,.0f} sentences a second, the library alone "
                  f"{2 * arguments.pairs / theirs:,.0f}, ratio of {unit} {our / theirs:.2f}")  # fmt: skip
    for question in (start, padding, largest_epoch):
        _show(question.__name__, _alone(question, folder))
    (one_before, one), (many_before, many) = (memory_of(count, folder) for count in (1, NUM_PROCESSES))
    print(f"memory: 1 process {one:,.0f} MB ({one - one_before:,.0f} of it for the data), {NUM_PROCESSES} processes "
          f"{many:,.0f} MB ({many - many_before:,.0f}); for the data {(many - many_before) / (one - one_before):.2f} "
          "times that of one")  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
