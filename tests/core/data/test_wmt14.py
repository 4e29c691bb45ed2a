"""WMT14 from archives of the publisher's form and names, with other text, served from this machine or brought."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from sacrebleu import DATASETS

from core.data import corpora, manifest
from core.data.corpus import DataError
from core.data.lines import LineStream
from core.data.wmt14 import WMT14, Archive, Wmt14
from results.run_folder import RunStatus
from studies.runs import Workspace, plan_runs
from studies.scales import PAPER
from studies.table3 import STUDY

DE, FR = ("en", "de"), ("en", "fr")
FOLDERS = {"europarl-v7": "training", "news-commentary-v9": "training", "undoc.2000": "un"}
ROOT = Path(corpora.__file__).parents[2]


def sentence(language: str, what: str, number: int) -> str:
    words = {
        "en": "the council of the union has adopted a regulation on trade with the east",
        "de": "der Rat der Union hat eine Verordnung über den Handel mit dem Osten angenommen",
        "fr": "le conseil de l'union a adopté un règlement sur le commerce avec l'est",
    }[language].split()
    return " ".join([what, str(number), *words[number % 5 :]]) + " ."


def text(language: str, what: str, count: int) -> list[str]:
    return [sentence(language, what, number) for number in range(count)]


def sgm(kind: str, language: str, lines: list[str]) -> list[str]:
    head = f'<{kind} setid="newstest" srclang="any"' + ("" if kind == "srcset" else f' trglang="{language}"') + ">"
    segments = [f'<seg id="{number}">{line}</seg>' for number, line in enumerate(lines, 1)]
    return [head, '<doc sysid="ref" docid="a.b" genre="news" origlang="en">', "<hl>", *segments[:1], "</hl>", "<p>",
            *segments[1:], "</p>", "</doc>", f"</{kind}>"]  # fmt: skip


@pytest.fixture
def members() -> dict[str, dict[str, list[str]]]:
    """By archive, the lines of each member under its full name, as the publisher lays them out."""
    found: dict[str, dict[str, list[str]]] = {}
    for part in WMT14.training:
        for pair, names in part.members.items():
            for language, name in zip(pair, names, strict=True):
                folder = FOLDERS.get(part.name)
                what = f"{part.name}.{'-'.join(pair)}"
                place = f"{folder}/{name}" if folder else name
                found.setdefault(part.archive.file, {})[place] = text(language, what, 40)
    for language in ("en", "de", "fr"):
        lines = text(language, "newstest2013", 3000)
        found.setdefault("test.tgz", {})[f"test/newstest2013-src.{language}.sgm"] = sgm("srcset", language, lines)
    for code, other in (("deen", "de"), ("fren", "fr")):
        for language in ("en", other):
            for kind, short in (("srcset", "src"), ("refset", "ref")):
                name = f"test-full/newstest2014-{code}-{short}.{language}.sgm"
                lines = text(language, f"newstest2014-{code}", 3003)
                found.setdefault("test-full.tgz", {})[name] = sgm(kind, language, lines)
    return found


def pack(path: Path, members: Mapping[str, list[str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = "w" if path.suffix == ".tar" else "w:gz"
    with tarfile.open(path, mode) as archive:
        for name, lines in members.items():
            raw = "".join(f"{line}\n" for line in lines).encode()
            if name.endswith(".gz"):
                raw = gzip.compress(raw, compresslevel=1)
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            archive.addfile(info, io.BytesIO(raw))
    return path


def checksum(path: Path, algorithm: str) -> str:
    return f"{algorithm}:{hashlib.new(algorithm, path.read_bytes()).hexdigest()}"


def with_archives(find: Mapping[str, Archive]) -> Wmt14:
    """WMT14 with other archives under the same names."""
    training = tuple(replace(part, archive=find[part.archive.file]) for part in WMT14.training)
    tests = {split: replace(part, archive=find[part.archive.file]) for split, part in WMT14.tests.items()}
    return replace(WMT14, training=training, tests=tests)


def build(folder: Path, members: Mapping[str, Mapping[str, list[str]]], address: str) -> Wmt14:
    """Pack archives into a folder and pin them."""
    find = {}
    for source in WMT14.sources:
        path = pack(folder / source.file, members[source.file])
        algorithm = source.checksum.partition(":")[0]
        find[source.file] = Archive(f"{address}/{source.file}", checksum(path, algorithm), path.stat().st_size)
    return with_archives(find)


@pytest.fixture
def served(server, members) -> Wmt14:
    return build(server.folder, members, server.address)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder wmt14 inside AIAYN_DATA, empty."""
    folder = tmp_path / "brought" / "wmt14"
    folder.mkdir(parents=True)
    monkeypatch.setenv("AIAYN_DATA", str(folder.parent))
    return folder


def left_in(cache: Path) -> list[str]:
    """Everything in the corpus' folder except locks."""
    return sorted(path.name for path in (cache / "wmt14").iterdir() if not path.name.endswith(".lock"))


def joined(language: str, pair: str, parts: list[str], count: int = 40) -> list[str]:
    return [line for part in parts for line in text(language, f"{part}.{pair}", count)]


# What is pinned -------------------------------------------------------------------------------------------------------


def test_a07_test_sets_are_those_of_sacrebleu_in_their_long_form():
    """A7, B07: newstest2014 has 2,737 and 3,003 lines; the long one is wmt14/full, and newstest2013 is wmt13."""
    assert WMT14.splits["newstest2013"] == 3000
    assert WMT14.splits["newstest2014"] == 3003
    for split, name in (("newstest2013", "wmt13"), ("newstest2014", "wmt14/full")):
        part, published = WMT14.tests[split], DATASETS[name]
        assert [part.archive.url] == published.data
        assert [part.archive.checksum] == [f"md5:{md5}" for md5 in published.md5]
        for pair, names in part.members.items():
            assert list(names) == [path.rpartition("/")[2] for path in published.langpairs["-".join(pair)]]


def test_a23_a25_a33_every_training_archive_is_pinned_and_is_that_of_2014():
    """A23 and A25: tools moved on to News Commentary v13 and to other years; A33: a copy of one's own."""
    german = [part.name for part in WMT14.training if DE in part.members]
    assert german == ["europarl-v7", "commoncrawl", "news-commentary-v9"]
    french = [part.name for part in WMT14.training if FR in part.members]
    assert french == ["europarl-v7", "commoncrawl", "undoc.2000", "news-commentary-v9", "giga-fren.release2"]
    for source in WMT14.sources:
        algorithm, _, value = source.checksum.partition(":")
        assert len(value) == {"sha256": 64, "md5": 32}[algorithm]
        assert source.url.startswith("https://")
    assert all(part.archive.checksum.startswith("sha256:") for part in WMT14.training)


def test_a26_the_filters_are_named_in_order_before_anything_is_here(cache):
    """A26: 36M pairs in print, 40.8M in the files."""
    steps = [(step.part, step.name, step.kept) for step in WMT14.steps(cache)]
    assert [name for part, name, _ in steps if part == "train.en-fr"][-4:] == [
        "no empty side",
        "no SGML tags at the start",
        "at most 175 words a side",
        "one side at most 1.5 times as many words as the other",
    ]
    assert all(kept is None for _, _, kept in steps)


# From the publisher's archives ----------------------------------------------------------------------------------------


def test_english_german_is_made_from_three_archives_and_two_test_sets(served, server, members, cache):
    broken = members["training-parallel-commoncrawl.tgz"]
    broken["commoncrawl.de-en.de"][3] = ""
    broken["commoncrawl.de-en.en"][7] = " \u00a0"
    broken["commoncrawl.de-en.en"][9] = '<seg id="1">left over</seg>'
    served = build(server.folder, members, server.address)
    assert str(served.state(cache, DE)) == "not fetched"
    served.fetch(cache, DE)
    assert not any("un.tgz" in path or "giga" in path for path in server.asked)
    parts = ["europarl-v7", "commoncrawl", "news-commentary-v9"]
    removed = {40 + 3, 40 + 7, 40 + 9}
    for language, lines in zip(DE, served.load_pair("train", *DE, cache), strict=True):
        everything = joined(language, "en-de", parts)
        assert lines == [line for place, line in enumerate(everything) if place not in removed]
    assert [step.kept for step in served.steps(cache) if step.part == "train.en-de"] == [40, 40, 40, 118, 117]
    for split, what, count in (("newstest2013", "newstest2013", 3000), ("newstest2014", "newstest2014-deen", 3003)):
        for language, lines in zip(DE, served.load_pair(split, *DE, cache), strict=True):
            assert lines == text(language, what, count)
    assert served.state(cache, DE).usable
    assert str(served.state(cache)) == f"incomplete at {cache / 'wmt14'}: en-fr missing"
    served.verify(cache, DE)


def test_english_french_is_made_from_five_archives_and_cleaned(server, members, cache):
    giga = members["training-giga-fren.tar"]
    giga["giga-fren.release2.fixed.en.gz"][0] = "word " * 176
    giga["giga-fren.release2.fixed.fr.gz"][0] = "mot " * 175
    giga["giga-fren.release2.fixed.en.gz"][1] = "one two three four"
    giga["giga-fren.release2.fixed.fr.gz"][1] = "un deux trois quatre cinq six"
    giga["giga-fren.release2.fixed.fr.gz"][2] = "un deux"
    served = build(server.folder, members, server.address)
    served.fetch(cache, FR)
    steps = {step.name: step.kept for step in served.steps(cache) if step.part == "train.en-fr"}
    assert list(steps.items())[-4:] == [
        ("no empty side", 200),
        ("no SGML tags at the start", 200),
        ("at most 175 words a side", 199),
        ("one side at most 1.5 times as many words as the other", 198),
    ]
    english, french = served.load_pair("train", *FR, cache)
    assert len(english) == len(french) == 198
    assert "un deux trois quatre cinq six" in french
    assert french[-1] == sentence("fr", "giga-fren.release2.en-fr", 39)
    assert served.load_pair("newstest2014", "fr", "en", cache)[0] == text("fr", "newstest2014-fren", 3003)
    assert served.load_pair("newstest2013", *FR, cache)[1] == text("fr", "newstest2013", 3000)


def test_a_second_fetch_asks_for_nothing(served, server, cache):
    served.fetch(cache, DE)
    before = {path: path.stat().st_mtime_ns for path in (cache / "wmt14").iterdir() if path.suffix != ".lock"}
    server.asked.clear()
    served.fetch(cache, DE)
    assert server.asked == []
    assert {path: path.stat().st_mtime_ns for path in (cache / "wmt14").iterdir() if path.suffix != ".lock"} == before


def test_the_second_pair_downloads_only_what_the_first_did_not(served, server, cache):
    served.fetch(cache, DE)
    server.asked.clear()
    served.fetch(cache)
    assert sorted(server.asked) == ["/training-giga-fren.tar", "/training-parallel-un.tgz"]
    assert str(served.state(cache)) == f"present at {cache / 'wmt14'}"


def test_segments_are_cut_out_as_sacrebleu_does_it(server, members, cache, tmp_path):
    """The scores of others are of sacreBLEU's text: entities stay, white space is made single."""
    strange = ["Q&amp;A  with\u00a0spaces ", "a „quote“ and &quot;one&quot;", "line\u2028separator", "1 < 2 </p> 3"]
    for code, other in (("deen", "de"), ("fren", "fr")):
        for name in ("src.en.sgm", f"ref.{other}.sgm"):
            lines = members["test-full.tgz"][f"test-full/newstest2014-{code}-{name}"]
            lines[8 : 8 + len(strange)] = [f'<seg id="{9 + i}"> {line} </seg>' for i, line in enumerate(strange)]
    served = build(server.folder, members, server.address)
    served.fetch(cache, DE)
    path, output = tmp_path / "theirs.sgm", tmp_path / "theirs.txt"
    path.write_text("\n".join(members["test-full.tgz"]["test-full/newstest2014-deen-ref.de.sgm"]) + "\n")
    DATASETS["wmt14/full"]._convert_format(str(path), str(output))
    theirs = output.read_text().split("\n")[:-1]
    assert served.load_pair("newstest2014", *DE, cache)[1] == theirs
    assert "Q&amp;A with spaces" in theirs


def test_a07_the_short_test_set_is_refused(server, members, cache):
    """B07: 2,737 lines are another test set."""
    for name, lines in members["test-full.tgz"].items():
        if "deen" in name:
            del lines[20 : 20 + 3003 - 2737]
    with pytest.raises(DataError, match="has 2737 lines, wmt14 newstest2014 has 3003"):
        build(server.folder, members, server.address).fetch(cache, DE)
    assert "en-de.json" not in left_in(cache)


def test_sides_of_unequal_length_are_refused(server, members, cache):
    members["training-parallel-nc-v9.tgz"]["training/news-commentary-v9.de-en.de"].append("eine mehr")
    with pytest.raises(DataError, match=r"v9\.de-en\.en in .* has 40 lines and .*v9\.de-en\.de in .* has 41"):
        build(server.folder, members, server.address).fetch(cache, DE)
    assert not [name for name in left_in(cache) if name.startswith(("train.", ".partial", "en-de"))]


# Brought by a person --------------------------------------------------------------------------------------------------


def test_brought_archives_need_no_network_and_are_not_touched(members, bring, cache):
    brought = build(bring, members, "http://127.0.0.1:9/nothing")
    before = {path: path.stat().st_mtime_ns for path in bring.iterdir()}
    brought.fetch(cache)
    assert brought.state(cache).usable
    brought.verify(cache)
    assert {path: path.stat().st_mtime_ns for path in bring.iterdir()} == before
    assert not [name for name in left_in(cache) if name.endswith((".tgz", ".tar"))]


def test_a33_brought_line_files_stand_for_a_split_and_are_named_as_such(members, bring, cache):
    """A33: a copy of one's own, 4,468,840 pairs, may be used, and its name and fingerprint say that it was."""
    official = build(bring, members, "http://127.0.0.1:9/nothing")
    official.fetch(cache, DE)
    of_archives = official.fingerprint(cache, DE)
    (cache / "wmt14" / "en-de.json").unlink()
    (bring / "train.en-de.en").write_text("".join(f"{line}\n" for line in text("en", "own", 25)))
    (bring / "train.en-de.de.gz").write_bytes(gzip.compress("\n".join(text("de", "own", 25)).encode()))
    official.fetch(cache, DE)
    assert official.load_pair("train", *DE, cache) == (text("en", "own", 25), text("de", "own", 25))
    steps = [(step.name, step.kept) for step in official.steps(cache) if step.part == "train.en-de"]
    assert steps == [(f"taken as brought, from line files in {bring}", 25)]
    assert official.fingerprint(cache, DE) != of_archives
    entry = json.loads((cache / "wmt14" / "en-de.json").read_text())["splits"]["train"]["de"]
    assert entry["path"] == str(bring / "train.en-de.de.gz")
    assert len(official.load_pair("newstest2014", *DE, cache)[0]) == 3003


def test_one_side_of_a_split_is_not_enough(members, bring, cache):
    (bring / "train.en-de.en").write_text("one side\n")
    with pytest.raises(DataError, match=r"holds one side of train and no train\.en-de\.de; bring both"):
        build(bring, members, "http://127.0.0.1:9/nothing").fetch(cache, DE)


@pytest.mark.parametrize(
    ("german", "message"),
    [
        (["eins", "zwei"], "has 3 lines and .* has 2; both should have equally many"),
        (["eins", "", "drei"], "has 1 empty lines, the first is line 2"),
        (["eins", '<seg id="2">zwei</seg>', "drei"], "line 2 is SGML markup"),
        (["one", "two", "three"], "are the same in 3 of 3 lines"),
        (["eins\r", "zwei\r", "drei\r"], "ends its lines as Windows does"),
    ],
)
def test_brought_line_files_are_checked(members, bring, cache, german, message):
    (bring / "train.en-de.en").write_text("one\ntwo\nthree\n")
    (bring / "train.en-de.de").write_bytes("".join(f"{line}\n" for line in german).encode())
    with pytest.raises(DataError, match=message):
        build(bring, members, "http://127.0.0.1:9/nothing").fetch(cache, DE)
    assert left_in(cache) == []


# What goes wrong ------------------------------------------------------------------------------------------------------


def test_a_download_that_breaks_off_leaves_nothing_and_can_be_repeated(served, server, cache):
    server.cut = 400
    with pytest.raises(DataError, match=r"cannot fetch http://.*europarl-v7\.tgz .*; try again, or copy"):
        served.fetch(cache, DE)
    assert left_in(cache) == []
    assert str(served.state(cache, DE)) == "not fetched"
    server.cut = None
    served.fetch(cache, DE)
    assert served.state(cache, DE).usable


def test_a_download_with_another_checksum_is_refused_and_not_kept(served, server, members, cache):
    members["training-parallel-nc-v9.tgz"]["training/news-commentary-v9.de-en.de"][0] = "ein anderer Satz"
    pack(server.folder / "training-parallel-nc-v9.tgz", members["training-parallel-nc-v9.tgz"])
    with pytest.raises(
        DataError, match=r"nc-v9\.tgz is not the archive expected: its sha256 is [0-9a-f]{64}, should be"
    ):
        served.fetch(cache, DE)
    assert left_in(cache) == ["training-parallel-commoncrawl.tgz", "training-parallel-europarl-v7.tgz"]


def test_a_server_that_calls_an_archive_compressed_text_gives_the_archive(served, server, cache):
    server.encoding = "x-gzip"
    served.fetch(cache, DE)
    assert served.state(cache, DE).usable


@pytest.mark.parametrize("keep", [0, 30, 0.5, -30])
def test_a_truncated_archive_is_refused(members, bring, cache, keep):
    brought = build(bring, members, "http://127.0.0.1:9/nothing")
    path = bring / "training-parallel-commoncrawl.tgz"
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(DataError, match=r"commoncrawl\.tgz is not (a complete archive|the archive expected)"):
        brought.fetch(cache, DE)
    assert left_in(cache) == []


def test_a_page_that_says_not_found_is_no_archive(members, bring, cache):
    brought = build(bring, members, "http://127.0.0.1:9/nothing")
    (bring / "test-full.tgz").write_text("<html>404 Not Found</html>")
    with pytest.raises(DataError, match=r"test-full\.tgz is not a complete archive"):
        brought.fetch(cache, DE)


HOSTILE = {
    "climbs out": ({"name": "../../outside.de"}, "would lie outside its folder"),
    "climbs out from within": ({"name": "training/../../outside.de"}, "would lie outside its folder"),
    "absolute": ({"name": "/tmp/outside.de"}, "would lie outside its folder"),
    "link": ({"name": "training/x.de", "type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "is a link or a device"),
    "hard link": ({"name": "training/x.de", "type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, "is a link"),
    "device": ({"name": "training/null", "type": tarfile.CHRTYPE}, "is a link or a device"),
}


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_member_that_leaves_its_folder_is_refused_though_the_checksum_fits(fault, members, bring, cache):
    values, message = HOSTILE[fault]
    path = bring / "training-parallel-europarl-v7.tgz"
    find = {part.archive.file: part.archive for part in (*WMT14.training, *WMT14.tests.values())}
    pack(path, members[path.name])
    with tarfile.open(path) as archive:
        kept = [(member, archive.extractfile(member).read()) for member in archive]
    with tarfile.open(path, "w:gz") as archive:
        for member, raw in kept:
            archive.addfile(member, io.BytesIO(raw))
        hostile = tarfile.TarInfo()
        for name, value in values.items():
            setattr(hostile, name, value)
        archive.addfile(hostile)
    pinned = Archive(find[path.name].url, checksum(path, "sha256"))
    with pytest.raises(DataError, match=message):
        with_archives(find | {path.name: pinned}).fetch(cache, DE)
    assert left_in(cache) == []
    assert sorted(file.name for file in bring.parent.rglob("*")) == [path.name, "wmt14"]


def test_an_archive_without_the_member_is_refused(server, members, cache):
    del members["training-parallel-commoncrawl.tgz"]["commoncrawl.de-en.de"]
    with pytest.raises(DataError, match=r"commoncrawl\.tgz holds no commoncrawl\.de-en\.de"):
        build(server.folder, members, server.address).fetch(cache, DE)


def test_a_disk_that_cannot_hold_the_archive_is_told_before_the_download(served, server, cache):
    parts = tuple(replace(part, archive=replace(part.archive, num_bytes=10**18)) for part in served.training)
    with pytest.raises(
        DataError, match=r"1e\+09 GB are needed, .* are free; free some space, or choose another --home"
    ):
        replace(served, training=parts).fetch(cache, DE)
    assert server.asked == []
    assert left_in(cache) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB; skips where none can be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.name != "posix" or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk: run the tests as root outside a container")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_the_download_and_leaves_nothing(server, members, small_disk):
    members["training-parallel-europarl-v7.tgz"]["training/europarl-v7.de-en.de"] += [
        hashlib.sha256(str(i).encode()).hexdigest() for i in range(4000)
    ]
    served = build(server.folder, members, server.address)
    parts = tuple(replace(part, archive=replace(part.archive, num_bytes=None)) for part in served.training)
    with pytest.raises(DataError, match=r"cannot fetch .*europarl-v7\.tgz .*No space left.*; free some space"):
        replace(served, training=parts).fetch(small_disk, DE)
    assert left_in(small_disk) == []


def test_a_full_disk_ends_the_writing_of_text_and_leaves_nothing(members, bring, small_disk):
    brought = build(bring, members, "http://127.0.0.1:9/nothing")
    with pytest.raises(DataError, match=r"cannot write .*wmt14: No space left on device; free some space"):
        brought.fetch(small_disk, DE)
    assert not [name for name in left_in(small_disk) if "newstest" in name or name.endswith(".json")]


def test_a_full_disk_without_a_disk_to_fill(members, bring, cache, monkeypatch):
    """As the two above, where nothing can be mounted."""
    brought = build(bring, members, "http://127.0.0.1:9/nothing")

    def blocks(pairs):
        yield [("a line", "eine Zeile")]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(manifest, "_blocks", blocks)
    with pytest.raises(DataError, match=r"cannot write .*wmt14: No space left on device; free some space"):
        brought.fetch(cache, DE)
    assert left_in(cache) == []


FETCH = """
import json, sys
from dataclasses import replace
from pathlib import Path
from core.data.wmt14 import WMT14, Archive
find = {file: Archive(*values) for file, values in json.loads(sys.argv[1]).items()}
training = tuple(replace(part, archive=find[part.archive.file]) for part in WMT14.training)
tests = {split: replace(part, archive=find[part.archive.file]) for split, part in WMT14.tests.items()}
corpus = replace(WMT14, training=training, tests=tests)
corpus.fetch(Path(sys.argv[2]), ("en", "de"))
print(corpus.fingerprint(Path(sys.argv[2]), ("en", "de")))
"""


def test_processes_that_fetch_at_once_download_once_and_end_with_the_same(served, server, cache):
    archives = {part.archive.file: part.archive for part in (*served.training, *served.tests.values())}
    find = json.dumps({name: [source.url, source.checksum, source.num_bytes] for name, source in archives.items()})

    def run(_: int) -> str:
        command = [sys.executable, "-c", FETCH, find, str(cache)]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    with ThreadPoolExecutor(3) as pool:
        outputs = set(pool.map(run, range(3)))
    assert outputs == {served.fingerprint(cache, DE) + "\n"}
    assert len(server.asked) == len(set(server.asked)) == 5
    assert not [name for name in left_in(cache) if "partial" in name]


# Ever after -----------------------------------------------------------------------------------------------------------


def test_text_that_changed_since_is_noticed(served, cache):
    served.fetch(cache, DE)
    original = served.fingerprint(cache, DE)
    path = cache / "wmt14" / "train.en-de.de"
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"Rat", b"Rad", 1))  # as long as before: a look at the size finds nothing
    with pytest.raises(DataError, match=r"train\.en-de\.de is not the text expected: its sha256 is"):
        served.load_pair("train", *DE, cache)
    path.write_bytes(raw[:-20])
    assert str(served.state(cache, DE)) == f"incomplete at {cache / 'wmt14'}: {path} not as recorded"
    assert "aiayn data fetch wmt14 --pair en-de" in served.obstacle(cache, DE)
    served.fetch(cache, DE)
    assert path.read_bytes() == raw
    assert served.fingerprint(cache, DE) == original == served.fingerprint(cache, ("de", "en"))


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 99}', '{"format": 1, "splits": {"train": 3}}'])
def test_a_damaged_manifest_is_told_with_what_to_do(served, cache, damage):
    served.fetch(cache, DE)
    (cache / "wmt14" / "en-de.json").write_text(damage)
    with pytest.raises(DataError, match=r"en-de\.json cannot be read .*; delete it, and get it with: aiayn data fetch"):
        served.state(cache, DE)


def test_what_is_not_here_is_told_with_the_command_and_reads_nothing(cache):
    assert (
        WMT14.obstacle(cache, DE) == "corpus wmt14 en-de is not here; get it with: aiayn data fetch wmt14 --pair en-de"
    )
    assert WMT14.obstacle(cache, ("fr", "en")).endswith("aiayn data fetch wmt14 --pair en-fr")
    with pytest.raises(DataError, match="corpus wmt14 en-de is not here"):
        WMT14.load_pair("train", *DE, cache)
    with pytest.raises(DataError, match="corpus wmt14 en-de is not here"):
        WMT14.fingerprint(cache, DE)
    assert not cache.exists()


def test_paper_scale_is_blocked_until_its_pair_is_here(served, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "CORPORA", {**corpora.CORPORA, "wmt14": served})
    workspace = Workspace(tmp_path / "home")
    (before,) = plan_runs(STUDY, PAPER, 1, workspace, ["base"])
    assert before.status == RunStatus("blocked", WMT14.obstacle(cache, DE))
    assert before.record.data_fingerprint == "none"
    served.fetch(workspace.data, FR)
    assert plan_runs(STUDY, PAPER, 1, workspace, ["base"])[0].status == before.status
    served.fetch(workspace.data, DE)
    monkeypatch.setattr(LineStream, "__iter__", None)  # a plan reads no text
    (after,) = plan_runs(STUDY, PAPER, 1, workspace, ["base"])
    assert after.status == RunStatus("queued")
    assert after.record.data_fingerprint == served.fingerprint(workspace.data, DE)
    assert after.record.run != before.record.run


def test_a_pair_that_the_corpus_has_not_is_refused(cache):
    for ask in (WMT14.fetch, WMT14.state, WMT14.obstacle, WMT14.fingerprint):
        with pytest.raises(ValueError, match="wmt14 has no pair 'de-fr'; known, either way round: en-de, en-fr"):
            ask(cache, ("de", "fr"))
    with pytest.raises(ValueError, match="wmt14 has no language 'es'"):
        WMT14.fetch(cache, ("en", "es"))


def test_memory_does_not_grow_with_the_text(served, server, members, cache, tmp_path):
    """Three times the text is read, cleaned, written and read again in the same memory."""
    served.fetch(tmp_path / "first", DE)  # what is imported on the way is not counted

    def peak(count: int) -> int:
        for language in DE:
            name = f"training/europarl-v7.de-en.{language}"
            members["training-parallel-europarl-v7.tgz"][name] = text(language, "europarl-v7.en-de", count)
        larger = build(server.folder, members, server.address)
        tracemalloc.start()
        try:
            larger.fetch(cache / str(count), DE)
            assert sum(1 for _ in larger.read_pairs("train", *DE, cache / str(count))) == count + 80
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(48_000) < 1.1 * peak(16_000)
