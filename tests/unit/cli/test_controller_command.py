"""The manager's command line as ARC's has it: C3 section 5, flag by flag."""

from dataclasses import replace
from typing import Any

import pytest

from runnerscale.app.controller_manager import ControllerOptions, listener_settings, workers_for
from runnerscale.app.problem import FAILURE, USAGE, Problem, UsageProblem
from runnerscale.cli.boundary import guarded
from runnerscale.cli.controller_command import controller_flags, controller_options
from runnerscale.cli.main import run

ENVIRON = {
    "CONTROLLER_MANAGER_POD_NAMESPACE": "arc-systems",
    "CONTROLLER_MANAGER_CONTAINER_IMAGE": "ghcr.io/runnerscale/runnerscale:0.14.2",
}
# C3 5.1, the table and the list under it: every flag with a value that ARC takes.
EVERY_FLAG = {
    "auto-scaling-runner-set-only": "true",
    "metrics-addr": ":8080",
    "listener-metrics-addr": ":8080",
    "listener-metrics-endpoint": "/metrics",
    "pprof-addr": ":6060",
    "health-probe-bind-address": ":8081",
    "enable-leader-election": "true",
    "leader-election-id": "arc-gha-rs-controller",
    "sync-period": "1m0s",
    "runner-max-concurrent-reconciles": "2",
    "watch-single-namespace": "arc-runners",
    "watch-namespace": "arc-runners",
    "exclude-label-propagation-prefix": "argocd.argoproj.io/",
    "log-level": "info",
    "log-format": "json",
    "auto-scaler-image-pull-secrets": "ghcr",
    "k8s-client-rate-limiter-qps": "20",
    "k8s-client-rate-limiter-burst": "30",
    "workqueue-rate-limiter": "typed_rate_limiter",
    "port": "9443",
    "kubeconfig": "/home/somebody/.kube/config",
    "runner-image": "ghcr.io/actions/actions-runner:latest",
    "docker-image": "docker:dind",
    "docker-gid": "123",
    "runner-image-pull-secret": "ghcr",
    "docker-registry-mirror": "https://mirror.example",
    "github-token": "ghp_x",
    "github-enterprise-url": "https://ghes.example",
    "github-app-id": "1234567",
    "github-app-installation-id": "12345678",
    "github-app-private-key": "key",
    "github-url": "https://api.github.com/",
    "github-upload-url": "https://uploads.github.com/",
    "github-basicauth-username": "u",
    "github-basicauth-password": "p",
    "runner-github-url": "https://github.com",
    "runner-status-update-hook": "false",
    "default-scale-down-delay": "10m0s",
    "common-runner-labels": "linux,x64",
    "update-strategy": "eventual",
    "autoscaling-runner-set-max-concurrent-reconciles": "2",
    "autoscaling-listener-max-concurrent-reconciles": "2",
    "ephemeral-runner-set-max-concurrent-reconciles": "2",
    "ephemeral-runner-max-concurrent-reconciles": "4",
}
SWITCHES = {
    "auto-scaling-runner-set-only",
    "enable-leader-election",
    "runner-status-update-hook",
    "debug",
}


def options(*arguments: str, **environ: str) -> ControllerOptions:
    return controller_options(arguments, {**ENVIRON, **environ})


@pytest.mark.parametrize("dash", ["-", "--"])
@pytest.mark.parametrize("name", EVERY_FLAG)
def test_every_flag_of_arc_is_taken_in_both_spellings(name: str, dash: str) -> None:
    value = EVERY_FLAG[name]
    joined = options(f"{dash}{name}={value}")
    assert isinstance(joined, ControllerOptions)
    if name not in SWITCHES:
        assert options(f"{dash}{name}", value) == joined


def test_every_flag_is_one_of_arcs_or_our_debug() -> None:
    assert set(controller_flags().names) - {"debug"} == EVERY_FLAG.keys()


def test_without_flags_the_defaults_are_those_of_arc() -> None:
    # C3 5.1, column Default; the worker counts are ours (docs/adr/0010).
    assert options() == ControllerOptions(
        namespace="arc-systems",
        image=ENVIRON["CONTROLLER_MANAGER_CONTAINER_IMAGE"],
        log_level="debug",
        log_format="text",
        leader_election=False,
        leader_election_id="actions-runner-controller",
        listener_metrics_addr=":8080",
        listener_metrics_endpoint="/metrics",
        metrics_addr=":8080",
        probe_addr="",
        watch_namespace="",
        pull_secrets=(),
        excluded_label_prefixes=(),
    )


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["--metrics-addr=0"], "metrics_addr", "0"),
        (["--metrics-addr="], "metrics_addr", ":8080"),  # the library's default, not "off"
        (["--pprof-addr=:6060"], "pprof_addr", ":6060"),
        (["--watch-single-namespace=a"], "watch_namespace", "a"),
        (["--watch-namespace=a"], "watch_namespace", "a"),
        (["--watch-namespace=a", "--watch-single-namespace=b"], "watch_namespace", "b"),
        (["--log-level=info", "--log-level=warn"], "log_level", "warn"),  # the last one counts
        (["--leader-election-id", "--x"], "leader_election_id", "--x"),  # Go takes the next word
        (["--enable-leader-election=false"], "leader_election", False),
        (["--exclude-label-propagation-prefix="], "excluded_label_prefixes", ("",)),
        (["--runner-max-concurrent-reconciles=2"], "runner_workers", 50),
        (["--runner-max-concurrent-reconciles=0"], "runner_workers", 50),
        (["--runner-max-concurrent-reconciles=0x40"], "runner_workers", 64),
        (["--runner-max-concurrent-reconciles=0100"], "runner_workers", 64),  # Go's octal
        (["--runner-max-concurrent-reconciles=1_00"], "runner_workers", 100),
        (["--runner-max-concurrent-reconciles=9223372036854775807"], "runner_workers", 1000),
        (["--ephemeral-runner-max-concurrent-reconciles=4"], "runner_workers", 50),
        (["--ephemeral-runner-max-concurrent-reconciles=80"], "runner_workers", 80),
        (
            [
                "--ephemeral-runner-max-concurrent-reconciles=80",
                "--runner-max-concurrent-reconciles=90",
            ],
            "runner_workers",
            90,
        ),
        (["--ephemeral-runner-set-max-concurrent-reconciles=2"], "set_workers", 8),
        (["--ephemeral-runner-set-max-concurrent-reconciles=9"], "set_workers", 9),
        (["--autoscaling-listener-max-concurrent-reconciles=9"], "listener_workers", 9),
        (["--autoscaling-runner-set-max-concurrent-reconciles=9"], "runner_set_workers", 9),
    ],
)
def test_what_a_flag_does(arguments: list[str], field: str, value: Any) -> None:
    assert options(*arguments) == replace(options(), **{field: value})


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("AUTOSCALING_RUNNER_SET", "runner_set_workers"),
        ("AUTOSCALING_LISTENER", "listener_workers"),
        ("EPHEMERAL_RUNNER_SET", "set_workers"),
        ("EPHEMERAL_RUNNER", "runner_workers"),
    ],
)
def test_the_environment_asks_for_workers_as_the_later_flags_do(name: str, field: str) -> None:
    asked = {f"RUNNERSCALE_{name}_MAX_CONCURRENT_RECONCILES": "70"}
    assert options(**asked) == replace(options(), **{field: 70})


def test_workers_are_never_fewer_than_needed_nor_more_than_help() -> None:
    assert [workers_for(wish, own=8) for wish in (0, 8, 9, 10**18)] == [8, 8, 9, 1000]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-flag"],
        ["-no-such-flag=1"],
        ["--enable-leader-election", "false"],  # Go would end reading here, and not tell
        ["--enable-leader-election="],
        ["--enable-leader-election=yes"],
        ["--enable-leader-election=tRUE"],
        ["word"],
        ["--"],
        ["-"],
        [""],
        ["---log-level=info"],
        ["--=info"],
        ["--log-level"],
        ["--port=x"],
        ["--port= 1"],
        ["--port=08"],
        ["--port=1.5"],
        ["--port="],
        ["--port=9223372036854775808"],
        ["--github-app-id=abc"],
        ["--sync-period=1"],
        ["--sync-period=soon"],
        ["--runner-status-update-hook=2"],
    ],
)
def test_a_command_line_that_go_refuses_ends_with_2_and_shows_the_usage(
    arguments: list[str],
) -> None:
    with pytest.raises(UsageProblem, match="usage: runnerscale controller") as caught:
        options(*arguments)
    assert caught.value.exit_code == USAGE


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--no-such-flag"], USAGE, "unknown flag --no-such-flag"),
        (["--log-level=trace"], FAILURE, "--log-level is 'trace'"),
    ],
)
def test_the_process_says_it_on_standard_error_and_ends(
    arguments: list[str],
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    assert run("/manager", arguments) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("time", ["0", "1m", "1m30s", "1.5h", ".5s", "300ms", "-1us", "+2µs"])
def test_a_time_is_written_as_in_go(time: str) -> None:
    assert options(f"--sync-period={time}") == options()


@pytest.mark.parametrize(
    ("arguments", "environ", "words"),
    [
        (["--log-level=trace"], {}, ["--log-level", "debug or info or warn or error"]),
        (["--log-level=-3"], {}, ["--log-level"]),
        (["--log-level=DEBUG"], {}, ["--log-level"]),
        (["--log-level="], {}, ["--log-level"]),
        (["--workqueue-rate-limiter=fast"], {}, ["bucket_rate_limiter or typed_rate_limiter"]),
        (["--runner-max-concurrent-reconciles=-1"], {}, ["--runner-max-concurrent-reconciles"]),
        ([], {"CONTROLLER_MANAGER_POD_NAMESPACE": ""}, ["CONTROLLER_MANAGER_POD_NAMESPACE"]),
        ([], {"CONTROLLER_MANAGER_CONTAINER_IMAGE": ""}, ["CONTROLLER_MANAGER_CONTAINER_IMAGE"]),
        ([], {"GITHUB_APP_ID": "abc"}, ["GITHUB_APP_ID", "no whole number"]),
        ([], {"GITHUB_APP_INSTALLATION_ID": "1.5"}, ["GITHUB_APP_INSTALLATION_ID"]),
        ([], {"RUNNERSCALE_LISTENER_SECURITY": "yes"}, ["RUNNERSCALE_LISTENER_SECURITY"]),
        ([], {"RUNNERSCALE_LISTENER_RESOURCES": "lots"}, ["RUNNERSCALE_LISTENER_RESOURCES"]),
        ([], {"RUNNERSCALE_LISTENER_RESOURCES": '{"requests": 1}'}, ["Write it as"]),
        (
            [],
            {"RUNNERSCALE_EPHEMERAL_RUNNER_MAX_CONCURRENT_RECONCILES": "x"},
            ["RUNNERSCALE_EPHEMERAL_RUNNER_MAX_CONCURRENT_RECONCILES"],
        ),
    ],
)
def test_a_value_that_is_none_ends_the_process_with_1(
    arguments: list[str], environ: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(Problem) as caught:
        options(*arguments, **environ)
    assert caught.value.exit_code == FAILURE
    assert all(word in str(caught.value) for word in words)


def test_a_log_format_that_is_none_ends_the_process_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    assert run("manager", ["--log-format=xml"]) == FAILURE
    said = capsys.readouterr()
    assert "invalid log format: 'xml'. Use text or json." in said.err


def test_what_arc_parses_and_does_not_use_is_read_past() -> None:
    unused = {
        "GITHUB_TOKEN": "ghp_x",
        "GITHUB_APP_ID": "98765432",
        "GITHUB_APP_INSTALLATION_ID": "",
        "GITHUB_APP_PRIVATE_KEY": "key",
        "GITHUB_ENTERPRISE_URL": "https://ghes.example",
        "GITHUB_BASICAUTH_USERNAME": "u",
    }
    assert options(**unused) == options()


def test_the_environment_says_what_listeners_inherit() -> None:
    told = options(
        RUNNERSCALE_LISTENER_SECURITY="restricted",
        RUNNERSCALE_LISTENER_RESOURCES='{"requests":{"cpu":"20m"},"limits":{}}',
        LISTENER_ENTRYPOINT="/other",
    )
    settings = listener_settings(told)
    assert settings.restricted
    assert settings.resources == {"requests": {"cpu": "20m"}, "limits": {}}
    assert settings.entrypoint == "/other"
    silent = listener_settings(options())
    assert (silent.restricted, silent.resources) == (False, None)
    assert silent.entrypoint == "/ghalistener"


@pytest.mark.parametrize(
    ("arguments", "addr", "endpoint"),
    [
        ([], ":8080", "/metrics"),
        (["--listener-metrics-addr=0", "--listener-metrics-endpoint="], "", ""),
        (["--listener-metrics-addr=0"], "", ""),
        (["--listener-metrics-addr=", "--listener-metrics-endpoint=/m"], "", "/m"),
    ],
)
def test_listener_metrics_are_off_for_0_and_for_nothing(
    arguments: list[str], addr: str, endpoint: str
) -> None:
    settings = listener_settings(options(*arguments))
    assert (settings.metrics_addr, settings.metrics_endpoint) == (addr, endpoint)


def test_the_environment_names_the_kubeconfig_where_no_flag_does() -> None:
    assert options(KUBECONFIG="/a").kubeconfig == "/a"
    assert options("--kubeconfig=/b", KUBECONFIG="/a").kubeconfig == "/b"


@pytest.mark.parametrize("word", ["-h", "-help", "--help"])
def test_help_names_every_flag_and_ends_well(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        guarded("runnerscale", lambda: run("manager", [word]), debug=False)
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"--{name}" in shown for name in EVERY_FLAG)
    assert max(len(line) for line in shown.splitlines()) <= 100
