"""The page of metrics: what each process publishes, read from its own registry."""

from collections.abc import Iterable
from typing import Any

HEAD = """# Metrics

Made by `make generate` from the code; do not edit. The controller serves `/metrics` where
`--metrics-addr` says, each listener where `--listener-metrics-addr` and
`--listener-metrics-endpoint` say (port name `metrics`); both in Prometheus' text format. How they
are scraped, shown and watched: [operations.md](operations.md#monitoring). A histogram is published
as `_bucket`, `_sum` and `_count`; there are no `_created` series.

*Running* and *busy* mean that a job has been assigned to the runner, never that a pod is up.
*Pending* runners have no job: they start, or are online and idle.
"""
CONTROLLER = """
## Controller

Queues, passes, API client and lease are named as a Go controller names them (client-go and
controller-runtime). `go_*` and `certwatcher_*` do not exist: there is no Go runtime, and the
process opens no TLS port; `process_*` is the same, and `python_*` stands in for the rest.
"""
LISTENER = """
## Listener

The labels are those without a setting; `listenerMetrics` of the chart chooses others (see
[operations.md](operations.md#monitoring)). At most 100 combinations of labels are kept for a
metric; what is beyond is counted under the label value `other`.
"""
NODE = """
## Single machine only

Published by `runnerscale node` and `runnerscale api-server`, which stand in for kubelet and
kube-apiserver.
"""
ROW = "| `{name}` | {kind} | {labels} | {text} |"


def render() -> str:
    """The page."""
    parts = [HEAD]
    for text, families in ((CONTROLLER, controller()), (LISTENER, listener()), (NODE, node())):
        parts += [text, "| name | type | labels | meaning |", "|---|---|---|---|"]
        parts += [ROW.format(name=n, kind=k, labels=x, text=t) for n, k, x, t in families]
    return "\n".join(parts) + "\n"


Row = tuple[str, str, str, str]


def controller() -> list[Row]:
    """Of the controller process."""
    from prometheus_client import CollectorRegistry

    from runnerscale.app.process_metrics import add_process_metrics
    from runnerscale.controllers.metrics import ControllerMetrics
    from runnerscale.kube.metrics import KubeMetrics

    ours = CollectorRegistry()
    ControllerMetrics(ours)
    KubeMetrics(ours)
    process = CollectorRegistry()
    add_process_metrics(process)
    return [*declared(ours), *sampled(process.collect())]


def listener() -> list[Row]:
    """Of a listener process."""
    from prometheus_client import CollectorRegistry

    from runnerscale.listener import metric_settings
    from runnerscale.listener.metrics import OWN_COUNTERS, ListenerMetrics
    from runnerscale.listener.server import HANDLER_ERRORS
    from runnerscale.scaleset.config_url import parse_config_url

    rows = [
        row(name, known.kind.value, known.labels, known.help)
        for name, known in metric_settings.KNOWN.items()
    ]
    metrics = ListenerMetrics(
        None,
        place=parse_config_url("https://github.com/example"),
        set_name="example",
        namespace="example",
        registry=CollectorRegistry(),
    )
    own = [f for f in metrics.collect() if f.name.startswith("runnerscale_")]
    rows += [r for r in sampled(own) if r[0] not in OWN_COUNTERS]
    for name, (text, label) in OWN_COUNTERS.items():
        rows.append(row(name, "counter", [label] if label else [], text))
    text = "Errors while the metrics were served."
    return [*rows, row(f"{HANDLER_ERRORS}_total", "counter", ["cause"], text)]


def node() -> list[Row]:
    """Of the stand-ins for kubelet and kube-apiserver."""
    from prometheus_client import CollectorRegistry

    from runnerscale.apiserver.metrics import ServerMetrics
    from runnerscale.node.metrics import NodeMetrics

    registry = CollectorRegistry()
    NodeMetrics(registry)
    ServerMetrics(registry)
    return declared(registry)


def declared(registry: Any) -> list[Row]:
    """Of families made with the library's types: their labels are known without a sample."""
    rows = []
    for family in registry._collector_to_names:
        name = family._name + ("_total" if family._type == "counter" else "")
        rows.append(row(name, family._type, family._labelnames, family._documentation))
    return rows


def sampled(families: Iterable[Any]) -> list[Row]:
    """Of families that always have samples."""
    rows = []
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = sorted({label for sample in family.samples for label in sample.labels})
        rows.append(row(name, family.type, labels, family.documentation))
    return rows


def row(name: str, kind: str, labels: Iterable[str], text: str) -> Row:
    """One line of a table."""
    shown = ", ".join(f"`{label}`" for label in labels if label) or "-"
    return name, kind, shown, text.rstrip(".").replace("|", "\\|").replace("<", "\\<") + "."
