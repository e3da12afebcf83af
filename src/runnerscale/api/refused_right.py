"""What to do about a missing right: whom to allow what, in the words of the API server's refusal.

A file of its own, because a refusal reaches a person on many ways (a call of ours, a Secret that
may not be read, a dry run), and each is to name the account, the verb and the namespace. Pure.
"""

import re

from runnerscale.api.catalogue import Entry

WORD = "RightsMissing"
REFUSAL = re.compile(
    r'User "([^"]+)" cannot (\w+) resource "([^"]+)" in API group "([^"]*)"'
    r'(?: in the namespace "([^"]*)")?'
)


def remedy(reason: Entry, happened: str) -> str:
    """The catalogue's remedy; before it, whom to allow what, where the refusal names them."""
    always = reason.what_you_can_do.rstrip(".")
    found = REFUSAL.search(happened) if reason == WORD else None
    if found is None:
        return always
    user, verb, what, group, namespace = found.groups()
    what = f"{what}.{group}" if group else what
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    return f"Allow {user} to `{verb}` {what} {where}. {always}"
