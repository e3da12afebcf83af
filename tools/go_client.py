"""GitHub's own Go client against our fake GitHub: `make go-client`.

Builds the program of `tests/kube/scaleset-client` (once, outside the clone), serves the pretended
GitHub four times on loopback (push, acquire, short-lived tokens, HTTPS), runs the program, and
prints what each check came to, and how much of the client it has run. What is checked is the
program's business; `tests/kubernetes/test_go_client.py` is the same for pytest.
"""

import asyncio
import datetime
import hashlib
import ipaddress
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

import kube
from runnerscale.core.clock import SystemClock
from runnerscale.core.randomness import system_random
from runnerscale.core.secret import SecretText
from runnerscale.fake_github.options import AssignmentMode, Options
from runnerscale.fake_github.server import serve_fake_github

SOURCES = kube.MODULES / "scaleset-client"
CLIENT = "github.com/actions/scaleset"
FLAGS = (
    *("-trimpath", "-buildvcs=false", "-cover", "-covermode=atomic"),
    f"-coverpkg=./...,{CLIENT},{CLIENT}/listener",  # ours too: no counts are written otherwise
)
TOKEN = "ghp_known"
APP_ID = "Iv1.known"
INSTALLATION = 321
HOLD_S = 1
RUN_TIMEOUT_S = 600
NAMES = ("ghes.example", "github.localhost", "api.github.localhost")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one check came to."""

    check: str
    ok: bool
    seconds: float
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Covered:
    """A function of the client, and how much of it has run."""

    place: str
    name: str
    percent: float

    @property
    def exported(self) -> bool:
        """Whether somebody outside the client can call it: `Client.GetRunner`, `New`."""
        return all(part[:1].isupper() for part in self.name.split("."))


def folder() -> Path:
    """Where this state of the sources is built."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in [SOURCES / "go.mod", SOURCES / "go.sum", *sorted(SOURCES.glob("*.go"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "runnerscale" / f"go-client-{digest.hexdigest()[:12]}"


def build() -> Path:
    """The program, built if it was not yet; it counts which parts of the client have run."""
    program = folder() / "scaleset-client"
    with kube.alone(folder()):
        if program.is_file():
            return program
        trouble = kube.no_toolchain()
        if trouble:
            sys.exit(f"make go-client cannot build its program: {trouble}")
        unfinished = program.with_suffix(".unfinished")
        done = subprocess.run(
            ["go", "build", *FLAGS, "-o", str(unfinished), "."],
            cwd=SOURCES,
            env={**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=readonly"},
            timeout=kube.BUILD_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            sys.exit("make go-client: the program was not built; Go's own words are above")
        unfinished.replace(program)
    return program


@asynccontextmanager
async def world(place: Path) -> AsyncIterator[dict[str, object]]:
    """The servers and files of one run; what the program is told about them."""
    app_key = _private_key(place / "app")
    _private_key(place / "foreign")
    root = _authority(place / "root.pem", place / "server.pem")
    _authority(place / "foreign-root.pem", place / "foreign-server.pem")
    common = Options(
        poll_hold_s=HOLD_S,
        access_tokens=(SecretText(TOKEN),),
        app_issuer=APP_ID,
        app_installation_id=INSTALLATION,
        app_public_key_pem=app_key,
        runner_groups=("big machines",),
    )
    servers = {
        "push": common,
        "acquire": replace(common, assignment=AssignmentMode.ACQUIRE),
        "short": replace(common, admin_token_life_s=50, queue_token_life_s=2),
        "tls": replace(common, certificate_file=str(root), key_file=str(root)),
    }
    async with AsyncExitStack() as stack:
        urls = {}
        for name, options in servers.items():
            served = serve_fake_github(options, clock=SystemClock(), random=system_random())
            urls[name] = (await stack.enter_async_context(served)).base_url
        yield {
            **urls,
            "hold_s": HOLD_S,
            "token": TOKEN,
            "app_id": APP_ID,
            "installation": INSTALLATION,
            "key_pkcs1": str(place / "app.pkcs1.pem"),
            "key_pkcs8": str(place / "app.pkcs8.pem"),
            "foreign_key": str(place / "foreign.pkcs1.pem"),
            "root_ca": str(place / "root.pem"),
            "foreign_ca": str(place / "foreign-root.pem"),
        }


async def run(program: Path, place: Path, told: dict[str, object], *more: str) -> list[Outcome]:
    """Let the program do its checks.

    Raises:
        RuntimeError: it did not get as far as saying what they came to.
    """
    (place / "world.json").write_text(json.dumps(told))
    (place / "coverage").mkdir(exist_ok=True)
    process = await asyncio.create_subprocess_exec(
        str(program),
        str(place / "world.json"),
        *more,
        env={"PATH": os.environ.get("PATH", ""), "GOCOVERDIR": str(place / "coverage")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(RUN_TIMEOUT_S):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    outcomes = [Outcome(**json.loads(line)) for line in out.decode().splitlines()]
    good = bool(outcomes) and all(each.ok for each in outcomes)
    if good is not (process.returncode == 0):
        raise RuntimeError(f"exit code {process.returncode} after {outcomes}: {err.decode()}")
    return outcomes


def coverage(place: Path) -> list[Covered]:
    """Every function of the client, with the part of it that has run."""
    done = subprocess.run(
        ["go", "tool", "covdata", "func", f"-i={place / 'coverage'}"],
        cwd=SOURCES,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = re.findall(r"^(\S+):\d+:\s+(\S+)\s+([\d.]+)%$", done.stdout, re.MULTILINE)
    return [
        Covered(place=path, name=name.replace("*", ""), percent=float(percent))
        for path, name, percent in rows
        if path.startswith(f"{CLIENT}/")
    ]


def _private_key(stem: Path) -> str:
    """A key in both forms that people have it in; its public half."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    forms = {
        "pkcs1": serialization.PrivateFormat.TraditionalOpenSSL,
        "pkcs8": serialization.PrivateFormat.PKCS8,
    }
    for name, form in forms.items():
        stem.with_suffix(f".{name}.pem").write_bytes(_pem(key, form))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return public.decode()


def _pem(key: rsa.RSAPrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _authority(root_file: Path, server_file: Path) -> Path:
    """A private root, and the certificate and key of a server that it signed."""
    root_key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a private root")])
    root = (
        _certificate(root_name, root_name, root_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    root_file.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fake GitHub")])
    local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    names = x509.SubjectAlternativeName([local, *(x509.DNSName(each) for each in NAMES)])
    server = (
        _certificate(name, root_name, key)
        .add_extension(names, critical=False)
        .sign(root_key, hashes.SHA256())
    )
    text = server.public_bytes(serialization.Encoding.PEM)
    server_file.write_bytes(text + _pem(key, serialization.PrivateFormat.PKCS8))
    return server_file


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )


def show(outcomes: Sequence[Outcome], functions: Sequence[Covered]) -> bool:
    """The table; whether all is well."""
    for each in outcomes:
        print(f"{'ok    ' if each.ok else 'FAILED'} {each.seconds:6.1f} s  {each.check}")
        if each.problem:
            print(f"                 {each.problem}".replace("\n", "\n" + " " * 17))
    exported = [function for function in functions if function.exported]
    mean = sum(function.percent for function in functions) / max(1, len(functions))
    unused = [function for function in exported if not function.percent]
    failed = sum(not each.ok for each in outcomes)
    print(f"checks {len(outcomes)}, failed {failed}")
    print(f"exported functions of {CLIENT}: {len(exported)}, not called: {len(unused)}")
    print(f"functions of it: {len(functions)}, run on average: {mean:.0f} %")
    for function in unused:
        print(f"not called: {function.name} ({function.place})")
    return not failed and not unused and bool(exported)


async def main() -> int:
    """Build, serve, run, print."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    program = build()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        async with world(place) as told:
            outcomes = await run(program, place, told)
            outcomes += await run(program, place, told, "wire")
        well = show(outcomes, coverage(place))
    print(f"{time.monotonic() - began_s:.0f} s")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
