"""What one clean job costs, from queue to gone, with the chart's rights: counted by the server.

The numbers are those of the design's section 6, read from the real API server's audit log: who
wrote what, who read what, who was refused. The table is printed (`-s`), and asserted.
"""

import time
from collections import Counter

import pytest

from tests.kubernetes.audit import AuditEvent
from tests.kubernetes.world import World, is_ours, until

pytestmark = pytest.mark.timeout(300)
SETS = ("ephemeralrunnersets", "autoscalingrunnersets")  # their patches are coalesced
WRITES_MAX = 9
SET_PATCHES_MAX = 4  # a message
QUIET_S = 4.0  # what is coalesced is written a second later
CACHES_MAX = 2  # of one kind: pods of runners, pods of listeners


def test_one_job_from_queue_to_gone(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """At most nine writes beside the patches of the set, one read by the listener, no refusal."""
    controller = world.cluster_wide_controller()
    scale_set = world.install_set(world.namespace())
    scale_set.wait_listener()
    scale_set.run_jobs(seconds=2)  # the first one also pays for the dry run of its template
    scale_set.wait_idle()
    quiet(world)
    since, calls = world.cluster.audit_mark(), Counter(world.github.calls())
    # Long enough that its start is stored before its end, on a busy machine too.
    scale_set.run_jobs(seconds=2)
    scale_set.wait_idle()
    quiet(world)
    asked = Counter(world.github.calls()) - calls
    events = [event for event in world.cluster.audit(since=since) if is_ours(event)]
    listener = next(e.user for e in events if e.user.endswith("-listener"))
    table = as_table(events, {controller.account: "controller", listener: "listener"})
    with capsys.disabled():
        print(f"\none job from queue to gone, by the API server's audit log\n{table}")
        print("calls to GitHub: " + ", ".join(f"{name} {n}" for name, n in sorted(asked.items())))
    own = [event for event in events if event.user in (controller.account, listener)]
    # The controller's `ready` and the listener's `Running` may meet: one of them is refused, by
    # rule. The listener reads once more then (contract C2 5.4), the controller leaves it.
    conflicts = [event for event in own if is_conflict(event)]
    assert len(conflicts) <= 1, table
    read_again = sum(event.user == listener for event in conflicts)
    writes = [event for event in own if event.writes and event not in conflicts]
    of_sets = [event for event in writes if event.resource in SETS]
    assert len(writes) - len(of_sets) <= WRITES_MAX, table
    assert len(of_sets) <= SET_PATCHES_MAX * asked["acknowledge"], table
    reads = [event for event in own if event.verb == "get" and not is_credentials(event)]
    assert sum(is_credentials(event) for event in own) <= 1, table  # once a minute, not a job
    once = [(listener, "ephemeralrunners")]
    assert [(e.user, e.resource) for e in reads] == once * (1 + read_again), table
    # Each cache is compared with what there is once a minute, jobs or not.
    lists = Counter(event.resource for event in own if event.verb == "list")
    assert not [name for name, times in lists.items() if times > CACHES_MAX], table
    assert [event for event in own if event.code >= 400] == conflicts, table
    assert asked["jit-config"] == 1
    assert not [name for name in asked if "remove" in name or "delete" in name], asked
    scale_set.uninstall_cleanly()


def is_conflict(event: AuditEvent) -> bool:
    """Of a runner's status."""
    return (event.resource, event.subresource, event.code) == ("ephemeralrunners", "status", 409)


def quiet(world: World) -> None:
    """Until nobody of ours has written anything for a while."""
    since = world.cluster.audit_mark()
    began_s = time.monotonic()

    def silent() -> bool:
        nonlocal since, began_s
        if any(
            e.writes and is_ours(e) and not is_beat(e) for e in world.cluster.audit(since=since)
        ):
            since, began_s = world.cluster.audit_mark(), time.monotonic()
        return time.monotonic() - began_s > QUIET_S

    until("nobody writes any more", silent, within_s=90)


def is_credentials(event: AuditEvent) -> bool:
    """The controller looks whether they have been renewed."""
    return event.verb == "get" and event.name.endswith("-github-secret")


def is_beat(event: AuditEvent) -> bool:
    """The node's heartbeat, and the set's patch after each empty poll."""
    return event.resource in ("leases", "nodes") or (
        event.resource == "ephemeralrunnersets" and event.user.endswith("-listener")
    )


def as_table(events: list[AuditEvent], names: dict[str, str]) -> str:
    """Who asked for what, how often."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for event in events:
        who = names.get(event.user) or event.user.removeprefix("system:serviceaccount:")
        what = f"{event.resource}/{event.subresource}".rstrip("/")
        dry = " (dry run)" if "dryRun" in event.uri else ""
        counts[who, event.verb, f"{what}{dry} {event.code}"] += 1
    rows = [
        f"{who:<20} {verb:<7} {what:<34} {n:>3}" for (who, verb, what), n in sorted(counts.items())
    ]
    return "\n".join(rows)
