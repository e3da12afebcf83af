"""Schemas of CRDs: pruning, defaults, checks, rules in CEL; and CRDs that are refused."""

import copy
from typing import Any

import pytest

from runnerscale.apiserver.cel_rules import check_rules
from runnerscale.apiserver.crd_schema import build_schema
from runnerscale.apiserver.crds import read_crd
from runnerscale.apiserver.schema import ABSENT, Schema, apply_defaults, prune, validate

Json = dict[str, Any]


def schema(spec: Json) -> Schema:
    root, errors = build_schema({"type": "object", "properties": {"spec": spec}}, "s")
    assert errors == []
    return root


def problems(node: Schema, spec: Any, old: Any = ABSENT) -> list[str]:
    def whole(value: Any) -> Json:
        return {"apiVersion": "example.com/v1", "kind": "Thing", "spec": value}

    before = ABSENT if old is ABSENT else whole(old)
    errors = [*validate(whole(spec), node, "", before)]
    errors += check_rules(whole(spec), node, "", before)
    return [str(error) for error in errors]


def obj(**properties: Json) -> Json:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("node", "value", "problem"),
    [
        ({"type": "integer"}, True, 'Invalid value: "boolean"'),
        ({"type": "integer"}, 1.5, 'must be of type integer: "number"'),
        ({"type": "integer"}, 2.0, None),
        ({"type": "number", "multipleOf": 2}, 3, "should be a multiple of 2"),
        ({"type": "number", "maximum": 5, "exclusiveMaximum": True}, 5, "should be less than 5"),
        ({"type": "string", "pattern": "^a+$"}, "b", "should match '^a+$'"),
        ({"type": "string", "pattern": "a"}, "xay", None),
        ({"type": "string", "enum": ["x", "y"]}, "z", 'supported values: "x", "y"'),
        ({"type": "string", "nullable": True}, None, None),
        ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05Z", None),
        ({"type": "string", "format": "date-time"}, "2026-01-02", "must be of type date-time"),
        ({"type": "string", "format": "uri"}, "not a uri", "must be of type uri"),
        ({"type": "string", "format": "never-heard-of"}, "x", None),
        ({"type": "integer", "format": "int32"}, 2**31, "must be of type int32"),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            "should have at least 1",
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"a": 1}, "spec.a"),
        (
            {"type": "object", "maxProperties": 1, "additionalProperties": True},
            {"a": 1, "b": 2},
            "Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 3}]},
            "x",
            "at least 2 chars",
        ),
        ({"type": "string", "anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]}, "bb", None),
        ({"type": "string", "anyOf": [{"enum": ["a"]}, {"pattern": "^b"}]}, "c", "anyOf"),
        ({"type": "string", "oneOf": [{"minLength": 1}, {"maxLength": 5}]}, "x", "oneOf"),
        ({"type": "string", "not": {"enum": ["x"]}}, "x", "must not validate the schema"),
    ],
)
def test_a_value_is_checked_against_its_node(node: Json, value: Any, problem: str | None) -> None:
    found = problems(schema(node), value)
    if problem is None:
        assert found == []
    else:
        assert len(found) >= 1
        assert problem in found[0], found


def test_unknown_fields_are_removed_and_named_open_subtrees_are_left() -> None:
    node = schema(
        {
            **obj(
                known={"type": "string"},
                open={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                items={"type": "array", "items": obj(a={"type": "string"})},
            )
        }
    )
    value = {
        "apiVersion": "v",
        "kind": "k",
        "metadata": {"name": "x", "anything": 1},
        "spec": {
            "known": "a",
            "unknown": 1,
            "open": {"x": {"y": 1}},
            "items": [{"a": "1", "b": "2"}],
        },
        "top": 1,
    }
    assert sorted(prune(value, node)) == ["spec.items[0].b", "spec.unknown", "top"]
    assert value["spec"] == {"known": "a", "open": {"x": {"y": 1}}, "items": [{"a": "1"}]}
    assert value["metadata"] == {"name": "x", "anything": 1}


def test_defaults_fill_what_is_absent_or_a_null_that_may_not_be_one() -> None:
    node = schema(
        obj(
            a={"type": "string", "default": "x"},
            n={"type": "string", "nullable": True, "default": "y"},
            deep={
                "type": "object",
                "default": {},
                "properties": {"b": {"type": "integer", "default": 3}},
            },
            items={"type": "array", "items": obj(c={"type": "string", "default": "z"})},
        )
    )
    value = {"spec": {"a": None, "n": None, "items": [{}, {"c": "own"}]}}
    apply_defaults(value, node)
    assert value["spec"] == {
        "a": "x",
        "n": None,
        "deep": {"b": 3},
        "items": [{"c": "z"}, {"c": "own"}],
    }


def test_a_default_is_never_shared_between_objects() -> None:
    node = schema(
        obj(a={"type": "object", "default": {}, "x-kubernetes-preserve-unknown-fields": True})
    )
    first: Json = {"spec": {}}
    second: Json = {"spec": {}}
    apply_defaults(first, node)
    first["spec"]["a"]["changed"] = 1
    apply_defaults(second, node)
    assert second["spec"]["a"] == {}


def test_what_did_not_change_is_not_complained_about_again() -> None:
    # Ratcheting: a stricter CRD must not block an update that leaves an old fault alone.
    node = schema(obj(a={"type": "string", "maxLength": 1}, b={"type": "string"}))
    assert problems(node, {"a": "long", "b": "1"}, {"a": "long", "b": "0"}) == []
    assert len(problems(node, {"a": "long!", "b": "1"}, {"a": "long", "b": "0"})) == 1


def rules(*texts: str, **node: Any) -> Schema:
    return schema(
        {
            **obj(
                min={"type": "integer"},
                max={"type": "integer"},
                name={"type": "string"},
                list={"type": "array", "items": {"type": "string"}},
            ),
            "x-kubernetes-validations": [{"rule": text, "message": "no"} for text in texts],
            **node,
        }
    )


@pytest.mark.parametrize(
    ("rule", "spec", "holds"),
    [
        ("self.min <= self.max", {"min": 1, "max": 2}, True),
        ("self.min <= self.max", {"min": 3, "max": 2}, False),
        ("!has(self.max) || self.min <= self.max", {"min": 3}, True),
        ("self.name.matches('^https?://')", {"name": "http://x"}, True),
        ("self.name.matches('^https?://')", {"name": "ftp://x"}, False),
        ("size(self.name) <= 3", {"name": "four"}, False),
        ("self.list.all(x, x.startsWith('a'))", {"list": ["ab", "b"]}, False),
        ("self.list.exists(x, x == 'b')", {"list": ["ab", "b"]}, True),
        ("'b' in self.list", {"list": ["b"]}, True),
        ("self.name.split('/').size() == 2", {"name": "a/b"}, True),
        ("isURL(self.name)", {"name": "https://a.b/c"}, True),
        ("isURL(self.name)", {"name": "nope"}, False),
    ],
)
def test_a_rule_is_evaluated(rule: str, spec: Json, holds: bool) -> None:
    found = problems(rules(rule), spec)
    assert found == ([] if holds else ["spec: Invalid value: no"])


@pytest.mark.parametrize(
    ("texts", "old", "wrong"),
    [
        (("self.min == 1", "self.name == 'a'"), ABSENT, 0),  # each a field of its own
        (("self.min == 2", "self.name == 'b'"), ABSENT, 2),
        (("self == oldSelf",), {"min": 1, "name": "b"}, 1),  # all of it
        (("self.min == oldSelf.min", "has(oldSelf.name)"), {"min": 1, "name": "b"}, 0),
        (("[self].all(s, s.name == 'a')",), ABSENT, 0),
        (("self.name == 'self.max'",), ABSENT, 1),
    ],
)
def test_a_rule_sees_all_that_it_speaks_of(texts: tuple[str, ...], old: Any, wrong: int) -> None:
    assert len(problems(rules(*texts), {"min": 1, "name": "a"}, old)) == wrong


def test_a_rule_about_the_old_value_is_asked_on_updates_only() -> None:
    node = rules("self.name == oldSelf.name")
    assert problems(node, {"name": "a"}) == []
    assert problems(node, {"name": "b"}, {"name": "a"}) == ["spec: Invalid value: no"]


def test_a_rule_that_fails_to_evaluate_refuses_and_names_itself() -> None:
    found = problems(rules("self.min <= self.max"), {"min": 1})
    assert found == ['spec: Invalid value: "object": no such key: max evaluating rule: no']


def test_a_message_can_be_an_expression() -> None:
    node = schema(
        {
            **obj(name={"type": "string"}),
            "x-kubernetes-validations": [
                {"rule": "size(self.name) < 3", "messageExpression": "'too long: ' + self.name"}
            ],
        }
    )
    assert problems(node, {"name": "long"}) == ["spec: Invalid value: too long: long"]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("self.min <=", "compilation failed"),
        ("self.nope == 1", "undefined field 'nope'"),
        ("other.min == 1", "undeclared reference to 'other'"),
        ("frobnicate(self.min)", "undeclared reference to 'frobnicate'"),
        ("", "rule is not specified"),
    ],
)
def test_a_rule_that_does_not_compile_refuses_the_crd(rule: str, problem: str) -> None:
    raw = {
        "type": "object",
        "properties": {
            "spec": {**obj(min={"type": "integer"}), "x-kubernetes-validations": [{"rule": rule}]}
        },
    }
    _, errors = build_schema(raw, "s")
    assert len(errors) == 1
    assert errors[0].field == "s.properties[spec].x-kubernetes-validations[0].rule"
    assert problem in str(errors[0])


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ({}, "s.properties[spec].type: Required value"),
        ({"type": "text"}, "Unsupported value"),
        ({"type": "array"}, "s.properties[spec].items: Required value: must be specified"),
        ({"type": "string", "pattern": "("}, "must be a valid regular expression"),
        ({"$ref": "#/x", "type": "string"}, "$ref is not supported"),
        ({"type": "object", "additionalProperties": False}, "cannot be set to false"),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"},
            "x-kubernetes-list-map-keys: Required value",
        ),
        ({"type": "integer", "default": "x"}, "must be of type integer"),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(node: Json, problem: str) -> None:
    _, errors = build_schema({"type": "object", "properties": {"spec": node}}, "s")
    assert any(problem in str(error) for error in errors), [str(e) for e in errors]


CRD: Json = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "ThingList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


def test_a_crd_becomes_a_kind() -> None:
    found = read_crd(CRD)
    assert found.errors == []
    kind = found.kinds[0]
    assert (kind.api_version, kind.plural, kind.resource) == (
        "example.com/v1",
        "things",
        "things.example.com",
    )


def changed(**spec: Any) -> Json:
    crd = copy.deepcopy(CRD)
    crd["spec"].update(spec)
    return crd


@pytest.mark.parametrize(
    ("crd", "problem"),
    [
        (changed(scope="Galaxy"), "spec.scope: Unsupported value"),
        (changed(versions=[]), "spec.versions: Required value"),
        (changed(group="nodots"), "spec.group"),
        (changed(names={"plural": "Things", "kind": "Thing"}), "spec.names.plural: Invalid value"),
        (
            changed(versions=[{**CRD["spec"]["versions"][0], "storage": False}]),
            "exactly one version marked as storage version",
        ),
        (
            changed(versions=[{"name": "v1", "served": True, "storage": True}]),
            "schemas are required",
        ),
        (
            changed(
                versions=[
                    {
                        **CRD["spec"]["versions"][0],
                        "additionalPrinterColumns": [
                            {"name": "x", "type": "colour", "jsonPath": ".x"}
                        ],
                    }
                ]
            ),
            "additionalPrinterColumns[0].type",
        ),
        (changed(conversion={"strategy": "Webhook"}), "this server converts nothing"),
        (
            changed(
                versions=[
                    *CRD["spec"]["versions"],
                    {**CRD["spec"]["versions"][0], "name": "v2", "storage": False},
                ]
            ),
            "this server serves one version of a kind",
        ),
    ],
)
def test_a_crd_that_is_wrong_is_refused(crd: Json, problem: str) -> None:
    errors = [str(error) for error in read_crd(crd).errors]
    assert any(problem in error for error in errors), errors
