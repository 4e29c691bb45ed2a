"""A corpus of compressed text files: found in a local folder, or downloaded once and verified."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import sys
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.data.corpus import Corpus, DataError, Source, Text, decode_lines

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FileCorpus(Corpus):
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
            Source(f"{stem}.gz", f"{self.base_url}/{stem}.gz", sha256) for stem, sha256 in self.text_sha256.items()
        )

    def state(self, cache_dir: Path) -> str:
        folder = self._local_folder() or cache_dir / self.name
        missing = [source.file for source in self.sources if not (folder / source.file).is_file()]
        if not missing:
            return f"present at {folder}"
        if len(missing) == len(self.sources) and folder == cache_dir / self.name:
            return "not fetched"
        return f"incomplete at {folder}: {', '.join(missing)} missing"

    def fingerprint(self, languages: tuple[str, ...]) -> str:
        # A text is refused unless it has its pinned checksum, so the pins say what the loader reads.
        stems = sorted(f"{split}.{language}" for split in self.splits for language in languages)
        pins = "".join(f"{stem} {self.text_sha256[stem]}\n" for stem in stems)
        return hashlib.sha256(pins.encode()).hexdigest()[:16]

    def fetch(self, cache_dir: Path) -> None:
        for split in self.splits:
            for language in self.languages:
                self._locate(split, language, cache_dir)

    def _expected_sha256(self, split: str, language: str) -> str:
        return self.text_sha256[f"{split}.{language}"]

    def _read(self, split: str, language: str, cache_dir: Path) -> Text:
        path = self._locate(split, language, cache_dir)
        return _read_gzip(path, origin=str(path))

    def _local_folder(self) -> Path | None:
        """The corpus' folder inside AIAYN_DATA, None where that is unset or holds no such folder."""
        root = os.environ.get("AIAYN_DATA")
        if not root:
            return None
        if not Path(root).is_dir():
            raise DataError(f"AIAYN_DATA={root} is not a folder; correct it, or unset it to download what is needed")
        folder = Path(root) / self.name
        return folder if folder.is_dir() else None

    def _locate(self, split: str, language: str, cache_dir: Path) -> Path:
        file = _file_name(split, language)
        folder = self._local_folder()
        if folder is None:
            path = cache_dir / self.name / file
            if not path.is_file():
                self._download(split, language, path)
            return path
        path = folder / file
        if not path.is_file():
            raise DataError(f"{path} is missing; copy it there, or unset AIAYN_DATA to download it")
        return path

    def _download(self, split: str, language: str, path: Path) -> None:
        """Fetch one file next to its place and rename it once it is checked; several processes may do so at once."""
        import pooch  # not needed where the files are there

        url = f"{self.base_url}/{path.name}"
        _logger.info("%s: fetching %s", self.name, url)
        partial = path.with_name(f".{uuid.uuid4().hex}.{path.name}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), chunk_size=1 << 16)(url, str(partial), None)
            self._check(_read_gzip(partial, origin=url), split, language)
            partial.replace(path)
        except OSError as error:  # requests' exceptions are OSErrors too
            raise DataError(
                f"cannot fetch {url} into {path.parent}: {_innermost(error)}; "
                f"try again, or put its files into a folder {self.name} and set AIAYN_DATA to the folder above"
            ) from error
        finally:
            partial.unlink(missing_ok=True)


def _innermost(error: BaseException) -> BaseException:
    """What went wrong first: a library's own wrapping of it fills a screen."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def _file_name(split: str, language: str) -> str:
    return f"{split}.{language}.gz"


def _read_gzip(path: Path, origin: str) -> Text:
    try:
        raw = gzip.decompress(path.read_bytes())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{origin} is not a complete gzip file ({error}); delete it and fetch it again") from error
    except OSError as error:
        raise DataError(f"{origin} cannot be read: {error.strerror}") from error
    return Text(decode_lines(raw, origin), origin, hashlib.sha256(raw).hexdigest())
