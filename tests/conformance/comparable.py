"""What makes the answers of two servers comparable: all that is taken out, and why.

Everything else in an answer is compared, to the last field. Taken out are

- uids, resource versions, times (their precision is kept), ages in tables, `managedFields`,
- what a server draws at random or signs: generated names, `continue` tokens, bearer tokens,
- who the server is: its address, its certificate, the build that `/version` names,
- documentation for people: the descriptions of columns and of the root certificate,
- two dumps of Go values that a message carries (the structs of a pod that changed, what CEL's
  compiler says): the sentence before them is compared,
- the order of errors and of discovered kinds: Go iterates over a map.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
AGE = re.compile(r"\d+[smhd](\d+[smh])?")
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----\n?", re.DOTALL)
# "too old resource version: 1 (234)", "the ResourceVersion in record (296)"
CURRENT_VERSION = re.compile(
    r"(resource version: \S+|ResourceVersion in record|current:) \(?\d+\)?"
)
QUOTED_OBJECT = re.compile(r'Invalid value: "(\{.*\})": ', re.DOTALL)
POD_DUMP = re.compile(r"(pod updates may not change fields other than[^\n]*)\n.*", re.DOTALL)
COMPILER = re.compile(r"(compilation failed: ).*", re.DOTALL)
ERRORS = re.compile(r"is invalid: \[(.*)\]$", re.DOTALL)

DROPPED = frozenset({"managedFields", "resourceVersion"})
BUILD = frozenset(
    {"buildDate", "compiler", "gitCommit", "gitTreeState", "gitVersion", "goVersion", "platform"}
)


class Comparer:
    """Cleans the answers of one case."""

    def __init__(self, values: Mapping[str, str], address: str) -> None:
        """`values`: what the case saved; `ns`, and those called `drop...`, differ by nature."""
        self._names = {f"<{k}>": v for k, v in values.items() if k.startswith("drop") and v}
        self._names["<ns>"] = values["ns"]
        self._address = address

    def clean(self, value: Any, *, key: str = "") -> Any:
        """The value without what differs between two runs of one server."""
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self.clean(item, key=key) for item in value]
        if isinstance(value, str):
            return self._text(value, key)
        return value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        cleaned = {}
        is_version = "gitVersion" in value
        for key in sorted(value):
            if key in DROPPED or (is_version and key in BUILD):
                continue
            if key == "continue" and value[key]:
                cleaned[key] = "<continue>"
            elif key == "kubernetes.io/description":
                cleaned[key] = "<documentation>"
            elif key == "token" and str(value[key]).count(".") == 2:
                cleaned[key] = "<token>"
            else:
                cleaned[key] = self.clean(value[key], key=key)
        if isinstance(cleaned.get("causes"), list):
            cleaned["causes"].sort(key=str)
        if cleaned.get("kind") == "APIResourceList":
            cleaned["resources"].sort(key=str)
        if cleaned.get("kind") == "Table":
            for column in cleaned.get("columnDefinitions") or ():
                column.pop("description")
        return cleaned

    def _text(self, text: str, key: str) -> str:
        for shown, name in self._names.items():
            text = text.replace(name, shown)
        text = QUOTED_OBJECT.sub(self.quoted, text)
        text = POD_DUMP.sub(r"\1", text)
        text = COMPILER.sub(r"\1<compiler>", text)
        text = CERTIFICATE.sub("<certificate>", text)
        text = UID.sub("<uid>", text)
        text = TIME.sub(lambda found: "<microtime>" if found[1] else "<time>", text)
        text = CURRENT_VERSION.sub(r"\1 <version>", text)
        text = text.replace(self._address, "<address>")
        text = _sorted_errors(text)
        return "<age>" if key == "cells" and AGE.fullmatch(text) else text

    def quoted(self, found: re.Match[str]) -> str:
        """An object within a message: Go quotes its JSON."""
        try:
            value = json.loads(json.loads(f'"{found[1]}"'))
        except ValueError:
            return found[0]
        text = json.dumps(self.clean(value), sort_keys=True)
        return f"Invalid value: <{text}>: "


def _sorted_errors(text: str) -> str:
    match = ERRORS.search(text)
    if match is None:
        return text
    return text[: match.start(1)] + ", ".join(sorted(match[1].split(", "))) + "]"
