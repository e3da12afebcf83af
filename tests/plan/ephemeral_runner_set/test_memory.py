"""What is remembered between passes."""

from runnerscale.controllers.ephemeral_runner_set.finished import Held
from runnerscale.controllers.ephemeral_runner_set.memory import (
    LET_GO_MAX,
    Memory,
    Remembered,
    Word,
)
from runnerscale.controllers.ephemeral_runner_set.snapshot import (
    Check,
    Look,
    Proxy,
    Removal,
    Template,
)


def test_a_namesake_that_was_made_later_begins_anew() -> None:
    memory = Memory()
    first = memory.of("ns/set", "u1")
    assert memory.of("ns/set", "u1") is first
    assert memory.of("ns/set", "u2") is not first
    memory.forget("ns/set")
    memory.forget("ns/set")
    assert memory.known("ns/set") is None


def test_another_runner_spec_forgets_what_was_learned_of_the_old_one() -> None:
    remembered = Remembered("u", fingerprint="a", template=Template(Check.REFUSED))
    remembered.proxy = Proxy(secret=Look.ABSENT, data={})
    remembered.use_fingerprint("a")
    assert remembered.template.check is Check.REFUSED
    remembered.use_fingerprint("b")
    assert remembered.template == Template()
    assert remembered.proxy == Proxy(secret=Look.ABSENT)


def test_a_runner_that_is_gone_leaves_nothing() -> None:
    remembered = Remembered("u")
    remembered.note_let_go("r")
    remembered.note_ending("r")
    remembered.removals["r"] = Word(Removal.ASKED, 1.0)
    remembered.forget_runner("r")
    assert (remembered.let_go, remembered.ending, remembered.removals) == ({}, {}, {})


def test_words_of_github_hold_for_a_while() -> None:
    remembered = Remembered("u")
    for removal in Removal:
        remembered.removals[removal.value] = Word(removal, 1000.0)
    remembered.drop_old_words(now_s=1059.0)
    assert len(remembered.removals) == len(Removal)
    remembered.drop_old_words(now_s=1060.0)
    assert "has a job" not in remembered.removals
    remembered.drop_old_words(now_s=1120.0)
    assert set(remembered.removals) == {"not asked", "asked", "forgotten"}
    remembered.removals.clear()
    remembered.drop_old_words(now_s=1120.0)


def test_disturbances_are_forgotten_when_they_no_longer_matter() -> None:
    remembered = Remembered("u")
    remembered.disturbed_s.extend([1000.0, 1200.0])
    assert remembered.lately_disturbed(now_s=1250.0) == (1000.0, 1200.0)
    assert remembered.lately_disturbed(now_s=1300.0) == (1200.0,)
    assert remembered.lately_disturbed(now_s=9999.0) == ()


def test_the_own_deletions_are_bounded() -> None:
    remembered = Remembered("u")
    for number in range(LET_GO_MAX + 5):
        remembered.note_let_go(str(number))
    assert len(remembered.let_go) == LET_GO_MAX and "0" not in remembered.let_go


def test_a_clock_that_is_set_right_makes_no_wait_longer() -> None:
    memory = Memory()
    remembered = memory.of("ns/set", "u")
    remembered.held = Held(since_s=(("r", 5000.0),))
    remembered.removals["r"] = word = Word(Removal.HAS_JOB, 5001.0)
    remembered.disturbed_s.append(5002.0)
    remembered.undecided["r2"] = 5003.0
    memory.clock_jumped(-4000.0)
    assert memory.of("ns/set", "u") is remembered
    assert remembered.held.since_s == (("r", 1000.0),)
    assert remembered.removals["r"] == Word(word.removal, 1001.0)
    assert [*remembered.disturbed_s] == [1002.0]
    assert remembered.undecided == {"r2": 1003.0}
