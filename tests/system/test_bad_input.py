"""Wrong values, wrong CRDs, and an API server that is away: what is seen, and that it heals.

Each row is in the table of docs/troubleshooting.md. Real API semantics, real controllers, the
pretended GitHub; virtual time. What is wrong with a kubeconfig is `test_bad_kubeconfig.py`.
"""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from runnerscale.api.crds import crd_documents
from runnerscale.core.secret import SecretText
from runnerscale.kube.errors import Invalid
from tests.system.bad_input_world import NS, Json, World, older, run, spec, world

CRDS = crd_documents()
INSTALL = "`runnerscale crds | kubectl apply -f -`"

# What is wrong -> what `kubectl apply` answers.
REFUSED: dict[str, tuple[str, Json, str]] = {
    "a text where a number belongs": (
        "set",
        spec(maxRunners="five"),
        'spec.maxRunners in body must be of type integer: "string"',
    ),
    "a number below 0": (
        "set",
        spec(minRunners=-1),
        "spec.minRunners in body should be greater than or equal to 0",
    ),
    "minRunners above maxRunners": (
        "set",
        spec(minRunners=5, maxRunners=2),
        "minRunners must not be greater than maxRunners",
    ),
    "a name of 46 characters": (
        "n" * 46,
        spec(),
        "the name must not be longer than 45 characters, because the name of its listener "
        "is made from it",
    ),
    "a config URL without scheme": (
        "set",
        spec(githubConfigUrl="github.com/my-org"),
        "githubConfigUrl must be https://HOST/ORG, https://HOST/OWNER/REPO or "
        "https://HOST/enterprises/NAME",
    ),
    "a secret that is a number": (
        "set",
        spec(githubConfigSecret=7),
        'spec.githubConfigSecret in body must be of type string: "integer"',
    ),
    "a template without containers": (
        "set",
        spec(template={"spec": {}}),
        "spec.template.spec.containers: Required value",
    ),
}

# What is wrong -> reason, and what the message says beside what to do.
TOLD: dict[str, tuple[Json, str, list[str]]] = {
    "no secret named": (
        spec(githubConfigSecret=""),
        "SpecInvalid",
        ["githubConfigSecret is empty", "Correct the field that the message names"],
    ),
    "a secret that does not exist": (
        spec(githubConfigSecret="nowhere"),
        "CredentialsMissing",
        [f'secret: "{NS}/nowhere" (it does not exist)', "Create the Secret with github_token"],
    ),
    "a secret without keys": (
        spec(githubConfigSecret="empty"),
        "CredentialsMissing",
        [f"{NS}/empty", "Create the Secret with github_token"],
    ),
    "a secret with both kinds of credentials": (
        spec(githubConfigSecret="both"),
        "CredentialsInvalid",
        [f"{NS}/both", "Keep either the token or the three app keys"],
    ),
    "an app id without the rest": (
        spec(githubConfigSecret="half"),
        "CredentialsMissing",
        [f"{NS}/half", "github_app_"],
    ),
    "an installation id that is no number": (
        spec(githubConfigSecret="no-number"),
        "CredentialsInvalid",
        [f"{NS}/no-number"],
    ),
    "a private key that is none": (
        spec(githubConfigSecret="no-key"),
        "CredentialsInvalid",
        ["PEM"],
    ),
    "a token that GitHub refuses": (
        spec(githubConfigSecret="refused"),
        "CredentialsRefused",
        ["401", "Renew the token"],
    ),
    "no container named runner": (
        spec(template={"spec": {"containers": [{"name": "main", "image": "i"}]}}),
        "SpecInvalid",
        ["template.spec.containers has no container named runner"],
    ),
    "more runners than can be counted": (
        spec(maxRunners=3_000_000_000),
        "SpecInvalid",
        ["maxRunners 3000000000 is more than 2147483647", "leave it out for no limit"],
    ),
    "a proxy whose secret does not exist": (
        spec(proxy={"http": {"url": "http://proxy:3128", "credentialSecretRef": "no-login"}}),
        "ProxyInvalid",
        [f"{NS}/no-login", "create the Secret with username and password"],
    ),
    "a proxy that is no URL": (
        spec(proxy={"https": {"url": "not a url"}}),
        "ProxyInvalid",
        ["Correct the URL"],
    ),
    "certificates that do not exist": (
        spec(
            githubServerTLS={
                "certificateFrom": {"configMapKeyRef": {"name": "nowhere", "key": "ca.crt"}}
            }
        ),
        "CertificateInvalid",
        [f"{NS}/nowhere", "Create the config map key"],
    ),
    "a runner group that does not exist": (
        spec(runnerGroup="nobody"),
        "RunnerGroupNotFound",
        ["nobody", "Create the group at GitHub, or correct runnerGroup"],
    ),
    "a host that does not answer": (
        spec(githubConfigUrl="http://ghes.example:8480/unreachable"),
        "GitHubRefused",
        ["404"],
    ),
}

# With the CRDs of an older release the API server takes these; the controller does not.
TOLD_UNDER_OLD_CRDS: dict[str, tuple[str, Json, str, str]] = {
    "minRunners above maxRunners": (
        "limits",
        spec(minRunners=5, maxRunners=2),
        "MinAboveMax",
        'MinRunners "5" cannot be greater than MaxRunners "2"',
    ),
    "a name of 46 characters": (
        "n" * 46,
        spec(),
        "SpecInvalid",
        "the name has 46 characters; its listener needs it to have at most 45",
    ),
    "a config URL without scheme": (
        "url",
        spec(githubConfigUrl="github.com/my-org"),
        "ConfigUrlInvalid",
        "github.com/my-org",
    ),
}


async def secrets(made: World) -> None:
    await made.secret("empty", unrelated="x")
    app = {"github_app_id": "1", "github_app_installation_id": "2"}
    await made.secret("both", github_token="pat", github_app_private_key="k", **app)
    await made.secret("half", github_app_id="1")
    await made.secret("no-number", **{**app, "github_app_installation_id": "abc"},
                      github_app_private_key="k")  # fmt: skip
    await made.secret("no-key", github_app_private_key="no PEM", **app)
    await made.secret("refused", github_token="ghp_unknown")


def named(row: str) -> str:
    """An object name for a row."""
    return "r-" + str(sorted(TOLD).index(row))


@pytest.fixture(scope="module")
def told() -> dict[str, tuple[Json, list[Json], set[tuple[str, str, str]]]]:
    """Status, Events and gauge of every row, all wrong side by side in one world."""

    async def story() -> Any:
        options = {"access_tokens": (SecretText("pat"),), "owners": ("my-org",)}
        async with world(**options) as made:
            await made.prepare()
            await secrets(made)
            made.begin()
            for row, (wish, _, _) in TOLD.items():
                await made.apply(named(row), wish)

            async def all_told() -> bool:
                names = {event["involvedObject"]["name"] for event in await made.events()}
                return all(named(row) in names for row in TOLD)

            try:
                await made.until(all_told)
            except AssertionError:
                names = {event["involvedObject"]["name"] for event in await made.events()}
                raise AssertionError([row for row in TOLD if named(row) not in names]) from None
            await asyncio.sleep(5)
            events = await made.events()
            gauge = made.troubles()
            return {
                row: (
                    await made.raw(named(row)),
                    [e for e in events if e["involvedObject"]["name"] == named(row)],
                    {each for each in gauge if each[1] == named(row)},
                )
                for row in TOLD
            }

    return run(story())


@pytest.mark.parametrize("row", TOLD)
def test_a_wrong_value_is_told_on_the_object_in_an_event_and_in_the_gauge(
    told: dict[str, tuple[Json, list[Json], set[tuple[str, str, str]]]], row: str
) -> None:
    _, reason, words = TOLD[row]
    found, events, gauge = told[row]
    status = found["status"]
    assert status["reason"] == reason
    for word in words:
        assert word in status["message"]
    (ready,) = [each for each in status["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert [e["type"] for e in events if e["reason"] == reason] == ["Warning"]
    assert ("AutoscalingRunnerSet", named(row), reason) in gauge


@pytest.mark.parametrize("row", REFUSED)
def test_a_wrong_value_is_refused_by_the_api_server_in_its_own_words(row: str) -> None:
    name, wish, words = REFUSED[row]

    async def story() -> None:
        async with world() as made:
            await made.prepare()
            with pytest.raises(Invalid) as refused:
                await made.apply(name, wish)
            assert words in refused.value.message

    run(story())


@pytest.mark.parametrize("row", TOLD_UNDER_OLD_CRDS)
def test_what_older_crds_let_through_the_controller_tells_in_an_event(row: str) -> None:
    name, wish, reason, words = TOLD_UNDER_OLD_CRDS[row]

    async def story() -> None:
        crds = older(CRDS, "conditions", "reason", "message")
        async with world(crds) as made:
            await made.prepare()
            made.begin()
            await made.apply(name, wish)

            async def is_told() -> list[Json]:
                return [e for e in await made.events() if e["reason"] == reason]

            await made.until(is_told)
            (event,) = await is_told()
            assert words in event["message"]
            assert ("AutoscalingRunnerSet", name, reason) in made.troubles()
            # Nothing of it is stored: that is what the older definition is about.
            assert "conditions" not in (await made.raw(name)).get("status", {})

    run(story())


def test_what_was_wrong_and_is_corrected_works_within_a_minute_or_so() -> None:
    async def story() -> None:
        async with world() as made:
            await made.prepare()
            made.begin()
            await made.apply("late", spec(githubConfigSecret="late"))

            async def reason() -> str:
                return str((await made.raw("late")).get("status", {}).get("reason", ""))

            async def missing() -> bool:
                return await reason() == "CredentialsMissing"

            await made.until(missing)
            await made.secret("late", github_token="pat")
            assert await made.until(lambda: has_scale_set(made, "late")) < 90

    run(story())


# --- CRDs -----------------------------------------------------------------------------------------


def without(plural: str) -> list[Json]:
    return [each for each in CRDS if each["spec"]["names"]["plural"] != plural]


@pytest.mark.parametrize(
    "plural",
    ["autoscalingrunnersets", "autoscalinglisteners", "ephemeralrunnersets", "ephemeralrunners"],
)
def test_a_missing_crd_is_named_until_it_is_there(plural: str) -> None:
    async def story() -> None:
        async with world(without(plural)) as made:
            await made.prepare()
            with capture_logs() as lines:
                made.begin()
                await asyncio.sleep(600)
            said = made.manager.why_not_ready()
            assert said == (
                f"the CRD {plural}.actions.github.com is not installed. Install them: {INSTALL}"
            )
            # Ten minutes of the same are one line, and few questions.
            assert [line["event"] for line in lines].count("cannot begin yet, trying again") == 1
            name = f"{plural}.actions.github.com"
            assert made.troubles() == {("CustomResourceDefinition", name, "CrdMissing")}
            asked = calls(made)
            assert 20 <= asked <= 60
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await made.post(path, next(d for d in CRDS if d["metadata"]["name"] == name))
            await made.until(lambda: made.manager.why_not_ready() is None, within_s=40)
            assert made.troubles() == set()

    run(story())


def test_without_any_crd_all_are_named() -> None:
    async def story() -> None:
        async with world([]) as made:
            made.begin()
            await asyncio.sleep(5)
            said = made.manager.why_not_ready() or ""
            for document in CRDS:
                assert f"the CRD {document['metadata']['name']} is not installed" in said

    run(story())


def test_a_crd_without_status_is_not_worked_with() -> None:
    async def story() -> None:
        crds = older(CRDS)
        for document in crds:
            if document["spec"]["names"]["plural"] == "ephemeralrunners":
                del document["spec"]["versions"][0]["subresources"]["status"]
        async with world(crds) as made:
            made.begin()
            await asyncio.sleep(5)
            assert "the CRD ephemeralrunners.actions.github.com has no status subresource" in (
                made.manager.why_not_ready() or ""
            )

    run(story())


def test_an_older_crd_is_told_and_does_not_keep_anybody_from_working() -> None:
    async def story() -> None:
        async with world(older(CRDS, "conditions", "message")) as made:
            await made.prepare()
            with capture_logs() as lines:
                made.begin()
                await made.until(lambda: made.manager.why_not_ready() is None)
                await asyncio.sleep(30)
            old = {name for kind, name, reason in made.troubles() if reason == "CrdOutdated"}
            assert old == {document["metadata"]["name"] for document in CRDS}
            said = [line["detail"] for line in lines if line.get("reason") == "CrdOutdated"]
            assert (
                "the installed CRD ephemeralrunners.actions.github.com is older than this "
                "controller: the API server drops status.conditions, status.message. "
                f"Upgrade them, which Helm never does: {INSTALL}."
            ) in said
            events = await made.events("default")
            assert {
                e["involvedObject"]["name"] for e in events if e["reason"] == "CrdOutdated"
            } == old
            await made.apply("set", spec())
            await made.until(lambda: has_scale_set(made, "set"))

    run(story())


def test_an_older_crd_that_is_upgraded_is_no_trouble_any_more() -> None:
    async def story() -> None:
        async with world(older(CRDS, "conditions")) as made:
            made.begin()
            await made.until(made.troubles)
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            for document in CRDS:
                await made.put(f"{path}/{document['metadata']['name']}", document)
            await made.until(lambda: made.troubles() == set(), within_s=700)

    run(story())


async def has_scale_set(made: World, name: str) -> bool:
    annotations = (await made.raw(name))["metadata"].get("annotations", {})
    return "runner-scale-set-id" in annotations


# --- too few rights -------------------------------------------------------------------------------

ALL: Json = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def rights_without(*taken: tuple[str, str]) -> list[Json]:
    """What the chart's roles come to, without some pairs of resource and verb."""
    resources = {
        "actions.github.com": [
            *(f"{each['spec']['names']['plural']}{sub}" for each in CRDS for sub in SUBS)
        ],
        "": ["pods", "secrets", "configmaps", "serviceaccounts", "events"],
        "rbac.authorization.k8s.io": ["roles", "rolebindings"],
    }
    verbs = ["get", "list", "watch", "create", "patch", "update", "delete"]
    return [
        {
            "apiGroups": [group],
            "resources": [name],
            "verbs": [verb for verb in verbs if (name, verb) not in taken],
        }
        for group, names in resources.items()
        for name in names
    ]


SUBS = ("", "/status", "/finalizers")


def test_a_secret_that_may_not_be_read_is_told_on_the_object() -> None:
    async def story() -> None:
        async with world(limited=True) as made:
            await made.prepare()
            await made.grant(*rights_without(("secrets", "get")))
            made.begin()
            await made.apply("set", spec())

            async def reason() -> bool:
                status = (await made.raw("set")).get("status", {})
                return status.get("reason") == "RightsMissing"

            await made.until(reason)
            message = (await made.raw("set"))["status"]["message"]
            assert f'"{NS}/good"' in message
            assert 'User "controller" cannot get resource "secrets"' in message
            assert "Allow controller to `get` secrets in namespace team. Upgrade" in message

    run(story())


def test_a_list_that_is_forbidden_is_named_by_readiness_and_heals() -> None:
    async def story() -> None:
        async with world(limited=True) as made:
            await made.prepare()
            await made.grant(*rights_without(("rolebindings", "list")))
            made.begin()
            await asyncio.sleep(120)
            said = made.manager.why_not_ready() or ""
            assert said.startswith("caches are not filled yet: rolebindings; GET ")
            assert 'User "controller" cannot list resource "rolebindings"' in said
            path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/controller"
            role = {"metadata": {"name": "controller"}, "rules": [ALL], "kind": "ClusterRole"}
            await made.put(path, {"apiVersion": "rbac.authorization.k8s.io/v1", **role})
            await made.until(lambda: made.manager.why_not_ready() is None, within_s=40)

    run(story())


def test_forbidden_events_and_openapi_keep_nobody_from_working() -> None:
    async def story() -> None:
        async with world(limited=True) as made:
            await made.prepare()
            await made.grant(*rights_without(("events", "create"), ("events", "patch")))
            made.begin()
            await made.apply("wrong", spec(githubConfigSecret="nowhere"))
            await made.apply("set", spec())
            await made.until(lambda: has_scale_set(made, "set"))

            async def told_all_the_same() -> bool:
                status = (await made.raw("wrong")).get("status", {})
                return status.get("reason") == "CredentialsMissing"

            await made.until(told_all_the_same)
            assert await made.events() == []

    run(story())


# --- the API server away --------------------------------------------------------------------------


def test_an_api_server_that_is_down_at_the_start_is_waited_for() -> None:
    async def story() -> None:
        async with world(started=False) as made:
            made.begin()
            await asyncio.sleep(1200)
            said = made.manager.why_not_ready() or ""
            assert said.startswith("api.test:80: ")
            assert said.endswith("See whether the API server runs, and can be reached from here")
            assert not made.running.done()
            assert calls(made) <= 1200 / 2  # bounded, and only one asks
            await made.api.start()
            await made.until(lambda: made.manager.why_not_ready() is None, within_s=40)

    run(story())


def test_an_api_server_that_restarts_is_followed_again_and_nothing_is_lost() -> None:
    async def story() -> None:
        async with world() as made:
            await made.prepare()
            made.begin()
            await made.until(lambda: made.manager.why_not_ready() is None)
            await made.api.stop()
            await asyncio.sleep(20)
            assert made.manager.why_not_ready() is None  # a restart is nobody's business
            before = calls(made)
            await asyncio.sleep(600)
            said = made.manager.why_not_ready() or ""
            assert said.startswith("caches do not follow the API server: autoscalinglisteners, ")
            # Nine caches, each at most every 10 s (half of 20), and its call's own repeats.
            assert calls(made) - before <= 9 * 600 / 10 * 2
            await made.api.start()
            await made.apply("later", spec())
            await made.until(lambda: has_scale_set(made, "later"))
            await made.until(lambda: made.manager.why_not_ready() is None)

    run(story())


def calls(made: World) -> int:
    """Requests to the API server, answered or not."""
    return sum(
        int(sample.value)
        for family in made.registry.collect()
        for sample in family.samples
        if sample.name == "rest_client_requests_total"
    )
