"""Small corpora that look like the real ones, and the real ones where AIAYN_DATA has them."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from core.data.file_corpus import FileCorpus

Texts = Mapping[str, str]
"""`<split>.<language>` to the text of that file."""


def _sentence(number: int, words: list[str]) -> str:
    return " ".join(words[(number * step + step) % len(words)] for step in range(1, 3 + number % 6)) + " ."


@pytest.fixture
def tiny_texts() -> dict[str, str]:
    """Three splits in two languages, sentences of 3 to 8 words that never agree between the languages."""
    words = {
        "en": ["the", "cat", "dog", "sees", "hears", "a", "small", "green", "house", "on", "Monday"],
        "de": ["die", "Katze", "Hund", "sieht", "hört", "ein", "kleines", "grünes", "Haus", "am", "Montag"],
    }
    ranges = {"train": range(400), "dev": range(1000, 1020), "test": range(2000, 2030)}
    return {
        f"{split}.{language}": "".join(f"{_sentence(number, words[language])}\n" for number in numbers)
        for split, numbers in ranges.items()
        for language in ("en", "de")
    }


def _build(texts: Texts, base_url: str = "http://127.0.0.1:9/nothing") -> FileCorpus:
    """A corpus whose pins and counts are those of `texts`."""
    splits = {name.partition(".")[0]: text.count("\n") for name, text in texts.items()}
    return FileCorpus(
        name="tiny",
        task="translation",
        languages=("en", "de"),
        splits=splits,
        licence="none",
        citation="none",
        description="made for a test",
        base_url=base_url,
        text_sha256={name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()},
    )


@pytest.fixture
def build_corpus() -> Callable[..., FileCorpus]:
    return _build


@pytest.fixture
def write_texts() -> Callable[[Path, Texts], None]:
    """Compress texts into a folder, under the names that a corpus looks for."""

    def write(folder: Path, texts: Texts) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))

    return write


@pytest.fixture(autouse=True)
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path | None:
    """The folder that AIAYN_DATA names, if any; the variable itself is unset for the test."""
    root = os.environ.get("AIAYN_DATA")
    monkeypatch.delenv("AIAYN_DATA", raising=False)
    return Path(root) if root else None


@pytest.fixture(autouse=True)
def disk_without_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written need not outlive the machine: waiting for the disk would be most of these tests' time."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def local_multi30k(real_data: Path | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Multi30k's folder, with AIAYN_DATA set; skips the test where there is none."""
    if real_data is None or not (real_data / "multi30k").is_dir():
        pytest.skip("needs Multi30k: set AIAYN_DATA to a folder that holds multi30k/")
    monkeypatch.setenv("AIAYN_DATA", str(real_data))
    return real_data / "multi30k"


@pytest.fixture
def stand_in_generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The source file of an importable module `stand_in_generator`, which generates as the grammar does."""
    folder = tmp_path / "modules"
    folder.mkdir()
    source = folder / "stand_in_generator.py"
    source.write_text(
        "import random\n"
        "class Example:\n"
        "    def __init__(self, number): self.number = number\n"
        "    def text(self, language): return f'{language} {self.number} .'\n"
        "def generate_splits(sizes, seed):\n"
        "    numbers = random.Random(seed)\n"
        "    return {split: [Example(numbers.random()) for _ in range(size)] for split, size in sizes.items()}\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, source.stem, raising=False)  # that of an earlier test
    return source


class WebServer:
    """A web server on this machine: what it serves, its address, and the paths that were asked of it.

    `cut` makes it break off each file after that many bytes, though it promised them all; `encoding` is a header that
    it adds to each.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.cut: int | None = None
        self.encoding: str | None = None
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, directory=str(folder), **kwargs)

            def log_message(self, *args):
                pass

            def do_GET(self):
                outer.asked.append(self.path)
                super().do_GET()

            def end_headers(self):
                if outer.encoding:
                    self.send_header("Content-Encoding", outer.encoding)
                super().end_headers()

            def copyfile(self, source, outputfile):
                if outer.cut is None:
                    super().copyfile(source, outputfile)
                else:
                    outputfile.write(source.read(outer.cut))

        self.web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.web.server_address[1]}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    folder = tmp_path / "served"
    folder.mkdir()
    server = WebServer(folder)
    with server.web as web:
        thread = threading.Thread(target=web.serve_forever, args=(0.01,))
        thread.start()
        yield server
        web.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data cache for all tests that prepare a whole corpus."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def local_sample(real_data: Path | None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The treebank sample's archive, with AIAYN_DATA set; skips the test where there is none."""
    path = Path() if real_data is None else real_data / "treebank-sample" / "treebank.zip"
    if not path.is_file():
        pytest.skip("needs the treebank's sample: set AIAYN_DATA to a folder that holds treebank-sample/treebank.zip")
    monkeypatch.setenv("AIAYN_DATA", str(real_data))
    return path
