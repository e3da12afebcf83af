"""`runnerscale controller`: ARC's flags and environment, read into the options of the manager.

What each option does is in `app/controller_manager.py`. Contract: resources-and-controllers 4.0.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from runnerscale.app.controller_manager import ControllerOptions, run_controller_process
from runnerscale.app.problem import Problem
from runnerscale.cli.go_flags import GoFlags

COMMAND = "runnerscale controller"
LIMITERS = ("bucket_rate_limiter", "typed_rate_limiter")


def controller_flags() -> GoFlags:
    """All flags that ARC's charts pass, and ours."""
    flags = GoFlags(
        COMMAND,
        "Reconciles the four kinds, of the whole cluster or with --watch-single-namespace of one.",
    )
    flags.switch("auto-scaling-runner-set-only", "accepted; there is nothing else to run")
    flags.switch("enable-leader-election", "only the holder of a Lease works; for replicas > 1")
    flags.text("leader-election-id", "runnerscale-controller", "name of the Lease")
    flags.texts("auto-scaler-image-pull-secrets", "pull secret of listener pods; repeatable")
    flags.text("log-level", "debug", "debug, info, warn or error")
    flags.text("log-format", "text", "text or json")
    flags.text("watch-single-namespace", "", "look only at this namespace and our own")
    flags.number("runner-max-concurrent-reconciles", 50, "runners looked at side by side")
    flags.text("listener-metrics-addr", ":8080", "where listeners serve metrics; 0: nowhere")
    flags.text("listener-metrics-endpoint", "/metrics", "path of the listeners' metrics")
    flags.text("metrics-addr", ":8080", "where we serve metrics; 0: nowhere")
    flags.text("health-probe-bind-address", "", "where we serve /healthz and /readyz")
    flags.text("pprof-addr", "", "accepted; there is no pprof in Python")
    flags.texts("exclude-label-propagation-prefix", "labels not copied to children; repeatable")
    flags.number("k8s-client-rate-limiter-qps", 0, "accepted; the server's own flow control rules")
    flags.number("k8s-client-rate-limiter-burst", 0, "accepted, as above")
    flags.text("workqueue-rate-limiter", LIMITERS[0], "accepted; limits are per object")
    flags.text("update-strategy", "", "accepted; updates never take the listener away")
    flags.text("kubeconfig", "", "outside a cluster: how to reach it")
    flags.switch("debug", "show tracebacks")
    return flags


def controller_options(arguments: Sequence[str], environ: Mapping[str, str]) -> ControllerOptions:
    """Flags and environment together.

    Raises:
        UsageProblem: a flag is unknown or unreadable.
        Problem: the environment lacks what ARC's chart sets.
    """
    read: dict[str, Any] = controller_flags().read(arguments)
    limiter = read["workqueue-rate-limiter"]
    if limiter not in LIMITERS:
        raise Problem(
            f"{COMMAND}: --workqueue-rate-limiter is {limiter!r}",
            f"Use {' or '.join(LIMITERS)}",
        )
    workers = read["runner-max-concurrent-reconciles"]
    if workers < 1:
        raise Problem(
            f"{COMMAND}: --runner-max-concurrent-reconciles is {workers}", "Use at least 1"
        )
    return ControllerOptions(
        namespace=_needed(environ, "CONTROLLER_MANAGER_POD_NAMESPACE", "arc-systems"),
        image=_needed(environ, "CONTROLLER_MANAGER_CONTAINER_IMAGE", "IMAGE-OF-THE-LISTENER"),
        listener_entrypoint=environ.get("LISTENER_ENTRYPOINT", ""),
        identity=environ.get("HOSTNAME", ""),
        kubeconfig=read["kubeconfig"] or environ.get("KUBECONFIG", ""),
        leader_election=read["enable-leader-election"],
        leader_election_id=read["leader-election-id"],
        pull_secrets=tuple(read["auto-scaler-image-pull-secrets"]),
        log_level=read["log-level"],
        log_format=read["log-format"],
        watch_namespace=read["watch-single-namespace"],
        runner_workers=workers,
        listener_metrics_addr=read["listener-metrics-addr"],
        listener_metrics_endpoint=read["listener-metrics-endpoint"],
        metrics_addr=read["metrics-addr"],
        probe_addr=read["health-probe-bind-address"],
        excluded_label_prefixes=tuple(read["exclude-label-propagation-prefix"]),
    )


def run_controller(arguments: Sequence[str]) -> int:
    """Run until SIGTERM; the exit code."""
    return run_controller_process(controller_options(arguments, os.environ))


def _needed(environ: Mapping[str, str], name: str, example: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise Problem(
            f"{COMMAND}: the environment variable {name} is not set",
            f"Set it as ARC's chart does; on your own machine: export {name}={example}",
        )
    return value
