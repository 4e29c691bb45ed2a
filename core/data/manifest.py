"""What was made or taken of a pair of languages: a small JSON file beside the text, written last.

Where no publisher says what a text must be, what was found the first time is written down and holds ever after.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from core.data.corpus import DataError, Languages, Source, State, Step
from core.data.lines import LineStream
from core.data.translation_corpus import Text, TranslationCorpus

_FORMAT = 1
_BLOCK_PAIRS = 4096


@dataclass(frozen=True)
class RecordedText:
    """One language of one split: its file, plain or gzip, and what that held when it was recorded.

    `num_bytes` is the file's own size, compressed or not; `sha256` and `num_lines` are the text's.
    """

    path: Path
    num_lines: int
    sha256: str
    num_bytes: int

    @property
    def is_as_recorded(self) -> bool:
        """Whether the file is there and has its size; reads no text."""
        try:
            return self.path.stat().st_size == self.num_bytes
        except OSError:
            return False


def write_texts(pairs: Iterable[tuple[str, str]], paths: Mapping[str, Path]) -> dict[str, RecordedText]:
    """Write pairs of lines as a stream into two plain files, and record them.

    The files get their names when both are whole; where anything fails, nothing is left.

    Args:
        paths: by language, in the order of the pairs' sides; in a folder that exists.

    Raises:
        DataError: the disk is full, or the folder cannot be written.
    """
    partials = [path.with_name(f".partial.{path.name}") for path in paths.values()]
    digests = [hashlib.sha256(), hashlib.sha256()]
    num_lines = 0
    try:
        with partials[0].open("wb") as src_file, partials[1].open("wb") as tgt_file:
            for block in _blocks(pairs):
                num_lines += len(block)
                for file, digest, side in zip((src_file, tgt_file), digests, zip(*block, strict=True), strict=True):
                    raw = "".join(f"{line}\n" for line in side).encode()
                    digest.update(raw)
                    file.write(raw)
        recorded = {}
        for language, partial, digest in zip(paths, partials, digests, strict=True):
            recorded[language] = RecordedText(paths[language], num_lines, digest.hexdigest(), partial.stat().st_size)
        for partial, path in zip(partials, paths.values(), strict=True):
            partial.replace(path)
        return recorded
    except OSError as error:
        raise DataError(
            f"cannot write {partials[0].parent}: {error.strerror or error}; free some space, or choose another --home"
        ) from error
    finally:
        for partial in partials:
            partial.unlink(missing_ok=True)


def _blocks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    rest = iter(pairs)
    while block := list(islice(rest, _BLOCK_PAIRS)):
        yield block


@dataclass(frozen=True)
class Manifest:
    """The text of one pair of languages: by split and language, where it came from, and what was done to it."""

    texts: Mapping[str, Mapping[str, RecordedText]]
    sources: tuple[Source, ...] = ()
    steps: tuple[Step, ...] = ()

    @classmethod
    def joined(cls, parts: Sequence[Manifest]) -> Manifest:
        """One manifest of several with different splits, in order."""
        texts = {split: sides for part in parts for split, sides in part.texts.items()}
        sources = tuple(source for part in parts for source in part.sources)
        return cls(texts, sources, tuple(step for part in parts for step in part.steps))

    @property
    def fingerprint(self) -> str:
        """16 hex characters over the text of every split."""
        pins = sorted(
            f"{split} {language} {text.num_lines} {text.sha256}\n"
            for split, sides in self.texts.items()
            for language, text in sides.items()
        )
        return hashlib.sha256("".join(pins).encode()).hexdigest()[:16]

    def changed(self) -> tuple[str, ...]:
        """Files that are not as they were recorded, by their sizes."""
        texts = (text for sides in self.texts.values() for text in sides.values())
        return tuple(str(text.path) for text in texts if not text.is_as_recorded)

    def save(self, path: Path, **more: Any) -> None:
        """Write the manifest, whole or not at all; `more` are further entries of the file."""
        folder = path.parent
        content = {
            "format": _FORMAT,
            **more,
            "splits": {
                split: {
                    language: asdict(text) | {"path": _shortest(text.path, folder)} for language, text in sides.items()
                }
                for split, sides in self.texts.items()
            },
            "sources": [source._asdict() for source in self.sources],
            "steps": [step._asdict() for step in self.steps],
        }
        partial = path.with_name(f".{uuid.uuid4().hex}.{path.name}")
        try:
            partial.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path, remedy: str) -> tuple[Manifest, dict[str, Any]]:
        """Read a manifest, and the whole file's entries.

        Raises:
            DataError: the file is damaged; the message ends with `remedy`.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']} is not {_FORMAT}")
            texts = {
                split: {
                    language: RecordedText(**values | {"path": path.parent / values["path"]})
                    for language, values in sides.items()
                }
                for split, sides in content["splits"].items()
            }
            sources = tuple(Source(**values) for values in content["sources"])
            steps = tuple(Step(**values) for values in content["steps"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} cannot be read ({error}); {remedy}") from error
        return cls(texts, sources, steps), content


@dataclass(frozen=True)
class ManifestCorpus(TranslationCorpus):
    """A corpus whose text is what its manifests say, one for each pair of languages."""

    @abstractmethod
    def _manifest(self, cache_dir: Path, languages: Languages) -> Manifest | None:
        """The manifest of a pair, in any order; None where it has not been written; ValueError where there is none."""

    @abstractmethod
    def _remedy(self, languages: Languages | None) -> str:
        """What a person can do where the text of these languages is not here or not as it was."""

    @abstractmethod
    def _folder(self, cache_dir: Path) -> Path:
        """The corpus' own folder."""

    def steps(self, cache_dir: Path) -> tuple[Step, ...]:
        manifests = [self._manifest(cache_dir, pair) for pair in self.pairs]
        return tuple(step for manifest in manifests if manifest for step in manifest.steps)

    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        wanted = self.pairs if languages is None else (languages,)
        manifests = {pair: self._manifest(cache_dir, pair) for pair in wanted}
        if not any(manifests.values()):
            return State("not fetched")
        missing = tuple("-".join(pair) for pair, manifest in manifests.items() if manifest is None)
        changed = tuple(path for manifest in manifests.values() if manifest for path in manifest.changed())
        if missing or changed:
            return State("incomplete", self._folder(cache_dir), missing, changed)
        return State("present", self._folder(cache_dir))

    def obstacle(self, cache_dir: Path, languages: Languages | None = None) -> str | None:
        state = self.state(cache_dir, languages)
        if state.usable:
            return None
        what = self.name if languages is None else f"{self.name} {'-'.join(self.named_pair(languages))}"
        reason = "is not here" if state.kind == "not fetched" else f"is incomplete ({state.faults})"
        return f"corpus {what} {reason}; {self._remedy(languages)}"

    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        obstacle = self.obstacle(cache_dir, languages)
        if obstacle is not None:
            raise DataError(obstacle)
        wanted = self.pairs if languages is None else (languages,)
        fingerprints = [self._manifest(cache_dir, pair).fingerprint for pair in wanted]
        return fingerprints[0] if len(fingerprints) == 1 else _digest(fingerprints)

    def num_lines(self, split: str, languages: Languages, cache_dir: Path) -> int | None:
        manifest = self._manifest(cache_dir, languages)
        return None if manifest is None else manifest.texts[split][languages[0]].num_lines

    def _open(self, split: str, src: str, tgt: str, cache_dir: Path) -> tuple[Text, Text]:
        obstacle = self.obstacle(cache_dir, (src, tgt))
        if obstacle is not None:
            raise DataError(obstacle)
        sides = self._manifest(cache_dir, (src, tgt)).texts[split]
        texts = (sides[src], sides[tgt])
        return tuple(Text(LineStream.of_file(text.path), str(text.path), text.sha256) for text in texts)


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _shortest(path: Path, folder: Path) -> str:
    """A path as it is written down: relative where the file moves with its manifest, absolute elsewhere."""
    path = path.absolute()
    return str(path.relative_to(folder.absolute())) if path.is_relative_to(folder.absolute()) else str(path)
