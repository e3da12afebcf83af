"""Runner groups and scale sets: found, made, changed, deleted (contract C2 2.6, 2.7).

How the service treats `RunnerSetting: {}` and a zero `createdOn` in a PATCH is not known
(Annex C 1); here they change nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runnerscale.fake_github import jobs
from runnerscale.fake_github.message_queue import MessageQueue
from runnerscale.fake_github.model import RunnerGroup, ScaleSet, Tenant
from runnerscale.fake_github.refusals import (
    bad_argument,
    group_not_found,
    scale_set_exists,
    scale_set_not_found,
)
from runnerscale.fake_github.runners import forget
from runnerscale.fake_github.sessions import end_session
from runnerscale.fake_github.state import State
from runnerscale.fake_github.wire import scale_set_json, statistics_json

NAME_MAX = 256
LABELS_MAX = 100


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a create or an update asks for; None: not mentioned."""

    name: str | None = None
    group_id: int | None = None
    labels: tuple[tuple[str, str], ...] | None = None
    disable_update: bool | None = None


def wanted_from_body(body: Mapping[str, object]) -> Wanted:
    """Read a scale-set object as clients send it; names of members match in any case.

    Raises:
        Refused: 400 for a member of the wrong type.
    """
    members = {name.casefold(): value for name, value in body.items()}
    name = members.get("name") or None
    group_id = members.get("runnergroupid") or None
    if name is not None and (not isinstance(name, str) or len(name) > NAME_MAX):
        raise bad_argument("name must be a text of at most 256 characters")
    if group_id is not None and (not isinstance(group_id, int) or isinstance(group_id, bool)):
        raise bad_argument("runnerGroupId must be a whole number")
    setting = members.get("runnersetting")
    disable_update: bool | None = None
    if isinstance(setting, Mapping):
        told = {key.casefold(): value for key, value in setting.items()}.get("disableupdate")
        disable_update = told if isinstance(told, bool) else None
    return Wanted(name, group_id, _labels(members.get("labels")), disable_update)


def find_groups(tenant: Tenant, name: str) -> list[RunnerGroup]:
    """The groups of that name; all when the name is empty."""
    folded = name.casefold()
    return [g for g in tenant.groups.values() if not folded or g.name.casefold() == folded]


def group_size(state: State, tenant: Tenant, group: RunnerGroup) -> int:
    """How many runners are registered in the group."""
    return sum(
        len(s.runners)
        for s in state.scale_sets.values()
        if s.tenant_id == tenant.id and s.group_id == group.id
    )


def get(state: State, tenant_id: str, scale_set_id: int) -> ScaleSet:
    """The scale set with that id.

    Raises:
        Refused: 404 RunnerScaleSetNotFound, also for one of another tenant.
    """
    scale_set = state.scale_sets.get(scale_set_id)
    if scale_set is None or scale_set.tenant_id != tenant_id:
        raise scale_set_not_found(scale_set_id)
    return scale_set


def find(state: State, tenant: Tenant, *, group_id: int | None, name: str) -> list[ScaleSet]:
    """The scale sets of a group, of a name, or both."""
    folded = name.casefold()
    return [
        s
        for s in state.scale_sets.values()
        if s.tenant_id == tenant.id
        and (group_id is None or s.group_id == group_id)
        and (not folded or s.name.casefold() == folded)
    ]


def create(state: State, now_s: float, tenant: Tenant, wanted: Wanted) -> ScaleSet:
    """A new scale set.

    Raises:
        Refused: no name (400), unknown group (404), name taken in the group (409).
    """
    if not wanted.name:
        raise bad_argument("A runner scale set needs a name.")
    group_id = wanted.group_id or 1
    _check_place(state, tenant, wanted.name, group_id, besides=0)
    labels = wanted.labels or (("System", wanted.name),)
    scale_set = ScaleSet(
        id=state.next_number("scale set"),
        tenant_id=tenant.id,
        name=wanted.name,
        group_id=group_id,
        labels=list(labels),
        disable_update=bool(wanted.disable_update),
        created_s=now_s,
        queue=MessageQueue(undeleted_max=state.options.undeleted_max),
    )
    state.scale_sets[scale_set.id] = scale_set
    state.emit(now_s, "scale set", id=scale_set.id, name=scale_set.name, state="created")
    return scale_set


def update(
    state: State, now_s: float, tenant: Tenant, scale_set: ScaleSet, wanted: Wanted
) -> ScaleSet:
    """Change what is mentioned.

    Raises:
        Refused: unknown group (404), name taken there (409).
    """
    name = wanted.name or scale_set.name
    group_id = wanted.group_id or scale_set.group_id
    _check_place(state, tenant, name, group_id, besides=scale_set.id)
    scale_set.name = name
    scale_set.group_id = group_id
    if wanted.labels:
        scale_set.labels = list(wanted.labels)
    if wanted.disable_update is not None:
        scale_set.disable_update = wanted.disable_update
    state.settle_later(scale_set.id)
    state.emit(now_s, "scale set", id=scale_set.id, name=name, state="updated")
    return scale_set


def delete(state: State, now_s: float, scale_set: ScaleSet) -> None:
    """The scale set, its session and its idle runners go; jobs nobody runs are queued again.

    A running job goes on to its end on its runner.
    """
    if scale_set.session is not None:
        end_session(state, now_s, scale_set.session, "scale set deleted")
    scale_set.deleted = True
    del state.scale_sets[scale_set.id]
    state.unsettled.discard(scale_set.id)
    for job_id in [*scale_set.available, *scale_set.waiting]:
        jobs.return_to_queue(state, now_s, state.jobs[job_id])
    for runner_id in sorted(scale_set.runners):
        runner = state.runners.get(runner_id)
        if runner is not None and not runner.job_id:
            forget(state, now_s, runner, "scale set deleted")
    state.emit(now_s, "scale set", id=scale_set.id, name=scale_set.name, state="deleted")


def to_json(state: State, scale_set: ScaleSet, *, jit_url: str) -> dict[str, object]:
    """The scale set as the service shows it, with its statistics."""
    group = state.tenants_by_id[scale_set.tenant_id].groups[scale_set.group_id]
    return scale_set_json(scale_set, group.name, statistics_json(scale_set), jit_url=jit_url)


def _check_place(state: State, tenant: Tenant, name: str, group_id: int, *, besides: int) -> None:
    if group_id not in tenant.groups:
        raise group_not_found(group_id)
    taken = find(state, tenant, group_id=group_id, name=name)
    if any(s.id != besides for s in taken):
        raise scale_set_exists(name)


def _labels(value: object) -> tuple[tuple[str, str], ...] | None:
    if value is None or value == []:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > LABELS_MAX:
        raise bad_argument("labels must be an array of at most 100 labels")
    labels: list[tuple[str, str]] = []
    for each in value:
        name = each.get("name") if isinstance(each, Mapping) else None
        if not isinstance(name, str) or not name or len(name) > NAME_MAX:
            raise bad_argument("each label needs a name of at most 256 characters")
        kind = each.get("type")
        labels.append((kind if isinstance(kind, str) and kind else "System", name))
    return tuple(labels)
