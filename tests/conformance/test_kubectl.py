"""kubectl says about each server what it said about a real kube-apiserver.

The words in `golden/kubectl/` are kubectl's own; what it says depends on discovery, on schemas,
tables, patches and Status bodies, so these flows ask for much that no single request shows.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from runnerscale.core.randomness import system_random
from tests.conformance.comparable import AGE, QUOTED_OBJECT, TIME, UID, Comparer
from tests.conformance.conftest import KubectlServer
from tests.conformance.kubectl_flows import FLOWS, Flow

GOLDEN = Path(__file__).parent / "golden" / "kubectl"
KUBECTL = Path(sys.executable).parent / "kubectl"
COMMAND_TIMEOUT_S = 90.0

CLEANED = (
    (UID, "<uid>"),
    (TIME, "<time>"),
    (re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r"(resourceVersion\"?: \"?|Resource Version: +)\d+"), r"\1<version>"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-<name>"),
    (re.compile(r"JTI=\S+?(?=[\]\s])"), "JTI=<uid>"),
    (re.compile(rf"(?<=\s){AGE.pattern}(?=\s|$)"), "<age>"),
    (re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL), "<ca>"),
    (re.compile(r"(?<=\S)[ \t]+"), " "),  # columns are as wide as an age
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)


async def transcript(server: KubectlServer, flow: Flow, home: Path) -> str:
    """What was typed and what came back, without what differs between two runs."""
    values = {"ns": f"kubectl-{system_random().randrange(10**9):09d}"}
    prefix = ("create", "namespace", values["ns"])
    await kubectl(server, prefix, "", values, home)
    wait = ("wait", "--for=create", "--timeout=30s", "sa/default", "cm/kube-root-ca.crt")
    await kubectl(server, wait, "", values, home)
    lines = []
    for line, given in flow.commands:
        plain, _, saved = line.partition(" # ")
        arguments = tuple(filled(word, values) for word in words(plain))
        code, said = await kubectl(server, arguments, filled(given, values), values, home)
        if saved:
            values[saved] = said.strip()
            said = ""  # what is saved, or depends on who was faster, is not compared
        lines.append(f"$ kubectl {plain}\n{cleaned(said, server, values)}[{code}]\n")
    await kubectl(server, ("delete", "namespace", values["ns"], "--wait=false"), "", values, home)
    return "".join(lines)


def words(line: str) -> list[str]:
    """As a shell splits them; JSON needs no quotes here."""
    return [word for word in re.findall(r"""(?:[\[{][^ ]*[\]}]|[^ ]+)""", line) if word]


def filled(text: str, values: dict[str, str]) -> str:
    for name in ("ns", "uid"):
        text = text.replace("{" + name + "}", values.get(name, ""))
    return text


def cleaned(text: str, server: KubectlServer, values: dict[str, str]) -> str:
    text = QUOTED_OBJECT.sub(Comparer(values, server.address).quoted, text)
    text = text.replace(values["ns"], "<ns>").replace(server.address, "<address>")
    for pattern, shown in CLEANED:
        text = pattern.sub(shown, text)
    return text if not text or text.endswith("\n") else f"{text}\n"


async def kubectl(
    server: KubectlServer,
    arguments: tuple[str, ...],
    given: str,
    values: dict[str, str],
    home: Path,
) -> tuple[int, str]:
    """The exit code, and what was said on both streams."""
    process = await asyncio.create_subprocess_exec(
        str(KUBECTL),
        *("-n", values["ns"]),
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(server.kubeconfig), "HOME": str(home)},
    )
    async with asyncio.timeout(COMMAND_TIMEOUT_S):
        out, err = await process.communicate(given.encode())
    return process.returncode or 0, out.decode() + err.decode()


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
async def test_kubectl_says_what_it_says_of_kubernetes(
    kubectl_server: KubectlServer, flow: Flow, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.node.callspec.params["kubectl_server"]
    request.node.user_properties += [("case", f"kubectl: {flow.name}"), ("server", server)]
    request.node.user_properties.append(("requests", len(flow.commands)))
    found = await transcript(kubectl_server, flow, tmp_path)
    path = GOLDEN / f"{flow.name}.txt"
    if os.environ.get("RUNNERSCALE_CONFORMANCE_RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(found)
    assert found.splitlines() == path.read_text().splitlines()


def test_every_recorded_flow_is_still_typed() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == sorted(f.name for f in FLOWS)
