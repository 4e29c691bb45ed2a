"""A corpus of compressed text files: found in a local folder, or downloaded once and verified."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.data.corpus import DataError, Languages, Source, State, local_folder
from core.data.download import download
from core.data.lines import LineStream
from core.data.translation_corpus import Text, TranslationCorpus


@dataclass(frozen=True)
class FileCorpus(TranslationCorpus):
    """One gzip file per split and language, `<split>.<language>.gz`, whose text is pinned by its sha256.

    Files are read from `$AIAYN_DATA/<name>` where that folder exists, otherwise from `cache_dir/<name>`, into
    which what is missing is downloaded from `base_url`. A folder named by AIAYN_DATA is never written to.
    `text_sha256` maps `<split>.<language>` to the checksum of the text, not of the archive, because another
    gzip gives other bytes for the same text.
    """

    base_url: str
    text_sha256: Mapping[str, str]

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(
            Source(_file_name(stem), f"{self.base_url}/{_file_name(stem)}", f"sha256:{sha256}")
            for stem, sha256 in self.text_sha256.items()
        )

    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        local = local_folder(self.name)
        folder = local or cache_dir / self.name
        files = [_file_name(stem) for stem in self._stems(languages)]
        missing = tuple(file for file in files if not (folder / file).is_file())
        if not missing:
            return State("present", folder)
        if len(missing) == len(files) and local is None:
            return State("not fetched")
        return State("incomplete", folder, missing)

    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        # A text is refused unless it has its pinned checksum, so the pins say what the loader reads.
        pins = "".join(f"{stem} {self.text_sha256[stem]}\n" for stem in sorted(self._stems(languages)))
        return hashlib.sha256(pins.encode()).hexdigest()[:16]

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        for stem in self._stems(languages):
            self._locate(stem, cache_dir)

    def _stems(self, languages: Languages | None) -> list[str]:
        return [f"{split}.{language}" for split in self.splits for language in languages or self.languages]

    def _open(self, split: str, src: str, tgt: str, cache_dir: Path) -> tuple[Text, Text]:
        return self._text(f"{split}.{src}", cache_dir), self._text(f"{split}.{tgt}", cache_dir)

    def _text(self, stem: str, cache_dir: Path) -> Text:
        path = self._locate(stem, cache_dir)
        return Text(LineStream.of_file(path), str(path), self.text_sha256[stem])

    def _locate(self, stem: str, cache_dir: Path) -> Path:
        folder = local_folder(self.name)
        if folder is None:
            path = cache_dir / self.name / _file_name(stem)
            if not path.is_file():
                self._download(stem, path)
            return path
        path = folder / _file_name(stem)
        if not path.is_file():
            raise DataError(f"{path} is missing; copy it there, or unset AIAYN_DATA to download it")
        return path

    def _download(self, stem: str, path: Path) -> None:
        url = f"{self.base_url}/{path.name}"

        def check(partial: Path) -> None:
            found, expected = LineStream.of_file(partial, origin=url).read_through().sha256, self.text_sha256[stem]
            if found != expected:
                raise DataError(f"{url} is not the text expected: its sha256 is {found}, should be {expected}")

        advice = f"try again, or put its files into a folder {self.name} and set AIAYN_DATA to the folder above"
        download(url, path, check, advice)


def _file_name(stem: str) -> str:
    return f"{stem}.gz"
