"""`runnerscale migrate check` against a served API: what it prints, asks for, and ends with."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from runnerscale.app.api_check import OURS
from runnerscale.cli.controller_command import controller_flags
from runnerscale.cli.main import run
from runnerscale.cli.migrate_command import IDLE_FLAGS
from runnerscale.kube import served
from runnerscale.migration.findings import Weight
from tests.arc.objects import Arc

Json = dict[str, Any]
ARC = Arc()
GHA = "/apis/actions.github.com/v1alpha1"


class Server:
    """Answers GETs from a dictionary, pages of one object each; remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        names = [f"{each.plural}{sub}" for each in OURS for sub in ("", "/status")]
        self.answers: dict[str, Any] = {
            GHA: {"resources": [{"name": name} for name in names]},
            f"{GHA}/autoscalingrunnersets": [with_uid(ARC.runner_set(), "a")],
            f"{GHA}/ephemeralrunnersets": [with_uid(ARC.ephemeral_runner_set("a"), "s")],
            f"{GHA}/autoscalinglisteners": [with_uid(ARC.autoscaling_listener(), "l")],
            f"{GHA}/ephemeralrunners": [
                with_uid(ARC.ephemeral_runner(f"r{n}", "s"), f"r{n}") for n in range(3)
            ],
            "/openapi/v3/apis/actions.github.com/v1alpha1": {"components": {"schemas": {}}},
        }
        self.forbidden: set[str] = set()
        self.missing: set[str] = set()

    def answer(self, path: str, query: dict[str, list[str]]) -> tuple[int, Any]:
        if path in self.forbidden:
            return 403, status(403, "Forbidden", f"you cannot list {path.rpartition('/')[2]}")
        if path in self.missing:
            return 404, status(404, "NotFound", f"{path} not found")
        found = self.answers.get(path, [])
        if not isinstance(found, list):
            return 200, found
        begin = int(query.get("continue", ["0"])[0])
        more = str(begin + 1) if begin + 1 < len(found) else ""
        return 200, {"items": found[begin : begin + 1], "metadata": {"continue": more}}


def with_uid(item: Json, uid: str) -> Json:
    item["metadata"]["uid"] = uid
    return item


def status(code: int, reason: str, message: str) -> Json:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


@contextmanager
def serving(server: Server) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            server.asked.append(("GET", parts.path))
            code, body = server.answer(parts.path, parse_qs(parts.query))
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    def refuse(handler: Handler) -> None:
        server.asked.append((handler.command, handler.path))
        handler.send_error(405)

    for verb in ("POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{verb}", refuse)
    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "config"


def point(kubeconfig: Path, url: str) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(json.dumps(document))


def checked(server: Server, kubeconfig: Path, *words: str) -> int:
    with serving(server) as url:
        point(kubeconfig, url)
        return run("runnerscale", ["migrate", "check", "--kubeconfig", str(kubeconfig), *words])


def test_a_healthy_installation_is_told_in_sentences_and_only_looked_at(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    assert checked(server, kubeconfig) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "Nothing stands in the way of taking over 1 runner set."
    assert "changes: AutoscalingRunnerSet arc-runners/set: its listener" in out
    assert {verb for verb, _ in server.asked} == {"GET"}
    runners = [path for _, path in server.asked if path == f"{GHA}/ephemeralrunners"]
    assert len(runners) == 3  # page by page


def test_what_stands_in_the_way_is_told_first_and_ends_with_1(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    server.answers[f"{GHA}/autoscalingrunnersets"][0]["spec"]["githubConfigUrl"] = "nowhere"
    assert checked(server, kubeconfig) == 1
    assert capsys.readouterr().out.startswith("in the way: AutoscalingRunnerSet arc-runners/set:")


def test_what_is_forbidden_is_named_and_the_rest_is_told(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    server.forbidden = {"/apis/rbac.authorization.k8s.io/v1/clusterroles"}
    assert checked(server, kubeconfig) == 0
    out = capsys.readouterr().out
    assert "not seen: clusterroles could not be looked at: you cannot list clusterroles" in out
    server.forbidden = {f"{GHA}/autoscalingrunnersets"}
    assert checked(server, kubeconfig) == 2


def test_one_namespace_is_asked_for_where_that_is_all_one_may_see(kubeconfig: Path) -> None:
    server = Server()
    checked(server, kubeconfig, "--namespace", "arc-runners")
    paths = {path for _, path in server.asked}
    assert f"{GHA}/namespaces/arc-runners/autoscalingrunnersets" in paths
    assert f"{GHA}/autoscalingrunnersets" not in paths


def test_json_says_the_same(kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(Server(), kubeconfig, "--output", "json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["exitCode"] == 0
    assert {each["topic"] for each in report["findings"]} >= {"adopted", "listener-restart"}
    assert set(report) == {"summary", "exitCode", "findings", "unseen"}


@pytest.mark.parametrize("output", ["text", "json"])
def test_what_a_terminal_would_obey_is_not_printed(
    output: str, kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    hostile = "\x1b[2J\x9b31m\u202e\r\nnothing stands in the way"
    server.answers[f"{GHA}/autoscalingrunnersets"][0]["spec"]["githubConfigUrl"] = hostile
    server.answers[f"{GHA}/autoscalingrunnersets"][0]["metadata"]["finalizers"] = [hostile]
    server.answers[f"{GHA}/autoscalinglisteners"][0]["spec"]["image"] = hostile
    assert checked(server, kubeconfig, "--output", output) == 1
    out = capsys.readouterr().out
    assert "nothing stands in the way" in out
    assert all(c.isprintable() or c == "\n" for c in out)
    assert not any(line.startswith("nothing") for line in out.splitlines())


def test_a_cluster_without_the_kinds_has_nothing_to_take_over(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    server.answers[GHA] = {"resources": []}
    assert checked(server, kubeconfig) == 2
    assert capsys.readouterr().out.endswith("There is nothing to take over.\n")


def test_a_namespace_that_is_not_there_is_one_sentence_and_2(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    server.missing.add("/api/v1/namespaces/nosuch")
    assert checked(server, kubeconfig, "--namespace", "nosuch") == 2
    said = "Namespace nosuch does not exist: there is nothing to take over.\n"
    assert capsys.readouterr().out == said


def test_who_may_not_read_namespaces_is_judged_by_what_is_in_it(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    server.forbidden.add("/api/v1/namespaces/arc-runners")
    assert checked(server, kubeconfig, "--namespace", "arc-runners") == 2  # nothing is in it
    assert "In namespace arc-runners there are no runner sets" in capsys.readouterr().out


def test_a_cluster_that_cannot_be_reached_is_one_sentence_and_2(
    kubeconfig: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "TIMEOUT_S", 2.0)  # for so long it is asked again
    point(kubeconfig, "http://127.0.0.1:1")
    assert run("runnerscale", ["migrate", "check", "--kubeconfig", str(kubeconfig)]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("not seen: the Kubernetes API cannot be used")
    assert lines[-1] == "The cluster could not be looked at."


def test_a_kubeconfig_that_is_not_there_is_one_sentence_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "nothing")
    assert run("runnerscale", ["migrate", "check", "--kubeconfig", missing]) == 2
    assert "nothing" in capsys.readouterr().out


def test_wrong_usage_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("runnerscale", ["migrate", "check", "--output", "xml"]) == 2
    assert "xml" in capsys.readouterr().err


def test_flags_that_are_called_idle_are_flags_of_the_controller() -> None:
    assert set(IDLE_FLAGS) <= set(controller_flags().names)


def test_the_page_says_what_each_of_its_words_means() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "migrating-from-arc.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| *")]
    assert [row.split("*")[1] for row in rows] == [*(str(weight) for weight in Weight), "not seen"]
