"""How answers get into the snapshot of a pass."""

from dataclasses import replace

import pytest

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.ephemeral_runner_set.learning import PROXY_AGAIN_S, learn
from runnerscale.controllers.ephemeral_runner_set.proxy_secret import LOOK_EVERY_S
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Action,
    Answer,
    AskGitHub,
    Check,
    CheckTemplate,
    Counts,
    CreateRunner,
    Data,
    DeleteProxySecret,
    DeleteRunner,
    Look,
    PatchSet,
    ReadProxySecret,
    Refused,
    Removal,
    ResolveProxy,
    Said,
    Snapshot,
    StatusView,
    Template,
    Undecided,
    WriteProxySecret,
    WriteStatus,
)
from runnerscale.kube.builtin import Secret
from tests.plan.ephemeral_runner_set.values import FAILED, IDLE, NOW, SEEN, item

WHY = trouble(Reason.API_SERVER_REFUSED, about="x", happened="no")
NO = Refused(WHY)


def after(action: Action, answer: Answer, seen: Snapshot = SEEN) -> Snapshot:
    return learn(seen, [(action, answer)])


def test_a_refusal_is_a_failure_that_is_told() -> None:
    actions: list[Action] = [
        PatchSet({}),
        CreateRunner(),
        DeleteRunner("a", uid="x"),
        WriteStatus({}, StatusView((), ())),
    ]
    for action in actions:
        known = after(action, NO)
        assert known.failed and known.failures == (WHY,) and known.failed_actions == (action,)
        assert known.made == 0


def test_a_written_set_is_looked_at_again() -> None:
    assert after(PatchSet({}), Said.DONE).stale
    assert after(PatchSet({}), Said.CONFLICT).stale
    assert after(PatchSet({}), Said.GONE).gone


def test_creations_count_even_when_nobody_knows() -> None:
    assert after(CreateRunner(), Said.DONE).made == 1
    unsure = after(CreateRunner(), Undecided("n", WHY))
    assert unsure.made == 1 and unsure.failed


def test_a_question_is_on_its_way() -> None:
    seen = replace(SEEN, runners=(IDLE, replace(IDLE, uid="u9")))
    known = after(AskGitHub("idle", uid="u1", runner_id=7), Said.DONE, seen)
    assert [r.removal for r in known.runners] == [Removal.ASKED, Removal.NOT_ASKED]


@pytest.mark.parametrize(
    ("phase", "has_job", "left"),
    [("Pending", False, Counts(0, 1)), ("Running", False, Counts(1, 0))],
)
def test_a_deleted_runner_changes_its_column(phase: str, has_job: bool, left: Counts) -> None:
    one = replace(IDLE, phase=phase, has_job=has_job)
    seen = replace(SEEN, runners=(one,), counts=Counts(1, 1))
    known = after(DeleteRunner("idle", uid="u1"), Said.DONE, seen)
    assert known.runners == () and known.counts == replace(left, deleting=1)
    assert after(DeleteRunner("idle", uid="u1"), Said.GONE, seen).counts == left


def test_a_deleted_retired_one_too_and_its_last_words_are_kept() -> None:
    seen = replace(SEEN, retired=(FAILED,), counts=Counts(failed=1))
    known = after(DeleteRunner("bad", uid="f1", told=WHY), Said.DONE, seen)
    assert known.retired == () and known.counts == Counts(deleting=1)
    assert known.last_words == (WHY,)
    done = replace(FAILED, phase="Succeeded")
    seen = replace(SEEN, retired=(done,), counts=Counts(finished=1))
    assert after(DeleteRunner("bad", uid="f1"), Said.GONE, seen).counts == Counts()


def test_a_conflict_at_a_deletion_means_another_look() -> None:
    known = after(DeleteRunner("idle", uid="u1"), Said.CONFLICT, replace(SEEN, runners=(IDLE,)))
    assert known.stale and known.runners == (IDLE,)


def test_what_is_learned_of_the_template() -> None:
    unknown = replace(SEEN, template=Template())
    assert after(CheckTemplate(), Said.DONE, unknown).template.check is Check.ACCEPTED
    assert after(CheckTemplate(), Said.PASSED_OVER, unknown).template.check is Check.ACCEPTED
    refused = after(CheckTemplate(), NO, unknown)
    assert refused.template.check is Check.REFUSED and not refused.failed
    unsure = after(CheckTemplate(), Undecided("", WHY), unknown)
    assert unsure.template == Template() and unsure.failed


def test_what_is_learned_of_the_proxies() -> None:
    secret = Secret()
    data = after(ResolveProxy(), Data({"http_proxy": b"x"}))
    assert data.proxy.data == {"http_proxy": b"x"} and data.proxy.again_s == NOW + LOOK_EVERY_S
    assert after(ReadProxySecret(), secret).proxy.secret is secret
    assert after(ReadProxySecret(), Look.ABSENT).proxy.secret is Look.ABSENT
    assert after(WriteProxySecret({}, create=True), secret).proxy.secret is secret
    assert after(WriteProxySecret({}, create=True), Look.UNKNOWN).proxy.secret is Look.UNKNOWN
    assert after(DeleteProxySecret("s"), Look.ABSENT).proxy.secret is Look.ABSENT
    refused = after(ResolveProxy(), NO)
    assert refused.proxy.trouble == WHY and refused.proxy.again_s == NOW + PROXY_AGAIN_S
    assert after(ReadProxySecret(), Undecided("", WHY)).failed


def test_a_written_status_is_known_and_the_next_waits() -> None:
    stored = item(status={"phase": "Running"})
    known = after(WriteStatus({}, StatusView((), ())), stored)
    assert known.item is stored and known.status_due_s == NOW + 2
    assert after(WriteStatus({}, StatusView((), ())), Said.GONE).gone
