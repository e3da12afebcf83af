"""Registrations: unique names, one process per JIT config, one job per runner."""

import base64
import json

import pytest

from runnerscale.fake_github import runner_sessions, runners
from runnerscale.fake_github.jit_config import encode_jit_config
from runnerscale.fake_github.model import JobState
from runnerscale.fake_github.refusals import Refused
from tests.unit.fake_github.world import World


def kinds(world: World) -> list[str]:
    return [violation.kind for violation in world.state.violations]


def exception(refused: pytest.ExceptionInfo[Refused]) -> tuple[int, str]:
    return refused.value.status, refused.value.type_name.split(",")[0].rpartition(".")[2]


def test_a_name_is_unique_in_its_tenant_whatever_its_case() -> None:
    world = World()
    one, two = world.scale_set("one"), world.scale_set("two")
    world.runner(one, "r-1")
    with pytest.raises(Refused) as refused:
        world.runner(two, "R-1")
    assert exception(refused) == (409, "TaskAgentExistsException")
    world.runner(world.scale_set(tenant="other-org"), "r-1")


def test_a_lost_answer_can_be_repeated_after_a_removal_without_a_violation() -> None:
    world = World()
    scale_set = world.scale_set()
    lost = world.runner(scale_set, "r-1")
    world.do(runners.remove, scale_set.tenant_id, lost.id)
    again = world.runner(scale_set, "r-1")
    assert again.id != lost.id
    assert kinds(world) == []


def test_a_name_that_was_started_once_must_not_come_back() -> None:
    world = World()
    scale_set = world.scale_set()
    world.connected(scale_set, "r-1")
    world.do(runners.remove, scale_set.tenant_id, 1)
    world.runner(scale_set, "r-1")
    assert kinds(world) == ["name used again"]


def test_a_second_process_with_the_same_jit_config_is_refused_and_counted() -> None:
    world = World()
    runner = world.connected(world.scale_set(), "r-1")
    with pytest.raises(Refused) as refused:
        world.do(runner_sessions.connect, secret=runner.secret, nonce="second process")
    assert (refused.value.status, refused.value.code) == (409, "jit-config-already-used")
    assert kinds(world) == ["JIT config started twice"]


def test_it_is_counted_even_when_the_registration_has_long_been_forgotten() -> None:
    world = World()
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r-1")
    world.job()
    world.confirm(runner)
    world.finish(runner)
    with pytest.raises(Refused) as refused:
        world.do(runner_sessions.connect, secret=runner.secret, nonce="again")
    assert refused.value.code == "jit-config-already-used"
    assert kinds(world) == ["JIT config started twice"]


def test_the_same_process_may_repeat_its_call_because_the_answer_was_lost() -> None:
    world = World()
    runner = world.runner(world.scale_set(), "r-1")
    sessions = {
        world.do(runner_sessions.connect, secret=runner.secret, nonce="p").session_id
        for _ in range(3)
    }
    assert len(sessions) == 1
    assert kinds(world) == []


def test_a_removed_registration_cannot_be_started() -> None:
    world = World()
    scale_set = world.scale_set()
    runner = world.runner(scale_set, "r-1")
    world.do(runners.remove, scale_set.tenant_id, runner.id)
    with pytest.raises(Refused) as refused:
        world.do(runner_sessions.connect, secret=runner.secret, nonce="p")
    assert (refused.value.status, refused.value.code) == (410, "registration-gone")


def test_a_jit_config_gets_too_old() -> None:
    world = World(jit_life_s=3_600)
    runner = world.runner(world.scale_set(), "r-1")
    world.pass_time(3_601)
    with pytest.raises(Refused) as refused:
        world.do(runner_sessions.connect, secret=runner.secret, nonce="p")
    assert (refused.value.status, refused.value.code) == (401, "jit-config-expired")


def test_an_unknown_secret_is_refused() -> None:
    world = World()
    with pytest.raises(Refused) as refused:
        world.do(runner_sessions.connect, secret="jit_guess", nonce="p")
    assert refused.value.status == 401


def test_a_runner_with_a_job_is_not_removed_from_the_moment_it_was_chosen() -> None:
    # The race of scale-down with a job that lands: GitHub's word is final (design section 4).
    world = World()
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r-1")
    job = world.job()
    assert job.state is JobState.HANDED
    with pytest.raises(Refused) as refused:
        world.do(runners.remove, scale_set.tenant_id, runner.id)
    assert exception(refused) == (409, "TaskAgentJobStillRunningException")
    world.confirm(runner)
    with pytest.raises(Refused):
        world.do(runners.remove, scale_set.tenant_id, runner.id)
    world.finish(runner)
    world.do(runners.remove, scale_set.tenant_id, runner.id)  # forgotten already: 204


def test_a_removed_runner_never_gets_a_job_and_hears_that_it_is_gone() -> None:
    world = World()
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r-1")
    world.do(runners.remove, scale_set.tenant_id, runner.id)
    job = world.job()
    assert job.state is JobState.ASSIGNED
    with pytest.raises(Refused) as refused:
        runner_sessions.offered_job(world.state, runner)
    assert refused.value.code == "registration-gone"


@pytest.mark.parametrize(("status", "refused"), [(204, False), (404, True)])
def test_removing_the_unknown_is_fine_unless_the_options_say_otherwise(
    status: int, refused: bool
) -> None:
    world = World(unknown_runner_removal_status=status)
    scale_set = world.scale_set()
    for runner_id in (0, 999):
        if refused:
            with pytest.raises(Refused, match="No runner found"):
                world.do(runners.remove, scale_set.tenant_id, runner_id)
        else:
            world.do(runners.remove, scale_set.tenant_id, runner_id)


def test_a_runner_of_another_tenant_cannot_be_removed() -> None:
    world = World()
    theirs = world.runner(world.scale_set(tenant="other-org"), "r-1")
    ours = world.scale_set()
    world.do(runners.remove, ours.tenant_id, theirs.id)
    assert theirs.id in world.state.runners


def test_online_means_connected_and_heard_of_lately() -> None:
    world = World(runner_offline_after_s=30)
    scale_set = world.scale_set()
    runner = world.runner(scale_set, "r-1")

    def online() -> bool:
        return runners.online(world.state, runner, world.now_s)

    assert not online()
    world.do(runner_sessions.connect, secret=runner.secret, nonce="p")
    assert online()
    world.do(runner_sessions.begin_poll, runner)
    world.pass_time(500)
    assert online()  # a held poll is a sign of life
    world.do(lambda state, now_s: runner_sessions.end_poll(state, now_s, runner))
    world.pass_time(31)
    assert not online()


def test_a_runner_that_says_good_bye_is_offline_at_once_and_stays_registered() -> None:
    world = World()
    runner = world.connected(world.scale_set(), "r-1")
    world.do(runner_sessions.disconnect, runner)
    assert not runners.online(world.state, runner, world.now_s)
    assert runner.id in world.state.runners


def test_a_registration_nobody_uses_is_forgotten_in_the_end() -> None:
    world = World(offline_runner_life_s=86_400)
    runner = world.runner(world.scale_set(), "r-1")
    world.pass_time(86_399)
    assert runner.id in world.state.runners
    world.pass_time(1)
    assert runner.id not in world.state.runners


def test_the_registration_may_outlive_its_job_for_a_moment() -> None:
    world = World(agent_forget_delay_s=5)
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r-1")
    world.job()
    world.confirm(runner)
    world.finish(runner)
    assert world.statistics(scale_set)["totalIdleRunners"] == 1
    world.do(runner_sessions.begin_poll, runner)
    world.job()  # one job is all it gets
    assert runner.job_id == ""
    world.pass_time(5)
    assert runner.id not in world.state.runners


def test_a_ghost_waits_for_ever_and_gets_nothing() -> None:
    world = World()
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r-1")
    assert world.do(runner_sessions.make_ghost, runner) is True
    world.job()
    assert runner_sessions.offered_job(world.state, runner) is None
    assert runners.find(world.state, scale_set.tenant_id, "r-1") is None


def test_log_text_that_is_sent_twice_is_kept_once_and_the_end_is_kept_when_it_is_long() -> None:
    world = World(log_max_bytes=10)
    scale_set = world.scale_set()
    world.listen(scale_set)
    runner = world.connected(scale_set, "r-1")
    job = world.job()
    world.confirm(runner)
    for offset, text in [(0, b"hello "), (0, b"hello wor"), (9, b"ld, again")]:
        world.do(runner_sessions.report, runner, job.id, offset=offset, text=text)
    assert bytes(job.log) == b"rld, again"
    assert job.log_bytes == len("hello world, again")


@pytest.mark.parametrize("name", ["", "a/b", "a\nb", "x" * 129])
def test_a_bad_runner_name_is_refused(name: str) -> None:
    world = World()
    with pytest.raises(Refused) as refused:
        world.runner(world.scale_set(), name)
    assert refused.value.status == 400


def test_a_jit_config_looks_like_the_real_one() -> None:
    world = World()
    runner = world.runner(world.scale_set(), "r-1")
    text = encode_jit_config(
        runner, server_url="http://h:1", github_url="http://h/my-org", work_folder=""
    )
    files = json.loads(base64.b64decode(text))
    assert list(files) == [".runner", ".credentials", ".credentials_rsaparams"]
    settings = json.loads(base64.b64decode(files[".runner"]))
    assert settings["agentId"] == runner.id
    assert settings["agentName"] == "r-1"
    assert settings["serverUrl"] == "http://h:1"
    assert settings["workFolder"] == "_work"
