"""The one EphemeralRunnerSet: made, changed in place, held, never replaced."""

from typing import Any

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.ephemeral_runner_set import EPHEMERAL_RUNNER_SETS
from tests.plan.autoscaling_runner_set.world import NAME, RUNNERS, World

OWNER_FIELDS = ("kind", "name", "controller", "blockOwnerDeletion")


async def settled(**spec: Any) -> World:
    world = World(**spec)
    await world.settle()
    return world


def runner_spec(world: World) -> Any:
    return world.ers["spec"]["ephemeralRunnerSpec"]


@pytest.mark.behaviour("C1 T34", "C1 T35")
async def test_it_is_named_like_its_owner_and_starts_with_nothing_wanted() -> None:
    world = await settled()
    assert world.api.names(EPHEMERAL_RUNNER_SETS) == [NAME]
    assert "replicas" not in world.ers["spec"]  # absence is 0 (contract 1.5)
    assert world.ers["spec"]["patchID"] == 0
    (owner,) = world.ers["metadata"]["ownerReferences"]
    assert [owner[field] for field in OWNER_FIELDS] == ["AutoscalingRunnerSet", NAME, True, True]
    assert owner["uid"] == world.ars["metadata"]["uid"]
    assert runner_spec(world)["runnerScaleSetId"] == 7
    assert runner_spec(world)["spec"]["containers"][0]["image"] == "runner:1"
    labels = world.ers["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "runner-set"
    assert labels["app.kubernetes.io/part-of"] == "gha-runner-scale-set"
    assert labels["app.kubernetes.io/version"] == "0.14.2"
    assert labels["actions.github.com/scale-set-name"] == NAME
    assert labels["actions.github.com/scale-set-namespace"] == RUNNERS


@pytest.mark.behaviour("C1 T46")
async def test_a_new_image_is_patched_in_and_the_listener_is_not_touched() -> None:
    world = await settled()
    uid, stamp = world.ers["metadata"]["uid"], world.ers["metadata"]["annotations"]
    listener = (world.al["metadata"]["uid"], world.al["metadata"]["resourceVersion"])
    world.api.change(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME, {"spec": {"replicas": 3, "patchID": 4}})
    world.edit(template=world.image("runner:2"))
    await world.settle()
    assert world.ers["metadata"]["uid"] == uid
    assert runner_spec(world)["spec"]["containers"][0] == {"name": "runner", "image": "runner:2"}
    changed = world.ers["metadata"]["annotations"][keys.INTEGRITY_HASH]
    assert changed != stamp[keys.INTEGRITY_HASH]
    assert (world.ers["spec"]["replicas"], world.ers["spec"]["patchID"]) == (3, 4)
    assert (world.al["metadata"]["uid"], world.al["metadata"]["resourceVersion"]) == listener


@pytest.mark.behaviour("C1 T48", "C1 T57")
async def test_a_label_follows_and_goes_again_without_touching_runners() -> None:
    world = await settled()
    stamp = world.ers["metadata"]["annotations"][keys.INTEGRITY_HASH]
    world.edit_meta(labels={"team": "b", "new": "x"})
    await world.settle()
    assert world.ers["metadata"]["labels"]["team"] == "b"
    assert world.ers["metadata"]["labels"]["new"] == "x"
    world.edit_meta(labels={"new": None})
    await world.settle()
    assert "new" not in world.ers["metadata"]["labels"]
    assert "new" not in world.al["metadata"]["labels"]
    assert world.ers["metadata"]["annotations"][keys.INTEGRITY_HASH] == stamp
    assert world.status["phase"] == "Running"


@pytest.mark.behaviour("C1 T49", "C1 T27")
async def test_its_own_metadata_block_follows() -> None:
    world = await settled()
    world.edit(ephemeralRunnerSetMetadata={"annotations": {"a": "1"}, "labels": {"l": "1"}})
    await world.settle()
    world.edit(ephemeralRunnerSetMetadata={"annotations": {"a": "2", "b": "1"}})
    await world.settle()
    annotations = world.ers["metadata"]["annotations"]
    assert (annotations["a"], annotations["b"]) == ("2", "1")
    world.edit(ephemeralRunnerSetMetadata=None)
    await world.settle()
    assert "a" not in world.ers["metadata"]["annotations"]
    assert "l" not in world.ers["metadata"]["labels"]


@pytest.mark.behaviour("C1 T50")
async def test_the_runners_metadata_block_follows_without_a_new_fingerprint() -> None:
    world = await settled()
    stamp = world.ers["metadata"]["annotations"][keys.INTEGRITY_HASH]
    world.edit(ephemeralRunnerMetadata={"labels": {"l": "1"}})
    await world.settle()
    assert world.ers["spec"]["ephemeralRunnerMetadata"] == {"labels": {"l": "1"}}
    assert world.ers["metadata"]["annotations"][keys.INTEGRITY_HASH] == stamp
    world.edit(ephemeralRunnerMetadata=None)
    await world.settle()
    assert "ephemeralRunnerMetadata" not in world.ers["spec"]


@pytest.mark.behaviour("C1 T51")
async def test_label_metadata_and_image_in_one_edit_all_arrive() -> None:
    world = await settled()
    world.edit_meta(labels={"team": "b"})
    world.edit(
        template=world.image("runner:2"),
        ephemeralRunnerSetMetadata={"annotations": {"a": "1"}},
        ephemeralRunnerMetadata={"labels": {"l": "1"}},
    )
    await world.settle()
    assert world.ers["metadata"]["labels"]["team"] == "b"
    assert world.ers["metadata"]["annotations"]["a"] == "1"
    assert world.ers["spec"]["ephemeralRunnerMetadata"] == {"labels": {"l": "1"}}
    assert runner_spec(world)["spec"]["containers"][0]["image"] == "runner:2"


@pytest.mark.behaviour("C1 T55", "C1 T56")
async def test_runners_do_not_defer_an_update_and_the_listener_serves_throughout() -> None:
    # Which runners are replaced, and that busy ones are not, is the set's own rule (T131).
    world = await settled()
    world.set_status(currentReplicas=5, runningEphemeralRunners=2, pendingEphemeralRunners=3)
    uid, listener = world.ers["metadata"]["uid"], world.al["metadata"]["uid"]
    world.edit(template=world.image("runner:2"))
    await world.settle()
    assert world.ers["metadata"]["uid"] == uid
    assert runner_spec(world)["spec"]["containers"][0]["image"] == "runner:2"
    assert world.al["metadata"]["uid"] == listener


@pytest.mark.behaviour("C1 T59")
async def test_foreign_labels_and_annotations_are_left_alone() -> None:
    world = await settled()
    foreign = {"metadata": {"labels": {"policy": "x"}, "annotations": {"note": "y"}}}
    world.api.change(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME, foreign)
    version = world.ers["metadata"]["resourceVersion"]
    await world.settle()
    assert world.ers["metadata"]["resourceVersion"] == version
    assert world.status["phase"] == "Running"


@pytest.mark.behaviour("C1 T77")
async def test_one_deleted_by_hand_comes_back_and_the_listener_still_points_to_it() -> None:
    world = await settled()
    world.api.drop(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)
    await world.settle()
    assert world.ers is not None
    assert world.al["spec"]["ephemeralRunnerSetName"] == NAME


async def test_one_that_is_going_is_waited_for() -> None:
    world = await settled()
    world.hold_by_finalizer(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)
    uid = world.ers["metadata"]["uid"]
    await world.api.delete(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME, uid=uid)
    await world.settle()
    assert world.ers["metadata"]["uid"] == uid
    assert world.status["phase"] == "Pending"
    world.let_go(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME)
    await world.settle()
    assert world.ers["metadata"]["uid"] != uid


async def test_a_set_of_another_name_is_let_go_after_the_right_one_is_there() -> None:
    # Releases before 0.14 generated the name (W42).
    world = await settled()
    owner = world.ers["metadata"]["ownerReferences"]
    stray = {"metadata": {"name": "linux-abcde", "ownerReferences": owner}, "spec": {"patchID": 0}}
    world.api.put(EPHEMERAL_RUNNER_SETS, RUNNERS, stray)
    await world.settle()
    assert world.api.names(EPHEMERAL_RUNNER_SETS) == [NAME]


async def test_a_namesake_of_another_owner_is_told_and_left_alone() -> None:
    world = World()
    stranger = {"metadata": {"name": NAME}, "spec": {"patchID": 0}}
    world.api.put(EPHEMERAL_RUNNER_SETS, RUNNERS, stranger)
    await world.settle()
    assert world.ers["spec"] == {"patchID": 0}
    assert world.status["reason"] == "ApiServerRefused"
    assert "is another's" in world.status["message"]


async def test_a_template_without_a_runner_leaves_the_last_good_one_at_work() -> None:
    world = await settled()
    world.edit(template={"spec": {"containers": [{"name": "other", "image": "x"}]}})
    world.edit_meta(labels={"team": "b"})
    await world.settle()
    assert runner_spec(world)["spec"]["containers"][0]["image"] == "runner:1"
    assert world.ers["metadata"]["labels"]["team"] == "b"  # the rest goes on
    assert world.status["reason"] == "SpecInvalid"
    assert world.condition("SpecAccepted") == ("False", "SpecInvalid")


@pytest.mark.behaviour("C1 T33")
async def test_explicit_empties_come_to_rest() -> None:
    template = {"spec": {"containers": [{"name": "runner", "env": []}], "volumes": []}}
    world = await settled(template=template)
    ers, al = world.ers["metadata"]["resourceVersion"], world.al["metadata"]["resourceVersion"]
    for _ in range(5):
        await world.later(60)
    assert world.ers["metadata"]["resourceVersion"] == ers
    assert world.al["metadata"]["resourceVersion"] == al


@pytest.mark.behaviour("C1 T33")
async def test_nulls_in_a_template_come_to_rest_even_if_the_server_drops_them() -> None:
    container = {"name": "runner", "image": "runner:1", "resources": None}
    world = await settled(template={"spec": {"containers": [container], "volumes": None}})
    assert "resources" not in runner_spec(world)["spec"]["containers"][0]
    world.api.changes()
    await world.settle()
    assert world.api.writes == []


@pytest.mark.behaviour("C1 T31")
async def test_taking_over_from_arc_changes_no_runner_spec_and_asks_for_no_restart() -> None:
    world = await settled()
    foreign = {
        keys.INTEGRITY_HASH: "7c8d45f6b9",
        keys.OWNED_KEYS: None,
    }
    world.api.change(EPHEMERAL_RUNNER_SETS, RUNNERS, NAME, {"metadata": {"annotations": foreign}})
    for key in (keys.ISSUED_FOR, keys.SETTINGS_HASH):
        world.edit_meta(annotations={key: None})
    before, generation = world.ers["spec"], world.ers["metadata"]["generation"]
    world.start()
    await world.settle()
    assert world.ers["spec"] == before
    assert world.ers["metadata"]["generation"] == generation
    assert world.github.writes() == [("create", "linux", 1, ("linux",), True)]
    assert world.annotations[keys.ISSUED_FOR].endswith("octo-repo")


@pytest.mark.behaviour("C1 T26")
async def test_excluded_prefixes_are_not_propagated() -> None:
    world = World(create=False)
    world.start(excluded_prefixes=("example.com/", "directly.excluded.org/label"))
    labels = {
        "arbitrary-label": "a",
        "example.com/label": "b",
        "example.com/example": "c",
        "directly.excluded.org/label": "d",
        "directly.excluded.org/arbitrary": "e",
    }
    world.create(meta={"labels": labels})
    await world.settle()
    for item in (world.ers, world.al):
        kept = set(labels) & set(item["metadata"]["labels"])
        assert kept == {"arbitrary-label", "directly.excluded.org/arbitrary"}


async def test_an_excluded_prefix_takes_the_scale_set_labels_but_not_those_of_the_url() -> None:
    world = World(create=False)
    world.start(excluded_prefixes=("actions.github.com/",))
    world.create()
    await world.settle()
    labels = world.ers["metadata"]["labels"]
    assert keys.SCALE_SET_NAME not in labels
    assert labels[keys.ORGANIZATION] == "octo-org"


@pytest.mark.behaviour("C1 T28")
async def test_a_block_cannot_override_the_controllers_labels() -> None:
    world = await settled(ephemeralRunnerSetMetadata={"labels": {keys.COMPONENT: "mine"}})
    assert world.ers["metadata"]["labels"][keys.COMPONENT] == "runner-set"


@pytest.mark.behaviour("C1 T24", "C1 T25")
@pytest.mark.parametrize(
    ("path", "labels"),
    [
        (
            f"{'o' * 64}/{'r' * 64}",
            {keys.ORGANIZATION: "o" * 58 + "-trim", keys.REPOSITORY: "r" * 58 + "-trim"},
        ),
        (f"enterprises/{'e' * 64}", {keys.ENTERPRISE: "e" * 58 + "-trim"}),
        ("owner/.github", {keys.ORGANIZATION: "owner", keys.REPOSITORY: "github"}),
    ],
)
async def test_url_labels_fit_their_values(path: str, labels: dict[str, str]) -> None:
    world = await settled(githubConfigUrl=f"https://github.com/{path}")
    url_keys = {keys.ENTERPRISE, keys.ORGANIZATION, keys.REPOSITORY}
    for item in (world.ars, world.ers, world.al):
        found = item["metadata"]["labels"]
        assert {key: found[key] for key in url_keys & set(found)} == labels
        assert all(len(value) <= 63 for value in found.values())


@pytest.mark.behaviour("C1 T29", "C1 T27")
@pytest.mark.parametrize("block", [{"labels": {"x": "1"}}, {"annotations": {"x": "1"}}, {}])
async def test_half_a_block_is_no_problem_anywhere(block: dict[str, Any]) -> None:
    world = await settled(
        autoscalingListener=block,
        listenerServiceAccountMetadata=block,
        listenerRoleMetadata=block,
        listenerRoleBindingMetadata=block,
        listenerConfigSecretMetadata=block,
        ephemeralRunnerSetMetadata=block,
        ephemeralRunnerMetadata=block,
        ephemeralRunnerConfigSecretMetadata=block,
    )
    for kind, part in block.items():
        assert world.ers["metadata"][kind]["x"] == part["x"]
        assert world.al["metadata"][kind]["x"] == part["x"]
        assert runner_spec(world)["ephemeralRunnerConfigSecretMetadata"][kind] == part
        for name in ("serviceAccount", "role", "roleBinding", "configSecret"):
            assert world.al["spec"][f"{name}Metadata"][kind] == part
