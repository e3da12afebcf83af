"""Tokens, files, addresses and certificates of the parts that run on one machine."""

import ast
import asyncio
import inspect
import math
import ssl
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import msgspec
import pytest
from structlog.testing import capture_logs

from runnerscale.api.crds import crd_documents
from runnerscale.apiserver.authentication import Authenticator
from runnerscale.apiserver.credentials import (
    IdentityRequest,
    ensure_identities,
    ensure_signing_key,
)
from runnerscale.apiserver.server import (
    ApiServerOptions,
    CannotServe,
    check_loopback,
    run_api_server,
)
from runnerscale.app import single_machine
from runnerscale.app.api_server import ensure_token
from runnerscale.core.clock import ManualClock, SystemClock
from runnerscale.core.randomness import seeded, system_random
from runnerscale.core.secret import SecretText
from runnerscale.fake_github.by_secret import BySecret, same_secret
from runnerscale.fake_github.ids import new_token
from runnerscale.fake_github.options import Options, OptionsInvalid
from runnerscale.fake_github.server import serve_fake_github
from runnerscale.kube.cluster import ClusterConfig, open_client
from runnerscale.node import node_server, pod_spec
from runnerscale.node.attempt_files import NodeFolder, PodRef
from runnerscale.node.questions import Questions, SystemNetwork
from runnerscale.scaleset.trust import tls_context
from tests.unit.apiserver.harness import CM, KEY, serving
from tests.unit.security.test_bodies import api_server, node

SOURCE = Path(__file__).resolve().parents[3] / "src" / "runnerscale"
BITS_MIN = 128


def bits(token: str, alphabet: int) -> float:
    return len(token) * math.log2(alphabet)


def test_tokens_are_too_long_to_guess_and_never_the_same(tmp_path: Path) -> None:
    wanted = (IdentityRequest("a"), IdentityRequest("b"))
    found = [
        identity.token.reveal()
        for number in range(20)
        for identity in ensure_identities(tmp_path / f"{number}.json", wanted)
    ]
    found += [ensure_token(tmp_path / f"{number}.token").reveal() for number in range(20)]
    assert len(set(found)) == 60
    assert min(bits(token, 64) for token in found) >= BITS_MIN
    keys = {ensure_signing_key(tmp_path / f"{number}.key").reveal() for number in range(20)}
    assert len(keys) == 20
    assert min(bits(key, 16) for key in keys) >= 256


def test_what_the_pretended_github_gives_out_cannot_be_foretold() -> None:
    # A Mersenne Twister is known after 624 of its numbers; the machine's own randomness is not.
    assert type(system_random()).__name__ == "SystemRandom"
    assert bits(new_token(system_random()), 16) >= BITS_MIN
    with pytest.raises(NotImplementedError):
        system_random().getstate()


async def test_a_token_of_an_account_is_signed_and_bound() -> None:
    async with serving() as api:
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        token = str((await api.create(f"{path}/token", {"spec": {}}))["status.token"])
        claims = jwt.decode(token, options={"verify_signature": False})
        forged = [
            jwt.encode(claims, "", algorithm="none"),
            jwt.encode(claims, "x" * 64, algorithm="HS256"),
            jwt.encode(claims, KEY.reveal() * 2, algorithm="HS512"),
            token.rpartition(".")[0] + ".",
        ]
        assert [(await api.get(CM, token=each)).code for each in forged] == [401] * 4
        again = jwt.encode(claims, KEY.reveal(), algorithm="HS256")
        assert (await api.get(CM, token=again)).code == 403  # known, and without a right
        assert (await api.delete(path)).code == 200
        assert (await api.get(CM, token=again)).code == 401  # bound to an account that is there


ODD = [b"\xff\xfe", b"a.b.c", b"\xc3\xa9.x.y", b"e30.e30.e30", b"x" * 7000, b"bnVsbA.bnVsbA.x"]


@pytest.mark.parametrize("token", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("open_server", [api_server, node])
async def test_a_token_of_any_bytes_is_only_a_wrong_token(
    open_server: Any, token: bytes, tmp_path: Path
) -> None:
    async with open_server(tmp_path) as (url, _):
        port, path = int(url.split(":")[2].split("/")[0]), url.split("/", 3)[3]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n".encode()
        writer.write(head + b"Authorization: Bearer " + token + b"\r\n\r\n")
        assert (await reader.read(200)).split(b" ")[1] == b"401"
        writer.close()


@pytest.mark.parametrize(
    "path", ["api/v3/orgs/o/actions/runners/registration-token", "control/jobs"]
)
async def test_the_pretended_github_refuses_any_bytes_too(path: str) -> None:
    wanted = Options(access_tokens=(SecretText("good"),), control_token=SecretText("good"))
    async with serve_fake_github(wanted, clock=SystemClock(), random=seeded(1)) as fake:
        port = int(fake.base_url.rpartition(":")[2])
        for token in ODD:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            head = f"POST /{path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n".encode()
            writer.write(head + b"Authorization: Bearer " + token + b"\r\n\r\n")
            code = (await reader.read(200)).split(b" ")[1]
            writer.close()
            assert code == b"401", token


def calls_of(function: Any) -> set[str]:
    tree = ast.parse(inspect.getsource(inspect.getmodule(function)))  # type: ignore[arg-type]
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_tokens_are_compared_in_constant_time_or_found_by_digest() -> None:
    for function in (Authenticator, node_server.NodeServer, same_secret):
        assert "hmac.compare_digest" in calls_of(function)
    book: BySecret[int] = BySecret(2)
    for number, secret in enumerate(("one", "two", "three")):
        book.put(secret, number)
    assert (book.get("one"), book.get("three"), len(book)) == (None, 2, 2)
    assert "three" not in str(book.__dict__)
    assert same_secret("a", "a") and not same_secret("a", "b") and not same_secret("", "\udcff")


async def test_a_verified_token_is_kept_by_its_digest_only() -> None:
    async with serving() as api:
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        token = str((await api.create(path, {"spec": {}}))["status.token"])
        assert (await api.get(CM, token=token)).code == 403
        kept = api.server.authenticator._verified
        assert kept and all(len(key) == 32 and token.encode() not in key for key in kept)
        assert jwt.get_unverified_header(token)["alg"] == "HS256"


def test_no_token_is_on_a_command_line_or_in_the_environment_of_a_part() -> None:
    machine = single_machine.Machine(
        Path("/data"),
        single_machine.free_ports(),
        None,
        None,
        seeded(1),  # type: ignore[arg-type]
    )
    children = [machine._api_server(), machine._github(), machine._node(), machine._controller()]
    for child in children:
        words = [*child.argv, *child.environ.values()]
        secret = [w for w in words if "token" in w.lower() and not w.startswith("/data/")]
        assert secret in ([], ["--token-file"]), child.name
        assert all(len(word) < 200 for word in words)


async def served(tmp_path: Path) -> None:
    ready = asyncio.Event()
    options = ApiServerOptions(
        data_dir=tmp_path / "api", crds=crd_documents(), on_ready=lambda _: ready.set()
    )
    task = asyncio.get_running_loop().create_task(
        run_api_server(options, clock=SystemClock(), random=seeded(1))
    )
    await ready.wait()
    task.cancel()
    await asyncio.wait([task])


async def test_nobody_else_can_read_the_data_folder(tmp_path: Path) -> None:
    await served(tmp_path)
    folder = tmp_path / "api"
    public = {"ca.crt", "server.crt"}
    modes = {
        path.relative_to(folder).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in [folder, *folder.rglob("*")]
    }
    assert {"tokens.json", "service-account.key", "objects.sqlite"} <= set(modes)
    assert modes["."] & 0o077 == 0
    for name, mode in modes.items():
        if name.rpartition("/")[2] not in public:
            assert mode & 0o077 == 0, (name, oct(mode))


def test_the_folders_on_the_way_are_private_too(tmp_path: Path) -> None:
    NodeFolder(tmp_path / "a" / "b").admit(PodRef("ns", "p", "u1"), 5)
    ensure_token(tmp_path / "x" / "y" / "token")
    for name in ("a", "a/b", "a/b/pods", "a/b/pods/u1", "x", "x/y"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700, name


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_the_embedded_servers_listen_on_loopback_only(host: str) -> None:
    with pytest.raises(CannotServe, match="loopback only"):
        check_loopback(host)
    with pytest.raises(OptionsInvalid, match="host"):
        Options(host=host)
    assert node_server.LOOPBACK == "127.0.0.1"


def unchecked_in(path: Path) -> Iterator[str]:
    for each in ast.walk(ast.parse(path.read_text())):
        off = isinstance(each, ast.Attribute) and each.attr == "CERT_NONE"
        off |= (
            isinstance(each, ast.keyword)
            and each.arg in ("ssl", "verify_ssl", "verify")
            and isinstance(each.value, ast.Constant)
            and each.value.value is False
        )
        if off:
            yield path.relative_to(SOURCE).as_posix()


def test_certificates_are_left_unchecked_in_three_places_only() -> None:
    paths = [p for p in sorted(SOURCE.rglob("*.py")) if "ssl" in p.read_text()]
    found = [name for path in paths for name in unchecked_in(path)]
    # Two behind a flag that is logged; probes judge no certificate, as kubelet's do not.
    assert found == ["kube/cluster.py", "node/questions.py", "scaleset/trust.py"]


@pytest.mark.parametrize("insecure", [False, True])
async def test_an_unchecked_api_server_is_logged(insecure: bool) -> None:
    config = ClusterConfig("https://h:6443", insecure=insecure, source="kubeconfig k")
    with capture_logs() as lines:
        client = open_client(config, clock=ManualClock(), random=seeded(1))
    await client.close()
    told = [line for line in lines if "certificate is not checked" in line["event"]]
    assert [line["asked_by"] for line in told] == (
        ["insecure-skip-tls-verify in kubeconfig k"] if insecure else []
    )


@pytest.mark.parametrize("verify", [True, False])
def test_an_unchecked_github_is_logged(verify: bool) -> None:
    with capture_logs() as lines:
        context = tls_context(verify=verify)
    assert (context.verify_mode is ssl.CERT_REQUIRED) is verify
    assert context.check_hostname is verify
    assert bool([line for line in lines if "not checked" in line["event"]]) is not verify


ODD_PROBES = [
    {"http_get": {"port": 80, "host": "a" * 300}},
    {"http_get": {"port": 80, "httpHeaders": [{"name": "A", "value": "b\r\nHost: evil"}]}},
    {"http_get": {"port": 99_999}},
    {"tcp_socket": {"port": 99_999}},
    {"tcp_socket": {"port": 80, "host": "a..b"}},
    {"tcp_socket": {"port": 80, "host": "x\x00y"}},
]


@pytest.mark.parametrize("probe", ODD_PROBES, ids=range(len(ODD_PROBES)))
async def test_a_probe_that_cannot_be_asked_is_a_bad_answer(probe: dict[str, Any]) -> None:

    ((field, action),) = probe.items()
    name = "httpGet" if field == "http_get" else "tcpSocket"
    read = msgspec.convert({name: action}, pod_spec.Probe)
    container = msgspec.convert({"name": "c", "image": "x"}, pod_spec.Container)
    network = SystemNetwork()
    try:
        questions = Questions(network, None)  # type: ignore[arg-type]
        assert await questions.ask(None, container, read, timeout_s=5.0)  # type: ignore[arg-type]
    finally:
        await network.close()
