from __future__ import annotations

from pathlib import Path

from studies.departures import Departure, list_departures

ROOT = Path(__file__).parent.parent.parent


def test_a_mark_has_its_section_its_whole_reason_and_its_place(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "studies").mkdir()
    (tmp_path / "core" / "model.py").write_text(
        "x = 1\n"
        "    # DEPARTURE(5.1): a byte-level vocabulary, because a word-piece one\n"
        "    # loses spaces; switch: kind.\n"
        "\n"
        "    # another comment\n"
        "y = 2  # DEPARTURE(3.1): pre-norm\n",
        encoding="utf-8",
    )
    assert list_departures(tmp_path) == [
        Departure("3.1", "pre-norm", "core/model.py", 6),
        Departure(
            "5.1", "a byte-level vocabulary, because a word-piece one loses spaces; switch: kind.", "core/model.py", 2
        ),
    ]


def test_sections_are_ordered_as_numbers(tmp_path):
    for folder in ("core", "studies"):
        (tmp_path / folder).mkdir()
    (tmp_path / "studies" / "a.py").write_text("# DEPARTURE(5.10): b\n\n# DEPARTURE(5.9): a\n", encoding="utf-8")
    assert [departure.section for departure in list_departures(tmp_path)] == ["5.9", "5.10"]


def test_every_mark_in_the_source_is_listed():
    marks = [
        (path.relative_to(ROOT).as_posix(), number)
        for folder in ("core", "studies")
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "departures.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1)
        if "DEPARTURE(" in line
    ]
    assert sorted((departure.file, departure.line) for departure in list_departures()) == sorted(marks)
