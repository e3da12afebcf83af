"""YAML from outside, as JSON would have said it: nothing that runs, and nothing that never ends.

PyYAML's safe loader still has corners that a hostile text reaches: numbers of base 60 take the
square of their length, a wrong value behind a tag ends in whatever its constructor happens to
raise, and aliases multiply. Here they are text, one error, and a bound. What a document has to
mean is for the caller; workflow files have a reader of their own, which names lines.
"""

import re
from typing import Any

import yaml

from runnerscale.kube.depth import DEPTH_MAX

VALUES_MAX = 500_000  # with aliases written out
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CHANGED = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(
    r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
# What constructors of PyYAML raise for a text that does not fit its tag.
_MISFITS = (
    yaml.YAMLError,
    AttributeError,
    KeyError,
    IndexError,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
)


class NotYaml(ValueError):
    """The text cannot be read; `line` from 1, 0 if unknown. Its words show nothing of the text."""

    def __init__(self, why: str, line: int = 0) -> None:
        """`why`: the reader's own words."""
        super().__init__(why)
        self.line = line


class _Loader(_BASE):  # type: ignore[misc]
    """Times stay text, and so does `1:30`, as in the YAML that Kubernetes reads."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag not in _CHANGED]
    for first, pairs in _BASE.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def _number(loader: Any, node: Any, read: str) -> Any:
    if ":" in str(node.value):  # only behind an explicit tag
        raise NotYaml("a number of base 60")
    return getattr(loader, read)(node)


_Loader.add_constructor(
    "tag:yaml.org,2002:int", lambda loader, node: _number(loader, node, "construct_yaml_int")
)
_Loader.add_constructor(
    "tag:yaml.org,2002:float", lambda loader, node: _number(loader, node, "construct_yaml_float")
)


def load_yaml(text: str | bytes) -> Any:
    """The one document of a text, its aliases still shared.

    Raises:
        NotYaml: it is none, or it cannot be walked over: too deep, endless, or huge.
    """
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from the safe loader
    except _MISFITS as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        why = getattr(error, "problem", None) or _plain(error)
        raise NotYaml(str(why), mark.line + 1 if mark is not None else 0) from None
    _check_size(value)
    return value


def _plain(error: Exception) -> str:
    if isinstance(error, NotYaml | yaml.YAMLError):
        return str(error)
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "a value does not fit its tag"


def _check_size(value: Any) -> None:
    left = VALUES_MAX
    level = [value]
    for _ in range(DEPTH_MAX + 1):
        left -= len(level)
        if left < 0:
            raise NotYaml("with its aliases written out it is huge")
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inside += each.values()
            elif isinstance(each, list | tuple | set):
                inside += each
            if len(inside) > left:
                raise NotYaml("with its aliases written out it is huge")
        if not inside:
            return
        level = inside
    raise NotYaml("nested too deeply")
