"""Every reader of foreign bytes: a usable value, or the error that it documents. Nothing else.

Good examples are bent: cut, doubled, spliced with each other and with the characters that the
readers look for.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.api import go_form, version_gate
from runnerscale.api.ephemeral_runner import EPHEMERAL_RUNNERS
from runnerscale.apiserver import formats, json_path, protobuf, selectors
from runnerscale.apiserver.bodies import decode_any
from runnerscale.apiserver.builtin_kinds import builtin_kinds
from runnerscale.apiserver.failures import ApiFailure
from runnerscale.apiserver.patch import json_patch, merge_patch
from runnerscale.apiserver.paths import parse_request
from runnerscale.apiserver.record import Record
from runnerscale.apiserver.strategic_patch import strategic_patch
from runnerscale.app.problem import Problem
from runnerscale.chart_values.values_file import NotValuesError, read_values
from runnerscale.cli.controller_command import controller_options
from runnerscale.core.clock import parse_time
from runnerscale.core.secret import SecretText
from runnerscale.fake_github.expressions import ExpressionError, compile_expression
from runnerscale.fake_github.workflow import parse_workflow
from runnerscale.fake_github.workflow_yaml import WorkflowError
from runnerscale.kube.errors import BadAnswer, ConfigError
from runnerscale.kube.exec_plugin import ExecPlugin, decode_issued
from runnerscale.kube.kubeconfig import read_kubeconfig
from runnerscale.kube.watch import ResourceDecoder
from runnerscale.kube.yaml_text import NotYaml, load_yaml
from runnerscale.listener import config as listener_config
from runnerscale.listener import workflow_ref
from runnerscale.node import quantity as node_quantity
from runnerscale.node.image import is_reference
from runnerscale.scaleset import answers
from runnerscale.scaleset.answers import SeveralFound
from runnerscale.scaleset.config_url import parse_config_url, without_secrets
from runnerscale.scaleset.decode import DecodeError
from runnerscale.scaleset.errors import InvalidConfigUrl, InvalidProxy
from runnerscale.scaleset.messages import decode_message
from runnerscale.scaleset.proxy import goes_direct, parse_proxy
from tests.properties import examples

JWT = "eyJleHAiOjF9"  # {"exp":1}
SIZE_MAX = 200_000  # of what is made of an input of a few hundred bytes
PODS = next(kind for kind in builtin_kinds() if kind.plural == "pods")
PLUGIN = ExecPlugin(api_version="client.authentication.k8s.io/v1", command="plugin")
ENVIRON = {
    "CONTROLLER_MANAGER_POD_NAMESPACE": "arc-systems",
    "CONTROLLER_MANAGER_CONTAINER_IMAGE": "x:1",
}
POD: dict[str, Any] = {
    "metadata": {"name": "p", "labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "x", "env": [{"name": "A", "value": "1"}]}]},
}


@dataclass(frozen=True, slots=True)
class Parser:
    read: Callable[[bytes], Any]
    errors: tuple[type[Exception], ...]
    examples: tuple[str, ...]


def text_of(data: bytes) -> str:
    return data.decode("utf-8", errors="surrogateescape")


def on_text(read: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: read(text_of(data))


def on_json(read: Callable[[Any], Any]) -> Callable[[bytes], Any]:
    def decoded(data: bytes) -> Any:
        return read(decode_any(data, "application/json"))

    return decoded


def labels(text: str) -> Any:
    match = selectors.parse_labels(text)
    return match and [match({}), match({"a": "b", "n": "7", "x": ""})]


def fields(text: str) -> Any:
    match, name = selectors.parse_fields(text, PODS)
    return name, match and match(RECORD)


def kubeconfig(data: bytes, folder: Path) -> Any:
    path = folder / "config"
    path.write_bytes(data)
    return read_kubeconfig([path])


def flags(text: str) -> Any:
    return controller_options(text.split(" "), ENVIRON)


RECORD = Record(("pods", "ns", "p"), 1, json.loads(json.dumps(POD)), PODS.selectable)
WATCH = ResourceDecoder(EPHEMERAL_RUNNERS)
RUNNER = json.dumps(
    {
        "metadata": {"name": "r", "uid": "u", "resourceVersion": "5"},
        "spec": {"githubConfigUrl": "https://github.com/o", "spec": {"containers": []}},
        "status": {"phase": "Running", "jobId": "j", "runnerId": 7},
    }
)
STATISTICS = '{"totalAvailableJobs":1,"totalAssignedJobs":2,"totalIdleRunners":3}'
MESSAGE = json.dumps(
    {
        "messageId": 1,
        "messageType": "RunnerScaleSetJobMessages",
        "statistics": json.loads(STATISTICS),
        "body": json.dumps([{"messageType": "JobStarted", "runnerId": 5, "runnerName": "r"}]),
    }
)
KUBECONFIG = """clusters:
- name: x
  cluster: {server: 'https://h:6443', proxy-url: 'http://p', certificate-authority: ca.crt}
users:
- name: u
  user: {token: abc, exec: {apiVersion: client.authentication.k8s.io/v1, command: ./x, args: [a]}}
contexts:
- {name: x, context: {cluster: x, user: u, namespace: ns}}
current-context: x
"""
WORKFLOW = """on: push
env: {A: "${{ github.sha }}"}
jobs:
  build:
    runs-on: [self-hosted, linux]
    needs: []
    if: success() && github.ref != 'x'
    timeout-minutes: 5
    strategy: {fail-fast: true, max-parallel: 2, matrix: {os: [a, b], include: [{os: c}]}}
    steps:
      - name: x
        run: echo ${{ matrix.os }}
        shell: bash
"""
LISTENER = """{"configure_url":"https://github.com/o","runner_scale_set_id":1,"min_runners":0,
"max_runners":5,"ephemeral_runner_set_namespace":"n","ephemeral_runner_set_name":"s",
"token":"ghp_x","log_level":"info","metrics":{"counters":{"a":{"labels":["b"]}}}}"""
JSON_PATCH = (
    '[{"op":"add","path":"/metadata/labels/x","value":"1"},'
    '{"op":"copy","from":"/spec/containers/0","path":"/spec/containers/-"},'
    '{"op":"test","path":"/a~1b/~0","value":null},{"op":"remove","path":"/spec"}]'
)
STRATEGIC = (
    '{"spec":{"containers":[{"name":"c","$patch":"delete"},{"name":"d","image":"y"}],'
    '"$setElementOrder/containers":[{"name":"d"}],"$retainKeys":["containers"]},'
    '"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"labels":{"a":null}}}'
)
PROTOBUF = "k8s\x00\n\x04\n\x02v1\x12"
QUANTITIES = ("500m", "1Gi", "1e3", ".5", "-1.5E+2", "0", "100n", "1e-9", "9" * 30, "1E")
HUGE = ("1e999999999", "1E-999999999", "1e99999999999999999999", "9" * 5000, "0." + "9" * 5000)
TIMES = ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.1234567+23:59", "0001-01-01T00:00:00+14:00")
IMAGES = ("ghcr.io/actions/runner:2.1", "localhost:5000/a/b@sha256:" + "a" * 64, "a")

PARSERS: dict[str, Parser] = {
    "message": Parser(decode_message, (DecodeError,), (MESSAGE,)),
    "statistics": Parser(
        answers.decode_session,
        (DecodeError,),
        (f'{{"sessionId":"s","messageQueueUrl":"https://h","statistics":{STATISTICS}}}',),
    ),
    "jit": Parser(
        answers.decode_jit_config,
        (DecodeError,),
        ('{"runner":{"id":5,"name":"r"},"encodedJITConfig":"eA=="}',),
    ),
    "scale set": Parser(
        lambda b: answers.decode_found_scale_set(b, "n"),
        (DecodeError, SeveralFound),
        (f'{{"count":1,"value":[{{"id":1,"name":"n","statistics":{STATISTICS}}}]}}',),
    ),
    "jwt": Parser(
        on_text(lambda t: answers.jwt_expiry_s(SecretText(t))),
        (DecodeError,),
        ("a.eyJleHAiOjF9.b",),
    ),
    "config url": Parser(
        on_text(parse_config_url),
        (InvalidConfigUrl,),
        (
            "https://github.com/org/repo",
            "https://u:p@h:8443/enterprises/x/",
            "http://[::1]:80/a%20b",
        ),
    ),
    "url without secrets": Parser(
        on_text(without_secrets), (), ("https://u:p@h/x?y=z#f", "http://[::1]/a?token=b")
    ),
    "proxy": Parser(
        on_text(parse_proxy), (InvalidProxy,), ("http://u:p%40@h:3128", "https://[::1]:8")
    ),
    "no proxy": Parser(
        on_text(lambda t: goes_direct("api.github.com", 443, t.split(","))),
        (),
        (".github.com,10.0.0.0/8,[::1]:443,*,a:80", "api.github.com:443"),
    ),
    "watch line": Parser(WATCH.line, (BadAnswer,), (f'{{"type":"ADDED","object":{RUNNER}}}',)),
    "list": Parser(
        WATCH.page,
        (BadAnswer,),
        (f'{{"kind":"L","metadata":{{"resourceVersion":"1"}},"items":[{RUNNER}]}}',),
    ),
    "object": Parser(WATCH.object, (BadAnswer,), (RUNNER,)),
    "exec plugin": Parser(
        lambda b: decode_issued(PLUGIN, b),
        (ConfigError,),
        (
            '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",'
            '"status":{"token":"t","expirationTimestamp":"2026-01-02T03:04:05Z"}}',
        ),
    ),
    "label selector": Parser(
        on_text(labels), (ApiFailure,), ("a=b,c!=d", "x in (a,b),!y", "n>5,z notin (),w", "a==")
    ),
    "field selector": Parser(
        on_text(fields), (ApiFailure,), ("metadata.name=a,spec.nodeName!=b", "status.phase==x,")
    ),
    "json patch": Parser(on_json(lambda p: json_patch(POD, p)), (ApiFailure,), (JSON_PATCH,)),
    "merge patch": Parser(
        on_json(lambda p: merge_patch(POD, p)), (ApiFailure,), ('{"spec":null,"a":{"b":[1]}}',)
    ),
    "strategic patch": Parser(
        on_json(lambda p: strategic_patch(POD, p, PODS.type_name)), (ApiFailure,), (STRATEGIC,)
    ),
    "json body": Parser(on_json(lambda v: v), (ApiFailure,), (json.dumps(POD),)),
    "yaml body": Parser(
        lambda b: decode_any(b, "application/yaml"), (ApiFailure,), (KUBECONFIG, "a: &x [1]\nb: *x")
    ),
    "protobuf body": Parser(
        lambda b: decode_any(b, protobuf.CONTENT_TYPE),
        (ApiFailure,),
        ("k8s\x00\n\x04\n\x02v1\x12",),
    ),
    "yaml": Parser(load_yaml, (NotYaml,), (KUBECONFIG, "{<<: {a: 0x1f}, b: !!int 1_0, c: 1:30}")),
    "request path": Parser(
        on_text(lambda t: parse_request("GET", t)),
        (ApiFailure,),
        ("/api/v1/namespaces/a/pods/b/log?x=y&limit=5", "/apis/g/v1/watch/x?labelSelector=a%3Db"),
    ),
    "json path": Parser(
        on_text(lambda t: json_path.find(POD, t)),
        (ApiFailure, ValueError),
        (".spec.containers[0].name", ".status.conditions[?(@.type=='Ready')].status", ".a\\.b[*]"),
    ),
    "workflow": Parser(on_text(parse_workflow), (WorkflowError,), (WORKFLOW,)),
    "expression": Parser(
        on_text(lambda t: compile_expression(t, status_allowed=True)),
        (ExpressionError,),
        ("success() && !(github.ref == 'x' || env.A >= 1.5e3)", "format('{0}', matrix['a'])"),
    ),
    "listener config": Parser(
        listener_config.read_config, (listener_config.ConfigError,), (LISTENER,)
    ),
    "workflow ref": Parser(
        on_text(workflow_ref.parse), (), ("o/r/.github/workflows/x.yml@refs/heads/a",)
    ),
    "chart values": Parser(
        lambda b: read_values("values.yaml", b), (NotValuesError,), ("a: &x {b: 1}\nc: {<<: *x}",)
    ),
    "flags": Parser(
        on_text(flags),
        (Problem,),
        (
            "--metrics-addr=:8080 --auto-scaling-runner-set-only --log-level debug",
            "--leader-election-id=x --runner-max-concurrent-reconciles=010",
            "--lease-duration=1m30s -v",
        ),
    ),
    "quantity of a pod": Parser(on_text(node_quantity.parse_quantity), (ValueError,), QUANTITIES),
    "quantity of a template": Parser(on_text(go_form.quantity), (), QUANTITIES),
    "quantity at the server": Parser(on_text(formats.parse_quantity), (), QUANTITIES),
    "version": Parser(
        on_text(lambda t: version_gate.fits("0.14.2", t)), (), ("0.14.2", "1.2.3-x+y", "00.1")
    ),
    "time": Parser(on_text(parse_time), (ValueError,), TIMES),
    "image": Parser(on_text(is_reference), (), IMAGES),
    "label key": Parser(on_text(formats.label_key), (), ("a.b/c-d", "x")),
    "subdomain": Parser(on_text(formats.dns_subdomain), (), ("a.b-c.d",)),
}
PIECES = [
    *('"', "'", "{", "}", "[", "]", ",", ":", "/", "\\", "=", "!", "(", ")", "%", "@", "#", "&"),
    *("*", "|", ">", "-", ".", " ", "\n", "\r", "\t", "\x00", "\x1b", "\ufeff", "²", "é", "\u2028"),
    *("null", "true", "-1", "1e400", "NaN", "9" * 30, "0x", "1e999999999", "%zz", "[::1", "~1"),
    *("\\ud800", "${{", "}}", "!!int ", "!!bool ", "&a ", "*a", "<<: ", "---\n", "$patch"),
]
NAMES = sorted(PARSERS)


@st.composite
def bent(draw: st.DrawFn, examples: tuple[str, ...]) -> bytes:
    data = draw(st.sampled_from(examples)).encode()
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(data)))
        end = draw(st.integers(start, min(len(data), start + 12)))
        piece = draw(st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=3)))
        way = draw(st.integers(0, 2))
        if way == 0:
            data = data[:start] + piece + data[end:]
        elif way == 1:
            data = data[:end] + data[start:end] * 3 + data[end:]
        else:
            data = data[:start] if start else data[end:]
    return data


def read(name: str, data: bytes, folder: Path | None = None) -> None:
    parser = PARSERS[name]
    try:
        value = parser.read(data)
    except parser.errors as error:
        value = str(error)
    assert len(repr(value)) < SIZE_MAX


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_are_good_ones_or_refused_in_order(name: str) -> None:
    for example in PARSERS[name].examples:
        read(name, example.encode())


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@examples(30)
def test_bent_examples_are_values_or_the_documented_error(name: str, data: st.DataObject) -> None:
    read(name, data.draw(bent(PARSERS[name].examples)))


@pytest.mark.parametrize("name", NAMES)
def test_much_of_the_same_is_a_value_or_the_documented_error(name: str) -> None:
    for piece in PIECES:
        read(name, piece.encode() * 300)
        read(name, PARSERS[name].examples[0].encode() + piece.encode() * 50)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("quantity")])
@pytest.mark.parametrize("text", HUGE, ids=range(len(HUGE)))
def test_a_quantity_of_few_letters_does_not_become_a_gigabyte(name: str, text: str) -> None:
    read(name, text.encode())


@given(data=bent((KUBECONFIG,)))
@examples(40)
def test_bent_kubeconfigs_are_configurations_or_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.getbasetemp()
    try:
        value = kubeconfig(data, folder)
    except ConfigError as error:
        value = str(error)
    assert len(repr(value)) < SIZE_MAX
