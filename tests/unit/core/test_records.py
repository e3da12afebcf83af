"""Quick records mean what the library's frozen dataclasses mean."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.core.records import dataclass, replace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Slow:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Of(Generic[T]):
    what: T


@dataclass(frozen=True, slots=True)
class Checked:
    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


class Child(Quick):
    """Made from it by hand: it has a dict besides the slots."""


VALUES = st.fixed_dictionaries(
    {"a": st.integers()}, optional={"b": st.text(), "c": st.lists(st.integers())}
)


@given(VALUES, VALUES)
def test_it_is_made_compared_hashed_shown_and_copied_as_the_librarys(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    quick, slow = Quick(**first), Slow(**first)
    assert dataclasses.asdict(quick) == dataclasses.asdict(slow)
    assert repr(quick) == repr(slow).replace("Slow", "Quick")
    assert (quick == Quick(**second)) == (slow == Slow(**second))
    changed = replace(quick, **second)
    assert type(changed) is Quick
    assert dataclasses.asdict(changed) == dataclasses.asdict(dataclasses.replace(slow, **second))
    assert changed == dataclasses.replace(quick, **second)
    assert dataclasses.asdict(quick) == dataclasses.asdict(slow)  # the first one is as it was
    hashable = Quick(first["a"], "x", ())  # type: ignore[arg-type]
    assert hash(hashable) == hash(Slow(first["a"], "x", ()))  # type: ignore[arg-type]


def test_it_is_frozen_and_has_no_other_fields() -> None:
    for item in (Quick(1), replace(Quick(1), b="c")):
        with pytest.raises(FrozenInstanceError):
            item.a = 2  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError):
            del item.a
        assert not hasattr(item, "__dict__")
        with pytest.raises((AttributeError, TypeError)):
            item.d = 2  # type: ignore[attr-defined]


def test_wrong_arguments_are_refused_as_by_the_library() -> None:
    for make in (
        lambda: Quick(),  # type: ignore[call-arg]
        lambda: Quick(1, d=2),  # type: ignore[call-arg]
        lambda: Quick(1, "b", [], 4),  # type: ignore[call-arg]
        lambda: replace(Quick(1), d=2),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError):
            make()


def test_each_has_a_default_of_its_own() -> None:
    assert Quick(1).c is not Quick(1).c


def test_it_shows_its_signature_and_can_be_matched_copied_and_pickled() -> None:
    assert [*inspect.signature(Quick).parameters] == ["a", "b", "c"]
    match Quick(1, "x"):
        case Quick(a, b):
            assert (a, b) == (1, "x")
    assert copy.copy(Quick(1)) == copy.deepcopy(Quick(1)) == pickle.loads(pickle.dumps(Quick(1)))


def test_a_record_of_anything_a_checked_one_and_a_child_work_too() -> None:
    assert replace(Of(1), what=2) == Of(2)
    with pytest.raises(ValueError, match="above"):
        Checked(2, 1)
    with pytest.raises(ValueError, match="above"):
        replace(Checked(1, 2), low=3)
    child = Child(1)
    assert (child.a, child.b, type(child)) == (1, "b", Child)
    assert type(replace(child, a=2)) is Child


def test_what_is_no_quick_record_is_the_librarys() -> None:
    @dataclass(slots=True)
    class Open:
        a: int

    @dataclass(frozen=True, slots=True)
    class Counted:
        total: ClassVar[int] = 3
        a: int = field(default=0, init=False)
        b: int = field(default=0, kw_only=True)

    item = Open(1)
    item.a = 2
    assert replace(item, a=3).a == 3
    assert Counted(b=2).b == 2
    with pytest.raises(TypeError):
        Counted(2)  # type: ignore[misc]
