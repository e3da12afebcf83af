"""What goes over the wire, and how what comes back becomes an answer."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from runnerscale.api.ephemeral_runner import EphemeralRunner
from runnerscale.api.reasons import Reason
from runnerscale.controllers.ephemeral_runner.actions import (
    AskRunner,
    CheckPod,
    CheckSecret,
    ConfirmView,
    CreatePod,
    CreateSecret,
    DeleteLeftovers,
    DeletePod,
    DeleteRunner,
    DeleteSecret,
    Done,
    FindRunner,
    Found,
    GenerateJit,
    GitHubFailed,
    Known,
    NoAnswer,
    PatchStatus,
    Refused,
    Registered,
    RemoveRunner,
    Said,
    SetFinalizers,
)
from runnerscale.controllers.ephemeral_runner.apply import Hands, status_body
from runnerscale.controllers.ephemeral_runner.identity import Jit, Ref
from runnerscale.controllers.ephemeral_runner.memory import Memory
from runnerscale.core.clock import LoopClock
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.credentials.place import PlaceTrouble
from runnerscale.kube.builtin import PODS
from runnerscale.kube.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    ServerFault,
    TooManyRequests,
    Unreachable,
)
from runnerscale.kube.informer import Informer
from runnerscale.kube.objects import Condition
from runnerscale.kube.own_writes import OwnWrites
from runnerscale.scaleset import errors as github_errors
from tests.unit.controllers.ephemeral_runner.world import (
    EPHEMERAL_RUNNERS,
    EPOCH_S,
    NS,
    Api,
    Faults,
    GitHub,
    Registration,
    runner_body,
)

Run = Callable[[Coroutine[Any, Any, None]], None]
JIT = Jit(7, "runner-1", 3, SecretText("encoded"))


class Bench:
    """The hands alone, with one runner in the cache."""

    def __init__(self) -> None:
        clock = LoopClock(EPOCH_S)
        self.faults = Faults()
        self.api = Api(self.faults, clock)
        self.github = GitHub(self.faults)
        self.memory = Memory()
        shared: dict[str, Any] = {"clock": clock, "random": seeded(1)}
        client: Any = self.api
        clients: Any = self.github
        self.runners = Informer(client, EPHEMERAL_RUNNERS, **shared)
        self.own_writes = OwnWrites(clock=clock)
        self.deletes: list[tuple[str, bool]] = []  # the runner's name, and whether it goes already
        self.hands = Hands(
            client=client,
            clients=clients,
            runners=self.runners,
            pods=Informer(client, PODS, **shared),
            memory=self.memory,
            own_writes=self.own_writes,
            clock=clock,
            build_version="0.14.2",
            deletes=self.note,
            excluded_labels=("secret.example/",),
        )
        item = self.api.put_new("ephemeralrunners", runner_body("runner-1"))
        self.runners.store.put(f"{NS}/runner-1", item)
        self.ref = Ref(NS, "runner-1", item.metadata.uid)
        self.version = item.metadata.resource_version

    def note(self, item: EphemeralRunner) -> None:
        name = item.metadata.name or ""
        stored = self.api.raw("ephemeralrunners", name) or {"metadata": {"deletionTimestamp": ""}}
        self.deletes.append((name, "deletionTimestamp" in stored["metadata"]))

    async def apply(self, action: Any) -> Any:
        return await self.hands.apply(action)


def with_bench(run_virtual: Run, scene: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def start() -> None:
        await scene(Bench())

    run_virtual(start())


# --- bodies ----------------------------------------------------------------------------------


def test_a_status_patch_says_only_what_changes_and_on_which_version() -> None:
    ref = Ref(NS, "a", "u")
    first = PatchStatus(ref, "41", phase="Pending", runner_id=7, runner_name="a")
    assert status_body(first, now_s=EPOCH_S) == {
        "metadata": {"resourceVersion": "41"},
        "status": {"phase": "Pending", "runnerId": 7, "runnerName": "a"},
    }
    ready = PatchStatus(ref, "42", ready=False)
    assert status_body(ready, now_s=EPOCH_S)["status"] == {"ready": False}


def test_empty_texts_are_removed_and_failures_are_keyed_by_the_pod() -> None:
    ref = Ref(NS, "a", "u")
    over = PatchStatus(ref, "41", reason="", message="")
    assert status_body(over, now_s=EPOCH_S)["status"] == {"reason": None, "message": None}
    failed = PatchStatus(ref, "41", failed_pod="pod-1", reason="PodRefusedByNode", message="m")
    assert status_body(failed, now_s=EPOCH_S)["status"] == {
        "reason": "PodRefusedByNode",
        "message": "m",
        "failures": {"pod-1": "2027-01-15T08:00:00Z"},
    }


def test_conditions_travel_as_a_whole_list() -> None:
    condition = Condition("Healthy", "True", "Recovered", "", "2027-01-15T08:00:00Z")
    body = status_body(PatchStatus(Ref(NS, "a", "u"), "1", conditions=(condition,)), now_s=0)
    assert [item["type"] for item in body["status"]["conditions"]] == ["Healthy"]


# --- Kubernetes --------------------------------------------------------------------------------


def test_what_is_not_in_the_cache_any_more_is_not_touched(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        namesake = Ref(NS, "runner-1", "uid-of-a-namesake")
        for ref in (namesake, Ref(NS, "gone", "x")):
            assert await bench.apply(GenerateJit(ref)) is Said.ABSENT
            assert await bench.apply(DeleteRunner(ref)) is Said.ABSENT
        assert bench.faults.calls == []

    with_bench(run_virtual, scene)


def test_secret_and_pod_are_made_and_the_cache_is_waited_for(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.apply(CreateSecret(bench.ref, JIT)) == Done()
        made = await bench.apply(CreatePod(bench.ref, "hash1"))
        pod = bench.api.raw("pods", "runner-1")
        assert pod is not None
        assert made == Done(pod["metadata"]["resourceVersion"], uid=pod["metadata"]["uid"])
        assert pod["metadata"]["labels"]["pod-template-hash"] == "hash1"
        assert not bench.own_writes.is_settled(bench.ref.key)
        assert await bench.apply(CreateSecret(bench.ref, JIT)) is Said.EXISTS
        assert await bench.apply(DeleteSecret(bench.ref)) is Said.GONE
        assert bench.api.names("secrets") == []

    with_bench(run_virtual, scene)


@pytest.mark.behaviour("C1 T159")
def test_a_pod_that_exists_is_success_if_it_is_ours(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        made = await bench.apply(CreatePod(bench.ref, "h"))
        assert await bench.apply(CreatePod(bench.ref, "h")) == made
        bench.api.remove("pods", "runner-1", grace_s=0)
        bench.api.put_new("pods", {"metadata": {"name": "runner-1"}})
        assert await bench.apply(CreatePod(bench.ref, "h")) is Said.EXISTS

    with_bench(run_virtual, scene)


def test_only_the_runners_own_secret_is_deleted(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.apply(DeleteSecret(bench.ref)) is Said.ABSENT
        bench.api.put_new("secrets", {"metadata": {"name": "runner-1"}})
        assert await bench.apply(DeleteSecret(bench.ref)) is Said.EXISTS
        assert bench.api.names("secrets") == ["runner-1"]

    with_bench(run_virtual, scene)


def test_the_server_itself_says_whether_a_view_is_of_the_present(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        runner = bench.api.raw("ephemeralrunners", "runner-1")
        assert runner is not None
        version = runner["metadata"]["resourceVersion"]
        assert isinstance(await bench.apply(ConfirmView(bench.ref, version)), Done)
        assert await bench.apply(ConfirmView(bench.ref, "1-of-the-past")) is Said.CONFLICT

    with_bench(run_virtual, scene)


def test_the_server_itself_is_asked_about_a_pod_that_the_cache_misses(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.apply(CheckPod(bench.ref)) is Said.ABSENT
        made = await bench.apply(CreatePod(bench.ref, "h"))
        found = await bench.apply(CheckPod(bench.ref))
        assert isinstance(found, Found)
        assert found.pod.uid == made.uid
        bench.api.remove("pods", "runner-1", grace_s=0)
        bench.api.put_new("pods", {"metadata": {"name": "runner-1"}})
        assert await bench.apply(CheckPod(bench.ref)) is Said.ABSENT  # a stranger's

    with_bench(run_virtual, scene)


def test_the_server_itself_is_asked_about_a_jit_config_that_a_node_misses(
    run_virtual: Run,
) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.apply(CheckSecret(bench.ref)) is Said.ABSENT
        assert isinstance(await bench.apply(CreateSecret(bench.ref, JIT)), Done)
        assert isinstance(await bench.apply(CheckSecret(bench.ref)), Done)
        bench.api.remove("secrets", "runner-1", grace_s=0)
        bench.api.put_new("secrets", {"metadata": {"name": "runner-1"}, "data": {"other": "eA=="}})
        assert await bench.apply(CheckSecret(bench.ref)) is Said.ABSENT  # a pod finds no key

    with_bench(run_virtual, scene)


def test_a_template_without_a_runner_is_refused_before_the_server_is_asked(
    run_virtual: Run,
) -> None:
    async def scene(bench: Bench) -> None:
        body = {"spec": {"spec": {"containers": [{"name": "other"}]}}}
        item = bench.api.merge("ephemeralrunners", "runner-1", body)
        bench.runners.store.put(bench.ref.key, item)
        answer = await bench.apply(CreatePod(bench.ref, "h"))
        assert isinstance(answer, Refused)
        assert "no container named 'runner'" in answer.words
        assert bench.faults.calls == []

    with_bench(run_virtual, scene)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Forbidden(403, "Forbidden", "quota"), Refused(403, "quota")),
        (Invalid(422, "Invalid", "bad"), Refused(422, "bad")),
        (BadRequest(400, "BadRequest", "typing"), Refused(400, "typing")),
        (Conflict(409, "Conflict", "changed"), Said.CONFLICT),
        (ServerFault(500, "InternalError", "oh"), NoAnswer("oh")),
        (TooManyRequests(429, "TooManyRequests", "slow"), NoAnswer("slow")),
        (Unreachable("reset"), NoAnswer("reset")),
    ],
)
def test_every_error_of_the_api_server_is_an_answer(
    run_virtual: Run, error: KubeError, expected: object
) -> None:
    async def scene(bench: Bench) -> None:
        bench.faults.before = lambda _name, _call: error
        assert await bench.apply(CreateSecret(bench.ref, JIT)) == expected
        assert await bench.apply(PatchStatus(bench.ref, bench.version, ready=True)) == expected

    with_bench(run_virtual, scene)


def test_not_found_means_gone_for_a_patch_and_trouble_for_a_create(run_virtual: Run) -> None:
    from runnerscale.kube.errors import NotFound

    async def scene(bench: Bench) -> None:
        bench.faults.before = lambda _name, _call: NotFound(404, "NotFound", "namespace gone")
        patch = PatchStatus(bench.ref, bench.version, ready=True)
        assert await bench.apply(patch) is Said.ABSENT
        assert await bench.apply(CreatePod(bench.ref, "h")) == NoAnswer("namespace gone")

    with_bench(run_virtual, scene)


def test_a_pod_deleted_without_grace_is_gone_unless_a_finalizer_holds_it(
    run_virtual: Run,
) -> None:
    async def scene(bench: Bench) -> None:
        made = await bench.apply(CreatePod(bench.ref, "h"))
        bench.api.merge("pods", "runner-1", {"spec": {"nodeName": "n"}})
        assert await bench.apply(DeletePod(bench.ref, made.uid, grace_s=None)) == Done()
        other = DeletePod(bench.ref, "another-uid", grace_s=0)
        assert await bench.apply(other) is Said.GONE
        assert bench.api.names("pods") == ["runner-1"]
        held = {"metadata": {"finalizers": ["theirs"]}}
        bench.api.merge("pods", "runner-1", held)
        assert await bench.apply(DeletePod(bench.ref, made.uid, grace_s=0)) == Done()
        bench.api.merge("pods", "runner-1", {"metadata": {"finalizers": None}})
        assert await bench.apply(DeletePod(bench.ref, made.uid, grace_s=0)) is Said.GONE

    with_bench(run_virtual, scene)


def test_the_object_goes_with_its_last_finalizer(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        wrong = DeleteRunner(bench.ref, resource_version="1")
        assert await bench.apply(wrong) is Said.CONFLICT
        deleted = await bench.apply(DeleteRunner(bench.ref, resource_version=bench.version))
        assert isinstance(deleted, Done)
        stale = SetFinalizers(bench.ref, bench.version, ())
        assert await bench.apply(stale) is Said.CONFLICT
        last = SetFinalizers(bench.ref, deleted.resource_version, ())
        assert isinstance(await bench.apply(last), Done)
        assert bench.api.names("ephemeralrunners") == []
        assert await bench.apply(DeleteRunner(bench.ref)) is Said.GONE

    with_bench(run_virtual, scene)


def test_an_object_without_finalizers_is_gone_at_once(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        bench.api.merge("ephemeralrunners", "runner-1", {"metadata": {"finalizers": None}})
        assert await bench.apply(DeleteRunner(bench.ref)) is Said.GONE

    with_bench(run_virtual, scene)


def test_a_deletion_is_told_of_before_it_can_be_seen(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        await bench.apply(DeleteRunner(bench.ref))
        assert bench.deletes == [("runner-1", False)]

    with_bench(run_virtual, scene)


def linked(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"runner-pod": "runner-1"}}}


def test_both_kinds_of_leftovers_are_tried_whatever_becomes_of_one(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        for number in range(20):
            bench.api.put_new("pods", linked(f"step-{number}"))
        bench.api.put_new("secrets", linked("step"))
        bench.api.put_new("pods", {"metadata": {"name": "other"}})
        bench.faults.before = lambda name, _: (
            Forbidden(403, "Forbidden", "no") if name == "delete pods" else None
        )
        assert await bench.apply(DeleteLeftovers(bench.ref)) == Refused(403, "no")
        assert bench.api.names("secrets") == []
        bench.faults.before = lambda _name, _call: None
        assert await bench.apply(DeleteLeftovers(bench.ref)) == Done()
        assert bench.api.names("pods") == ["other"]

    with_bench(run_virtual, scene)


def test_a_namesake_born_after_the_look_is_not_taken_for_a_leftover(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        bench.api.put_new("pods", linked("step"))
        born = []

        def replaced(name: str, _call: object) -> None:
            if name == "delete pods" and not born:
                bench.api.remove("pods", "step")
                born.append(bench.api.put_new("pods", {"metadata": {"name": "step"}}))

        bench.faults.before = replaced
        assert await bench.apply(DeleteLeftovers(bench.ref)) == Done()
        assert born
        assert bench.api.names("pods") == ["step"]

    with_bench(run_virtual, scene)


def test_leftovers_that_cannot_be_listed_are_no_success(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        async def refuse(*_: object, **__: object) -> Any:
            raise Forbidden(403, "Forbidden", "cannot list resource")

        bench.api.list = refuse  # type: ignore[method-assign]
        answer = await bench.apply(DeleteLeftovers(bench.ref))
        assert answer == Refused(403, "cannot list resource")

    with_bench(run_virtual, scene)


# --- GitHub ----------------------------------------------------------------------------------


@pytest.mark.behaviour("C1 T143")
def test_a_registration_is_remembered_the_moment_it_arrives(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        answer = await bench.apply(GenerateJit(bench.ref))
        assert isinstance(answer, Registered)
        assert (answer.jit.runner_id, answer.jit.runner_name) == (1, "runner-1")
        assert bench.github.work_folders == ["/w"]
        # Even if this pass is cancelled now: GitHub gives the config out only once.
        assert bench.memory.of(bench.ref.uid).jit == answer.jit
        assert await bench.apply(GenerateJit(bench.ref)) is Said.NAME_TAKEN

    with_bench(run_virtual, scene)


def test_what_github_knows_and_forgets(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        assert await bench.apply(FindRunner(bench.ref)) is Said.ABSENT
        assert await bench.apply(AskRunner(bench.ref, 5)) is Said.ABSENT
        assert await bench.apply(RemoveRunner(bench.ref, 5)) is Said.ABSENT
        bench.github.runners[5] = Registration(5, "runner-1", 3, status="online", busy=True)
        assert await bench.apply(FindRunner(bench.ref)) == Known(5, 3, "online")
        assert await bench.apply(AskRunner(bench.ref, 5)) == Known(5, 3, "online")
        assert await bench.apply(RemoveRunner(bench.ref, 5)) is Said.JOB_RUNNING
        bench.github.runners[5].busy = False
        assert await bench.apply(RemoveRunner(bench.ref, 5)) is Said.FORGOTTEN

    with_bench(run_virtual, scene)


@pytest.mark.parametrize(
    ("error", "reason", "maybe_done"),
    [
        (github_errors.Unavailable("lost"), Reason.GITHUB_UNAVAILABLE, True),
        (github_errors.Unavailable("refused", sent=False), Reason.GITHUB_UNAVAILABLE, False),
        (github_errors.BadAnswer("no JSON"), Reason.GITHUB_UNAVAILABLE, True),
        (github_errors.RateLimited("slow"), Reason.GITHUB_RATE_LIMITED, True),
        (github_errors.CredentialsRefused("401"), Reason.CREDENTIALS_REFUSED, False),
        (github_errors.ScaleSetNotFound("gone"), Reason.SCALE_SET_GONE, False),
        (github_errors.Refused("no"), Reason.GITHUB_REFUSED, False),
    ],
)
def test_every_error_of_github_is_an_answer_with_a_reason(
    run_virtual: Run, error: github_errors.ScaleSetError, reason: Reason, maybe_done: bool
) -> None:
    async def scene(bench: Bench) -> None:
        bench.github.down = error
        answer = await bench.apply(GenerateJit(bench.ref))
        assert isinstance(answer, GitHubFailed)
        assert (answer.trouble.reason, answer.maybe_done) == (reason, maybe_done)
        assert answer.trouble.about == "EphemeralRunner ns/runner-1"

    with_bench(run_virtual, scene)


def test_words_stay_the_same_from_try_to_try_and_retry_after_is_kept(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        words = set()
        for number in range(3):
            said = github_errors.Answer(
                status=429,
                reason="Too Many Requests",
                activity_id=f"activity-{number}",
                exception_message="slow down",
                retry_after_s=33.0,
            )
            bench.github.down = github_errors.RateLimited(f"activity-{number}", said)
            answer = await bench.apply(GenerateJit(bench.ref))
            assert isinstance(answer, GitHubFailed)
            assert answer.retry_after_s == 33.0
            words.add(answer.trouble.happened)
        assert words == {"GitHub answered 429: slow down"}
        bare = github_errors.Unavailable("x", github_errors.Answer(status=502))
        bench.github.down = bare
        answer = await bench.apply(AskRunner(bench.ref, 1))
        assert isinstance(answer, GitHubFailed)
        assert answer.trouble.happened == "GitHub answered 502"

    with_bench(run_virtual, scene)


def test_a_place_that_cannot_be_reached_says_what_is_missing(run_virtual: Run) -> None:
    async def scene(bench: Bench) -> None:
        async def nothing(place: Any) -> Any:
            raise PlaceTrouble("CredentialsMissing", "Secret s is not there", "Create it")

        bench.github.client_for = nothing  # type: ignore[method-assign]
        answer = await bench.apply(RemoveRunner(bench.ref, 5))
        assert isinstance(answer, GitHubFailed)
        assert answer.trouble.message == "Secret s is not there. Create it."
        assert not answer.maybe_done

    with_bench(run_virtual, scene)
