"""The scale set at GitHub: registered, adopted, kept as wished, registered anew."""

from dataclasses import replace

import pytest

from runnerscale.api import labels as keys
from runnerscale.controllers.autoscaling_runner_set.registration import CHECK_EVERY_S
from runnerscale.kube.errors import Conflict
from runnerscale.scaleset.errors import CredentialsRefused, Unavailable
from runnerscale.scaleset.model import RunnerScaleSet
from tests.plan.autoscaling_runner_set.world import AL_NAME, NAME, World, no_secret

STORED = RunnerScaleSet(5, "linux", 1, "Default", ("linux",), True)


@pytest.mark.behaviour("C1 T35", "C1 T37", "C1 T41")
async def test_a_new_runner_set_is_registered_under_its_own_name_in_the_default_group() -> None:
    world = World()
    await world.settle()
    assert world.github.calls == [
        ("find", "linux", 1),  # no lookup of a group
        ("create", "linux", 1, ("linux",), True),
    ]
    assert world.ars["metadata"]["finalizers"] == [
        "autoscalingrunnerset.actions.github.com/finalizer"
    ]
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert world.annotations[keys.RUNNER_GROUP_NAME] == "Default"
    assert world.annotations[keys.RUNNER_SCALE_SET_NAME] == "linux"
    assert world.annotations[keys.INTEGRITY_HASH]
    assert world.ars["metadata"]["labels"][keys.ORGANIZATION] == "octo-org"
    assert world.ars["metadata"]["labels"][keys.REPOSITORY] == "octo-repo"
    assert keys.ENTERPRISE not in world.ars["metadata"]["labels"]
    assert world.ars["spec"]["runnerScaleSetName"] == "linux"
    assert world.ers["metadata"]["name"] == NAME
    assert world.listeners == [AL_NAME]


async def _edited_as_it_is_made(world: World, **spec: object) -> None:
    """Somebody edits the object while GitHub makes the scale set: storing its id conflicts."""

    def edit(call: str, _place: object) -> None:
        if call == "create":
            world.github.fault = lambda *_: None
            world.edit(**spec)

    world.github.fault = edit
    with pytest.raises(Conflict):  # the queue looks again
        await world.settle()
    await world.settle()


async def test_one_made_anew_whose_id_could_not_be_stored_is_not_made_twice_either() -> None:
    # Seed 2155: the stored id of the one that was gone hid the new one's.
    world = World()
    await world.settle()
    world.github.sets.clear()  # somebody deleted it
    world.clock.advance(CHECK_EVERY_S + 1)
    await _edited_as_it_is_made(world, runnerGroup="testgroup")
    assert [call[0] for call in world.github.writes()] == ["create", "create", "update"]
    assert {s.runner_group_name for s in world.github.sets.values()} == {"testgroup"}
    assert world.annotations[keys.SCALE_SET_ID] == "8"


async def test_a_scale_set_whose_id_could_not_be_stored_is_not_made_twice() -> None:
    # It was looked for in the new group alone, and stayed in the old one for ever.
    world = World()
    await _edited_as_it_is_made(world, runnerGroup="testgroup")
    assert [call[0] for call in world.github.writes()] == ["create", "update"]
    assert {s.runner_group_name for s in world.github.sets.values()} == {"testgroup"}
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert world.annotations[keys.RUNNER_GROUP_NAME] == "testgroup"


async def test_one_that_was_made_at_the_place_of_before_is_left_in_order() -> None:
    world = World()
    await _edited_as_it_is_made(world, githubConfigUrl="https://github.com/elsewhere")
    for _ in range(20):
        world.clock.advance(60)
        await world.settle()
    assert world.github.sets == {}  # at the old place
    assert [s.name for s in world.github.at["https://github.com/elsewhere"].values()] == ["linux"]


@pytest.mark.behaviour("C1 T38")
async def test_a_scale_set_that_exists_is_adopted_without_a_create() -> None:
    world = World()
    world.github.sets[5] = STORED
    await world.settle()
    assert world.github.writes() == []
    assert world.annotations[keys.SCALE_SET_ID] == "5"


async def test_an_adopted_set_gets_the_labels_and_settings_of_the_wish() -> None:
    # W16: upstream leaves both untouched.
    world = World(runnerScaleSetLabels=["gpu"])
    world.github.sets[5] = replace(STORED, disable_update=False)
    await world.settle()
    assert world.github.writes() == [
        ("update", 5, {"labels": ("linux", "gpu"), "disable_update": True})
    ]


@pytest.mark.behaviour("C1 T39")
async def test_two_sets_of_that_name_are_told_and_nothing_is_made() -> None:
    world = World()
    world.github.sets.update({5: STORED, 6: replace(STORED, id=6)})
    end = await world.settle()
    assert world.ers is None
    assert world.listeners == []
    assert world.status["reason"] == "ScaleSetAmbiguous"
    assert "multiple runner scale sets" in world.status["message"]
    assert end.again_s is not None


@pytest.mark.behaviour("C1 T39")
async def test_an_unknown_group_is_told_and_looked_up_again_ever_more_slowly() -> None:
    world = World(runnerGroup="nobody")
    waits = []
    for _ in range(7):
        end = await world.settle()
        assert end.again_s is not None
        waits.append(end.again_s)
        world.clock.advance(end.again_s)
    assert waits == [2, 4, 8, 16, 32, 60, 60]
    assert world.status["reason"] == "RunnerGroupNotFound"
    assert world.condition("Registered") == ("False", "RunnerGroupNotFound")
    assert world.ers is None
    assert world.github.writes() == []


@pytest.mark.behaviour("C1 T40")
async def test_labels_go_out_with_the_create() -> None:
    world = World(runnerScaleSetLabels=["a", "b", "a", "linux"])
    await world.settle()
    assert world.github.writes() == [("create", "linux", 1, ("linux", "a", "b"), True)]


@pytest.mark.behaviour("C1 T42")
@pytest.mark.parametrize("recorded", ["0", "-3", "abc", ""])
async def test_an_id_that_makes_no_sense_is_registered_again(recorded: str) -> None:
    world = World()
    world.edit_meta(annotations={keys.SCALE_SET_ID: recorded})
    await world.settle()
    assert world.annotations[keys.SCALE_SET_ID] == "7"


@pytest.mark.behaviour("C1 T43")
async def test_a_new_name_is_one_patch_with_only_the_name() -> None:
    world = World()
    await world.settle()
    world.edit(runnerScaleSetName="other")
    await world.settle()
    assert world.github.writes()[1:] == [("update", 7, {"name": "other"})]
    assert world.annotations[keys.RUNNER_SCALE_SET_NAME] == "other"
    assert world.ers["metadata"]["annotations"][keys.RUNNER_SCALE_SET_NAME] == "other"
    assert world.listeners == [AL_NAME]


@pytest.mark.behaviour("C1 T44")
async def test_a_new_group_is_looked_up_and_patched_and_its_record_is_restored() -> None:
    world = World(runnerGroup="testgroup")
    await world.settle()
    listeners = world.listeners
    world.edit(runnerGroup="testgroup2")
    await world.settle()
    assert world.github.writes()[1:] == [("update", 7, {"runner_group_id": 3})]
    assert world.annotations[keys.RUNNER_GROUP_NAME] == "testgroup2"
    world.edit_meta(annotations={keys.RUNNER_GROUP_NAME: None})
    await world.settle()
    assert world.annotations[keys.RUNNER_GROUP_NAME] == "testgroup2"
    # The place is the same, so the session is not closed: the listener keeps its name.
    assert world.listeners == listeners


@pytest.mark.behaviour("C1 T45")
async def test_a_group_in_another_case_is_the_same_group() -> None:
    world = World(runnerGroup="testgroup")
    await world.settle()
    world.edit(runnerGroup="TestGroup")
    await world.settle()
    assert len(world.github.writes()) == 1


async def test_a_wish_that_github_refuses_is_told_until_it_is_changed() -> None:
    world = World()
    await world.settle()
    world.edit(runnerGroup="nobody")
    await world.settle()
    for _ in range(5):
        assert world.status["reason"] == "RunnerGroupNotFound"
        assert world.condition("Registered") == ("False", "RunnerGroupNotFound")
        await world.later(30)
    assert world.events.reasons() == ["RunnerGroupNotFound"]
    assert len(world.github.writes()) == 1  # it stays in its group, and is served
    assert world.status["phase"] == "Running"
    world.edit(runnerGroup="testgroup")
    await world.settle()
    assert world.status["reason"] == ""
    assert world.annotations[keys.RUNNER_GROUP_NAME] == "testgroup"


async def test_a_server_that_ignores_a_new_name_is_not_nagged() -> None:
    world = World()
    await world.settle()
    calls = world.github.calls
    world.github.ignores_names = True
    world.edit(runnerScaleSetName="other")
    await world.settle()
    assert [call for call in calls if call[0] == "update"] == [("update", 7, {"name": "other"})]
    await world.later(30)
    assert len([call for call in calls if call[0] == "update"]) == 1


async def test_an_emptied_group_means_the_default_group() -> None:
    world = World(runnerGroup="testgroup")  # W48
    await world.settle()
    world.edit(runnerGroup=None)
    await world.settle()
    assert world.github.writes()[1:] == [("update", 7, {"runner_group_id": 1})]
    assert world.annotations[keys.RUNNER_GROUP_NAME] == "Default"


async def test_a_lost_name_record_is_restored_by_id() -> None:
    world = World()  # W17
    await world.settle()
    world.edit_meta(annotations={keys.RUNNER_SCALE_SET_NAME: None})
    world.edit(runnerScaleSetName=None)
    world.start()
    await world.settle()
    assert world.annotations[keys.RUNNER_SCALE_SET_NAME] == "linux"
    assert len(world.github.writes()) == 1


async def test_edited_labels_are_told_to_github_once() -> None:
    world = World()
    await world.settle()
    world.edit(runnerScaleSetLabels=["gpu"])
    await world.settle()
    assert world.github.writes()[1:] == [
        ("update", 7, {"labels": ("linux", "gpu"), "disable_update": True})
    ]
    await world.later(100)
    assert len(world.github.writes()) == 2


async def test_a_server_that_ignores_labels_is_told_once_and_so_is_the_reader() -> None:
    world = World()
    world.github.ignores_labels = True
    await world.settle()
    world.edit(runnerScaleSetLabels=["gpu"])
    for _ in range(4):
        await world.later(100)
    assert len(world.github.writes()) == 2
    assert world.status["reason"] == "SettingsIgnored"
    assert "gpu" in world.status["message"]
    assert world.condition("Ready")[0] == "True"  # jobs are served for the labels that it has


async def test_a_set_that_is_adopted_later_is_told_anew() -> None:
    # Seed 271: what one scale set was told says nothing about another.
    world = World(runnerScaleSetLabels=["gpu"])
    await world.settle()
    world.github.sets.clear()
    world.github.sets[30] = replace(STORED, id=30)
    await world.later(90)
    assert world.annotations[keys.SCALE_SET_ID] == "30"
    assert "gpu" in world.github.sets[30].labels
    await world.later(60)  # until then it is told that the old one was gone
    assert world.status["reason"] == ""


# --- it vanished -------------------------------------------------------------------------------


async def test_a_vanished_scale_set_is_registered_anew_within_two_minutes() -> None:
    world = World()
    await world.settle()
    uid = world.ers["metadata"]["uid"]
    del world.github.sets[7]
    await world.later(90)
    assert world.annotations[keys.SCALE_SET_ID] == "8"
    assert [call[0] for call in world.github.writes()] == ["create", "create"]
    assert world.ers["metadata"]["uid"] == uid
    assert world.ers["spec"]["ephemeralRunnerSpec"]["runnerScaleSetId"] == 8
    assert world.al["spec"]["runnerScaleSetId"] == 8


async def test_a_runner_that_met_the_vanished_set_makes_it_be_looked_at_sooner() -> None:
    world = World()
    await world.settle()
    del world.github.sets[7]
    await world.later(10)
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    world.runner("linux-runner-x", status={"reason": "ScaleSetGone"})
    await world.settle()
    assert world.annotations[keys.SCALE_SET_ID] == "8"


async def test_a_set_that_vanished_and_came_back_under_its_name_is_adopted() -> None:
    world = World()
    await world.settle()
    del world.github.sets[7]
    world.github.sets[30] = replace(STORED, id=30)
    await world.later(90)
    assert world.annotations[keys.SCALE_SET_ID] == "30"
    assert [call[0] for call in world.github.writes()] == ["create"]


async def test_an_id_that_is_denied_but_found_by_name_is_kept() -> None:
    world = World()
    await world.settle()
    denied = [True]

    class Denying(type(world.github.sets)):  # type: ignore[misc]
        def __contains__(self, key: object) -> bool:
            return False if denied else super().__contains__(key)

    world.github.at[next(iter(world.github.at))] = Denying(world.github.sets)
    await world.later(90)
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert len(world.github.writes()) == 1


# --- credentials -------------------------------------------------------------------------------


@pytest.mark.behaviour("C1 T78")
async def test_missing_credentials_are_told_and_it_converges_when_they_appear() -> None:
    world = World()
    world.github.fault = lambda call, place: no_secret(place)
    end = await world.settle()
    assert keys.SCALE_SET_ID not in world.annotations
    assert world.status["reason"] == "CredentialsMissing"
    assert world.status["phase"] == "Pending"
    assert end.again_s is not None
    world.github.fault = lambda call, place: None
    await world.later(60)  # noticed within a minute, whatever the failures before
    assert world.annotations[keys.SCALE_SET_ID] == "7"
    assert world.status["phase"] == "Running"


@pytest.mark.behaviour("C1 T52")
async def test_a_renamed_secret_is_tried_out_and_then_reaches_set_and_listener_in_place() -> None:
    world = World()
    await world.settle()
    before = world.ers["metadata"]["uid"], world.al["metadata"]["uid"]
    world.edit(githubConfigSecret="other")
    await world.settle()
    assert world.ers["spec"]["ephemeralRunnerSpec"]["githubConfigSecret"] == "other"
    assert world.al["spec"]["githubConfigSecret"] == "other"
    assert (world.ers["metadata"]["uid"], world.al["metadata"]["uid"]) == before
    assert world.github.places[-1].secret_name == "other"


@pytest.mark.parametrize("refusal", [CredentialsRefused("401 Bad credentials"), None])
async def test_a_new_secret_that_does_not_work_leaves_the_old_one_at_work(
    refusal: Exception | None,
) -> None:
    world = World()
    await world.settle()

    def fault(call: str, place: object) -> Exception | None:
        bad = getattr(place, "secret_name", "") == "wrong"
        return (refusal or no_secret(place)) if bad else None  # type: ignore[arg-type]

    world.github.fault = fault
    world.edit(githubConfigSecret="wrong")
    await world.settle()
    assert world.ers["spec"]["ephemeralRunnerSpec"]["githubConfigSecret"] == "github"
    assert world.al["spec"]["githubConfigSecret"] == "github"
    assert world.status["reason"] in ("CredentialsRefused", "CredentialsMissing")
    assert world.condition("Ready")[0] == "False"
    world.edit(githubConfigSecret="github")
    await world.settle()
    assert world.status["reason"] == ""


async def test_a_controller_that_starts_while_github_is_away_changes_nothing() -> None:
    world = World()
    await world.settle()
    world.github.fault = lambda call, place: Unavailable("no answer in 30 s")
    world.start()
    world.api.changes()
    await world.one_pass()
    assert [w for w in world.api.writes if w[1] != "autoscalingrunnersets"] == []
    assert world.status["reason"] == "GitHubUnavailable"
    assert world.status["phase"] == "Running"  # what works goes on


async def test_after_a_failure_nothing_is_asked_for_a_while_but_a_change_is_tried_at_once() -> None:
    world = World(runnerGroup="nobody")
    await world.settle()
    calls = len(world.github.calls)
    world.edit_meta(labels={"touched": "1"})
    await world.settle()
    assert len(world.github.calls) == calls
    assert world.status["reason"] == "RunnerGroupNotFound"  # and it is still told
    world.edit(runnerGroup="testgroup")
    await world.settle()
    assert world.annotations[keys.SCALE_SET_ID] == "7"


# --- rivals ------------------------------------------------------------------------------------


async def test_the_younger_of_two_objects_that_want_one_scale_set_waits() -> None:
    world = World(runnerScaleSetName="shared")
    await world.settle()
    world.clock.advance(1)
    world.create("second", runnerScaleSetName="Shared")
    await world.settle("arc-runners/second")
    from runnerscale.api.autoscaling_runner_set import AUTOSCALING_RUNNER_SETS

    body = world.api.body(AUTOSCALING_RUNNER_SETS, "arc-runners", "second")
    assert body is not None
    assert body["status"]["reason"] == "ScaleSetAmbiguous"
    assert "arc-runners/linux" in body["status"]["message"]
    assert keys.SCALE_SET_ID not in body["metadata"].get("annotations", {})
    await world.settle()
    assert world.status["reason"] == ""


@pytest.mark.behaviour("C1 T74", "C1 T75")
async def test_proxy_and_ca_are_on_the_way_from_the_first_call_and_reach_set_and_listener() -> None:
    proxy = {"https": {"url": "http://proxy:8080", "credentialSecretRef": "p"}}
    tls = {"certificateFrom": {"configMapKeyRef": {"name": "ca", "key": "root.pem"}}}
    world = World(proxy=proxy, githubServerTLS=tls)
    await world.settle()
    first = world.github.places[0]
    assert first.proxy is not None and first.proxy.https is not None
    assert first.proxy.https.url == "http://proxy:8080"
    assert first.proxy.https.credential_secret_ref == "p"
    assert first.certificate is not None and first.certificate.key == "root.pem"
    assert world.al["spec"]["githubServerTLS"] == tls
    assert world.al["spec"]["proxy"] == proxy
    assert world.ers["spec"]["ephemeralRunnerSpec"]["githubServerTLS"] == tls
    assert world.ers["spec"]["ephemeralRunnerSpec"]["proxy"] == proxy


async def test_github_is_asked_nothing_for_a_wish_that_cannot_be_read() -> None:
    world = World(githubConfigUrl="no address at all")
    await world.settle()
    assert world.github.calls == []
    assert "ConfigUrlInvalid" in world.events.reasons()


async def test_a_label_that_the_server_ignores_is_named() -> None:
    world = World()
    await world.settle()
    world.github.ignores_labels = True
    world.edit(runnerScaleSetLabels=["gpu"])
    await world.settle()
    said = [text for _, reason, text in world.events.said if reason == "SettingsIgnored"]
    assert said and "lacks the label gpu" in said[0]
