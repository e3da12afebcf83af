"""What a script of a scenario can do and wait for: people, jobs, and looks at GitHub.

A script waits for what it needs and not for a time: a disturbed history is slower, and a job
that is to be running when the set is deleted must be running there too.
"""

import base64
from collections.abc import Callable
from typing import Any

from runnerscale.app.manifests import (
    GITHUB_SECRET,
    github_secret,
    runner_set,
    set_namespace_manifests,
)
from runnerscale.app.versions import COMPATIBLE_VERSION
from runnerscale.fake_github import jobs, runners
from runnerscale.fake_github.model import JobRequest, JobState
from runnerscale.node.processes import ProcessSpec
from tests.simulation.kubectl import PERSON
from tests.simulation.loop import Component
from tests.simulation.parts import GITHUB_URL
from tests.simulation.runner import SECONDS
from tests.simulation.sweeps.stage import Stage

Json = dict[str, Any]

NAMESPACE = "demo"
OWNER, REPOSITORY = "demo-org", "demo"
OTHER_PATH = "other-org/demo"
CONFIG_URL = f"{GITHUB_URL}/{OWNER}/{REPOSITORY}"
SCALE_SETS = "autoscalingrunnersets.actions.github.com"
RUNNERS = "ephemeralrunners.actions.github.com"
WITHIN_S = 900.0
LOOK_EVERY_S = 0.5
SHORT_S, LONG_S = 3.0, 40.0  # of jobs


class Act:
    """The hands and eyes of a script."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.hub = stage.hub
        self.gave_up: list[str] = []  # what never came

    # -- people ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """A namespace for runner sets, with credentials."""
        for manifest in set_namespace_manifests(NAMESPACE):
            self.stage.put(manifest)
        self.stage.put(github_secret(NAMESPACE, "a-token-of-the-simulation"))

    def install(self, name: str = "set", *, low: int = 0, high: int = 3) -> None:
        """A runner set, as by helm."""
        version = COMPATIBLE_VERSION
        self.stage.put(
            runner_set(
                NAMESPACE,
                name,
                config_url=CONFIG_URL,
                min_runners=low,
                max_runners=high,
                version=version,
            )
        )

    def the_set(self, name: str = "set") -> Json:
        """The runner set as it is stored."""
        found = [o for o in self.stage.objects(SCALE_SETS) if o["metadata"]["name"] == name]
        return found[0]

    def edit(self, name: str = "set", **fields: object) -> None:
        """Somebody edits the runner set's spec."""
        self.stage.note("user", f"edits {sorted(fields)} of {name}")
        self.stage.edit_spec(self.the_set(name), **fields)

    def edit_template(self, mark: str, name: str = "set") -> None:
        """Somebody edits the runners' template."""
        template = self.the_set(name)["spec"]["template"]
        template["spec"]["containers"][0]["env"] = [{"name": "EDITED", "value": mark}]
        self.edit(name, template=template)

    def uninstall(self, name: str = "set") -> None:
        """Somebody deletes the runner set."""
        self.stage.note("user", f"deletes {name}")
        self.stage.delete(SCALE_SETS, NAMESPACE, name)

    def queue(self, seconds: float = SHORT_S, name: str = "set", count: int = 1) -> None:
        """Jobs for a set."""
        for _ in range(count):
            request = JobRequest(
                display_name=f"job of {name}",
                labels=(name,),
                steps=(),
                env=((SECONDS, repr(seconds)),),
                owner=OWNER,
                repository=REPOSITORY,
            )
            queued = self.hub.run(jobs.queue_job, request)
            self.stage.note("user", f"queues job {queued.number} on {name}")

    # -- waiting -------------------------------------------------------------------------------

    async def until(self, what: str, holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
        """Go on when it holds; if it never does, that is said at the end."""
        clock = self.stage.clock
        until_s = clock.monotonic_s() + within_s
        while not holds():
            if clock.monotonic_s() >= until_s:
                self.gave_up.append(f"{what} never came ({within_s:.0f} s)")
                return
            await clock.sleep(LOOK_EVERY_S)

    async def listening(self, name: str = "set") -> None:
        """The listener of that set polls."""
        await self.until(f"a listener for {name}", lambda: self._polls(name))

    def _polls(self, name: str) -> bool:
        sets = [s for s in self.hub.state.scale_sets.values() if s.name == name and not s.deleted]
        return any(s.session is not None and s.session.polls_held > 0 for s in sets)

    async def running(self, count: int) -> None:
        """So many jobs run."""
        await self.until(f"{count} running jobs", lambda: self._count(JobState.RUNNING) >= count)

    async def done(self, count: int) -> None:
        """So many jobs have ended."""
        await self.until(f"{count} ended jobs", lambda: self._count(JobState.COMPLETED) >= count)

    def _count(self, state: JobState) -> int:
        return sum(job.state is state for job in self.hub.state.jobs.values())

    async def idle(self, count: int) -> None:
        """So many runners wait for a job, no more and no fewer."""
        await self.until(f"{count} idle runners", lambda: len(self.idle_runners()) == count)

    def idle_runners(self) -> list[str]:
        """Names of those that are online and have no job."""
        state, now_s = self.hub.state, self.hub.now_s()
        return [
            r.name
            for r in state.runners.values()
            if runners.online(state, r, now_s) and not r.job_id and not r.closed
        ]

    async def pause(self, seconds: float) -> None:
        """Nothing happens for a while."""
        await self.stage.clock.sleep(seconds)

    # -- looks -----------------------------------------------------------------------------------

    def sets(self) -> list[Json]:
        """All runner sets."""
        return self.stage.objects(SCALE_SETS)

    def told(self, name: str = "set") -> Json:
        """What the runner set's status says, without what it does not say."""
        status = self.the_set(name).get("status") or {}
        return {key: value for key, value in status.items() if value}

    def listener_pods(self) -> set[str]:
        """Uids of the listeners' pods."""
        pods = self.stage.objects("pods")
        return {p["metadata"]["uid"] for p in pods if "-listener" in p["metadata"]["name"]}

    async def fresh_listener(self) -> None:
        """Somebody has the listener's pod made anew.

        One that was killed is made anew anyway, and not quite like one that was there before.
        """
        for pod in self.stage.objects("pods"):
            if "-listener" in pod["metadata"]["name"]:
                self.stage.delete("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
        await self.pause(5.0)
        await self.listening()

    def groups(self) -> set[int]:
        """In which groups the scale sets are."""
        return {s.group_id for s in self.hub.state.scale_sets.values() if not s.deleted}

    def is_elsewhere(self) -> bool:
        """Whether a scale set is at the other address, with a listener, and none here any more."""
        alive = [s for s in self.hub.state.scale_sets.values() if not s.deleted]
        paths = [self.hub.state.tenants_by_id[s.tenant_id].path for s in alive]
        return paths == [OTHER_PATH] and self._polls(alive[0].name)

    # -- stranger things ------------------------------------------------------------------------

    @property
    def elsewhere(self) -> str:
        """Another config URL."""
        return f"{GITHUB_URL}/{OTHER_PATH}"

    def change_credentials(self, token: str) -> None:
        """Somebody writes another token into the Secret."""
        server = self.stage.api
        assert server is not None
        kind = server.registry.of_resource("secrets")
        assert kind is not None
        data = {"github_token": base64.b64encode(token.encode()).decode()}
        self.stage.note("user", "changes the credentials")
        server.operations.patch(
            kind, NAMESPACE, GITHUB_SECRET, lambda now: {**now, "data": data}, PERSON
        )

    def label_version(self, version: str, name: str = "set") -> None:
        """Somebody upgrades the chart of the set."""
        server = self.stage.api
        assert server is not None
        kind = server.registry.of_resource(SCALE_SETS)
        assert kind is not None

        def labelled(now: Json) -> Json:
            labels = {**now["metadata"]["labels"], "app.kubernetes.io/version": version}
            return {**now, "metadata": {**now["metadata"], "labels": labels}}

        self.stage.note("user", f"upgrades the chart to {version}")
        server.operations.patch(kind, NAMESPACE, name, labelled, PERSON)

    def mute_next_runner(self) -> None:
        """The next container of a runner runs, and does nothing."""
        clock = self.stage.clock
        programs: Any = self.stage.machine._programs
        real = programs["runner"]

        async def mute(component: Component, environ: Any, spec: ProcessSpec) -> int:
            programs["runner"] = real
            await clock.sleep(86_400.0)
            return 0

        programs["runner"] = mute
