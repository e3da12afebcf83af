"""What a runner set wishes for, read once: what of it makes sense, and what does not.

A wish that makes no sense is told on the object and leaves the last good state at work, part by
part: wrong limits do not stop a new image. Whether the credentials work is for GitHub to say
(`registration.py`); whether the pod is taken, for the API server (EphemeralRunnerSet).

Pure. Contract: resources-and-controllers 1.3, 2.5; replaces W47.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from runnerscale.api.autoscaling_runner_set import (
    MAX_RUNNERS_UNLIMITED,
    AutoscalingRunnerSet,
    AutoscalingRunnerSetSpec,
)
from runnerscale.api.names import RUNNER_SET_NAME_MAX
from runnerscale.api.reasons import Reason, Trouble, trouble
from runnerscale.api.values import read
from runnerscale.controllers.places import place_of
from runnerscale.credentials.place import GitHubPlace
from runnerscale.scaleset.config_url import ConfigUrl, parse_config_url
from runnerscale.scaleset.errors import InvalidConfigUrl

RUNNER_CONTAINER = "runner"
ADDRESSES_MAX = 4096  # remembered readings of config URLs


@dataclass(frozen=True, slots=True)
class Limits:
    """How many runners, as the listener is told."""

    min_runners: int
    max_runners: int


@dataclass(frozen=True, slots=True)
class Wish:
    """The spec, read. A part that is None makes no sense; `troubles` say why."""

    place: GitHubPlace | None  # where, and with which credentials
    url: ConfigUrl | None
    limits: Limits | None
    template_usable: bool
    troubles: tuple[Trouble, ...]


def read_wish(runner_set: AutoscalingRunnerSet, about: str) -> Wish:
    """Read the spec; `about`: as troubles name the object."""
    spec = runner_set.spec
    wrong: list[Trouble] = []

    def complain(reason: Reason, happened: str) -> None:
        wrong.append(trouble(reason, about=about, happened=happened))

    url = None
    try:
        url = parse_config_url(spec.github_config_url)
    except InvalidConfigUrl as error:
        complain(Reason.CONFIG_URL_INVALID, str(error))
    name = runner_set.metadata.name or ""
    nameable = len(name) <= RUNNER_SET_NAME_MAX
    if not nameable:
        what = f"the name has {len(name)} characters; its listener needs it to have at most"
        complain(Reason.SPEC_INVALID, f"{what} {RUNNER_SET_NAME_MAX}")
    if not spec.github_config_secret:
        complain(Reason.SPEC_INVALID, "githubConfigSecret is empty")
    limits = _limits(spec, complain)
    usable = _template_usable(spec)
    if not usable:
        what = f"template.spec.containers has no container named {RUNNER_CONTAINER}"
        complain(Reason.SPEC_INVALID, what)
    whole = url is not None and nameable and bool(spec.github_config_secret)
    namespace = runner_set.metadata.namespace or ""
    return Wish(
        place=place_of(spec, namespace=namespace) if whole else None,
        url=url,
        limits=limits,
        template_usable=usable,
        troubles=tuple(wrong),
    )


def scale_set_name(runner_set: AutoscalingRunnerSet) -> str:
    """The name at GitHub: the spec's, or the object's own."""
    return runner_set.spec.runner_scale_set_name or runner_set.metadata.name or ""


def scale_set_labels(name: str, extra: list[str] | None) -> tuple[str, ...]:
    """What `runs-on` may say: the name first, then the wished labels, each once."""
    return tuple(dict.fromkeys([name, *(extra or ())]))


def same_address(one: str, other: str) -> bool:
    """Whether two config URLs name the same place; unreadable ones are compared as they are."""
    return _address(one) == _address(other)


def claim(runner_set: AutoscalingRunnerSet) -> str:
    """What this object wants to own at GitHub; two objects with one claim are rivals."""
    spec = runner_set.spec
    group = spec.runner_group.lower()
    return f"{_address(spec.github_config_url)} {group} {scale_set_name(runner_set).lower()}"


@lru_cache(maxsize=ADDRESSES_MAX)  # pure, and asked a hundred times in one plan
def _address(url: str) -> str:
    try:
        return str(parse_config_url(url)).lower()
    except InvalidConfigUrl:
        return url


def _limits(
    spec: AutoscalingRunnerSetSpec, complain: Callable[[Reason, str], None]
) -> Limits | None:
    low = spec.min_runners or 0
    high = MAX_RUNNERS_UNLIMITED if spec.max_runners is None else spec.max_runners
    if low < 0 or high < 0:
        complain(Reason.SPEC_INVALID, f"minRunners {low} or maxRunners {high} is below 0")
        return None
    if high > MAX_RUNNERS_UNLIMITED:  # the listener would refuse to start
        what = f"maxRunners {high} is more than {MAX_RUNNERS_UNLIMITED}; leave it out for no limit"
        complain(Reason.SPEC_INVALID, what)
        return None
    if low > high:
        what = f'MinRunners "{low}" cannot be greater than MaxRunners "{high}"'
        complain(Reason.MIN_ABOVE_MAX, what)
        return None
    return Limits(low, high)


def _template_usable(spec: AutoscalingRunnerSetSpec) -> bool:
    containers = read(spec.template.spec).get("containers")
    if not isinstance(containers, list):
        return False
    return any(
        isinstance(item, dict) and item.get("name") == RUNNER_CONTAINER for item in containers
    )
