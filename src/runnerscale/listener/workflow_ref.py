"""Which workflow, at which branch or tag, a `jobWorkflowRef` names: for metric labels only.

A full ref is a label with one value per branch and file path; its two halves are what a
person groups by. Text that is no such ref gives empty halves, never an error.

Pure. Contract: github-service-and-listener 7.4.
"""

import re
from dataclasses import dataclass

_PULL = re.compile(r"refs/pull/([^/]+)/")


@dataclass(frozen=True, slots=True)
class Workflow:
    """The two halves, each empty when it cannot be told."""

    name: str = ""
    target: str = ""


def parse(ref: str) -> Workflow:
    """`owner/repo/.github/workflows/ci.yml@refs/heads/main` is `ci` at `heads/main`."""
    path, at, git_ref = ref.partition("@")
    if not at or "@" in git_ref:
        return Workflow()
    return Workflow(_name(path), _target(git_ref))


def _name(path: str) -> str:
    # An empty path is "." and a trailing slash does not count, as for a file path in Go.
    last = path.rstrip("/").rpartition("/")[2] or ("/" if path else ".")
    return last.removesuffix(".yml").removesuffix(".yaml")


def _target(git_ref: str) -> str:
    for kind in ("heads", "tags"):
        prefix = f"refs/{kind}/"
        if git_ref.startswith(prefix):
            return f"{kind}/{git_ref.removeprefix(prefix)}"
    pull = _PULL.match(git_ref)
    return f"pull/{pull.group(1)}" if pull else ""
