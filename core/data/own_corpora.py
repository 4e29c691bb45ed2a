"""Corpora that a person adds to a workspace: two aligned files a split, checked once and remembered with checksums.

Each lies in a folder of its own, `cache_dir/own/<name>`: its manifest, and its text unless that was left in place.
"""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from core.data.cleaning import NAMED, Cleaning
from core.data.corpus import TRAIN_SPLIT, DataError, Languages, Source, Step, require_name
from core.data.lines import LineStream
from core.data.manifest import Manifest, ManifestCorpus, RecordedText, write_texts
from core.data.progress import watched
from core.data.translation_corpus import Text, aligned_pairs, checked_pairs

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z0-9]+)*")


@dataclass(frozen=True)
class OwnCorpus(ManifestCorpus):
    """A person's corpus of one pair of languages."""

    folder: Path
    manifest: Manifest

    @property
    def sources(self) -> tuple[Source, ...]:
        return self.manifest.sources

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        obstacle = self.obstacle(cache_dir, languages)
        if obstacle is not None:
            raise DataError(obstacle)

    def _folder(self, cache_dir: Path) -> Path:
        return self.folder

    def _manifest(self, cache_dir: Path, languages: Languages) -> Manifest:
        return self.manifest

    def _remedy(self, languages: Languages | None) -> str:
        return f"restore the files, or add it again after: aiayn data remove {self.name}"


def names(cache_dir: Path) -> list[str]:
    """The names of the corpora that were added, in order."""
    return sorted(path.parent.name for path in _home(cache_dir).glob("[a-z0-9]*/corpus.json"))


def load(cache_dir: Path, name: str) -> OwnCorpus:
    """The corpus of this name, which must be among `names`.

    Raises:
        DataError: its manifest is damaged.
    """
    folder = _home(cache_dir) / name
    path = folder / "corpus.json"
    remedy = f"remove it with: aiayn data remove {name}"
    manifest, content = Manifest.load(path, remedy)
    try:
        return OwnCorpus(
            name=name,
            task="translation",
            languages=tuple(content["languages"]),
            splits={split: next(iter(sides.values())).num_lines for split, sides in manifest.texts.items()},
            licence=content["licence"],
            citation=content["citation"],
            description=content["description"],
            folder=folder,
            manifest=manifest,
        )
    except (KeyError, TypeError, StopIteration) as error:
        raise DataError(f"{path} cannot be read ({error}); {remedy}") from error


def add(
    cache_dir: Path,
    name: str,
    languages: tuple[str, str],
    files: Mapping[str, tuple[Path, Path]],
    *,
    taken: Collection[str],
    clean: Sequence[str] = (),
    in_place: bool = False,
    licence: str = "not stated",
    citation: str = "not stated",
    description: str = "",
) -> OwnCorpus:
    """Check aligned files and make them a corpus of this workspace.

    Args:
        languages: of the two files of every split, as codes such as `en`.
        files: by split, the two files, plain or .gz; `train` must be among them.
        taken: names that a corpus may not have.
        clean: names of filters (`cleaning.NAMED`), applied to the training pairs in this order.
        in_place: leave the files where they are and remember their checksums, instead of copying them.

    Raises:
        ValueError: a name, a language or a combination that cannot be.
        DataError: the files cannot be read, do not fit each other, or are not what they should be.
    """
    _require_sensible(cache_dir, name, languages, files, taken, clean, in_place)
    home = _home(cache_dir)
    folder, unfinished = home / name, home / f".{uuid.uuid4().hex}"
    try:
        unfinished.mkdir(parents=True)
        texts, sources, steps = {}, [], []
        for split, paths in files.items():
            rules = Cleaning([NAMED[rule]() for rule in clean] if split == TRAIN_SPLIT else [])
            texts[split] = _take(f"{name} {split}", languages, paths, rules, None if in_place else unfinished / split)
            part = f"{split}.{'-'.join(languages)}"
            steps.append(Step(part, "read", rules.num_read))
            steps += [Step(part, rule.name, kept) for rule, kept in zip(rules.filters, rules.kept, strict=True)]
            sources += [Source(path.name, str(path.absolute()), None) for path in paths]
        manifest = Manifest(texts, tuple(sources), tuple(steps))
        more = {"languages": list(languages), "licence": licence, "citation": citation, "description": description}
        manifest.save(unfinished / "corpus.json", **more)
        try:
            unfinished.rename(folder)
        except OSError:
            if folder.exists():  # another process was first
                raise ValueError(_taken(name)) from None
            raise
    except OSError as error:
        raise DataError(f"cannot write {home}: {error.strerror or error}; choose another --home") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return load(cache_dir, name)


def remove(cache_dir: Path, name: str) -> None:
    """Forget a corpus and delete what was copied and prepared of it; files left in place stay.

    Raises:
        ValueError: a person added no corpus of this name.
    """
    require_name(name, tuple(names(cache_dir)), "no corpus was added under the name")
    prepared = []
    with suppress(DataError):  # a damaged one is removed too; what it was prepared as is not known then
        for pair in permutations(load(cache_dir, name).languages):
            stem = re.escape("-".join((name, *pair)))
            ours = re.compile(rf"{stem}-[0-9a-f]{{12}}|\.{stem}-[0-9a-f]{{12}}\.unfinished")
            prepared += [path for path in cache_dir.iterdir() if ours.fullmatch(path.name)]
    folder = _home(cache_dir) / name
    aside = folder.with_name(f".{uuid.uuid4().hex}")
    folder.rename(aside)  # gone at once, for whoever looks now
    for path in (aside, *prepared):
        shutil.rmtree(path)


def _home(cache_dir: Path) -> Path:
    return cache_dir / "own"


def _taken(name: str) -> str:
    return f"there is a corpus {name} already; choose another name, or remove that one: aiayn data remove {name}"


def _require_sensible(
    cache_dir: Path,
    name: str,
    languages: tuple[str, str],
    files: Mapping[str, tuple[Path, Path]],
    taken: Collection[str],
    clean: Sequence[str],
    in_place: bool,
) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a corpus; use small letters, digits, '.', '_' and '-', at most 60")
    if name in taken:
        raise ValueError(f"{name} is a corpus of this project; choose another name")
    if name in names(cache_dir):
        raise ValueError(_taken(name))
    for language in languages:
        if not _LANGUAGE.fullmatch(language):
            raise ValueError(f"{language!r} is no language code; give one such as en, de or pt-BR")
    if languages[0] == languages[1]:
        raise ValueError(f"both sides are {languages[0]!r}; a translation needs two languages")
    for rule in clean:
        require_name(rule, NAMED, "no filter")
    if clean and in_place:
        raise ValueError("filters write new files; leave them out, or let the corpus be copied")
    seen: dict[Path, str] = {}
    for split, paths in files.items():
        for side, path in zip(("source", "target"), paths, strict=True):
            if not path.is_file():
                raise ValueError(f"there is no file {path}")
            earlier = seen.setdefault(path.resolve(), f"{split} {side}")
            if earlier != f"{split} {side}":
                raise ValueError(f"{path} is given as {earlier} and as {split} {side}; each needs a file of its own")


def _take(
    what: str, languages: tuple[str, str], paths: tuple[Path, Path], rules: Cleaning, target: Path | None
) -> dict[str, RecordedText]:
    """Check the two files of a split, and record them, or their copy with the stem `target`."""
    streams = tuple(LineStream.of_file(path) for path in paths)
    texts = tuple(Text(stream, str(path)) for stream, path in zip(streams, paths, strict=True))
    if rules.filters:
        copies = {language: target.with_name(f"{target.name}.{language}") for language in languages}
        written = write_texts(rules.apply(watched(aligned_pairs(texts), f"{what}: reading", None)), copies)
        cleaned = tuple(
            Text(LineStream.of_file(written[language].path), f"{path} after cleaning")
            for language, path in zip(languages, paths, strict=True)
        )
        for _ in checked_pairs(cleaned, languages, what, None):
            pass
        return written
    pairs = rules.apply(watched(checked_pairs(texts, languages, what, None), f"{what}: reading", None))
    if target is not None:
        return write_texts(pairs, {language: target.with_name(f"{target.name}.{language}") for language in languages})
    for _ in pairs:
        pass
    return {
        language: RecordedText(path.absolute(), stream.num_lines, stream.sha256, path.stat().st_size)
        for language, path, stream in zip(languages, paths, streams, strict=True)
    }
