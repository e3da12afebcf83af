"""Who belongs to a set, kept up to date change by change."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.api.ephemeral_runner import EphemeralRunner, EphemeralRunnerSpec
from runnerscale.api.fingerprint import fingerprint
from runnerscale.api.labels import RUNNER_SPEC_HASH
from runnerscale.controllers.ephemeral_runner_set.roster import Roster
from runnerscale.controllers.ephemeral_runner_set.snapshot import Counts, Unlisted, Waits
from runnerscale.core.clock import format_time
from tests.plan.ephemeral_runner_set.values import NOW

WISHED = EphemeralRunnerSpec(github_config_url="https://github.com/o")
HASH = fingerprint(WISHED)


def runner(
    name: str, *, made_from: str = HASH, going: bool = False, age_s: float = 0, **status: Any
) -> EphemeralRunner:
    body = {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(NOW - age_s),
            **({"annotations": {RUNNER_SPEC_HASH: made_from}} if made_from else {}),
            **({"deletionTimestamp": format_time(NOW)} if going else {}),
        },
        "spec": {"githubConfigUrl": "https://github.com/o"},
        "status": status,
    }
    return msgspec.json.decode(msgspec.json.encode(body), type=EphemeralRunner)


def roster(*items: EphemeralRunner) -> Roster:
    made = Roster("u", fingerprint=HASH)
    for item in items:
        made.put(item, WISHED)
    return made


@pytest.mark.behaviour("C2 T190")
def test_counts_by_phase() -> None:
    made = roster(
        runner("a", phase=""),
        runner("b", phase="Pending"),
        runner("c", phase="Pending"),
        *(runner(f"r{n}", phase="Running", jobId="j") for n in range(3)),
        runner("d", phase="Failed"),
        runner("e", phase="Succeeded"),
        runner("f", phase="Outdated"),
        runner("g", going=True, phase="Running"),
    )
    assert made.counts == Counts(pending=3, running=3, failed=1, finished=1, deleting=1)
    assert made.counts.current == 7 and made.live == 6
    assert [r.name for r in made.evidence()] == ["d", "e", "f"]


def test_a_job_counts_although_the_phase_lags() -> None:
    assert roster(runner("a", phase="Pending", jobId="j")).counts == Counts(running=1)


def test_a_changed_runner_moves_and_one_that_is_gone_leaves_nothing() -> None:
    made = roster(runner("a", phase="Pending"))
    (before,) = made.runners()
    assert made.runners()[0] is before  # looked at once for each change
    made.put(runner("a", phase="Running", jobId="j"), WISHED)
    assert made.runners()[0].has_job
    made.put(runner("a", phase="Failed", jobId="j"), WISHED)
    assert made.runners() == [] and made.evidence()[0].had_job
    assert made.evidence()[0] is made.evidence()[0]
    made.remove("a")
    made.remove("a")
    assert made.counts == Counts() and "a" not in made and made.evidence() == ()


def test_another_spec_makes_everybody_old() -> None:
    made = roster(runner("a", phase="Pending"), runner("b", phase="Failed"))
    assert made.stale == {} and "a" in made
    other = EphemeralRunnerSpec(github_config_url="https://github.com/p")
    made.use_spec(fingerprint(other), other, now_s=NOW)
    assert list(made.stale) == ["a"]
    assert not made.runners()[0].current and not made.evidence()[0].current
    made.use_spec(HASH, WISHED, now_s=NOW)
    assert made.stale == {} and made.runners()[0].current


def test_runners_of_arc_are_compared_once_for_each_spec() -> None:
    made = roster(runner("a", made_from="", phase="Pending"))
    assert made.foreign == {"uid-a": ((HASH, None), True)}
    made.put(runner("a", made_from="", phase="Pending", ready=True), WISHED)
    assert made.stale == {}
    other = EphemeralRunnerSpec(github_config_url="https://github.com/p")
    made.use_spec(fingerprint(other), other, now_s=NOW)
    assert list(made.stale) == ["a"]


def test_before_the_set_is_known_nobody_is_judged() -> None:
    made = Roster("u")
    made.put(runner("a", made_from="r1-other"), None)
    assert made.stale == {} and made.runners()[0].current


def test_the_numbers_for_the_failure_policy() -> None:
    made = roster(
        runner("works", age_s=500, ready=True),
        runner("new", age_s=10, ready=True),  # not proven yet
        runner("busy", age_s=300, jobId="j"),
        runner("old", made_from="r1-other", age_s=1, jobId="k"),
    )
    assert made.unlisted(now_s=NOW, in_detail=False) == Unlisted(alive=4)
    assert made.unlisted(now_s=NOW, in_detail=True) == Unlisted(
        alive=4, busy=2, works_s=NOW - 300, newest_s=NOW - 10
    )


def test_what_runners_wait_for_is_gathered_by_reason() -> None:
    made = roster(
        runner("a", reason="ImageUnavailable", message="a pulls"),
        runner("b", reason="ImageUnavailable", message="b pulls", ready=True),
        runner("c", reason="QuotaExceeded", message="no room"),
        runner("busy", reason="StuckAfterJob", jobId="j"),
        runner("dead", reason="ImageUnavailable", phase="Failed"),
        runner("online", ready=True),
        runner("new"),
    )
    pulls = Waits("ImageUnavailable", "a pulls", 2)
    assert made.waits() == (pulls, Waits("QuotaExceeded", "no room", 1))
    assert made.serving == 2
    made.remove("c")
    assert made.waits() == (pulls,)


NAMES = st.sampled_from("abcd")
STATES = st.sampled_from(
    [
        {"phase": ""},
        {"phase": "Pending"},
        {"phase": "Running"},
        {"phase": "Pending", "jobId": "j"},
        {"phase": "Pending", "reason": "QuotaExceeded"},
        {"phase": "Pending", "ready": True},
        {"phase": "Failed"},
        {"phase": "Outdated"},
        {"phase": "Succeeded"},
        {"phase": "Running", "going": True},
    ]
)


@given(st.lists(st.tuples(NAMES, STATES | st.none(), st.booleans()), max_size=30))
def test_change_by_change_is_the_same_as_from_the_beginning(
    changes: list[tuple[str, dict[str, Any] | None, bool]],
) -> None:
    made, now = roster(), {}
    for name, state, old in changes:
        if state is None:
            made.remove(name)
            now.pop(name, None)
        else:
            now[name] = runner(name, made_from="r1-old" if old else HASH, **state)
            made.put(now[name], WISHED)
    fresh = Roster("u", fingerprint=HASH)
    fresh.rebuild(now.values(), WISHED, now_s=NOW)
    assert (made.counts, made.live, made.proxied) == (fresh.counts, fresh.live, fresh.proxied)
    assert set(made.stale) == set(fresh.stale) and set(made.retired) == set(fresh.retired)
    assert sorted(made.waits(), key=str) == sorted(fresh.waits(), key=str)
    assert made.serving == fresh.serving
    by_name = {r.name: r for r in made.runners()}
    assert by_name == {r.name: r for r in fresh.runners()}
