"""What is refused before scoring, and what is told beside a score."""

from __future__ import annotations

import pytest

from core.scoring.checks import ScoringError, check_outputs, check_references, find_warnings, length_warning

REFERENCES = ["Der Hund schläft heute.", "Eine Frau liest.", "Zwei Kinder spielen Ball."]
ENGLISH = [f"The dog is in the house and it is number {number} of them." for number in range(10)]
GERMAN = [f"Der Hund ist mit der Katze auf dem Dach und das ist Nummer {number}." for number in range(10)]


def texts(outputs: object, references: object) -> None:
    check_references(references, "de")
    check_outputs(outputs, references)


# Number and kind of lines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outputs", "references"), [(1, 2), (9, 10), (10, 9), (0, 3)])
def test_b12_unequal_counts_are_refused_with_both_numbers(outputs: int, references: int) -> None:
    """A19: the library alone cuts to the shorter side."""
    with pytest.raises(ScoringError, match=f"{outputs} output lines against {references} reference lines"):
        texts(["x"] * outputs, ["x"] * references)


def test_nothing_is_no_score() -> None:
    with pytest.raises(ScoringError, match="nothing to score: 0 reference lines"):
        texts([], [])


def test_a31_references_nested_the_other_way_are_refused() -> None:
    with pytest.raises(ScoringError, match="reference line 1 is a list, not text; one text a line"):
        texts(["x"] * 3, [[line] for line in REFERENCES])
    with pytest.raises(ScoringError, match="output line 2 is a NoneType, not text"):
        texts(["x", None, "x"], REFERENCES)


def test_a_text_is_not_taken_for_its_characters() -> None:
    with pytest.raises(ScoringError, match="the outputs are one text, not a list of lines"):
        texts("abc", ["a", "b", "c"])
    with pytest.raises(ScoringError, match="the references are one text"):
        texts(["a", "b", "c"], "abc")


# Marks ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        *("Er ist to@@ t", "to@@ t .", "Er ist to@@\tt"),
        *("▁Er ▁ist ▁tot", "Er▁ist tot", "to ##t .", "Er ￭s ist", "Er</w> ist</w>"),
    ],
)
def test_b03_sub_word_marks_are_refused_and_the_first_line_named(line: str) -> None:
    """A12: with marks left in, more n-grams match."""
    with pytest.raises(ScoringError, match="output line 2 still holds sub-word marks; join the pieces"):
        texts(["Alles gut.", line, line], REFERENCES)
    with pytest.raises(ScoringError, match="reference line 3 holds sub-word marks"):
        texts(REFERENCES, ["Alles gut.", "Gut.", line])


def test_b04_a_mark_at_the_end_of_a_line_is_seen() -> None:
    """A13: removing mark and space leaves it there."""
    with pytest.raises(ScoringError, match="output line 1 still holds sub-word marks"):
        texts(["das ist tot@@"], ["Das ist tot."])


@pytest.mark.parametrize("line", ["schreib an a@@b.de", "@@home ist ein Name", "die E-Mail @ home", "@@", "# 1 ## 2"])
def test_signs_of_the_text_itself_are_scored(line: str) -> None:
    texts([line], [line])


SGM = [
    '<seg id="1"> Der Hund </seg>',
    "<DOC sysid='ref'>",
    "</refset>",
    "<tstset>",
    '<srcset setid="newstest">',
    "<mteval>",
]


@pytest.mark.parametrize("line", SGM)
def test_b06_markup_is_refused_and_its_line_named(line: str) -> None:
    """A8."""
    with pytest.raises(ScoringError, match="reference line 3 holds sgm markup"):
        texts(["x"] * 3, ["Der Hund", "a < b und c > d", line])
    with pytest.raises(ScoringError, match="output line 1 holds sgm markup"):
        texts([line], ["Der Hund"])


@pytest.mark.parametrize(
    "line",
    ["Er sagte &quot; ja &quot; .", "mag &apos; s nicht", "Band &#91; 2 &#93;", "E @-@ Mail", "E ##AT##-##AT## Mail"],
)
def test_a5_references_that_are_tokenised_are_refused(line: str) -> None:
    """A11, A15: tokenised again, &quot; is three tokens, and a split compound is split twice."""
    with pytest.raises(ScoringError, match="reference line 2 is tokenised already; give the plain text"):
        texts(["x", "x"], ["Der Hund", line])
    texts([line], ["Der Hund"])  # a model may have learned it; it costs points, and is told
    assert "1 of 1 outputs hold what Moses' tokeniser writes" in find_warnings([line], ["Der Hund"], "de")


# Language -------------------------------------------------------------------------------------------------------------


def test_b06_references_in_another_language_are_refused() -> None:
    """A8."""
    with pytest.raises(ScoringError, match="should be German and read like English; give the de side"):
        check_references(ENGLISH, "de")
    with pytest.raises(ScoringError, match="should be French and read like German"):
        check_references(GERMAN, "fr")
    check_references(ENGLISH, "en")
    check_references(ENGLISH, "nl")  # of which nothing is known here


def test_an_output_in_another_language_is_scored_and_told() -> None:
    check_outputs(ENGLISH, GERMAN)
    assert find_warnings(ENGLISH, GERMAN, "de") == ["the outputs should be German and read like English"]
    assert find_warnings(GERMAN, GERMAN, "de") == []


# Warnings -------------------------------------------------------------------------------------------------------------


def test_text_that_looks_tokenised_is_told() -> None:
    """A10, A11: half of the lines or fewer may end so by chance."""
    parted = ["Das ist gut .", "Er geht .", "Ja."]
    told = "have a space before the last stop, as tokenised text has"
    assert find_warnings(REFERENCES, parted, "de") == [f"2 of 3 references {told}"]
    assert find_warnings(parted, REFERENCES, "de") == [f"2 of 3 outputs {told}"]
    assert find_warnings(["Das ist gut .", "Ja."], ["Das ist gut .", "Ja."], "de") == []


def test_entities_and_cut_off_characters_are_counted() -> None:
    told = "hold an entity such as &amp;, which Moses' rules take for three words"
    outputs = ["Forschung &amp; Lehre", "H\ufffd", "gut"]
    assert find_warnings(outputs, REFERENCES, "de") == [
        f"1 of 3 outputs {told}",
        "1 of 3 outputs hold a character that is cut off (U+FFFD)",
    ]
    # Public test sets hold such entities, which makes them no tokenised text.
    from_sgml = ["&quot;Ja&quot;, sagte er.", "Forschung &amp; Lehre.", "L&apos;été."]
    texts(REFERENCES, from_sgml)
    assert find_warnings(REFERENCES, from_sgml, "de") == [f"3 of 3 references {told}"]


@pytest.mark.parametrize(
    ("ratio", "told"), [(0.9, False), (1.1, False), (1.0, False), (1.138, True), (0.85, True), (0.0, True)]
)
def test_a10_a_length_ratio_outside_a_tenth_is_told(ratio: float, told: bool) -> None:
    expected = [f"the outputs are {ratio:.2f} times as long as the references, outside 0.9 to 1.1"]
    assert length_warning(ratio) == (expected if told else [])
