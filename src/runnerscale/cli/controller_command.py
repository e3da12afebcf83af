"""`runnerscale controller`: ARC's flags and environment, read into the options of the manager.

What each option does is in `app/controller_manager.py`. What ARC's image would refuse as a flag
comes by the environment, so that one chart starts either image.
Contract: charts-and-operations 5, resources-and-controllers 4.0.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from runnerscale.app.controller_manager import (
    RUNNER_WORKERS,
    SET_WORKERS,
    ControllerOptions,
    run_controller_process,
    workers_for,
)
from runnerscale.app.logs import LEVELS
from runnerscale.app.problem import Problem
from runnerscale.app.stall_watch import VARIABLE as STALL_MS
from runnerscale.cli.go_flags import GoFlags

COMMAND = "runnerscale controller"
LIMITERS = ("bucket_rate_limiter", "typed_rate_limiter")
METRICS_ADDR = ":8080"
# Flags of later ARC releases, one for each controller, and what tells ours the same.
WORKER_FLAGS = {
    "autoscaling-runner-set": "runner sets",
    "autoscaling-listener": "listeners",
    "ephemeral-runner-set": "sets of runners",
    "ephemeral-runner": "runners",
}
# Of ARC's older half, which this process has not: charts and scripts may still name them.
LEGACY_TEXTS = (
    "runner-image",
    "docker-image",
    "docker-gid",
    "runner-image-pull-secret",
    "docker-registry-mirror",
    "github-token",
    "github-enterprise-url",
    "github-app-private-key",
    "github-url",
    "github-upload-url",
    "github-basicauth-username",
    "github-basicauth-password",
    "runner-github-url",
    "common-runner-labels",
    "update-strategy",
)
LEGACY_NUMBERS = ("github-app-id", "github-app-installation-id", "port")
LEGACY_SWITCHES = ("runner-status-update-hook",)
LEGACY_DURATIONS = ("default-scale-down-delay", "sync-period")
# Read by ARC at its start, used by its older half only; a text where a number belongs ends it.
NUMBERS_OF_THE_ENVIRONMENT = ("GITHUB_APP_ID", "GITHUB_APP_INSTALLATION_ID")
LISTENER_SECURITY = "RUNNERSCALE_LISTENER_SECURITY"
LISTENER_RESOURCES = "RUNNERSCALE_LISTENER_RESOURCES"


def controller_flags() -> GoFlags:
    """All flags that ARC's charts pass, and ours."""
    flags = GoFlags(
        COMMAND,
        "Reconciles the four kinds, of the whole cluster or with --watch-single-namespace of one.",
    )
    flags.switch("auto-scaling-runner-set-only", "accepted; there is nothing else to run")
    flags.switch("enable-leader-election", "only the holder of a Lease works: for many replicas")
    flags.text("leader-election-id", "actions-runner-controller", "name of the Lease")
    flags.texts("auto-scaler-image-pull-secrets", "pull secret of listener pods; repeatable")
    flags.text("log-level", "debug", "debug, info, warn or error")
    flags.text("log-format", "text", "text or json")
    flags.text("watch-single-namespace", "", "look only at this namespace and our own")
    flags.text("watch-namespace", "", "the same, under an older name")
    told = f"runners looked at side by side; never fewer than {RUNNER_WORKERS}"
    flags.number("runner-max-concurrent-reconciles", 0, told)
    for name, what in WORKER_FLAGS.items():
        own = RUNNER_WORKERS if name == "ephemeral-runner" else SET_WORKERS
        told = f"{what} looked at side by side; never fewer than {own}"
        flags.number(f"{name}-max-concurrent-reconciles", 0, told)
    flags.text("listener-metrics-addr", ":8080", "where listeners serve metrics; 0: nowhere")
    flags.text("listener-metrics-endpoint", "/metrics", "path of the listeners' metrics")
    flags.text("metrics-addr", METRICS_ADDR, "where we serve metrics; 0: nowhere")
    flags.text("health-probe-bind-address", "", "where we serve /healthz and /readyz")
    flags.text("pprof-addr", "", "where we serve /debug/pprof/: tasks, objects, samples")
    flags.texts("exclude-label-propagation-prefix", "labels not copied to children; repeatable")
    flags.number("k8s-client-rate-limiter-qps", 0, "accepted; the server's own flow control rules")
    flags.number("k8s-client-rate-limiter-burst", 0, "accepted, as above")
    flags.text("workqueue-rate-limiter", LIMITERS[0], "accepted; limits are per object")
    flags.text("kubeconfig", "", "outside a cluster: how to reach it")
    flags.switch("debug", "show tracebacks")
    flags.note(
        "Environment: CONTROLLER_MANAGER_POD_NAMESPACE and CONTROLLER_MANAGER_CONTAINER_IMAGE must "
        "be set; LISTENER_ENTRYPOINT is the listeners' command (default /ghalistener); KUBECONFIG "
        f"stands for --kubeconfig; {LISTENER_SECURITY}=restricted and {LISTENER_RESOURCES}=JSON "
        "are what a listener's container has unless a listenerTemplate says otherwise; "
        "RUNNERSCALE_..._MAX_CONCURRENT_RECONCILES is the flag of that name for images that do "
        f"not know it; {STALL_MS}=50 logs what keeps the event loop for so many milliseconds."
    )
    flags.ignored(
        texts=LEGACY_TEXTS,
        numbers=LEGACY_NUMBERS,
        switches=LEGACY_SWITCHES,
        durations=LEGACY_DURATIONS,
    )
    return flags


def controller_options(arguments: Sequence[str], environ: Mapping[str, str]) -> ControllerOptions:
    """Flags and environment together.

    Raises:
        UsageProblem: a flag is unknown or unreadable.
        Problem: a value is not one of those that there are, or the environment lacks what ARC's
            chart sets.
    """
    read: dict[str, Any] = controller_flags().read(arguments)
    _check_choice("--workqueue-rate-limiter", read["workqueue-rate-limiter"], ("", *LIMITERS))
    _check_choice("--log-level", read["log-level"], tuple(LEVELS))
    for name in NUMBERS_OF_THE_ENVIRONMENT:
        _number(environ, name)
    workers = {name: _workers(read, environ, name) for name in WORKER_FLAGS}
    return ControllerOptions(
        namespace=_needed(environ, "CONTROLLER_MANAGER_POD_NAMESPACE", "arc-systems"),
        image=_needed(environ, "CONTROLLER_MANAGER_CONTAINER_IMAGE", "IMAGE-OF-THE-LISTENER"),
        listener_entrypoint=environ.get("LISTENER_ENTRYPOINT", ""),
        listener_restricted=_restricted(environ),
        listener_resources=_resources(environ),
        identity=environ.get("HOSTNAME", ""),
        kubeconfig=read["kubeconfig"] or environ.get("KUBECONFIG", ""),
        leader_election=read["enable-leader-election"],
        leader_election_id=read["leader-election-id"],
        pull_secrets=tuple(read["auto-scaler-image-pull-secrets"]),
        log_level=read["log-level"],
        log_format=read["log-format"],
        watch_namespace=read["watch-single-namespace"] or read["watch-namespace"],
        runner_set_workers=workers["autoscaling-runner-set"],
        listener_workers=workers["autoscaling-listener"],
        set_workers=workers["ephemeral-runner-set"],
        runner_workers=workers["ephemeral-runner"],
        listener_metrics_addr=read["listener-metrics-addr"],
        listener_metrics_endpoint=read["listener-metrics-endpoint"],
        # Empty means the default, as in ARC; "0" is how to have none.
        metrics_addr=read["metrics-addr"] or METRICS_ADDR,
        probe_addr=read["health-probe-bind-address"],
        pprof_addr=read["pprof-addr"],
        excluded_label_prefixes=tuple(read["exclude-label-propagation-prefix"]),
    )


def run_controller(arguments: Sequence[str]) -> int:
    """Run until SIGTERM; the exit code."""
    return run_controller_process(controller_options(arguments, os.environ))


def _check_choice(flag: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        known = " or ".join(choice for choice in choices if choice)
        raise Problem(f"{COMMAND}: {flag} is {value!r}", f"Use {known}")


def _needed(environ: Mapping[str, str], name: str, example: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise Problem(
            f"{COMMAND}: the environment variable {name} is not set",
            f"Set it as ARC's chart does; on your own machine: export {name}={example}",
        )
    return value


def _number(environ: Mapping[str, str], name: str) -> int:
    """A whole number of the environment; 0 when it is not set."""
    text = environ.get(name, "")
    try:
        return int(text or "0")
    except ValueError:
        raise Problem(
            f"{COMMAND}: the environment variable {name} is {text!r}, which is no whole number",
            "Correct it or unset it",
        ) from None


def _workers(read: Mapping[str, Any], environ: Mapping[str, str], name: str) -> int:
    """The largest of all wishes, and of our own number (docs/adr/0010)."""
    flags = [f"{name}-max-concurrent-reconciles"]
    if name == "ephemeral-runner":
        flags.append("runner-max-concurrent-reconciles")
    variable = f"RUNNERSCALE_{flags[0].upper().replace('-', '_')}"
    wishes = {f"--{flag}": int(read[flag]) for flag in flags}
    wishes[variable] = _number(environ, variable)
    for source, wish in wishes.items():
        if wish < 0:
            raise Problem(f"{COMMAND}: {source} is {wish}", "Use at least 1, or leave it out")
    own = RUNNER_WORKERS if name == "ephemeral-runner" else SET_WORKERS
    return workers_for(max(wishes.values()), own=own)


def _restricted(environ: Mapping[str, str]) -> bool:
    value = environ.get(LISTENER_SECURITY, "")
    _check_choice(LISTENER_SECURITY, value, ("", "restricted"))
    return bool(value)


def _resources(environ: Mapping[str, str]) -> dict[str, dict[str, str | int | float]] | None:
    text = environ.get(LISTENER_RESOURCES, "")
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, dict[str, str | int | float]])
    except msgspec.MsgspecError as error:
        raise Problem(
            f"{COMMAND}: {LISTENER_RESOURCES} cannot be read: {error}",
            'Write it as {"requests":{"cpu":"20m","memory":"64Mi"}}, or unset it',
        ) from None
