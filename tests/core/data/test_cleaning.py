from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data import cleaning
from core.data.cleaning import Cleaning
from core.data.seen import Seen

PAIRS = [
    ("a b c", "d e f"),
    ("", "d"),
    ("a", " \t"),
    ('<seg id="1">a</seg>', "d"),
    ("a b", "a b"),
    ("a b c", "d e f"),
    ("a b", "d e f"),
    ("a b", "d e f g"),
    ("word " * 176, "Wort " * 176),
]


@pytest.mark.parametrize(
    ("rule", "removed"),
    [
        (cleaning.no_empty_side(), [1, 2]),
        (cleaning.no_markup(), [3]),
        (cleaning.no_copies(), [4]),
        (cleaning.no_repeated_pair(), [5]),
        (cleaning.length_ratio_at_most(1.5), [1, 2, 7, 3]),  # markup counts as the words that it is written in
        (cleaning.at_most_words(175), [8]),
        (cleaning.at_most_words(176), []),
    ],
    ids=lambda value: value.name if isinstance(value, cleaning.Filter) else None,
)
def test_each_filter_removes_what_its_name_says(rule, removed):
    kept = list(Cleaning([rule]).apply(PAIRS))
    assert kept == [pair for place, pair in enumerate(PAIRS) if place not in removed]


def test_a26_filters_apply_in_order_and_each_is_counted():
    """A26: the same filters in another order leave other counts between them, and the same text at the end."""
    rules = [cleaning.no_empty_side(), cleaning.length_ratio_at_most(1.5), cleaning.no_repeated_pair()]
    first, second = Cleaning(rules), Cleaning(rules[::-1])
    assert list(first.apply(PAIRS)) == list(second.apply(PAIRS))
    assert (first.num_read, first.kept) == (9, [7, 5, 4])
    assert (second.num_read, second.kept) == (9, [8, 4, 4])


def test_a_filter_can_be_used_again():
    rule = cleaning.no_repeated_pair()
    assert [len(list(Cleaning([rule]).apply(PAIRS))) for _ in range(2)] == [8, 8]


def test_every_named_filter_is_a_filter_with_a_name_of_its_own():
    rules = [make() for make in cleaning.NAMED.values()]
    assert len({rule.name for rule in rules}) == len(rules) == 6


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), max_size=60), st.integers(1, 4))
def test_pairs_are_known_by_their_whole_text_however_few_are_kept_at_hand(pairs, recent):
    seen = Seen()
    seen.RECENT = recent
    expected = set()
    for pair in pairs:
        assert seen.is_new(*pair) == (pair not in expected)
        expected.add(pair)


def test_what_ends_one_line_does_not_begin_the_other():
    seen = Seen()
    assert seen.is_new("ab", "c")
    assert seen.is_new("a", "bc")
