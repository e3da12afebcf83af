"""Whatever happens to a pod, the plan keeps its promises and comes to an end."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from runnerscale.node.pod_plan import Kill, PodPlan, Start, Terminate, plan
from runnerscale.node.pod_status import build_status, phase_of
from runnerscale.node.pod_view import ContainerView, Kind, PodView
from runnerscale.node.processes import ExitStatus
from tests.unit.node.pods import NOW_S, POD

KINDS = st.lists(st.sampled_from([Kind.INIT, Kind.SIDECAR]), max_size=2)
ROUNDS_MAX = 400


def fresh(kinds: list[Kind], mains: int) -> tuple[ContainerView, ...]:
    inits = [ContainerView(f"{kind.value}{n}", kind=kind) for n, kind in enumerate(kinds)]
    return (*inits, *(ContainerView(f"main{n}") for n in range(mains)))


def changed(view: PodView, name: str, **fields: object) -> PodView:
    containers = tuple(
        replace(c, **fields) if c.name == name else c  # type: ignore[arg-type]
        for c in view.containers
    )
    return replace(view, containers=containers)


def end(view: PodView, container: ContainerView, code: int) -> PodView:
    status = ExitStatus(code, started_s=container.running_since_s or 0, finished_s=view.now_s)
    gone = {"running_since_s": None, "exit": status, "started": False, "ready": False}
    return changed(view, container.name, previous=container.exit, **gone)


def carry_out(view: PodView, step: PodPlan) -> PodView:
    """What the worker and the machine do, at once."""
    known = {c.name: c for c in view.containers}
    for action in step.actions:
        container = known[action.container]
        match action:
            case Start():
                assert not container.live
                if container.exit is not None and container.kind is Kind.MAIN:
                    assert view.restart_policy != "Never"
                assert not (step.stopping or view.deleting)
                view = changed(
                    view,
                    container.name,
                    attempts=container.attempts + 1,
                    running_since_s=view.now_s,
                    exit=None,
                    started=True,
                    ready=True,
                    term_sent_s=None,
                    kill_sent=False,
                )
            case Terminate():
                assert container.running
                assert container.term_sent_s is None
                view = changed(view, container.name, term_sent_s=view.now_s)
            case Kill():
                assert container.running
                view = end(changed(view, container.name, kill_sent=True), container, 137)
    stopping = view.stopping_since_s if step.stopping else None
    since_s = stopping if stopping is not None else view.now_s
    return replace(
        view, over=step.over or view.over, stopping_since_s=since_s if step.stopping else None
    )


@settings(max_examples=300, deadline=None)
@given(
    kinds=KINDS,
    mains=st.integers(1, 2),
    policy=st.sampled_from(["Never", "OnFailure", "Always"]),
    grace_s=st.sampled_from([0, 1, 30]),
    heeds_term=st.booleans(),
    ends=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 137])), max_size=12),
    deleted_after=st.integers(0, 20),
)
def test_every_deleted_pod_comes_to_rest_and_nothing_starts_twice(
    kinds: list[Kind],
    mains: int,
    policy: str,
    grace_s: int,
    heeds_term: bool,
    ends: list[tuple[int, int]],
    deleted_after: int,
) -> None:
    view = replace(
        POD, containers=fresh(kinds, mains), restart_policy=policy, grace_s=grace_s, now_s=NOW_S
    )
    for turn in range(ROUNDS_MAX):
        step = plan(view)
        view = carry_out(view, step)
        build_status(view, ())  # never raises, whatever the state
        if step.finished and view.deleting:
            assert not any(c.live for c in view.containers)
            assert phase_of(view) != "Running"
            return
        if heeds_term:
            for container in view.containers:
                if container.running and container.term_sent_s is not None:
                    view = end(view, container, 143)
        if ends:
            place, code = ends.pop()
            container = view.containers[place % len(view.containers)]
            if container.running:
                view = end(view, container, code)
        if turn == deleted_after:
            view = replace(view, deleting=True)
        view = replace(view, now_s=view.now_s + (step.again_s or 0.5))
    raise AssertionError("the pod never came to rest")
