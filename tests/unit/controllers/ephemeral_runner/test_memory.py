"""What this process remembers: bounded, and only a hint."""

from msgspec.structs import replace

from runnerscale.controllers.ephemeral_runner.memory import UNTOUCHED, Memory
from runnerscale.controllers.ephemeral_runner.snapshot import Hand

HAND = Hand(secret=True)


def test_what_was_never_seen_is_an_empty_hand() -> None:
    assert Memory().of("a") == Hand()


def test_what_is_kept_is_found_until_it_is_forgotten() -> None:
    memory = Memory()
    memory.keep("a", HAND)
    assert memory.of("a") == HAND
    memory.forget("a")
    memory.forget("a")
    assert memory.of("a") == Hand()


def test_an_empty_hand_takes_no_room() -> None:
    memory = Memory()
    memory.keep("a", HAND)
    memory.keep("a", UNTOUCHED)
    assert len(memory) == 0


def test_past_the_bound_the_longest_untouched_is_forgotten() -> None:
    memory = Memory(runners_max=2)
    memory.keep("a", HAND)
    memory.keep("b", HAND)
    memory.keep("a", replace(HAND, forced=True))
    memory.keep("c", HAND)
    assert len(memory) == 2
    assert memory.of("b") == Hand()
    assert memory.of("a").forced
