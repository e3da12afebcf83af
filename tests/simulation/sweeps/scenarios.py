"""The canonical scenarios: what happens in a cluster's life, each alone and from its beginning.

Pure data and a small script each. Most begin with a set that is up; how a set comes up is a
scenario of its own. Nothing in them is a random fault: what goes wrong is what the sweep does.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from runnerscale.fake_github import scale_sets
from tests.simulation.sweeps.act import LONG_S, NAMESPACE, RUNNERS, SHORT_S, Act
from tests.simulation.sweeps.arc import settle_as_arc

NEWER_VERSION = "0.15.0"
SECOND_GROUP = "second"


@dataclass(frozen=True, slots=True)
class Canonical:
    """One scenario. `low` to `high` runners; no set at all where `high` is 0."""

    name: str
    script: Callable[[Act], Awaitable[None]]
    low: int = 0
    high: int = 3
    from_the_start: bool = False  # points count before the set is up, too
    core: bool = True  # short enough to be swept before each change lands

    async def play(self, act: Act) -> None:
        """Bring the set up, then the script."""
        act.stage.points.armed = self.from_the_start
        if self.high:
            act.install(low=self.low, high=self.high)
            await act.listening()
            await act.idle(self.low)
            await act.pause(2.0)
        act.stage.points.arm()
        await self.script(act)


async def comes_up(act: Act) -> None:
    """A set is installed: scale set, runner set, listener, its first runner."""
    await act.idle(1)


async def scale_up(act: Act) -> None:
    """As many jobs at once as there may be runners."""
    act.queue(count=3)
    await act.done(3)


async def scale_down(act: Act) -> None:
    """The minimum is taken back: idle runners go."""
    act.edit(minRunners=0)
    await act.idle(0)


async def idle_runner(act: Act) -> None:
    """A job goes to the runner that waits; another one takes its place."""
    act.queue()
    await act.done(1)
    await act.idle(1)


async def one_job(act: Act) -> None:
    """A job from the queue to its end, without a runner that waits."""
    act.queue()
    await act.done(1)


async def fails_once(act: Act) -> None:
    """The first runner ends with code 1 before it has a job; the next one does it."""
    program, machine = act.stage.runner_program, act.stage.machine
    program.crash_rate = 1.0
    act.queue()
    await act.until("a crash", lambda: any(p.exit and p.exit.code == 1 for p in machine.started))
    program.crash_rate = 0.0
    await act.done(1)


async def never_online(act: Act) -> None:
    """The first runner's container runs and never reaches GitHub."""
    act.mute_next_runner()
    act.queue()
    await act.done(1)
    # Who is killed between GitHub's word and its own has no evidence; in the end nobody has.
    await act.until("no evidence any more", lambda: not act.stage.objects(RUNNERS))


async def pod_deleted(act: Act) -> None:
    """Somebody deletes the pod of an idle runner."""
    before = act.idle_runners()
    act.stage.delete("pods", NAMESPACE, before[0])
    await act.until("another runner", lambda: act.idle_runners() not in ([], before))


async def runner_deleted(act: Act) -> None:
    """Somebody deletes an idle runner, and one with a job."""
    act.queue(LONG_S)
    await act.running(1)
    await act.idle(1)
    for each in act.stage.objects(RUNNERS):
        act.stage.delete(RUNNERS, NAMESPACE, each["metadata"]["name"])
    await act.done(1)
    await act.idle(1)


async def template_changed(act: Act) -> None:
    """The template changes while one runner is busy and one idle."""
    act.queue(LONG_S)
    await act.running(1)
    await act.idle(1)
    before = act.idle_runners()
    act.edit_template("now")
    await act.until("a fresh runner", lambda: act.idle_runners() not in ([], before))
    await act.done(1)


async def set_deleted(act: Act) -> None:
    """The set is deleted while one runner is busy and one idle."""
    act.queue(LONG_S)
    await act.running(1)
    await act.idle(1)
    act.uninstall()
    await act.done(1)
    await act.until("the end of the set", lambda: not act.sets())


async def set_made_again(act: Act) -> None:
    """The set is deleted and made again under the same name, at once."""
    act.uninstall()
    await act.until("the end of the set", lambda: not act.sets())
    act.install(low=1)
    await act.listening()
    await act.idle(1)


async def migration(act: Act) -> None:
    """A controller finds what ARC 0.14 left, with an idle and a busy runner."""
    await settle_as_arc(act)
    await act.done(1)
    await act.listening()
    act.queue()
    await act.done(2)
    await act.fresh_listener()  # ARC's is left as it is


async def scale_set_vanished(act: Act) -> None:
    """Somebody deletes the scale set at GitHub."""
    state = act.hub.state
    for found in [s for s in state.scale_sets.values() if not s.deleted]:
        act.hub.run(scale_sets.delete, found)
    await act.listening()
    await act.idle(1)
    act.queue()
    await act.done(1)
    # Whoever registered it anew says so for a minute; a successor does not know.
    await act.until("no word of it any more", lambda: "reason" not in act.told())


async def maximum_lowered(act: Act) -> None:
    """The maximum falls below what is busy."""
    act.queue(LONG_S, count=2)
    act.queue(LONG_S / 2)
    await act.running(3)
    act.edit(maxRunners=1)
    act.queue(SHORT_S)
    await act.done(4)


async def listener_replaced(act: Act) -> None:
    """The listener's pod is to look otherwise."""
    before = act.listener_pods()
    template = {
        "spec": {"containers": [{"name": "listener", "env": [{"name": "E", "value": "1"}]}]}
    }
    act.edit(listenerTemplate=template)
    await act.until("another listener pod", lambda: act.listener_pods() not in (set(), before))
    await act.listening()
    act.queue()
    await act.done(1)


async def credentials_changed(act: Act) -> None:
    """The Secret with the token is written anew."""
    act.change_credentials("another-token-of-the-simulation")
    await act.pause(90.0)
    await act.listening()
    act.queue()
    await act.done(1)


async def group_changed(act: Act) -> None:
    """The scale set is to be in another runner group."""
    act.edit(runnerGroup=SECOND_GROUP)
    await act.until("the other group", lambda: act.groups() == {2})
    await act.listening()
    act.queue()
    await act.done(1)


async def renamed(act: Act) -> None:
    """The scale set is to have another name; its label stays (C1 T43), jobs find it by that."""
    act.edit(runnerScaleSetName="other")
    await act.listening("other")
    await act.idle(1)
    for count in (1, 2):  # the runner that waits in the end was made after the change
        act.queue()
        await act.done(count)
        await act.idle(1)
        await act.pause(5.0)


async def moved(act: Act) -> None:
    """The set is to serve another repository, with one runner busy and one idle."""
    act.queue(LONG_S)
    await act.running(1)
    await act.idle(1)
    act.edit(githubConfigUrl=act.elsewhere)
    await act.until("a set elsewhere", act.is_elsewhere)
    await act.done(1)
    await act.idle(1)


async def upgraded(act: Act) -> None:
    """A controller of the next minor version takes over, then the chart follows."""
    act.queue(LONG_S)
    await act.running(1)
    stage = act.stage
    stage.version = NEWER_VERSION
    for process in list(stage.controllers):
        stage.kill_controller(process)
    stage.start_controller()
    act.queue()
    await act.pause(20.0)
    act.label_version(NEWER_VERSION)
    await act.done(2)
    await act.pause(30.0)


SCENARIOS = (
    Canonical("comes-up", comes_up, low=1, from_the_start=True),
    Canonical("scale-up", scale_up),
    Canonical("scale-down", scale_down, low=2),
    Canonical("idle-runner", idle_runner, low=1),
    Canonical("one-job", one_job),
    Canonical("fails-once", fails_once),
    Canonical("never-online", never_online, core=False),
    Canonical("pod-deleted", pod_deleted, low=1),
    Canonical("runner-deleted", runner_deleted, low=1),
    Canonical("template-changed", template_changed, low=1),
    Canonical("set-deleted", set_deleted, low=1),
    Canonical("set-made-again", set_made_again, low=1),
    Canonical("migration", migration, high=0),
    Canonical("scale-set-vanished", scale_set_vanished, low=1),
    Canonical("maximum-lowered", maximum_lowered),
    Canonical("listener-replaced", listener_replaced),
    Canonical("credentials-changed", credentials_changed),
    Canonical("group-changed", group_changed),
    Canonical("renamed", renamed, low=1),
    Canonical("moved", moved, low=1, core=False),
    Canonical("upgraded", upgraded),
)
BY_NAME = {each.name: each for each in SCENARIOS}
