"""Where the API server is and who we are there: files, environment, complaints."""

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from runnerscale.core.clock import ManualClock, SystemClock, format_time
from runnerscale.core.randomness import seeded
from runnerscale.core.secret import SecretText
from runnerscale.kube.cluster import ClusterConfig, Login, load_config, open_client, tls_context
from runnerscale.kube.credentials import Anonymous, BasicLogin, StaticToken, TokenFile
from runnerscale.kube.errors import ConfigError
from runnerscale.kube.exec_plugin import (
    ExecCredentials,
    ExecPlugin,
    Finished,
    decode_issued,
    exec_info,
    run_process,
)
from runnerscale.kube.pem import ClientCertificate

AUTHORITY = trustme.CA()
CA_PEM = AUTHORITY.cert_pem.bytes().decode()
LEAF = AUTHORITY.issue_cert("me.test")
CERT_PEM = "".join(part.bytes().decode() for part in LEAF.cert_chain_pems)
KEY_PEM = LEAF.private_key_pem.bytes().decode()


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def written(
    folder: Path,
    *,
    cluster: Mapping[str, Any] | None = None,
    user: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    name: str = "config",
    **top: Any,
) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [
            {"name": "c", "cluster": {"server": "https://api.test:6443/", **(cluster or {})}}
        ],
        "users": [{"name": "u", "user": {**(user or {})}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        **top,
    }
    path = folder / name
    path.write_text(yaml.safe_dump(document))
    return path


# --- kubeconfig --------------------------------------------------------------------------------


def test_certificates_may_be_data(tmp_path: Path) -> None:
    config = load_config(
        written(
            tmp_path,
            cluster={"certificate-authority-data": b64(CA_PEM), "tls-server-name": "other.test"},
            user={"client-certificate-data": b64(CERT_PEM), "client-key-data": b64(KEY_PEM)},
            context={"namespace": "team"},
        ),
        {},
    )
    assert config.server == "https://api.test:6443"
    assert (config.namespace, config.server_name, config.ca_pem) == ("team", "other.test", CA_PEM)
    assert config.login.certificate == ClientCertificate(CERT_PEM, SecretText(KEY_PEM))


def test_certificates_may_be_files_beside_the_kubeconfig(tmp_path: Path) -> None:
    for name, text in (("ca.pem", CA_PEM), ("me.pem", CERT_PEM), ("me.key", KEY_PEM)):
        (tmp_path / name).write_text(text)
    config = load_config(
        written(
            tmp_path,
            cluster={"certificate-authority": "ca.pem"},
            user={"client-certificate": "me.pem", "client-key": str(tmp_path / "me.key")},
        ),
        {},
    )
    assert config.ca_pem == CA_PEM
    assert config.login.certificate == ClientCertificate(CERT_PEM, SecretText(KEY_PEM))


@pytest.mark.parametrize(
    ("user", "login"),
    [
        ({"token": "t"}, Login(token=SecretText("t"))),
        ({"username": "me", "password": "p"}, Login(user="me", password=SecretText("p"))),
        ({}, Login()),
    ],
)
def test_logins(tmp_path: Path, user: dict[str, str], login: Login) -> None:
    assert load_config(written(tmp_path, user=user), {}).login == login


def test_a_token_file_wins_over_a_token(tmp_path: Path) -> None:
    login = load_config(written(tmp_path, user={"tokenFile": "t", "token": "old"}), {}).login
    assert login == Login(token_file=tmp_path / "t")


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u"}},
        {"name": "there", "context": {"cluster": "c", "namespace": "far"}},
    ]
    path = written(tmp_path, contexts=contexts)
    assert load_config(path, {}, context="there").namespace == "far"
    assert load_config(path, {}).namespace == "default"


def test_of_several_files_the_first_to_name_a_thing_wins(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"token": "mine"}}]}))
    second = written(tmp_path, user={"token": "theirs"}, cluster={"proxy-url": "http://p:3128"})
    missing = tmp_path / "missing"
    environ = {"KUBECONFIG": os.pathsep.join(map(str, (missing, first, second)))}
    config = load_config(None, environ)
    assert config.login.token == SecretText("mine")
    assert config.proxy_url == "http://p:3128"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"cluster": {"server": "api.test"}}, "needs a server URL"),
        ({"cluster": {"proxy-url": "socks5://p:1"}}, "proxy-url"),
        (
            {"cluster": {"insecure-skip-tls-verify": True, "certificate-authority-data": b64("x")}},
            "keep one",
        ),
        ({"cluster": {"certificate-authority-data": "%%%"}}, "not base64"),
        ({"cluster": {"certificate-authority": "nowhere.pem"}}, "cannot read"),
        ({"user": {"client-certificate-data": b64(CERT_PEM)}}, "belong together"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "exec plugin"),
        ({"user": {"as": "root"}}, "impersonation"),
        (
            {
                "user": {
                    "exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}
                }
            },
            "v1alpha1",
        ),
        (
            {
                "user": {
                    "exec": {
                        "apiVersion": "client.authentication.k8s.io/v1",
                        "command": "x",
                        "interactiveMode": "Always",
                    }
                }
            },
            "terminal",
        ),
        ({"context": {"cluster": "elsewhere"}}, "there is no cluster 'elsewhere' (there is: c)"),
        ({"context": {"user": "nobody"}}, "there is no user 'nobody' (there is: u)"),
        ({"current-context": "none"}, "there is no context 'none' (there is: here)"),
        ({"current-context": ""}, "no current-context"),
        ({"clusters": 3}, "clusters"),
    ],
)
def test_a_bad_kubeconfig_is_one_sentence_with_the_file(
    tmp_path: Path, given: dict[str, Any], complaint: str
) -> None:
    path = written(tmp_path, **given)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "complaint"), [("a: [", "not YAML (line"), ("\x00", "not YAML"), ("3", "object")]
)
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert complaint in str(caught.value)


def test_no_complaint_repeats_a_secret(tmp_path: Path) -> None:
    path = written(tmp_path, user={"token": ["s3cret"]})
    with pytest.raises(ConfigError) as caught:
        load_config(path, {})
    assert "s3cret" not in str(caught.value)
    config = load_config(written(tmp_path, user={"token": "s3cret", "password": "s3cret"}), {})
    assert "s3cret" not in repr(config)


# --- in a pod, and the order ----------------------------------------------------------------------


def pod_files(folder: Path) -> dict[str, str]:
    for name, text in (("token", "tok\n"), ("ca.crt", CA_PEM), ("namespace", "team\n")):
        (folder / name).write_text(text)
    return {
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "RUNNERSCALE_SERVICE_ACCOUNT_DIR": str(folder),
    }


def test_a_pod_has_all_it_needs(tmp_path: Path) -> None:
    config = load_config(None, pod_files(tmp_path))
    assert (config.server, config.namespace) == ("https://10.0.0.1:443", "team")
    assert config.ca_pem == CA_PEM
    assert config.login.token_file == tmp_path / "token"
    assert config.proxy_url == ""


def test_an_ipv6_service_is_a_url(tmp_path: Path) -> None:
    environ = {**pod_files(tmp_path), "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert load_config(None, environ).server == "https://[fd00::1]:443"


def test_a_pod_without_a_token_says_which_setting_does_that(tmp_path: Path) -> None:
    environ = pod_files(tmp_path)
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        load_config(None, environ)


def test_a_pod_whose_files_are_incomplete_names_the_file(tmp_path: Path) -> None:
    environ = pod_files(tmp_path)
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(ConfigError, match=r"ca\.crt"):
        load_config(None, environ)


def test_the_order_is_flag_then_kubeconfig_then_pod_then_home(tmp_path: Path) -> None:
    kube = tmp_path / "home" / ".kube"
    kube.mkdir(parents=True)
    written(kube, cluster={"server": "https://home"})
    environ = {"HOME": str(tmp_path / "home")}
    assert load_config(None, environ).server == "https://home"
    environ |= pod_files(tmp_path)
    assert load_config("", environ).server == "https://10.0.0.1:443"
    listed = written(tmp_path, cluster={"server": "https://listed"}, name="listed")
    environ["KUBECONFIG"] = str(listed)
    assert load_config(None, environ).server == "https://listed"
    flag = written(tmp_path, cluster={"server": "https://flag"}, name="flag")
    assert load_config(str(flag), environ).server == "https://flag"


def test_nothing_to_go_by_is_one_sentence_that_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="--kubeconfig"):
        load_config(None, {})


# --- TLS ------------------------------------------------------------------------------------------


def test_tls_follows_the_configuration() -> None:
    secure = ClusterConfig("https://x", ca_pem=CA_PEM)
    context = tls_context(secure, ClientCertificate(CERT_PEM, SecretText(KEY_PEM)))
    assert context is not None
    assert context.check_hostname
    insecure = tls_context(ClusterConfig("https://x", insecure=True), None)
    assert insecure is not None
    assert not insecure.check_hostname
    assert tls_context(ClusterConfig("http://x"), None) is None


@pytest.mark.parametrize(
    ("config", "certificate", "complaint"),
    [
        (ClusterConfig("https://x", ca_pem="nonsense", source="f"), None, "certificate authority"),
        (ClusterConfig("https://x", ca_pem="café", source="f"), None, "certificate authority"),
        (
            ClusterConfig("https://x", ca_pem=CA_PEM, source="f"),
            ClientCertificate(CERT_PEM, SecretText("nonsense")),
            "client certificate",
        ),
    ],
)
def test_unusable_certificates_are_one_sentence(
    config: ClusterConfig, certificate: ClientCertificate | None, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        tls_context(config, certificate)
    assert "PRIVATE" not in str(caught.value)


async def test_a_client_is_made_for_every_kind_of_login(tmp_path: Path) -> None:
    plugin = ExecPlugin("client.authentication.k8s.io/v1", "x")
    for login, kind in (
        (Login(), Anonymous),
        (Login(token=SecretText("t")), StaticToken),
        (Login(token_file=tmp_path / "t"), TokenFile),
        (Login(user="u"), BasicLogin),
        (Login(exec_plugin=plugin), ExecCredentials),
    ):
        client = open_client(
            ClusterConfig("https://x", login=login), clock=SystemClock(), random=seeded(1)
        )
        assert isinstance(client._calls._credentials, kind)
        await client.close()


# --- tokens ---------------------------------------------------------------------------------------


async def shown(credentials: Any) -> str | None:
    header = await credentials.authorization()
    return None if header is None else str(header.reveal())


async def test_fixed_logins_are_headers() -> None:
    assert await shown(Anonymous()) is None
    assert await shown(StaticToken(SecretText("t"))) == "Bearer t"
    assert await shown(BasicLogin("me", SecretText("pw"))) == "Basic " + b64("me:pw")


async def test_a_token_file_is_read_again_after_a_minute_and_after_a_401(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    clock = ManualClock()
    source = TokenFile(path, clock=clock)
    assert await shown(source) == "Bearer one"
    path.write_text("two")
    clock.advance(59.0)
    assert await shown(source) == "Bearer one"
    clock.advance(1.0)
    assert await shown(source) == "Bearer two"
    path.write_text("three")
    source.reject(SecretText("Bearer one"))  # an old one: a new one is in use already
    assert await shown(source) == "Bearer two"
    source.reject(SecretText("Bearer two"))
    assert await shown(source) == "Bearer three"


async def test_a_token_file_that_vanishes_for_a_moment_is_no_reason_to_stop(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    clock = ManualClock()
    source = TokenFile(path, clock=clock)
    await source.authorization()
    path.write_text("")
    clock.advance(100.0)
    assert await shown(source) == "Bearer one"
    path.unlink()
    clock.advance(100.0)
    assert await shown(source) == "Bearer one"


@pytest.mark.parametrize("text", [None, "", "\n"])
async def test_a_token_file_that_never_held_one_is_an_error(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match="token file"):
        await TokenFile(path, clock=ManualClock()).authorization()


# --- exec plugins ---

V1 = "client.authentication.k8s.io/v1"
PLUGIN = ExecPlugin(
    V1, "get-token", ("--for", "me"), (("REGION", "x"),), "install it with care", {"server": "s"}
)


def credential(token: str = "t1", *, version: str = V1, **status: str) -> bytes:
    document = {
        "kind": "ExecCredential",
        "apiVersion": version,
        "status": {"token": token, **status},
    }
    return json.dumps(document).encode()


class Command:
    """A command that answers from a list and notes how it was called."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = [*outcomes]
        self.calls: list[tuple[tuple[str, ...], dict[str, str]]] = []

    async def __call__(self, argv: Any, env: Mapping[str, str]) -> Finished:
        self.calls.append((tuple(argv), dict(env)))
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome if isinstance(outcome, Finished) else Finished(0, outcome, b"")


def exec_credentials(
    command: Command, clock: ManualClock, certificates: list[ClientCertificate] | None = None
) -> ExecCredentials:
    found = certificates if certificates is not None else []
    return ExecCredentials(
        PLUGIN, clock=clock, run=command, environ={"PATH": "/bin"}, on_certificate=found.append
    )


async def test_a_plugin_runs_once_and_gets_what_it_was_promised() -> None:
    command = Command(credential())
    source = exec_credentials(command, ManualClock())
    assert await shown(source) == "Bearer t1"
    assert await shown(source) == "Bearer t1"
    ((argv, env),) = command.calls
    assert argv == ("get-token", "--for", "me")
    assert (env["PATH"], env["REGION"]) == ("/bin", "x")
    assert json.loads(env["KUBERNETES_EXEC_INFO"]) == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "s"}},
    }


def test_the_cluster_is_told_only_to_who_asks() -> None:
    assert "cluster" not in exec_info(ExecPlugin(V1, "x"))


async def test_a_token_is_renewed_before_it_ends_and_after_a_401() -> None:
    clock = ManualClock()
    ends = format_time(clock.now_s() + 600)
    command = Command(
        credential("t1", expirationTimestamp=ends), credential("t2"), credential("t3")
    )
    source = exec_credentials(command, clock)
    assert await shown(source) == "Bearer t1"
    clock.advance(560.0)
    assert await shown(source) == "Bearer t1"
    clock.advance(15.0)  # within the margin
    assert await shown(source) == "Bearer t2"
    clock.advance(10_000.0)  # no end was named
    assert await shown(source) == "Bearer t2"
    source.reject(SecretText("Bearer t1"))
    assert await shown(source) == "Bearer t2"
    source.reject(SecretText("Bearer t2"))
    assert await shown(source) == "Bearer t3"


async def test_a_plugin_that_hands_out_ended_tokens_is_not_run_for_every_call() -> None:
    clock = ManualClock()
    command = Command(credential(expirationTimestamp=format_time(clock.now_s() - 10)))
    source = exec_credentials(command, clock)
    for _ in range(10):
        await source.authorization()
    assert len(command.calls) == 1


async def test_a_new_certificate_is_handed_on_once() -> None:
    clock = ManualClock()
    pair = {"clientCertificateData": CERT_PEM, "clientKeyData": KEY_PEM}
    command = Command(credential("", **pair))
    certificates: list[ClientCertificate] = []
    source = exec_credentials(command, clock, certificates)
    assert await shown(source) is None
    source.reject(None)
    clock.advance(10.0)
    await source.authorization()
    assert certificates == [ClientCertificate(CERT_PEM, SecretText(KEY_PEM))]


@pytest.mark.parametrize(
    ("outcome", "complaint"),
    [
        (Finished(1, b"secret-token", b"please log in"), "ended with code 1: please log in"),
        (FileNotFoundError(2, "x"), r"cannot be started: No such file.*install it with care"),
        (b"not json secret-token", "printed no ExecCredential"),
        (credential(version="client.authentication.k8s.io/v1beta1"), "v1beta1"),
        (credential(""), "neither a token nor a certificate"),
        (credential(expirationTimestamp="soon"), "unreadable expirationTimestamp"),
    ],
)
async def test_a_plugin_that_fails_is_one_sentence_without_its_output(
    outcome: Any, complaint: str
) -> None:
    source = exec_credentials(Command(outcome), ManualClock())
    with pytest.raises(ConfigError, match=complaint) as caught:
        await source.authorization()
    assert "get-token" in str(caught.value)
    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize(
    ("outcome", "lasting"),
    [
        (FileNotFoundError(2, "x"), True),
        (PermissionError(13, "x"), True),
        (b"garbage", True),
        (credential(version="client.authentication.k8s.io/v1beta1"), True),
        (credential(""), True),
        (credential(expirationTimestamp="soon"), True),
        # A login server may come back; whoever waits is helped.
        (Finished(1, b"", b"no route to the login server"), False),
    ],
)
async def test_a_complaint_about_a_plugin_says_whether_waiting_helps(
    outcome: Any, lasting: bool
) -> None:
    source = exec_credentials(Command(outcome), ManualClock())
    with pytest.raises(ConfigError) as caught:
        await source.authorization()
    assert caught.value.lasting is lasting


async def test_a_plugin_that_fails_is_not_run_for_every_call() -> None:
    clock = ManualClock()
    command = Command(Finished(1, b"", b"no"), credential("t1"))
    source = exec_credentials(command, clock)
    for _ in range(10):
        with pytest.raises(ConfigError, match="ended with code 1"):
            await source.authorization()
    assert len(command.calls) == 1
    clock.advance(5.0)
    assert await shown(source) == "Bearer t1"


async def test_a_token_serves_to_its_end_while_the_plugin_fails_to_renew_it() -> None:
    clock = ManualClock()
    ends = format_time(clock.now_s() + 600)
    failing = Finished(1, b"", b"no")
    command = Command(credential("t1", expirationTimestamp=ends), failing, failing, failing)
    source = exec_credentials(command, clock)
    assert await shown(source) == "Bearer t1"
    clock.advance(580.0)  # within the margin: it is tried, and the old one still counts
    assert await shown(source) == "Bearer t1"
    assert len(command.calls) == 2
    clock.advance(25.0)
    with pytest.raises(ConfigError, match="ended with code 1"):
        await source.authorization()


async def test_a_rejected_token_does_not_come_back_when_the_plugin_fails() -> None:
    clock = ManualClock()
    command = Command(credential("t1"), Finished(1, b"", b"no"))
    source = exec_credentials(command, clock)
    assert await shown(source) == "Bearer t1"
    clock.advance(60.0)
    source.reject(SecretText("Bearer t1"))
    with pytest.raises(ConfigError, match="ended with code 1"):
        await source.authorization()


async def test_a_plugin_that_hangs_is_given_up() -> None:
    class Hanging(Command):
        async def __call__(self, argv: Any, env: Mapping[str, str]) -> Finished:
            await asyncio.sleep(1000)
            raise AssertionError

    source = ExecCredentials(
        PLUGIN,
        clock=ManualClock(),
        run=Hanging(b""),
        environ={},
        on_certificate=lambda _: None,
        timeout_s=0.01,
    )
    with pytest.raises(ConfigError, match="did not end within"):
        await source.authorization()


async def test_a_command_is_killed_when_nobody_waits_for_it_any_more() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run_process(["/bin/sleep", "100"], {})


async def test_many_calls_at_once_run_the_plugin_once() -> None:
    command = Command(credential())
    source = exec_credentials(command, ManualClock())
    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(source.authorization())
    assert len(command.calls) == 1


def test_tokens_do_not_show_in_what_a_plugin_issued() -> None:
    assert "t1" not in repr(decode_issued(PLUGIN, credential("t1")))


async def test_a_real_command_is_run_without_a_shell_or_a_terminal() -> None:
    script = "read x; echo out:$x; echo err >&2; exit 3"
    finished = await run_process(["/bin/sh", "-c", script], {"PATH": "/bin:/usr/bin"})
    assert finished == Finished(3, b"out:\n", b"err\n")


def test_a_plugin_path_is_meant_from_the_kubeconfig(tmp_path: Path) -> None:
    told = {
        "apiVersion": V1,
        "command": "./bin/get-token",
        "args": ["a"],
        "env": [{"name": "N", "value": "v"}],
        "provideClusterInfo": True,
        "installHint": "hint",
    }
    path = written(
        tmp_path, user={"exec": told}, cluster={"certificate-authority-data": b64(CA_PEM)}
    )
    plugin = load_config(path, {}).login.exec_plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "bin/get-token")
    assert (plugin.args, plugin.env, plugin.install_hint) == (("a",), (("N", "v"),), "hint")
    assert plugin.cluster is not None
    assert plugin.cluster["certificate-authority-data"] == b64(CA_PEM)
