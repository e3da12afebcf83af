"""From a Struct to a structural schema."""

from typing import Annotated

import msgspec
import pytest

from runnerscale.api.schema import struct_schema, summary
from runnerscale.api.values import doc


class Inner(msgspec.Struct, rename="camel"):
    """An inner thing.

    More about it.
    """

    needed: str
    first_name: Annotated[int, doc("How many.", minimum=0)] = 0


class Outer(msgspec.Struct, rename="camel"):
    """An outer thing."""

    inner: Inner | None = None
    many: list[Inner] | None = None
    by_name: dict[str, float] | None = None
    flag: bool = False
    asked: Annotated[str, doc("Must be there.", mandatory=True)] = ""
    whole: Annotated[dict[str, int] | None, doc("As said.", type="string")] = None


def test_a_struct_becomes_an_object_with_everything_inlined() -> None:
    inner = {
        "type": "object",
        "description": "An inner thing.",
        "required": ["needed"],
        "properties": {
            "firstName": {"type": "integer", "description": "How many.", "minimum": 0},
            "needed": {"type": "string"},
        },
    }
    assert struct_schema(Outer) == {
        "type": "object",
        "description": "An outer thing.",
        "required": ["asked"],
        "properties": {
            "asked": {"type": "string", "description": "Must be there."},
            "byName": {"type": "object", "additionalProperties": {"type": "number"}},
            "flag": {"type": "boolean"},
            "inner": inner,
            "many": {"type": "array", "items": inner},
            "whole": {"type": "string", "description": "As said."},
        },
    }


def test_rules_of_the_schema_are_not_checked_on_reading() -> None:
    assert msgspec.json.decode(b'{"firstName":-3,"needed":""}', type=Inner).first_name == -3
    assert msgspec.json.decode(b"{}", type=Outer).asked == ""


def test_what_a_crd_cannot_say_is_refused() -> None:
    class Odd(msgspec.Struct):
        pair: tuple[int, str] | None = None

    with pytest.raises(TypeError, match="no schema"):
        struct_schema(Odd)


def test_the_summary_is_the_first_paragraph_on_one_line() -> None:
    assert summary(Inner) == "An inner thing."
