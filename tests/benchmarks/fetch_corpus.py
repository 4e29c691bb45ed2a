"""How long WMT14 takes from archives to text, and in how much memory: python tests/benchmarks/fetch_corpus.py [PAIRS]

Archives of the publisher's form are made with that many pairs (1,000,000 by default) of 25 made-up words a side, and
brought as a person would; beside it stands the least that such work can take, decompressing the same archive twice.
"""

from __future__ import annotations

import hashlib
import io
import os
import random
import resource
import sys
import tarfile
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from core.data.wmt14 import WMT14, Archive, Wmt14

PAIR = ("en", "de")


def sentences(language: str, count: int, seed: int):
    """Lines of about 25 words of a vocabulary of 50,000, one pair in 200 of them with an empty side."""
    rng = random.Random(f"{language} {seed}")
    words = ["".join(rng.choices("abcdefghijklmnoprstuvwz", k=rng.randint(2, 10))) for _ in range(50_000)]
    for number in range(count):
        yield "" if number % 200 == seed % 200 else " ".join(rng.choices(words, k=rng.randint(5, 45)))


def pack(path: Path, members: dict[str, bytes]) -> None:
    """An archive of these members."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, raw in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))


def pinned(folder: Path) -> Wmt14:
    """WMT14 with the archives of a folder."""
    find = {}
    for path in folder.iterdir():
        with path.open("rb") as file:
            find[path.name] = Archive(
                f"http://127.0.0.1:9/{path.name}", f"md5:{hashlib.file_digest(file, 'md5').hexdigest()}"
            )
    training = tuple(replace(part, archive=find.get(part.archive.file, part.archive)) for part in WMT14.training)
    tests = {split: replace(part, archive=find[part.archive.file]) for split, part in WMT14.tests.items()}
    return replace(WMT14, training=training, tests=tests)


def sgm(language: str, count: int) -> bytes:
    lines = (f'<seg id="{number}">{language} line {number}</seg>\n' for number in range(count))
    return "".join(lines).encode()


def make(folder: Path, num_pairs: int) -> None:
    """Archives as the publisher lays them out; nearly all pairs are in Europarl's."""
    for part in WMT14.training:
        if PAIR in part.members:
            count = num_pairs if part.name == "europarl-v7" else 10
            lines = (sentences(language, count, seed) for seed, language in enumerate(PAIR))
            raw = {name: "\n".join(side).encode() for name, side in zip(part.members[PAIR], lines, strict=True)}
            pack(folder / part.archive.file, raw)
    for split, part in WMT14.tests.items():
        names = zip(part.members[PAIR], PAIR, strict=True)
        pack(folder / part.archive.file, {name: sgm(language, WMT14.splits[split]) for name, language in names})


def main(num_pairs: int) -> None:
    """Make the archives in a process of its own, whose memory is not counted, then measure in this one."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "data", "wmt14")
        folder.mkdir(parents=True)
        maker = os.fork()
        if not maker:
            make(folder, num_pairs)
            os._exit(0)
        os.waitpid(maker, 0)
        os.environ["AIAYN_DATA"] = str(folder.parent)
        measure(pinned(folder), folder, Path(root, "cache"), num_pairs)


def measure(corpus: Wmt14, folder: Path, cache: Path, num_pairs: int) -> None:
    """Print times and memory."""
    archive = folder / "training-parallel-europarl-v7.tgz"
    started = time.perf_counter()
    for _ in range(2):
        with tarfile.open(archive, "r|gz") as tar:
            for _ in tar:
                pass
    floor = time.perf_counter() - started
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    corpus.fetch(cache, PAIR)
    fetch = time.perf_counter() - started
    started = time.perf_counter()
    pairs = sum(1 for _ in corpus.read_pairs("train", *PAIR, cache))
    read = time.perf_counter() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    megabytes = sum(path.stat().st_size for path in (cache / "wmt14").glob("train.*")) / 1e6
    started = time.perf_counter()
    corpus.obstacle(cache, PAIR), corpus.fingerprint(cache, PAIR)
    plan = time.perf_counter() - started
    print(f"{num_pairs:,} pairs, {archive.stat().st_size / 1e6:.0f} MB of archive, {megabytes:.0f} MB of text")
    print(
        f"archive to text: {fetch:.1f} s, {num_pairs / fetch:,.0f} pairs/s, {fetch / floor:.2f} x decompressing twice"
    )
    print(f"reading and checking {pairs:,} pairs: {read:.1f} s, {pairs / read:,.0f} pairs/s")
    print(f"memory grew by {grown / 1024:.0f} MiB; state and fingerprint: {plan * 1e3:.1f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
