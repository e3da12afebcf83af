"""How answers come back into the snapshot."""

from dataclasses import replace

from runnerscale.api.autoscaling_listener import AutoscalingListener
from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.autoscaling_listener.snapshot import (
    AskOwner,
    Child,
    Create,
    Ended,
    Look,
    PatchSelf,
    Read,
    Remove,
    ResolveMeans,
    Settings,
    Snapshot,
    WriteStatus,
    learn,
    restarts_of,
)
from runnerscale.credentials.place import GitHubPlace
from runnerscale.kube.builtin import Pod, Secret
from runnerscale.kube.objects import ObjectMeta
from tests.plan.autoscaling_listener.world import TOKEN

SEEN = Snapshot(
    now_s=1_800_000_000.0,
    settings=Settings(image="ours"),
    listener=AutoscalingListener(metadata=ObjectMeta(name="l", namespace="n", uid="u")),
    owner_exists=False,
    children={Child.CONFIG_SECRET: Look.UNASKED},
)
REFUSAL = trouble(Reason.RIGHTS_MISSING, about="x", happened="no")


def test_a_child_that_was_read_is_there_or_absent() -> None:
    secret = Secret(metadata=ObjectMeta(name="s"))
    assert SEEN.is_unasked(Child.CONFIG_SECRET)
    found = learn(SEEN, [(Read(Child.CONFIG_SECRET), secret)])
    assert found.secret(Child.CONFIG_SECRET) is secret
    absent = learn(SEEN, [(Read(Child.CONFIG_SECRET), Look.ABSENT)])
    assert absent.is_absent(Child.CONFIG_SECRET)
    assert absent.child(Child.CONFIG_SECRET) is None


def test_a_create_that_found_the_name_taken_has_to_look() -> None:
    assert learn(SEEN, [(Create(Child.ROLE, {}), Look.UNASKED)]).is_unasked(Child.ROLE)


def test_a_refusal_is_kept_by_child() -> None:
    seen = learn(SEEN, [(Create(Child.ROLE, {}), REFUSAL)])
    assert seen.refused == {Child.ROLE: REFUSAL}


def test_the_end_of_a_pod_is_remembered_for_the_next() -> None:
    ended = Ended(3, "exit code 1")
    seen = learn(SEEN, [(Remove(Child.POD, "u", ended=ended), Look.ABSENT)])
    assert seen.ended == ended
    assert seen.is_absent(Child.POD)


def test_credentials_or_the_trouble_with_them() -> None:
    ask = ResolveMeans(GitHubPlace("n", "https://github.com/o", "s"))
    assert learn(SEEN, [(ask, TOKEN)]).means is TOKEN
    assert learn(SEEN, [(ask, REFUSAL)]).means is REFUSAL


def test_the_owner_is_confirmed_either_way() -> None:
    seen = learn(SEEN, [(AskOwner("n", "o"), True)])
    assert seen.owner_exists
    assert seen.owner_confirmed


def test_a_listener_that_is_gone_is_held_by_nothing() -> None:
    seen = learn(SEEN, [(PatchSelf({}), None)])
    assert seen.listener.metadata.deletion_timestamp
    assert not seen.listener.metadata.finalizers


def test_what_the_status_was_told_is_a_hint() -> None:
    assert learn(SEEN, [(WriteStatus({}, "r1-x"), None)]).told == "r1-x"


def test_the_count_on_a_pod_is_read_with_care() -> None:
    from runnerscale.api import labels as keys

    def pod(text: str) -> Pod:
        return Pod(metadata=ObjectMeta(annotations={keys.LISTENER_RESTARTS: text}))

    assert [restarts_of(pod(text)) for text in ("3", "", "-1", "many")] == [3, 0, 0, 0]


def test_names_and_places_of_children() -> None:
    listener = AutoscalingListener(metadata=ObjectMeta(name="l", namespace="home"))
    listener.spec.autoscaling_runner_set_namespace = "runners"
    seen = replace(SEEN, listener=listener)
    assert seen.child_namespace(Child.ROLE) == "runners"
    assert seen.child_namespace(Child.POD) == "home"
    assert seen.child_name(Child.CONFIG_SECRET) == "l-config"
    assert seen.child_name(Child.PROXY_SECRET) == "l-proxy"


def test_a_count_that_no_hand_of_ours_wrote_is_none() -> None:
    # Python raises for thousands of digits.
    notes = {"runnerscale.dev/restarts": "9" * 5000}
    assert restarts_of(Pod(metadata=ObjectMeta(annotations=notes))) == 0
