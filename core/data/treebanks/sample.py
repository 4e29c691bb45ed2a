"""A tenth of the Penn Treebank's Wall Street Journal, which NLTK distributes: sections 00 and 01 in 199 files."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.data.corpus import DataError, Languages, Source, State
from core.data.download import download
from core.data.lines import LineStream
from core.data.treebanks.treebank import Treebank, find_folder
from core.data.trees import Tree, read_trees

_ARCHIVE = "treebank.zip"
_SPLIT_ARTICLES: Mapping[str, range] = {"train": range(1, 160), "dev": range(160, 180), "test": range(180, 200)}


@dataclass(frozen=True)
class SampleTreebank(Treebank):
    """Articles inside one zip file, which is read without being unpacked.

    The file is `$AIAYN_DATA/treebank-sample/treebank.zip`, or else in HOME/data/treebank-sample, to which it is
    downloaded. `articles_sha256` pins the checksums and lengths that the archive states of its articles.
    """

    url: str
    archive_sha256: str
    articles_sha256: str

    @property
    def sources(self) -> tuple[Source, ...]:
        return (Source(_ARCHIVE, self.url, f"sha256:{self.archive_sha256}"),)

    def state(self, cache_dir: Path, languages: Languages | None = None) -> State:
        own_folder = cache_dir / self.name
        folder = find_folder(self.name, cache_dir) or own_folder
        if (folder / _ARCHIVE).is_file():
            return State("present", folder)
        return State("not fetched") if folder == own_folder else State("incomplete", folder, (_ARCHIVE,))

    def fingerprint(self, cache_dir: Path, languages: Languages | None = None) -> str:
        # Articles are refused unless they are the pinned ones, so the pin says what is read.
        return hashlib.sha256(repr((self.articles_sha256, _SPLIT_ARTICLES)).encode()).hexdigest()[:16]

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        obstacle = self.obstacle(cache_dir)
        if obstacle is not None:
            raise DataError(obstacle)
        if not self.state(cache_dir).usable:
            advice = f"try again, or put {_ARCHIVE} into a folder {self.name} and set AIAYN_DATA to the folder above"
            download(self.url, cache_dir / self.name / _ARCHIVE, self._require_articles, advice)

    def _open(self, split: str, cache_dir: Path) -> Iterator[Tree]:
        self.fetch(cache_dir)
        path = self.state(cache_dir).folder / _ARCHIVE
        self._require_articles(path)
        with _opened(path) as archive:
            for article in _SPLIT_ARTICLES[split]:
                name = _member(article)
                origin = f"{name} in {path}"
                yield from read_trees(LineStream(lambda name=name: archive.open(name), origin), origin)

    def _require_articles(self, path: Path) -> None:
        """Raise DataError unless the archive has the articles that are expected."""
        with _opened(path) as archive:
            stated = [(name, archive.getinfo(name).CRC, archive.getinfo(name).file_size) for name in _members()]
        found = hashlib.sha256(repr(stated).encode()).hexdigest()
        if found != self.articles_sha256:
            raise DataError(f"{path} has other articles than {self.name}; delete it and get it again")


def _member(article: int) -> str:
    return f"treebank/combined/wsj_{article:04}.mrg"


def _members() -> list[str]:
    return [_member(article) for articles in _SPLIT_ARTICLES.values() for article in articles]


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; while it is open, what is wrong with it is a DataError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except KeyError as error:
        raise DataError(f"{path} lacks an article: {error.args[0]}; delete it and get it again") from error
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a complete zip file ({error}); delete it and get it again") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


TREEBANK_SAMPLE = SampleTreebank(
    name="treebank-sample",
    task="parsing",
    languages=("en",),
    splits={"train": 3_396, "dev": 273, "test": 245},
    licence="non-commercial use only, (C) Linguistic Data Consortium 1995",
    citation="Marcus, Santorini, Marcinkiewicz 1993, Building a Large Annotated Corpus of English: The Penn Treebank",
    description="Wall Street Journal of 1989: train is wsj_0001 to wsj_0159, dev to wsj_0179, test to wsj_0199",
    url="https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora/treebank.zip",
    archive_sha256="9da92d76c3666cfb6cddeaed0f7e86b344cce0f0928a286d439e555f19c37399",
    articles_sha256="67aa175d8de3890c1cf5484ca539863b6172f3cf8e4099083a75ef7651a6366e",
)
