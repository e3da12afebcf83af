"""The matrix: combinations, exclude, include, and GitHub's own example."""

import pytest

from runnerscale.fake_github.matrix import display, expand


def test_all_combinations_in_order_of_the_keys() -> None:
    assert expand({"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_exclude_drops_what_matches_all_of_its_keys() -> None:
    found = expand({"a": [1, 2], "b": ["x", "y"], "exclude": [{"a": 1, "b": "y"}, {"a": 2}]})
    assert found == [{"a": 1, "b": "x"}]


def test_include_follows_the_example_of_githubs_documentation() -> None:
    found = expand(
        {
            "fruit": ["apple", "pear"],
            "animal": ["cat", "dog"],
            "include": [
                {"color": "green"},
                {"color": "pink", "animal": "cat"},
                {"fruit": "apple", "shape": "circle"},
                {"fruit": "banana"},
                {"fruit": "banana", "animal": "cat"},
            ],
        }
    )
    assert found == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
        {"fruit": "banana", "animal": "cat"},
    ]


def test_include_alone_makes_one_combination_each() -> None:
    assert expand({"include": [{"a": 1}, {"a": 2}]}) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("matrix", "says"),
    [
        ({"a": 1}, "list of values for 'a'"),
        ({"a": []}, "list of values for 'a'"),
        ({"a": [1], "exclude": {"a": 1}}, "list of maps for 'exclude'"),
        ({"a": [1], "include": [3]}, "list of maps for 'include'"),
        ({"a": [1], "exclude": [{"b": 1}]}, "excludes by 'b'"),
        ({str(n): list(range(100)) for n in range(6)}, "far too many"),
        ({"a": [1], "include": [{"b": n} for n in range(300)]}, "more than 256 entries"),
        ([1], "must be a map"),
    ],
)
def test_what_makes_no_matrix_is_refused(matrix: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        expand(matrix)


def test_the_values_are_shown_behind_the_name() -> None:
    assert display({"a": "x", "b": 3, "c": True, "d": {"e": 1}}) == "(x, 3, true, 1)"
