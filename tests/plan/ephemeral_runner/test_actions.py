"""Actions and answers are plain values."""

from runnerscale.controllers.ephemeral_runner.actions import (
    NOTHING,
    CreateSecret,
    Registered,
    Step,
)
from tests.plan.ephemeral_runner.values import JIT, REF


def test_an_action_is_equal_to_its_like_and_prints_no_secret() -> None:
    assert CreateSecret(REF, JIT) == CreateSecret(REF, JIT)
    assert "very-secret" not in repr(CreateSecret(REF, JIT))
    assert "very-secret" not in repr(Registered(JIT))


def test_a_stage_wants_nothing_most_of_the_time() -> None:
    assert Step() == NOTHING
    assert (NOTHING.actions, NOTHING.again_s, NOTHING.troubles, NOTHING.ending) == (
        (),
        None,
        (),
        None,
    )
