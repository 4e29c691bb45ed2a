"""WMT14 English-German and English-French: training parts, newstest2013, and newstest2014 in its long form.

The addresses are the publisher's, who gives no checksums. Those of the training archives are what the
TensorFlow Datasets project recorded (tensorflow_datasets/url_checksums/wmt14_translate.txt and
wmt15_translate.txt), those of the test sets are sacreBLEU's. newstest2014 is handed out with 2,737 and with 3,003
lines; sacreBLEU calls the long one wmt14/full (pitfall A7), and it is the one in the archive that the paper's authors
used.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from core.data import archive, cleaning
from core.data.cleaning import Cleaning, Filter
from core.data.corpus import TRAIN_SPLIT, DataError, Languages, Source, Step, local_folder
from core.data.download import download
from core.data.lines import LineStream
from core.data.lock import one_at_a_time
from core.data.manifest import Manifest, ManifestCorpus, RecordedText, write_texts
from core.data.progress import watched
from core.data.translation_corpus import Text, aligned_pairs, checked_pairs

_logger = logging.getLogger(__name__)
_SEGMENT = re.compile(r"\s*<seg\b[^>]*>(.*)</seg>")
_SPACES = re.compile(r"\s+")


@dataclass(frozen=True)
class Archive:
    """A file to download: its address, its checksum as `<algorithm>:<hex>`, and its size."""

    url: str
    checksum: str
    num_bytes: int | None = None

    @property
    def file(self) -> str:
        """Its name, under which a person may bring it too."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Part:
    """What one archive contributes: by pair of languages, the names of the two members, in the pair's order."""

    name: str
    archive: Archive
    members: Mapping[Languages, tuple[str, str]]


@dataclass(frozen=True)
class Wmt14(ManifestCorpus):
    """Text made once from archives, which are downloaded or found in `$AIAYN_DATA/wmt14`.

    In the same folder, line files `<split>.<pair>.<language>`, plain or .gz (`train.en-de.en`), stand for a split as
    it is: they are read where they lie, and nothing is removed from them. The segments of test sets are cut out of
    their SGML as sacreBLEU does it, so that scores are of the same text; entities such as `&amp;` stay. What was made
    once stays, whatever is brought later; to have a pair made anew, delete its `<pair>.json`.

    Attributes:
        training: the parts of the training split, in the order in which they are joined.
        tests: the other splits; their members are SGML.
        filters: by pair of languages, what is applied to the training pairs, in order.
    """

    training: tuple[Part, ...]
    tests: Mapping[str, Part]
    filters: Mapping[Languages, tuple[Filter, ...]]

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple(self.filters)

    @property
    def sources(self) -> tuple[Source, ...]:
        archives = (part.archive for part in (*self.training, *self.tests.values()))
        return tuple(Source(archive.file, archive.url, archive.checksum) for archive in archives)

    def steps(self, cache_dir: Path) -> tuple[Step, ...]:
        planned = []
        for pair in self.pairs:
            manifest = self._manifest(cache_dir, pair)
            if manifest is not None:
                planned += manifest.steps
                continue
            part = _part(TRAIN_SPLIT, pair)
            planned += [Step(part, f"read {source.name}", None) for source in self.training if pair in source.members]
            planned += [Step(part, rule.name, None) for rule in self.filters[pair]]
        return tuple(planned)

    def fetch(self, cache_dir: Path, languages: Languages | None = None) -> None:
        wanted = self.pairs if languages is None else (self.named_pair(languages),)
        folder = self._folder(cache_dir)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"cannot write {folder}: {error.strerror}; choose another --home") from error
        for pair in wanted:
            name = "-".join(pair)
            with one_at_a_time(folder / f".{name}.lock", f"{self.name} {name}", "fetches it"):
                manifest = self._manifest(cache_dir, pair)
                if manifest is None or manifest.changed():
                    self._make(pair, folder)

    def _folder(self, cache_dir: Path) -> Path:
        return cache_dir / self.name

    def _manifest(self, cache_dir: Path, languages: Languages) -> Manifest | None:
        path = _manifest_path(self._folder(cache_dir), self.named_pair(languages))
        if not path.is_file():
            return None
        return Manifest.load(path, f"delete it, and {self._remedy(languages)}")[0]

    def _remedy(self, languages: Languages | None) -> str:
        pair = "" if languages is None else f" --pair {'-'.join(self.named_pair(languages))}"
        return f"get it with: aiayn data fetch {self.name}{pair}"

    def _make(self, pair: Languages, folder: Path) -> None:
        """Write or take the text of every split, and then the manifest."""
        made = []
        for split in self.splits:
            brought = self._brought(split, pair)
            made.append(self._extract(split, pair, folder) if brought is None else self._take(split, pair, brought))
        Manifest.joined(made).save(_manifest_path(folder, pair))

    def _extract(self, split: str, pair: Languages, folder: Path) -> Manifest:
        """Write a split's text from its archives."""
        parts = [part for part in self._parts(split) if pair in part.members]
        paths = [self._locate(part.archive, folder) for part in parts]  # all of them before any is read
        counters = [Cleaning() for _ in parts]
        pairs = chain.from_iterable(
            counter.apply(self._read_part(split, pair, part, path))
            for counter, part, path in zip(counters, parts, paths, strict=True)
        )
        rules = Cleaning(self.filters[pair] if split == TRAIN_SPLIT else ())
        what = _part(split, pair)
        shown = watched(pairs, f"{self.name}: reading {what}", self.splits[split])
        written = write_texts(rules.apply(shown), {language: folder / f"{what}.{language}" for language in pair})
        read = [(f"read {part.name}", counter.num_read) for part, counter in zip(parts, counters, strict=True)]
        kept = [(rule.name, count) for rule, count in zip(rules.filters, rules.kept, strict=True)]
        sources = (Source(part.archive.file, part.archive.url, part.archive.checksum) for part in parts)
        return Manifest({split: written}, tuple(sources), tuple(Step(what, *step) for step in read + kept))

    def _take(self, split: str, pair: Languages, paths: Mapping[str, Path]) -> Manifest:
        """Check line files of a person where they lie."""
        what = _part(split, pair)
        streams = {language: LineStream.of_file(paths[language]) for language in pair}
        texts = tuple(Text(stream, stream.origin) for stream in streams.values())
        pairs = checked_pairs(texts, pair, f"{self.name} {what}", self.splits[split])
        for _ in watched(pairs, f"{self.name}: reading {what}", self.splits[split]):
            pass
        recorded = {
            language: RecordedText(paths[language], stream.num_lines, stream.sha256, paths[language].stat().st_size)
            for language, stream in streams.items()
        }
        sources = (Source(text.path.name, str(text.path), f"sha256:{text.sha256}") for text in recorded.values())
        step = Step(what, f"taken as brought, from line files in {paths[pair[0]].parent}", recorded[pair[0]].num_lines)
        return Manifest({split: recorded}, tuple(sources), (step,))

    def _parts(self, split: str) -> tuple[Part, ...]:
        return self.training if split == TRAIN_SPLIT else (self.tests[split],)

    def _brought(self, split: str, pair: Languages) -> dict[str, Path] | None:
        """The line files of a split that a person put into AIAYN_DATA; None where there are none."""
        local = local_folder(self.name)
        if local is None:
            return None
        names = {language: f"{_part(split, pair)}.{language}" for language in pair}
        found = {
            language: next((path for path in (local / name, local / f"{name}.gz") if path.is_file()), None)
            for language, name in names.items()
        }
        if not any(found.values()):
            return None
        for language, path in found.items():
            if path is None:
                raise DataError(
                    f"{local} holds one side of {split} and no {names[language]}; bring both sides, or neither"
                )
        return found

    def _locate(self, source: Archive, folder: Path) -> Path:
        """An archive that is whole and the one expected: brought, downloaded before, or downloaded now."""
        local = local_folder(self.name)
        if local is not None and (local / source.file).is_file():
            archive.inspect(local / source.file, source.checksum)
            return local / source.file
        path = folder / source.file
        if path.is_file():
            archive.inspect(path, source.checksum)
            return path
        advice = f"try again, or copy {source.file} into a folder {self.name} and set AIAYN_DATA to the folder above"
        download(source.url, path, lambda partial: archive.inspect(partial, source.checksum), advice, source.num_bytes)
        return path

    def _read_part(self, split: str, pair: Languages, part: Part, path: Path) -> Iterator[tuple[str, str]]:
        """The pairs that one archive has of a split."""
        _logger.info("%s: reading %s", self.name, part.name)
        sides = [archive.member_lines(path, member) for member in part.members[pair]]
        if split == TRAIN_SPLIT:
            yield from aligned_pairs(tuple(Text(side, side.origin) for side in sides))
            return
        texts = tuple(Text(_segments(side), side.origin) for side in sides)
        yield from checked_pairs(texts, pair, f"{self.name} {split}", self.splits[split])


def _part(split: str, pair: Languages) -> str:
    """A split of a pair, as steps and files are named: train.en-de."""
    return f"{split}.{'-'.join(pair)}"


def _manifest_path(folder: Path, pair: Languages) -> Path:
    return folder / f"{'-'.join(pair)}.json"


def _segments(lines: Iterable[str]) -> Iterator[str]:
    """The segments of a test set's SGML, white space made single, as sacreBLEU reads them."""
    for line in lines:
        segment = _SEGMENT.match(line)
        if segment:
            yield _SPACES.sub(" ", segment[1].strip())


_EUROPARL = Archive(
    "https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    657_632_379,
)
_COMMON_CRAWL = Archive(
    "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    918_311_367,
)
_UNITED_NATIONS = Archive(
    "https://www.statmt.org/wmt13/training-parallel-un.tgz",
    "sha256:29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
    2_365_634_246,
)
_NEWS_COMMENTARY = Archive(
    "https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
    "sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
    80_418_416,
)
_GIGA = Archive(
    "https://www.statmt.org/wmt10/training-giga-fren.tar",
    "sha256:3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
    2_595_102_720,
)
_NEWSTEST2013 = Archive("https://statmt.org/wmt13/test.tgz", "md5:48eca5d02f637af44e85186847141f67")
_NEWSTEST2014 = Archive("https://statmt.org/wmt14/test-full.tgz", "md5:a8cd784e006feb32ac6f3d9ec7eb389a")

_DE, _FR = ("en", "de"), ("en", "fr")

WMT14 = Wmt14(
    name="wmt14",
    task="translation",
    languages=("en", "de", "fr"),
    splits={TRAIN_SPLIT: None, "newstest2013": 3_000, "newstest2014": 3_003},
    licence="for research; the parts have terms of their own (https://www.statmt.org/wmt14/translation-task.html)",
    citation="Bojar et al. 2014, Findings of the 2014 Workshop on Statistical Machine Translation",
    description="news translation task: about 4.5M training pairs English-German, 36M English-French after cleaning",
    training=(
        Part(
            "europarl-v7",
            _EUROPARL,
            {
                _DE: ("europarl-v7.de-en.en", "europarl-v7.de-en.de"),
                _FR: ("europarl-v7.fr-en.en", "europarl-v7.fr-en.fr"),
            },
        ),
        Part(
            "commoncrawl",
            _COMMON_CRAWL,
            {
                _DE: ("commoncrawl.de-en.en", "commoncrawl.de-en.de"),
                _FR: ("commoncrawl.fr-en.en", "commoncrawl.fr-en.fr"),
            },
        ),
        Part("undoc.2000", _UNITED_NATIONS, {_FR: ("undoc.2000.fr-en.en", "undoc.2000.fr-en.fr")}),
        Part(
            "news-commentary-v9",
            _NEWS_COMMENTARY,
            {
                _DE: ("news-commentary-v9.de-en.en", "news-commentary-v9.de-en.de"),
                _FR: ("news-commentary-v9.fr-en.en", "news-commentary-v9.fr-en.fr"),
            },
        ),
        Part("giga-fren.release2", _GIGA, {_FR: ("giga-fren.release2.fixed.en.gz", "giga-fren.release2.fixed.fr.gz")}),
    ),
    tests={
        "newstest2013": Part(
            "newstest2013",
            _NEWSTEST2013,
            {
                _DE: ("newstest2013-src.en.sgm", "newstest2013-src.de.sgm"),
                _FR: ("newstest2013-src.en.sgm", "newstest2013-src.fr.sgm"),
            },
        ),
        "newstest2014": Part(
            "newstest2014 of wmt14/full",
            _NEWSTEST2014,
            {
                _DE: ("newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm"),
                _FR: ("newstest2014-fren-src.en.sgm", "newstest2014-fren-ref.fr.sgm"),
            },
        ),
    },
    # The paper says nothing of cleaning. English-German keeps all that can be trained on. English-French has 40.8M
    # such pairs and the paper prints 36M, though one of its authors writes that nothing was filtered
    # (https://github.com/tensorflow/tensor2tensor/issues/507). The next two filters are those of the one description
    # that comes near 36M, 35.5M pairs, which counted Moses tokens where we count words
    # (https://github.com/facebookresearch/fairseq-lua/issues/59).
    filters={
        _DE: (cleaning.no_empty_side(), cleaning.no_markup()),
        _FR: (
            cleaning.no_empty_side(),
            cleaning.no_markup(),
            cleaning.at_most_words(175),
            cleaning.length_ratio_at_most(1.5),
        ),
    },
)
