"""What was probably meant by an unknown key."""

import pytest

from runnerscale.chart_values.nearest import features, in_order, likeness, nearest

KNOWN = in_order(
    [
        ("replicaCount",),
        ("image",),
        ("image", "tag"),
        ("flags",),
        ("flags", "logLevel"),
        ("flags", "healthProbeBindAddress"),
        ("labels",),
        ("meta", "labels"),
        ("meta", "name"),
        ("account", "name"),
    ]
)


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        (("replicas",), ("replicaCount",)),
        (("replicaCounts",), ("replicaCount",)),
        (("repilcaCount",), ("replicaCount",)),
        (("replica_count",), ("replicaCount",)),
        (("REPLICACOUNT",), ("replicaCount",)),
        (("image", "tags"), ("image", "tag")),
        (("healthProbeBindAddress",), ("flags", "healthProbeBindAddress")),  # misplaced
        (("healthProbe",), None),  # misplaced and misspelt
        (("flags", "healthProbeBindAddres"), ("flags", "healthProbeBindAddress")),
        (("lables",), ("labels",)),
        (("meta", "lables"), ("meta", "labels")),  # the same parent wins
        (("flags", "name"), None),  # stands in two places: neither is meant
        (("zzz",), None),
        (("",), None),
        (("---",), None),
        (("é",), None),
    ],
)
def test_the_nearest(unknown: tuple[str, ...], meant: tuple[str, ...] | None) -> None:
    assert nearest(unknown, KNOWN) == meant


def test_of_equals_the_one_nearer_to_the_top_wins_then_the_alphabet() -> None:
    known = in_order([("b", "wordy"), ("wordx",), ("worda",)])
    assert known == [("worda",), ("wordx",), ("b", "wordy")]
    assert nearest(("word",), known) == ("worda",)


def test_features_are_letters_and_pairs() -> None:
    assert features("aB_b") == {"<a", "ab", "bb", "b>", "a.", "b."}
    assert features("_") == frozenset()
    assert len(features("x" * 1000)) == 4
    assert likeness(features("env"), features("env")) == 100
    assert likeness(features("env"), features("tag")) == 0
