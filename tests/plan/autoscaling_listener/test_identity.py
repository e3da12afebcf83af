"""Who the listener is and what it may do."""

import pytest

from runnerscale.api import labels as keys
from runnerscale.api.autoscaling_listener import AUTOSCALING_LISTENERS
from runnerscale.core.clock import format_time
from runnerscale.kube.builtin import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from tests.plan.autoscaling_listener.world import HOME, NAME, RUNNERS, World


@pytest.mark.behaviour("C1 T81", "C2 T162")
async def test_the_role_has_exactly_the_rules_of_the_contract() -> None:
    world = World()
    await world.settle()
    assert world.role["rules"] == [
        {
            "apiGroups": ["actions.github.com"],
            "resources": ["ephemeralrunnersets"],
            "resourceNames": ["linux"],
            "verbs": ["patch"],
        },
        {
            "apiGroups": ["actions.github.com"],
            "resources": ["ephemeralrunners"],
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": ["actions.github.com"],
            "resources": ["ephemeralrunners/status"],
            "verbs": ["patch"],
        },
    ]


@pytest.mark.behaviour("C1 T81")
async def test_another_set_to_scale_changes_the_rule() -> None:
    world = World()
    await world.settle()
    world.edit(ephemeralRunnerSetName="other")
    await world.settle()
    assert world.role["rules"][0]["resourceNames"] == ["other"]


@pytest.mark.behaviour("C1 T82")
async def test_the_rights_cover_what_the_listener_does_and_nothing_else() -> None:
    # The embedded API server enforces them in the system tests; here: what they say.
    world = World()
    await world.settle()

    def allowed(verb: str, resource: str, name: str = "") -> bool:
        return any(
            verb in rule["verbs"]
            and resource in rule["resources"]
            and (not rule.get("resourceNames") or name in rule["resourceNames"])
            for rule in world.role["rules"]
        )

    assert allowed("get", "ephemeralrunners")
    assert allowed("patch", "ephemeralrunners/status")
    assert allowed("patch", "ephemeralrunnersets", "linux")
    assert not allowed("patch", "ephemeralrunnersets", "other")
    assert not allowed("list", "ephemeralrunners")
    assert not any(allowed("delete", r) for r in ("ephemeralrunners", "ephemeralrunnersets"))


@pytest.mark.behaviour("C1 T22")
async def test_all_parts_are_named_after_the_listener() -> None:
    world = World(proxy={"http": {"url": "http://proxy:8080"}})
    await world.settle()
    assert world.service_account["metadata"]["name"] == NAME
    assert world.role["metadata"]["name"] == NAME
    assert world.role_binding["metadata"]["name"] == NAME
    assert world.pod["metadata"]["name"] == NAME
    assert world.config["metadata"]["name"] == f"{NAME}-config"
    assert world.proxy["metadata"]["name"] == f"{NAME}-proxy"


@pytest.mark.behaviour("C1 T34")
async def test_parts_beside_the_listener_are_owned_and_those_elsewhere_are_found_by_labels() -> (
    None
):
    world = World(proxy={"http": {"url": "http://proxy:8080"}})
    await world.settle()
    for part in (world.service_account, world.config, world.proxy, world.pod):
        (owner,) = part["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": "actions.github.com/v1alpha1",
            "kind": "AutoscalingListener",
            "name": NAME,
            "uid": world.listener["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    for part in (world.role, world.role_binding):
        assert "ownerReferences" not in part["metadata"]
        assert part["metadata"]["labels"]["auto-scaling-listener-namespace"] == HOME
        assert part["metadata"]["labels"]["auto-scaling-listener-name"] == NAME
    assert "ownerReferences" not in world.listener["metadata"]


async def test_the_binding_gives_the_role_to_the_service_account() -> None:
    world = World()
    await world.settle()
    assert world.role_binding["roleRef"]["kind"] == "Role"
    assert world.role_binding["roleRef"]["name"] == NAME
    assert world.role_binding["subjects"] == [
        {"kind": "ServiceAccount", "name": NAME, "namespace": HOME}
    ]


async def test_a_binding_to_another_role_is_made_anew() -> None:
    world = World()
    await world.settle()
    uid = world.role_binding["metadata"]["uid"]
    world.api.change(ROLE_BINDINGS, RUNNERS, NAME, {"roleRef": {"name": "admin"}})
    await world.settle()
    assert world.role_binding["roleRef"]["name"] == NAME
    assert world.role_binding["metadata"]["uid"] != uid


async def test_drifted_subjects_and_rules_are_repaired_in_place() -> None:
    world = World()
    await world.settle()
    world.api.change(ROLE_BINDINGS, RUNNERS, NAME, {"subjects": []})
    world.api.change(ROLES, RUNNERS, NAME, {"rules": []})
    uid = world.role_binding["metadata"]["uid"]
    await world.settle()
    assert world.role_binding["subjects"][0]["name"] == NAME
    assert world.role_binding["metadata"]["uid"] == uid
    assert len(world.role["rules"]) == 3


@pytest.mark.behaviour("C1 T85", "C1 T27")
async def test_metadata_blocks_reach_the_parts_they_are_for() -> None:
    world = World()
    await world.settle()
    block = {"labels": {"who": "me"}, "annotations": {"note": "this"}}
    world.edit(
        serviceAccountMetadata=block,
        roleMetadata=block,
        roleBindingMetadata=block,
        configSecretMetadata=block,
    )
    await world.settle()
    for part in (world.service_account, world.role, world.role_binding, world.config):
        assert part["metadata"]["labels"]["who"] == "me"
        assert part["metadata"]["annotations"]["note"] == "this"


@pytest.mark.behaviour("C1 T29")
@pytest.mark.parametrize("block", [{"labels": {"a": "b"}}, {"annotations": {"a": "b"}}, {}])
async def test_half_a_metadata_block_is_no_problem(block: dict[str, dict[str, str]]) -> None:
    world = World(
        serviceAccountMetadata=block,
        roleMetadata=block,
        roleBindingMetadata=block,
        configSecretMetadata=block,
    )
    await world.settle()
    assert world.pod is not None


@pytest.mark.behaviour("C1 T28")
async def test_a_block_cannot_override_what_the_controller_says() -> None:
    world = World(roleMetadata={"labels": {keys.SCALE_SET_NAME: "mine", "team": "mine"}})
    await world.settle()
    assert world.role["metadata"]["labels"][keys.SCALE_SET_NAME] == "linux"
    assert world.role["metadata"]["labels"]["team"] == "a"


async def test_a_label_taken_from_the_listener_leaves_its_parts_and_foreign_ones_stay() -> None:
    world = World()
    await world.settle()
    world.api.change(SERVICE_ACCOUNTS, HOME, NAME, {"metadata": {"labels": {"foreign": "x"}}})
    gone = {"metadata": {"labels": {"team": None}}}
    world.api.change(AUTOSCALING_LISTENERS, HOME, NAME, gone)
    await world.settle()
    labels = world.service_account["metadata"]["labels"]
    assert "team" not in labels
    assert labels["foreign"] == "x"


async def test_excluded_prefixes_do_not_reach_the_parts_except_where_they_find_each_other() -> None:
    world = World()
    world.start(excluded_prefixes=("team", "auto-scaling"))
    await world.settle()
    labels = world.role["metadata"]["labels"]
    assert "team" not in labels
    assert labels["auto-scaling-listener-name"] == NAME


async def test_a_part_that_exists_already_is_read_and_compared() -> None:
    # The cache lags: it does not show the Role yet, the server has it (W53).
    world = World()
    await world.settle()
    uid = world.role["metadata"]["uid"]
    world.caches.roles.store.remove(f"{RUNNERS}/{NAME}")
    end = await world.one_pass()
    assert end.errors == ()
    assert world.role["metadata"]["uid"] == uid


async def test_a_refused_role_is_told_in_the_servers_words_and_the_rest_goes_on() -> None:
    from runnerscale.kube.errors import Forbidden

    said = 'roles is forbidden: User "x" cannot create resource "roles"'
    world = World()

    def fault(verb: str, plural: str, name: str) -> Exception | None:
        forbidden = (verb, plural) == ("create", "roles")
        return Forbidden(403, "Forbidden", said) if forbidden else None

    world.api.fault = fault
    await world.settle()
    assert world.service_account is not None
    assert world.config is not None
    assert world.pod is None  # it could do nothing
    assert world.listener["status"]["reason"] == "RightsMissing"
    assert said in world.listener["status"]["message"]
    assert ("Warning", "RightsMissing") in [(t, r) for t, r, _ in world.events.said]


@pytest.mark.behaviour("C1 T108")
async def test_a_role_from_an_older_controller_gains_the_right_to_read() -> None:
    world = World()
    await world.settle()
    old = [
        {
            "apiGroups": ["actions.github.com"],
            "resources": ["ephemeralrunners", "ephemeralrunners/status"],
            "verbs": ["patch"],
        }
    ]
    world.api.change(ROLES, RUNNERS, NAME, {"rules": old})
    pod = world.pod["metadata"]["uid"]
    await world.settle()
    assert world.role["rules"][1]["verbs"] == ["get", "patch"]
    # Rights take effect at once: a listener of ours needs no restart for them. The image that
    # comes with the upgrade is what restarts the pod, once (test_pod.py).
    assert world.pod["metadata"]["uid"] == pod


async def test_a_drifted_binding_that_is_going_is_waited_for() -> None:
    # It was deleted anew in every round of every pass.
    world = World()
    await world.settle()
    ref = {"kind": "Role", "name": "other"}
    held = {"deletionTimestamp": format_time(world.clock.now_s()), "finalizers": ["some/body"]}
    world.api.change(ROLE_BINDINGS, RUNNERS, NAME, {"roleRef": ref, "metadata": held})
    await world.settle()
    world.api.changes()
    await world.one_pass()
    assert world.api.writes == []
