"""Who is placed, in which order, and what is said of those who are not."""

from typing import Any

import msgspec
import pytest

from runnerscale.node.placement import Room, in_order, may_be_placed, misfit
from runnerscale.node.pod_spec import NodePod
from tests.unit.node.pods import pod, pod_json

ROOM = Room(labels={"kubernetes.io/os": "linux"}, pods_max=2)


def test_the_listeners_node_selector_fits_this_machine() -> None:
    fits = pod(nodeSelector={"kubernetes.io/os": "linux"})
    assert misfit(fits, ROOM, used=0) is None


@pytest.mark.parametrize(
    ("spec", "used", "said"),
    [
        ({"nodeSelector": {"gpu": "yes"}}, 0, "didn't match Pod's node affinity/selector"),
        ({}, 2, "0/1 nodes are available: 1 Too many pods"),
        (
            {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
            0,
            "1 Insufficient nvidia.com/gpu",
        ),
    ],
)
def test_a_misfit_is_told_in_the_schedulers_words(
    spec: dict[str, Any], used: int, said: str
) -> None:
    assert said in (misfit(pod(**spec), ROOM, used=used) or "")


def test_processor_and_memory_are_shared_and_not_counted() -> None:
    asking = pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "64"}}}])
    assert misfit(asking, ROOM, used=0) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "there"},
        {"schedulerName": "other"},
        {"schedulingGates": [{"name": "wait"}]},
    ],
)
def test_some_pods_are_not_ours_to_place(spec: dict[str, Any]) -> None:
    assert may_be_placed(pod())
    assert not may_be_placed(pod(**spec))


def test_who_was_created_first_is_placed_first() -> None:
    def born(uid: str, at: str) -> NodePod:
        document = pod_json()
        document["metadata"] |= {"uid": uid, "creationTimestamp": at}
        return msgspec.convert(document, NodePod)

    late, early = born("a", "2026-01-02T00:00:02Z"), born("b", "2026-01-02T00:00:01Z")
    assert in_order([late, early]) == [early, late]
