"""Whether the API server would take the pod that the runners get."""

from dataclasses import replace

import pytest

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set.failure_policy import Verdict
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Check,
    CheckTemplate,
    Refused,
    Said,
    Template,
)
from runnerscale.controllers.ephemeral_runner_set.template_check import (
    learned,
    may_use,
    says_something,
    stage,
)
from runnerscale.kube.errors import BadRequest, Forbidden, Invalid, ServerFault
from tests.plan.ephemeral_runner_set.values import IDLE, NOW, SEEN, item
from tests.plan.ephemeral_runner_set.world import World

UNKNOWN = replace(SEEN, template=Template())
WHY = trouble(Reason.TEMPLATE_REFUSED, about="x", happened="no")
FINE = Verdict()


def test_it_is_checked_when_somebody_is_about_to_be_made() -> None:
    assert stage(UNKNOWN, FINE).actions == ()
    assert stage(replace(UNKNOWN, replicas=1), FINE).actions == (CheckTemplate(),)
    old = replace(IDLE, current=False)
    exchange = replace(UNKNOWN, replicas=1, runners=(old,))
    assert stage(exchange, FINE).actions == (CheckTemplate(),)


def test_a_refusal_from_before_this_process_is_looked_into() -> None:
    refused = item(status={"conditions": [{"type": "TemplateAccepted", "status": "False"}]})
    assert stage(replace(UNKNOWN, item=refused), FINE).actions == (CheckTemplate(),)


def test_an_accepted_one_is_used_and_not_checked_again() -> None:
    assert stage(replace(SEEN, replicas=1), FINE).actions == ()
    assert may_use(SEEN) and not may_use(UNKNOWN)


def test_a_refused_one_is_told_and_probed_slowly() -> None:
    refused = replace(SEEN, template=Template(Check.REFUSED, WHY, again_s=NOW + 60, failures=1))
    found = stage(refused, FINE)
    assert (found.actions, found.troubles, found.again_s) == ((), (WHY,), 60)
    assert stage(replace(refused, now_s=NOW + 60), FINE).actions == (CheckTemplate(),)


def test_probes_come_at_60_s_doubling_to_ten_minutes() -> None:
    template, waits = Template(), []
    for _ in range(6):
        template = learned(template, Refused(WHY), now_s=NOW)
        waits.append(template.again_s - NOW)
    assert waits == [60, 120, 240, 480, 600, 600]
    assert learned(template, Said.DONE, now_s=NOW) == Template(Check.ACCEPTED)


@pytest.mark.parametrize(
    "words",
    [
        'pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: 5',
        'admission webhook "w" does not support dry run',
        "forbidden: unable to create new content in namespace x because it is being terminated",
    ],
)
def test_some_refusals_say_nothing_about_the_template(words: str) -> None:
    assert not says_something(words)
    assert says_something('violates PodSecurity "restricted:latest"')


class TestInTheWorld:
    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (Invalid(422, "Invalid", "spec.containers[0].image: Required"), "TemplateRefused"),
            (Forbidden(403, "Forbidden", "violates PodSecurity"), "TemplateRefused"),
            (BadRequest(400, "BadRequest", "cannot unmarshal number"), "TemplateRefused"),
            (Forbidden(403, "Forbidden", 'cannot create resource "pods"'), "RightsMissing"),
        ],
    )
    async def test_the_servers_words_are_on_the_set_and_no_runner_is_made(
        self, error: Exception, reason: str
    ) -> None:
        this = World()
        this.make(replicas=2)
        this.api.fault = lambda verb, plural, name: error if verb == "dry-run" else None
        await this.settle()
        assert this.names == []
        condition = this.condition("TemplateAccepted")
        assert (condition["status"], condition["reason"]) == ("False", reason)
        assert error.message in condition["message"]  # type: ignore[attr-defined]
        assert this.status["reason"] == reason
        assert reason in [r for _, r, _ in this.events.told]

    async def test_a_slow_probe_finds_out_that_it_is_accepted_now(self) -> None:
        this = World()
        this.make(replicas=2)
        this.api.fault = lambda verb, plural, name: (
            Forbidden(403, "Forbidden", "no service account") if verb == "dry-run" else None
        )
        await this.settle()
        this.api.fault = lambda *_: None
        await this.later(30)
        assert this.names == []
        await this.later(31)
        assert len(this.names) == 2
        assert this.condition("TemplateAccepted")["status"] == "True"
        assert this.status["reason"] == ""

    async def test_a_changed_spec_is_tried_at_once(self) -> None:
        this = World()
        this.make(replicas=1, runner={"spec": {"containers": [{"name": "not-the-runner"}]}})
        await this.settle()
        assert "no container named 'runner'" in this.condition("TemplateAccepted")["message"]
        right = {"spec": {"containers": [{"name": "runner", "image": "i"}]}}
        this.change_set({"spec": {"ephemeralRunnerSpec": right}})
        await this.settle()
        assert len(this.names) == 1

    async def test_a_full_quota_does_not_speak_against_the_template(self) -> None:
        this = World()
        this.make(replicas=1)
        this.api.fault = lambda verb, plural, name: (
            Forbidden(403, "Forbidden", "exceeded quota: q") if verb == "dry-run" else None
        )
        await this.settle()
        assert len(this.names) == 1  # its own controller waits for room, and says so

    async def test_nobody_can_say_is_tried_again_soon(self) -> None:
        this = World()
        this.make(replicas=1)
        await this.one_pass()
        this.api.fault = lambda verb, plural, name: (
            ServerFault(503, "", "down") if verb == "dry-run" else None
        )
        end = await this.one_pass()
        assert end.failed and this.names == []
        this.api.fault = lambda *_: None
        await this.settle()
        assert len(this.names) == 1

    async def test_the_dry_run_is_of_the_pod_that_a_runner_gets(self) -> None:
        this = World()
        this.make(replicas=1)
        await this.settle()
        (pod,) = this.api.dry_runs
        assert pod["spec"]["containers"][0]["env"][0]["name"] == "ACTIONS_RUNNER_INPUT_JITCONFIG"
        assert pod["metadata"]["namespace"] == "runners"
