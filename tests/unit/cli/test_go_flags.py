"""ARC's flags as Go reads them; a person's slip is answered with what to do."""

from typing import Any

import pytest

from runnerscale.app.problem import FAILURE, USAGE, Problem, UsageProblem
from runnerscale.cli.boundary import guarded, sentence
from runnerscale.cli.controller_command import controller_flags, controller_options
from runnerscale.cli.people import run_people
from runnerscale.kube.errors import Unreachable

ENVIRON = {
    "CONTROLLER_MANAGER_POD_NAMESPACE": "arc-systems",
    "CONTROLLER_MANAGER_CONTAINER_IMAGE": "ghcr.io/runnerscale/runnerscale:0.1.0",
}


@pytest.mark.parametrize(
    "form",
    [["-log-level", "info"], ["--log-level", "info"], ["-log-level=info"], ["--log-level=info"]],
)
def test_a_flag_may_be_written_in_each_of_gos_forms(form: list[str]) -> None:
    assert controller_flags().read(form)["log-level"] == "info"


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ([], False),
        (["-enable-leader-election"], True),
        (["--enable-leader-election=true"], True),
        (["--enable-leader-election=F"], False),
    ],
)
def test_a_switch_is_on_when_named_and_may_be_given_a_value(form: list[str], value: bool) -> None:
    assert controller_flags().read(form)["enable-leader-election"] is value


def test_a_repeatable_flag_collects_in_order() -> None:
    read = controller_flags().read(
        ["--auto-scaler-image-pull-secrets=a", "-auto-scaler-image-pull-secrets", "b"]
    )
    assert read["auto-scaler-image-pull-secrets"] == ["a", "b"]


@pytest.mark.behaviour("C1 T189")
def test_the_arguments_of_a_released_chart_are_understood() -> None:
    # The list of C1 4.0, as charts 0.14.x render it, with the flag that later releases removed.
    arguments = [
        *("--auto-scaling-runner-set-only", "--enable-leader-election"),
        *("--leader-election-id=arc-gha-rs-controller", "--log-level=debug", "--log-format=json"),
        *("--watch-single-namespace=arc-runners", "--runner-max-concurrent-reconciles=2"),
        *("--update-strategy=immediate", "--listener-metrics-addr=:8080"),
        *("--listener-metrics-endpoint=/metrics", "--metrics-addr=:8080", "--pprof-addr=:6060"),
        *("--exclude-label-propagation-prefix=argocd.argoproj.io/",),
        *("--k8s-client-rate-limiter-qps=20", "--k8s-client-rate-limiter-burst=30"),
        *("--workqueue-rate-limiter=typed_rate_limiter", "--health-probe-bind-address=:8081"),
    ]
    options = controller_options(arguments, ENVIRON)
    assert options.namespace == "arc-systems"
    assert options.leader_election
    assert options.runner_workers == 50  # ARC's 2 is a lower bound here
    assert options.watch_namespace == "arc-runners"
    assert options.excluded_label_prefixes == ("argocd.argoproj.io/",)
    assert options.metrics_addr == ":8080"


@pytest.mark.behaviour("C1 T190")
@pytest.mark.parametrize("name", sorted(ENVIRON))
@pytest.mark.parametrize("value", ["", None])
def test_without_namespace_or_image_the_process_ends_with_1(name: str, value: str | None) -> None:
    environ = {k: v for k, v in ENVIRON.items() if k != name}
    if value is not None:
        environ[name] = value
    with pytest.raises(Problem, match=name) as caught:
        controller_options([], environ)
    assert caught.value.exit_code == FAILURE


@pytest.mark.behaviour("C1 T190")
def test_an_unknown_limiter_ends_the_process_with_1_and_names_the_known_ones() -> None:
    with pytest.raises(Problem, match="typed_rate_limiter") as caught:
        controller_options(["--workqueue-rate-limiter=fast"], ENVIRON)
    assert caught.value.exit_code == FAILURE


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--log-levle=info"], ["unknown flag --log-levle", "Did you mean --log-level?"]),
        (["-watch-single-namespce", "x"], ["Did you mean --watch-single-namespace?"]),
        (["--zzz"], ["unknown flag --zzz", "--help"]),
        (["now"], ["unexpected argument 'now'"]),
        (["--runner-max-concurrent-reconciles=many"], ["'many' is not a whole number"]),
        (["--enable-leader-election=maybe"], ["'maybe' is neither true nor false"]),
        (["--log-level"], ["--log-level"]),
    ],
)
def test_a_slip_is_one_sentence_with_a_remedy(arguments: list[str], words: list[str]) -> None:
    with pytest.raises(UsageProblem) as caught:
        controller_flags().read(arguments)
    assert caught.value.exit_code == USAGE
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["demoo"], 'did you mean "demo"?'),
        (["demo", "--jbos", "3"], "did you mean --jobs?"),
        (["demo", "--jobs", "x"], "--jobs"),
        (["demo", "--jobs", "0"], "1 to 5000"),
        (["demo", "--min", "5", "--max", "2"], "--min is 5 and --max is 2"),
        (["demo", "--jobs", "2", "--workflow", "w.yml"], "Choose one"),
        (["demo", "--fault", "nonsense@3"], "nonsense"),
        (["demo", "--fault", "github-down"], "github-down"),
    ],
)
def test_a_wrong_command_line_is_usage(words: list[str], text: str) -> None:
    with pytest.raises(UsageProblem) as caught:
        run_people(words)
    assert text in str(caught.value)
    assert caught.value.exit_code == USAGE


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Problem("the port 80 is taken", "Choose another"), 1, "the port 80 is taken. Choose"),
        (UsageProblem("no such flag", "See --help"), 2, "no such flag"),
        (Unreachable("connection refused"), 1, "Kubernetes API"),
        (ExceptionGroup("g", [Problem("inner", "mend it")]), 1, "inner. mend it."),
        (PermissionError(13, "Permission denied", "/data"), 1, "/data: Permission denied"),
        (ZeroDivisionError("oops"), 1, "internal error (ZeroDivisionError: oops)"),
    ],
)
def test_every_error_ends_as_a_sentence(error: Exception, code: int, text: str) -> None:
    got_code, got = sentence(error)
    assert got_code == code
    assert text in got
    assert "Traceback" not in got


def test_a_traceback_is_shown_only_when_asked_for(capsys: Any) -> None:
    def work() -> int:
        raise ZeroDivisionError("oops")

    assert guarded("runnerscale", work, debug=False) == 1
    assert "Traceback" not in capsys.readouterr().err
    assert guarded("runnerscale", work, debug=True) == 1
    assert "Traceback" in capsys.readouterr().err
