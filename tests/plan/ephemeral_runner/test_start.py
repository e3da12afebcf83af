"""Fourth stage: the runner's container starts."""

import pytest
from msgspec.structs import replace

from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    CheckSecret,
    Done,
    Ending,
    How,
    NoAnswer,
    PatchStatus,
    Said,
)
from runnerscale.controllers.ephemeral_runner.plan import plan
from runnerscale.controllers.ephemeral_runner.pod_view import Exit, PodView, Waiting
from runnerscale.controllers.ephemeral_runner.start import look
from tests.plan.ephemeral_runner.values import (
    PLACED,
    REF,
    RUNNING,
    WAITING,
    ending,
    no_answer,
    patch,
    reasons,
    removed,
    seen,
    told,
)


def waiting(reason: str, message: str = "", container: str = "runner") -> PodView:
    return replace(PLACED, waiting=(Waiting(container, "img:1", reason, message),))


def why(decided: Ending) -> Reason:
    assert decided.trouble is not None
    return decided.trouble.reason


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull"])
def test_an_image_name_that_can_never_be_pulled_fails_at_once(reason: str) -> None:
    decided = ending(look(seen(pod=waiting(reason, "couldn't parse"))))
    assert (decided.how, why(decided)) == (How.FAILED, Reason.IMAGE_INVALID)
    assert decided.trouble is not None
    assert "img:1" in decided.trouble.happened


@pytest.mark.parametrize(
    "message",
    [
        'rpc error: failed to resolve reference "img:1": img:1: not found',
        "manifest unknown: manifest unknown",
        "pull access denied, repository does not exist or may require authorization",
    ],
)
def test_an_image_that_is_not_there_fails_at_once(message: str) -> None:
    decided = ending(look(seen(pod=waiting("ErrImagePull", message))))
    assert why(decided) is Reason.IMAGE_INVALID


def test_a_hopeless_image_fails_even_while_github_is_away() -> None:
    # Nothing can have started, so GitHub's word is not waited for.
    pod = waiting("InvalidImageName")
    write = patch(plan(seen(pod=pod, hand=no_answer())).actions)
    assert (write.phase, write.reason) == ("Failed", "ImageInvalid")


def test_a_registry_that_is_away_is_told_at_once_and_given_up_after_ten_minutes() -> None:
    pod = waiting("ImagePullBackOff", "dial tcp: i/o timeout")
    step = look(seen(pod=pod))
    assert reasons(step.troubles) == ["ImageUnavailable"]
    assert step.again_s == 600
    decided = ending(look(seen(pod=pod, after_s=600)))
    assert (decided.how, why(decided)) == (How.FAILED, Reason.IMAGE_UNAVAILABLE)


def test_why_an_image_could_not_be_pulled_is_said_in_the_nodes_words() -> None:
    step = look(seen(pod=waiting("ErrImagePull", "dial tcp: i/o timeout")))
    said = "image img:1 of container runner: ErrImagePull: dial tcp: i/o timeout"
    assert step.troubles[0].happened == said
    for silent in ("", "ErrImagePull"):
        step = look(seen(pod=waiting("ErrImagePull", silent)))
        assert step.troubles[0].happened == "image img:1 of container runner: ErrImagePull"


def test_the_image_of_a_sidecar_holds_the_runner_just_as_well() -> None:
    pod = waiting("InvalidImageName", container="dind")
    assert "dind" in str(ending(look(seen(pod=pod))).trouble)


def test_a_quiet_pull_is_left_alone_for_a_quarter_of_an_hour() -> None:
    pod = waiting("ContainerCreating")
    assert look(seen(pod=pod, after_s=899)).ending is None
    assert look(seen(pod=pod, after_s=899)).troubles == ()
    assert why(ending(look(seen(pod=pod, after_s=900)))) is Reason.POD_NOT_STARTED


def test_a_missing_config_map_is_told_after_a_moment() -> None:
    pod = waiting("CreateContainerConfigError", 'configmap "x" not found')
    assert look(seen(pod=pod)).troubles == ()
    step = look(seen(pod=pod, after_s=30))
    assert reasons(step.troubles) == ["PodNotStarted"]
    assert 'configmap "x" not found' in step.troubles[0].happened


# What a kubelet says, and our own node agent: the Secret is gone, or its key is.
MISSES_ITS_CONFIG = pytest.mark.parametrize(
    "message",
    ['secret "runner-a" not found', "couldn't find key jitToken in Secret ns/runner-a"],
)


@MISSES_ITS_CONFIG
def test_a_deleted_jit_config_is_not_waited_for(message: str) -> None:
    # Seed 346: it was, for a quarter of an hour, and nobody can make it anew.
    now = seen(pod=waiting("CreateContainerConfigError", message), after_s=30)
    step = look(now)
    assert step.actions == (CheckSecret(REF),)
    assert reasons(step.troubles) == ["PodNotStarted"]
    decided = ending(look(told(now, CheckSecret(REF), Said.ABSENT)))
    assert (decided.how, why(decided)) == (How.DISTURBED, Reason.JIT_CONFIG_EXPIRED)
    assert not decided.harmless  # the node may have started it since: GitHub is asked first


@MISSES_ITS_CONFIG
def test_a_node_that_has_not_seen_the_jit_config_yet_is_waited_for(message: str) -> None:
    pod = waiting("CreateContainerConfigError", message)
    young = look(seen(pod=pod, after_s=29))
    assert (young.actions, young.again_s) == ((), 1)
    there = told(seen(pod=pod, after_s=30), CheckSecret(REF), Done())
    step = look(there)
    assert (step.actions, step.ending, step.again_s) == ((), None, 30)
    later = replace(there, now_s=there.now_s + 30)
    assert look(later).actions == (CheckSecret(REF),)  # somebody may delete it meanwhile
    late = replace(there, now_s=there.now_s + 870)
    assert why(ending(look(late))) is Reason.POD_NOT_STARTED


def test_whether_the_jit_config_is_there_is_asked_once_a_pass_where_nobody_answers() -> None:
    now = seen(pod=waiting("CreateContainerConfigError", 'secret "runner-a" not found'), after_s=30)
    asked = told(now, CheckSecret(REF), NoAnswer("x"))
    assert CheckSecret(REF) not in plan(asked).actions
    assert plan(asked).failed


@pytest.mark.parametrize(
    "pod",
    [
        waiting("CreateContainerConfigError", 'configmap "x" not found'),
        waiting("CreateContainerConfigError", 'secret "runner-a" not found', container="dind"),
        waiting("CreateContainerError", 'container name "runner-a" is in use'),
    ],
)
def test_the_jit_config_is_only_looked_for_where_the_runner_misses_it(pod: PodView) -> None:
    assert look(seen(pod=pod, after_s=30)).actions == ()


@pytest.mark.behaviour("C1 T149")
def test_an_init_container_that_fails_ends_the_runner_while_the_pod_is_still_pending() -> None:
    pod = replace(PLACED, failed=Exit("init", 1, reason="Error"))
    decided = ending(look(seen(pod=pod)))
    assert (decided.how, why(decided)) == (How.FAILED, Reason.INIT_CONTAINER_FAILED)
    assert decided.trouble is not None
    assert decided.trouble.happened == "container init ended with exit code 1"
    spoken = replace(PLACED, failed=Exit("init", 1, message="no such host\n"))
    trouble = ending(look(seen(pod=spoken))).trouble
    assert trouble is not None
    assert trouble.happened == "container init ended with exit code 1, its last words: no such host"


def test_why_it_failed_is_said_where_the_node_knows() -> None:
    pod = replace(PLACED, failed=Exit("init", 137, reason="OOMKilled"))
    assert "OOMKilled" in str(ending(look(seen(pod=pod))).trouble)


def test_a_runner_that_starts_in_the_last_moment_is_not_killed() -> None:
    # GitHub is asked to forget it first; with a job it refuses, and the ending is off.
    from runnerscale.controllers.ephemeral_runner.actions import RemoveRunner
    from runnerscale.controllers.ephemeral_runner.snapshot import Removal

    pod = waiting("ContainerCreating")
    late = seen(pod=pod, after_s=900)
    assert plan(late).actions == (RemoveRunner(REF, 7),)
    busy = seen(pod=pod, hand=removed(Removal.BUSY, at_s=late.now_s), after_s=900)
    assert not any(
        isinstance(action, PatchStatus) and action.phase for action in plan(busy).actions
    )


def test_other_stages_are_not_its_business() -> None:
    assert look(seen(pod=WAITING)) == NOTHING
    assert look(seen(pod=RUNNING)) == NOTHING
    assert look(seen()) == NOTHING
