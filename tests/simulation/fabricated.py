"""A fabricated world of a few values, to show that invariants can fail."""

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from runnerscale.core.randomness import seeded
from runnerscale.fake_github import jobs, runner_sessions, runners, scale_sets
from runnerscale.fake_github.model import Job, JobRequest, Runner, ScaleSet
from runnerscale.fake_github.options import Options
from runnerscale.fake_github.state import State
from tests.simulation.invariants import RUNNERS, Judge
from tests.simulation.writes import Write

CONTROLLER = "system:serviceaccount:runnerscale-system:runnerscale-controller"
LISTENER = "system:serviceaccount:runnerscale-system:set-0-listener"
NODE = "system:serviceaccount:runnerscale-system:runnerscale-node"
Json = dict[str, Any]


class Case:
    """A world of a few values: a GitHub with one scale set, and what was written so far."""

    def __init__(self) -> None:
        self.at_s = 1000.0
        self.github = State(Options(), seeded(1))
        self.containers: list[Any] = []
        self.judge = Judge(self.github, lambda: self.at_s, lambda: self.containers)
        tenant = self.github.tenant("demo-org/demo")
        wanted = scale_sets.Wanted(name="set-0")
        self.scale_set: ScaleSet = scale_sets.create(self.github, 0.0, tenant, wanted)
        self.controller = SimpleNamespace(
            component=component("controller-1"),
            leads=True,
            registry=CollectorRegistry(),
            manager=SimpleNamespace(_controllers=[]),
        )
        self.world: Any = SimpleNamespace(
            judge=self.judge,
            striking=[],
            hub=SimpleNamespace(
                faults=SimpleNamespace(rules={}), calls={}, now_s=lambda: self.at_s
            ),
            api=object(),
            api_component=component("api"),
            controllers=[self.controller],
            nodes=[component("node")],
            machine=SimpleNamespace(started=self.containers, running=self.running),
            runner_program=SimpleNamespace(started=[]),
            listener_program=SimpleNamespace(registries={}, said=[]),
            trace=SimpleNamespace(lines=[]),
        )

    def running(self, program: str) -> list[Any]:
        return [p for p in self.containers if p.exit is None and p.spec.argv[0] == program]

    def write(
        self, by: str, resource: str, name: str, before: Json | None, after: Json | None
    ) -> None:
        uid = ((before or after) or {})["metadata"]["uid"]
        text = repr(after)
        self.judge.hear(Write(by, resource, "demo", name, uid, before, after, text))

    def breaches(self) -> list[str]:
        self.judge.ask_github()
        return [breach.rule for breach in self.judge.breaches]

    def tick(self, seconds: float = 5.0) -> list[str]:
        self.at_s += seconds
        self.judge.tick(self.world)
        return self.breaches()

    def container(self, pod: str, program: str = "runner") -> Any:
        spec = SimpleNamespace(
            pod=SimpleNamespace(uid=f"uid-of-pod-{pod}", name=pod), argv=(program,)
        )
        made = SimpleNamespace(spec=spec, exit=None, component=component(pod))
        self.containers.append(made)
        return made

    def runner(self, name: str = "r1", **status: object) -> Json:
        """A runner object with its registration."""
        made = runner_object(name, **status)
        self.write(CONTROLLER, RUNNERS, name, None, made)
        return made

    def busy(self, name: str = "r1") -> tuple[Runner, Job]:
        """A registration with a job that runs, and a container."""
        self.container(name)
        runner = runners.register(self.github, self.at_s, self.scale_set, name)
        runner_sessions.connect(self.github, self.at_s, secret=runner.secret, nonce="n")
        request = JobRequest("job", ("set-0",), (), owner="demo-org", repository="demo")
        job = jobs.queue_job(self.github, self.at_s, request)
        jobs.assign(self.github, self.at_s, job, self.scale_set)
        jobs.hand(self.github, self.at_s, job, self.scale_set, runner)
        jobs.start(self.github, self.at_s, job, runner)
        return runner, job


def component(name: str) -> Any:
    return SimpleNamespace(name=name, dead=False, paused=False, steps=0)


def thing(kind: str, name: str, *, owner: Json | None = None, **more: Any) -> Json:
    metadata: Json = {"name": name, "namespace": "demo", "uid": f"uid-of-{kind}-{name}"}
    if owner is not None:
        reference = {"kind": owner["kind"]} | {k: owner["metadata"][k] for k in ("name", "uid")}
        metadata["ownerReferences"] = [reference]
    return {"kind": kind, "metadata": metadata} | more


RUNNER_SET = thing("AutoscalingRunnerSet", "set-0", spec={"minRunners": 0, "maxRunners": 2})
INNER = thing("EphemeralRunnerSet", "set-0", owner=RUNNER_SET, spec={"replicas": 1})


def runner_object(name: str, **status: object) -> Json:
    return thing("EphemeralRunner", name, owner=INNER, status=dict(status))


def pod(name: str) -> Json:
    return thing("pod", name, owner=runner_object(name))


def going(obj: Json) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "now"}}
