"""How the stages of a plan come together."""

from runnerscale.api.reasons import Reason, trouble
from runnerscale.controllers.stages import Stage, as_plan, joined, run_stages, worst

INFO = trouble(Reason.DELETION_WAITS, about="x", happened="waits")
WARNING = trouble(Reason.GITHUB_UNAVAILABLE, about="x", happened="away")
ERROR = trouble(Reason.CREDENTIALS_MISSING, about="x", happened="none")


def test_trouble_in_one_stage_stops_no_other() -> None:
    stages = (
        lambda seen: Stage(troubles=(WARNING,), failed=True),
        lambda seen: Stage(("do",), again_s=5.0),
        lambda seen: Stage(again_s=2.0),
    )
    assert run_stages(None, stages) == Stage(("do",), (WARNING,), again_s=2.0, failed=True)


def test_only_a_stop_ends_the_row() -> None:
    stages = (lambda seen: Stage(("last",), stop=True), lambda seen: Stage(("never",)))
    assert run_stages(None, stages).actions == ("last",)


def test_nothing_joined_is_settled() -> None:
    assert joined([]) == Stage()
    plan = as_plan(Stage(("do",), (INFO,), again_s=1.0, failed=True))
    assert (plan.actions, plan.again_s, plan.failed, plan.troubles) == (("do",), 1.0, True, (INFO,))


def test_the_worst_is_an_error_and_among_equals_the_first() -> None:
    assert worst([INFO, WARNING, ERROR]) is ERROR
    assert worst([INFO, WARNING]) is WARNING
    other = trouble(Reason.SPEC_INVALID, about="x", happened="bad")
    assert worst([ERROR, other]) is ERROR
    assert worst([]) is None
