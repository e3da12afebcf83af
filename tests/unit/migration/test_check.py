"""What is said of an installation of ARC's: each rule with what sets it off, and what does not."""

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from runnerscale.core.clock import format_time
from runnerscale.migration.check import BLIND, BLOCKED, FREE, Report, check
from runnerscale.migration.findings import Weight
from runnerscale.migration.snapshot import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    LISTENERS,
    ROLES,
    RUNNER_SETS,
    RUNNERS,
    SETS,
    Ours,
    Snapshot,
)
from tests.arc.objects import Arc

Json = dict[str, Any]
NOW = 1_800_000_000.0
IMAGE = "ghcr.io/runnerscale/runnerscale:0.14.2"
OURS = Ours(
    version="0.14.2",
    image=IMAGE,
    flags=frozenset({"auto-scaling-runner-set-only", "update-strategy", "log-level"}),
    idle_flags={"update-strategy": "updates never take the listener away"},
)
ARC = Arc()


def controller(name: str = "arc", *args: str, watched: str = "", **spec: Any) -> Json:
    labels = {
        "app.kubernetes.io/part-of": "gha-rs-controller",
        "actions.github.com/controller-service-account-name": "arc-account",
        "actions.github.com/controller-service-account-namespace": "arc-systems",
    }
    if watched:
        labels["actions.github.com/controller-watch-single-namespace"] = watched
    container = {"name": "manager", "image": ARC.listener_image, "args": list(args)}
    pod = {"spec": {"containers": [container]}}
    return {
        "metadata": {"namespace": "arc-systems", "name": name, "labels": labels},
        "spec": {"replicas": 1, "template": pod, **spec},
    }


def with_uid(item: Json, uid: str, **status: Any) -> Json:
    item["metadata"]["uid"] = uid
    return item | ({"status": status} if status else {})


def installation(**changes: list[Json]) -> Snapshot:
    found: dict[str, list[Json]] = {
        DEPLOYMENTS: [controller("arc", "--auto-scaling-runner-set-only", "--log-level=debug")],
        RUNNER_SETS: [with_uid(ARC.runner_set(), "u-ars")],
        SETS: [with_uid(ARC.ephemeral_runner_set("u-ars"), "u-ers")],
        LISTENERS: [with_uid(ARC.autoscaling_listener(), "u-al")],
        RUNNERS: [],
        ROLES: [ARC.role()],
        CLUSTER_ROLES: [],
        CLUSTER_ROLE_BINDINGS: [],
    }
    return Snapshot(NOW, OURS, {**found, **changes})


def topics(report: Report, weight: Weight | None = None) -> list[str]:
    return [f.topic for f in report.findings if weight in (None, f.weight)]


def runner_set(**spec: Any) -> Json:
    item = with_uid(ARC.runner_set(), "u-ars")
    item["spec"] |= spec
    return item


def said(seen: Snapshot, topic: str) -> str:
    (found,) = [f for f in check(seen).findings if f.topic == topic]
    return found.sentence()


# --- the whole ------------------------------------------------------------------------------------


def test_a_healthy_installation_of_arcs_can_be_taken_over() -> None:
    report = check(installation())
    assert report.exit_code == FREE
    assert report.summary == "nothing stands in the way of taking over 1 runner set"
    assert topics(report, Weight.CHANGES) == ["listener-restart", "image"]
    assert topics(report, Weight.NOTE) == ["adopted", "events"]
    assert report.unseen == ()


def test_what_stands_in_the_way_comes_first_and_makes_the_exit_code() -> None:
    report = check(installation(**{RUNNER_SETS: [runner_set(minRunners=5, maxRunners=2)]}))
    assert report.exit_code == BLOCKED
    assert topics(report)[0] == "limits"
    assert report.summary == "1 thing stands in the way of 1 runner set"


def test_who_could_not_see_enough_says_so_instead_of_calling_it_fine() -> None:
    seen = replace(installation(), unseen={RUNNERS: 'cannot list resource "ephemeralrunners"'})
    report = check(seen)
    assert report.exit_code == BLIND
    assert report.unseen == (
        'ephemeralrunners could not be looked at: cannot list resource "ephemeralrunners"',
    )
    lesser = replace(seen, unseen={CLUSTER_ROLES: "no"})
    assert check(lesser).exit_code == FREE
    assert "events" not in topics(check(lesser))  # what cannot be seen is not claimed


def test_a_cluster_without_arc_has_nothing_to_take_over() -> None:
    report = check(Snapshot(NOW, OURS, {}, installed=False))
    assert (report.exit_code, topics(report)) == (BLIND, ["not-installed"])


# --- controllers ----------------------------------------------------------------------------------


def test_two_controllers_for_everything_stand_in_the_way() -> None:
    seen = installation(**{DEPLOYMENTS: [controller("one"), controller("two")]})
    assert "arc-systems/one, arc-systems/two" in said(seen, "several-controllers")
    seen = installation(**{DEPLOYMENTS: [controller("one"), controller("two", watched="team")]})
    assert "mixed-controllers" in topics(check(seen), Weight.IN_THE_WAY)
    pair = [controller("one", watched="team"), controller("two", watched="team")]
    assert "several-controllers" in topics(check(installation(**{DEPLOYMENTS: pair})))
    apart = [controller("one", watched="a"), controller("two", watched="b")]
    assert check(installation(**{DEPLOYMENTS: apart})).exit_code == FREE


def test_flags_that_mean_nothing_are_named_and_unknown_ones_stand_in_the_way() -> None:
    seen = installation(**{DEPLOYMENTS: [controller("arc", "--update-strategy=immediate")]})
    assert "--update-strategy has no effect: updates never" in said(seen, "idle-flag")
    seen = installation(**{DEPLOYMENTS: [controller("arc", "--new-flag=1", "value")]})
    assert said(seen, "unknown-flag").startswith("controller arc-systems/arc: it is given --new")
    assert check(seen).exit_code == BLOCKED


def test_replicas_without_election_and_a_strange_pod_stand_in_the_way() -> None:
    seen = installation(**{DEPLOYMENTS: [controller("arc", replicas=2)]})
    assert "no-leader-election" in topics(check(seen), Weight.IN_THE_WAY)
    strange = controller("arc")
    strange["spec"]["template"]["spec"]["containers"][0]["name"] = "other"
    seen = installation(**{DEPLOYMENTS: [strange]})
    assert "no-manager-container" in topics(check(seen), Weight.IN_THE_WAY)
    assert topics(check(installation(**{DEPLOYMENTS: []}))).count("no-controller") == 1


# --- runner sets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "topic"),
    [
        ({"githubConfigUrl": "github.com/org"}, "config-url"),
        ({"githubConfigUrl": ""}, "config-url"),
        ({"githubConfigSecret": ""}, "credentials"),
        ({"minRunners": 3, "maxRunners": 2}, "limits"),
        ({"template": {"spec": {"containers": [{"name": "other"}]}}}, "template"),
        ({"template": None}, "template"),
        ({"vaultConfig": {"type": "other"}}, "vault"),
    ],
)
def test_a_wish_that_cannot_be_served_stands_in_the_way(spec: Json, topic: str) -> None:
    report = check(installation(**{RUNNER_SETS: [runner_set(**spec)]}))
    assert topic in topics(report, Weight.IN_THE_WAY)


def test_a_name_too_long_and_two_that_want_one_scale_set_stand_in_the_way() -> None:
    long = with_uid(replace(ARC, name="a" * 46).runner_set(), "u")
    assert "name" in topics(check(installation(**{RUNNER_SETS: [long]})), Weight.IN_THE_WAY)
    twin = with_uid(replace(ARC, name="twin").runner_set(), "u-2")
    twin["spec"]["runnerScaleSetName"] = "SET"
    seen = installation(**{RUNNER_SETS: [runner_set(), twin]})
    assert "arc-runners/set, arc-runners/twin" in said(seen, "ambiguous")


@pytest.mark.parametrize(
    ("label", "weight"),
    [("0.14.9", None), ("0.13.1", Weight.CHANGES), ("1.14.2", Weight.CHANGES), ("", Weight.NOTE)],
)
def test_the_version_gate_of_arc_is_told_and_deletes_nothing(
    label: str, weight: Weight | None
) -> None:
    item = runner_set()
    item["metadata"]["labels"]["app.kubernetes.io/version"] = label
    found = check(installation(**{RUNNER_SETS: [item]})).findings
    assert [f.weight for f in found if f.topic == "version"] == ([weight] if weight else [])


@pytest.mark.parametrize(
    ("spec", "topic", "word"),
    [
        ({"runnerScaleSetLabels": ["gpu"]}, "labels", "sent when they differ"),
        ({"listenerTemplate": {"spec": {"containers": []}}}, "listener-template", "its default"),
        ({"minRunners": 2}, "min-runners", "a few at a time"),
    ],
)
def test_settings_with_a_known_weakness_are_named(spec: Json, topic: str, word: str) -> None:
    assert word in said(installation(**{RUNNER_SETS: [runner_set(**spec)]}), topic)


def test_an_emptied_group_an_outdated_phase_and_no_registration_are_named() -> None:
    item = runner_set()
    item["metadata"]["annotations"]["actions.github.com/runner-group-name"] = "team"
    assert "moves from team" in said(installation(**{RUNNER_SETS: [item]}), "runner-group")
    item = runner_set() | {"status": {"phase": "Outdated"}}
    assert "outdated" in topics(check(installation(**{RUNNER_SETS: [item]})), Weight.CHANGES)
    item = runner_set()
    del item["metadata"]["annotations"]["runner-scale-set-id"]
    assert "unregistered" in topics(check(installation(**{RUNNER_SETS: [item]})))


def test_a_deletion_that_is_stuck_is_told_with_what_holds_it() -> None:
    item = runner_set()
    item["metadata"]["deletionTimestamp"] = format_time(NOW - 3600)
    text = said(installation(**{RUNNER_SETS: [item], SETS: []}), "stuck-deletion")
    assert "stuck since 60 minutes, held by autoscalingrunnerset.actions.github.com/" in text
    item["metadata"]["deletionTimestamp"] = format_time(NOW - 5)
    assert "deletion" in topics(check(installation(**{RUNNER_SETS: [item], SETS: []})))


# --- what runs ------------------------------------------------------------------------------------


def runner(name: str, **status: Any) -> Json:
    return with_uid(ARC.ephemeral_runner(name, "u-ers"), name) | {"status": status}


def test_what_becomes_of_the_runners_is_told_by_their_state() -> None:
    runners = [
        runner("busy", phase="Running", jobId="j"),
        runner("lagging", phase="Pending", workflowRunId=3),
        runner("legacy", phase="Running"),
        runner("unknown", phase="Unknown"),
        runner("dead", phase="Failed"),
        runner("idle", phase="Pending", runnerId=3),
    ]
    seen = installation(**{RUNNERS: runners})
    assert "2 runners with a job, left alone" in said(seen, "busy")
    assert "1 runner in phase Running without a job" in said(seen, "legacy-running")
    assert "1 runner of phase Unknown" in said(seen, "legacy-unknown")
    assert "1 runner failed" in said(seen, "failed")
    assert check(seen).exit_code == FREE


def test_a_set_of_the_same_wish_is_adopted_whatever_its_hash_and_another_is_exchanged() -> None:
    assert "adopted" in topics(check(installation()))
    other = copy.deepcopy(ARC.template)
    other["spec"]["containers"][0]["image"] = "runner:2"
    seen = installation(**{RUNNER_SETS: [runner_set(template=other)]})
    assert "another spec" in said(seen, "spec")


def test_a_set_of_an_older_name_and_several_listeners_are_told() -> None:
    old = with_uid(ARC.ephemeral_runner_set("u-ars", name="set-x7k2p"), "u-old")
    assert "set-x7k2p" in said(installation(**{SETS: [old]}), "old-set")
    second = with_uid(ARC.autoscaling_listener(), "u-al2")
    second["metadata"]["name"] = "set-old-listener"
    first = with_uid(ARC.autoscaling_listener(), "u-al")
    seen = installation(**{LISTENERS: [first, second]})
    assert "several listeners" in said(seen, "listeners")
    ours = with_uid(replace(ARC, listener_image=IMAGE).autoscaling_listener(), "u-al")
    assert "listener-restart" not in topics(check(installation(**{LISTENERS: [ours]})))


def test_an_object_that_cannot_be_read_stands_in_the_way_of_nobody_else() -> None:
    broken = runner_set(minRunners="five")
    seen = installation(**{RUNNER_SETS: [broken]})
    assert "unreadable" in topics(check(seen), Weight.IN_THE_WAY)


# --- rights and schemas ---------------------------------------------------------------------------


def test_a_role_without_get_gains_it_and_one_with_it_is_not_named() -> None:
    assert "listener-role" not in topics(check(installation()))
    seen = installation(**{ROLES: [ARC.role(may_get=False)]})
    assert "may not read runners" in said(seen, "listener-role")


@pytest.mark.parametrize(
    ("subject", "granted"),
    [
        ({"kind": "ServiceAccount", "namespace": "arc-systems", "name": "arc-account"}, True),
        ({"kind": "Group", "name": "system:serviceaccounts:arc-systems"}, True),
        ({"kind": "ServiceAccount", "namespace": "other", "name": "arc-account"}, False),
    ],
)
def test_the_right_to_write_events_is_looked_for_in_bindings(
    subject: Mapping[str, str], granted: bool
) -> None:
    rules = [{"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]
    role = {"metadata": {"name": "r"}, "rules": rules}
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [dict(subject)],
    }
    seen = installation(**{CLUSTER_ROLES: [role], CLUSTER_ROLE_BINDINGS: [binding]})
    assert ("events" not in topics(check(seen))) is granted


def test_events_of_a_controller_with_roles_instead_of_cluster_roles_are_not_judged() -> None:
    assert "events" in topics(check(installation()))
    one = {DEPLOYMENTS: [controller("one", watched="team")]}
    assert "events" not in topics(check(installation(**one)))


def test_fields_that_the_schema_drops_are_named() -> None:
    name = "ephemeralrunners.actions.github.com"
    seen = replace(installation(), dropped={name: ["status.conditions"]})
    assert "drops status.conditions" in said(seen, "crd")


def test_nothing_to_take_over_is_not_told_as_nothing_in_the_way() -> None:
    # A namespace that is mistyped must not pass in a script that asks before it goes on.
    gone = Snapshot(NOW, OURS, {}, namespace="nosuch", namespace_there=False)
    report = check(gone)
    assert report.exit_code == BLIND
    assert report.summary == "namespace nosuch does not exist: there is nothing to take over"
    nothing: dict[str, list[Json]] = {RUNNER_SETS: [], SETS: [], LISTENERS: [], ROLES: []}
    report = check(installation(**nothing))
    assert report.exit_code == BLIND
    assert (
        report.summary == "in the cluster there are no runner sets: there is nothing to take over"
    )
    report = check(replace(installation(**nothing), namespace="empty"))
    assert "in namespace empty there are no runner sets" in report.summary


def test_sentences_count_and_name_no_number_of_a_text_that_nobody_has() -> None:
    failed = [with_uid(ARC.ephemeral_runner("dead", "u-ers"), "u-er", phase="Failed")]
    text = said(installation(**{RUNNERS: failed}), "failed")
    assert "1 runner failed, which ARC keeps until somebody deletes them" in text
    assert "(W" not in text
    item = runner_set(minRunners=1, runnerScaleSetLabels=["gpu"], listenerTemplate={"spec": {}})
    found = check(installation(**{RUNNER_SETS: [item], RUNNERS: failed})).findings
    assert not [f for f in found if re.search(r"\(W-?S?\d", f.sentence())]
