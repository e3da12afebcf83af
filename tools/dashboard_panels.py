"""What the Grafana dashboard shows: every panel's title, query, unit and words, and nothing else.

How a panel becomes JSON is `dashboard.py`. Titles, variables and rows are those that users of ARC
know (contract: charts-and-operations 7), with its faults (10.4) corrected: every query asks for the
selected scope with `=~`, counts are sums, limits come from the same scope.
"""

from dataclasses import dataclass

TITLE = "ARC Autoscaling Runner Set Monitoring"
SET = 'actions_github_com_scale_set_name=~"$Scaleset"'
OF_SET = f'{SET},actions_github_com_scale_set_namespace=~"$RunnerNamespace"'
# The listener's gauges and the controller's carry the scale set's own namespace; it survives the
# scrape only with honorLabels (see docs/operations.md).
LISTENER = f'{SET},namespace=~"$RunnerNamespace"'
CONTROLLER = 'name=~"$Scaleset",namespace=~"$RunnerNamespace"'
SYSTEM = 'namespace=~"$SystemNamespace"'
RUNNERS = 'namespace=~"$RunnerNamespace"'
ANYWHERE = 'namespace=~"$RunnerNamespace|$SystemNamespace"'
RATE = "[$__rate_interval]"
DESIRED = f"sum(gha_desired_runners{{{LISTENER}}})"
WRITES = f'rest_client_requests_total{{{SYSTEM},method=~"POST|PUT|PATCH|DELETE"}}'

# How a number is coloured: not at all; orange where it nears its limit; red from 1 on.
NEUTRAL, FILLS, ALARM = "neutral", "fills", "alarm"
COUNT, SECONDS, BYTES, PER_SECOND = "short", "s", "bytes", "reqps"


@dataclass(frozen=True, slots=True)
class Query:
    """One query and what its lines are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `limit`: the query whose value is the scale's end."""

    title: str
    kind: str  # Grafana's panel type
    text: str
    queries: tuple[Query, ...]
    unit: str = COUNT
    limit: str = ""
    width: int = 6
    colour: str = NEUTRAL
    external: bool = False  # asks kube-state-metrics or cAdvisor


@dataclass(frozen=True, slots=True)
class Row:
    """Panels below one heading."""

    title: str
    panels: tuple[Panel, ...]


def one(expr: str, legend: str = "") -> tuple[Query, ...]:
    """A panel's only query."""
    return (Query(expr, legend),)


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the top of the page; several values or All."""

    name: str
    label: str
    query: str


VARIABLES = (
    Variable(
        "SystemNamespace",
        "Controller namespace",
        "label_values(gha_controller_running_listeners, namespace)",
    ),
    Variable(
        "Scaleset",
        "Scale set",
        "label_values(gha_desired_runners, actions_github_com_scale_set_name)",
    ),
    Variable(
        "RunnerNamespace",
        "Runner namespace",
        f"label_values(gha_desired_runners{{{SET}}}, namespace)",
    ),
)

RUNNER_PERFORMANCE = Row(
    "Runner Performance",
    (
        Panel(
            "Startup Duration",
            "heatmap",
            "How long jobs waited: from the assignment to the scale set until a runner had the "
            "job. Durations are whole seconds.",
            one(
                "sum by (le) "
                f"(increase(gha_job_startup_duration_seconds_bucket{{{OF_SET}}}{RATE}))",
                "{{le}}",
            ),
            unit=SECONDS,
            width=12,
        ),
        Panel(
            "Job Execution",
            "heatmap",
            "How long jobs ran: from the assignment to a runner to the end of the job.",
            one(
                "sum by (le) "
                f"(increase(gha_job_execution_duration_seconds_bucket{{{OF_SET}}}{RATE}))",
                "{{le}}",
            ),
            unit=SECONDS,
            width=12,
        ),
        Panel(
            "Assigned Jobs",
            "gauge",
            "Jobs that GitHub has given to the scale set, waiting or running. The scale ends at "
            "the number of runners asked for, plus one: a full gauge means that jobs wait.",
            one(f"sum(gha_assigned_jobs{{{LISTENER}}})", "assigned"),
            limit=f"{DESIRED} + 1",
            colour=FILLS,
        ),
        Panel(
            "Desired Runners",
            "gauge",
            "Runners last asked for: minRunners plus assigned jobs, at most maxRunners.",
            one(DESIRED, "desired"),
            limit=f"sum(gha_max_runners{{{LISTENER}}})",
        ),
        Panel(
            "Idle Runners",
            "gauge",
            "Runners registered at GitHub to which no job is assigned.",
            one(f"sum(gha_idle_runners{{{LISTENER}}})", "idle"),
            limit=f"{DESIRED} + 1",
        ),
        Panel(
            "Running Jobs",
            "gauge",
            "Assigned jobs that run or are about to: each has its runner.",
            one(f"sum(gha_running_jobs{{{LISTENER}}})", "running"),
            limit=f"{DESIRED} + 1",
        ),
        Panel(
            "Failed Runners",
            "gauge",
            "Runners that failed and are kept as evidence for a while. They are not replaced "
            "blindly: their reasons decide how soon the next one is made.",
            one(f"sum(gha_controller_failed_ephemeral_runners{{{CONTROLLER}}})", "failed"),
            limit=f"{DESIRED} + 1",
            colour=ALARM,
        ),
        Panel(
            "Listeners",
            "stat",
            "Listener pods whose container runs, and scale sets that should have one. A "
            "difference that lasts means that a scale set does not hear of its jobs.",
            (
                Query(f"sum(gha_controller_running_listeners{{{SYSTEM}}})", "listeners"),
                Query(
                    f"count(gha_controller_pending_ephemeral_runners{{{CONTROLLER}}})",
                    "scale sets",
                ),
            ),
        ),
        Panel(
            "Pending Runners",
            "gauge",
            "Runners to which no job is assigned: they start, or are online and idle. With "
            "minRunners above 0 this never becomes 0, and says nothing alone: compare it with "
            "the containers that Kubernetes holds back (end of the scale), without expecting "
            "the same number.",
            one(f"sum(gha_controller_pending_ephemeral_runners{{{CONTROLLER}}})", "pending"),
            limit=f"sum(kube_pod_container_status_waiting{{{RUNNERS}}})",
        ),
        Panel(
            "Registered Runners",
            "gauge",
            "Runners of the scale set that GitHub knows, idle or with a job.",
            one(f"sum(gha_registered_runners{{{LISTENER}}})", "registered"),
            limit=f"{DESIRED} + 1",
        ),
        Panel(
            "Active Runners",
            "gauge",
            "Runners with a job assigned. It says nothing about pods: a pod without a job is "
            "pending, not active.",
            one(f"sum(gha_controller_running_ephemeral_runners{{{CONTROLLER}}})", "active"),
            limit=f"{DESIRED} + 1",
        ),
        Panel(
            "Out of Memory",
            "stat",
            "Containers in the runner namespaces whose last end was for lack of memory "
            "(kube-state-metrics).",
            one(
                "sum by (namespace) (kube_pod_container_status_last_terminated_reason"
                f'{{reason="OOMKilled",{RUNNERS}}})',
                "{{namespace}}",
            ),
            colour=ALARM,
            external=True,
        ),
        Panel(
            "Peak Container Memory",
            "gauge",
            "The largest working set of a container in each runner namespace (cAdvisor).",
            one(
                f"max by (namespace) (container_memory_working_set_bytes{{{RUNNERS}}})",
                "{{namespace}}",
            ),
            unit=BYTES,
            external=True,
        ),
        Panel(
            "Container I/O",
            "timeseries",
            "Bytes read from and written to container file systems in the runner namespaces "
            "(cAdvisor).",
            (
                Query(f"sum(rate(container_fs_writes_bytes_total{{{RUNNERS}}}{RATE}))", "written"),
                Query(f"sum(rate(container_fs_reads_bytes_total{{{RUNNERS}}}{RATE}))", "read"),
            ),
            unit="Bps",
            width=12,
            external=True,
        ),
        Panel(
            "Container Pod Status",
            "bargauge",
            "Containers in the runner namespaces by state (kube-state-metrics). The scale ends at "
            "the runners asked for by the selected scale sets, plus one.",
            (
                Query(f"sum(kube_pod_container_status_ready{{{RUNNERS}}})", "ready"),
                Query(f"sum(kube_pod_container_status_waiting{{{RUNNERS}}})", "waiting"),
                Query(
                    "sum(kube_pod_container_status_terminated_reason"
                    f'{{reason="Completed",{RUNNERS}}})',
                    "completed",
                ),
                Query(
                    f'sum(kube_pod_container_status_terminated_reason{{reason="Error",{RUNNERS}}})',
                    "error",
                ),
            ),
            limit=f"{DESIRED} + 1",
            width=12,
            external=True,
        ),
    ),
)

CONTROLLER_PERFORMANCE = Row(
    "Controller Performance",
    (
        Panel(
            "Reconcile Time",
            "timeseries",
            "Seconds a second spent in passes, by controller: above 1, several run side by side.",
            one(
                "sum by (controller) "
                f"(rate(controller_runtime_reconcile_time_seconds_sum{{{SYSTEM}}}{RATE}))",
                "{{controller}}",
            ),
            unit=SECONDS,
            width=8,
        ),
        Panel(
            "Workqueue Queue Duration",
            "timeseries",
            "Seconds a second that objects waited for their pass. It grows when workers are too "
            "few, or the API server is slow.",
            one(
                f"sum by (name) (rate(workqueue_queue_duration_seconds_sum{{{SYSTEM}}}{RATE}))",
                "{{name}}",
            ),
            unit=SECONDS,
            width=8,
        ),
        Panel(
            "Reconciliation Errors",
            "timeseries",
            "Passes a second that ended with an error. Near zero is good; the reason is in the "
            "log and on the object.",
            one(
                "sum by (controller) "
                f"(rate(controller_runtime_reconcile_errors_total{{{SYSTEM}}}{RATE}))",
                "{{controller}}",
            ),
            width=8,
        ),
        Panel(
            "Queue Depth",
            "stat",
            "Objects that wait for a pass now, by controller.",
            one(f"sum by (name) (workqueue_depth{{{SYSTEM}}})", "{{name}}"),
            width=8,
        ),
        Panel(
            "Active Workers",
            "stat",
            "Passes that run now, by controller.",
            one(
                f"sum by (controller) (controller_runtime_active_workers{{{SYSTEM}}})",
                "{{controller}}",
            ),
            width=8,
        ),
        Panel(
            "API Calls",
            "timeseries",
            "Calls a second to the Kubernetes API, by method and answer.",
            one(
                f"sum by (method, code) (rate(rest_client_requests_total{{{SYSTEM}}}{RATE}))",
                "{{method}} {{code}}",
            ),
            unit=PER_SECOND,
            width=8,
        ),
    ),
)

TROUBLE_AND_FLOW = Row(
    "Trouble and Flow",
    (
        Panel(
            "Stuck, by Reason",
            "timeseries",
            "Objects that are stuck, by reason; every reason has its entry in "
            "docs/troubleshooting.md. No line is the good case.",
            one(f"sum by (reason) (runnerscale_trouble{{{ANYWHERE}}})", "{{reason}}"),
            width=12,
        ),
        Panel(
            "What Is Stuck",
            "table",
            "The objects behind it, now. kubectl describe shows the same reason with its message.",
            one(f"sum by (kind, namespace, name, reason) (runnerscale_trouble{{{ANYWHERE}}})"),
            width=12,
        ),
        Panel(
            "Queue to Start",
            "timeseries",
            "How long a job waited for its runner: the middle, and the slowest of 20 and of 100, "
            "over five minutes.",
            tuple(
                Query(
                    f"histogram_quantile({quantile}, sum by (le) "
                    f"(rate(gha_job_startup_duration_seconds_bucket{{{OF_SET}}}[5m])))",
                    legend,
                )
                for quantile, legend in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))
            ),
            unit=SECONDS,
            width=8,
        ),
        Panel(
            "Jobs Ended",
            "timeseries",
            "Jobs that ended on runners of the scale set, by result.",
            one(
                f"sum by (job_result) (increase(gha_completed_jobs_total{{{OF_SET}}}{RATE}))",
                "{{job_result}}",
            ),
            width=8,
        ),
        Panel(
            "Troubles Reported",
            "timeseries",
            "How often something was newly found wrong, by reason: also what healed by itself.",
            one(
                f"sum by (reason) (increase(runnerscale_trouble_reported_total{{{SYSTEM}}}{RATE}))",
                "{{reason}}",
            ),
            width=8,
        ),
        Panel(
            "API Writes",
            "timeseries",
            "Calls a second with which the controller changes something in the Kubernetes API.",
            one(f"sum by (method) (rate({WRITES}{RATE}))", "{{method}}"),
            unit=PER_SECOND,
            width=8,
        ),
        Panel(
            "API Writes per Job",
            "stat",
            "Writes of the controller for each job that ended in the time shown. A clean job "
            "needs about eight.",
            one(
                f"sum(increase({WRITES}[$__range])) "
                f"/ (sum(increase(gha_completed_jobs_total{{{OF_SET}}}[$__range])) > 0)",
                "writes per job",
            ),
            width=8,
        ),
        Panel(
            "Last Poll",
            "timeseries",
            "Seconds since each listener last heard from GitHub. A poll is held for up to a "
            "minute; more means that jobs are not heard of.",
            one(
                f"time() - max by (actions_github_com_scale_set_name) "
                f"(runnerscale_listener_last_poll_timestamp_seconds{{{OF_SET}}})",
                "{{actions_github_com_scale_set_name}}",
            ),
            unit=SECONDS,
            width=8,
        ),
        Panel(
            "Listener State",
            "table",
            "What each listener does now and, if it waits, for which reason.",
            one(
                "sum by (actions_github_com_scale_set_name, state, reason) "
                f"(runnerscale_listener_state{{{OF_SET}}})"
            ),
            width=12,
        ),
        Panel(
            "Controller Memory",
            "timeseries",
            "Resident memory of each controller process.",
            one(f"process_resident_memory_bytes{{{SYSTEM}}}", "{{pod}}"),
            unit=BYTES,
            width=12,
        ),
    ),
)

METRICS = Row(
    "Metrics",
    (
        Panel(
            "Scrape Duration",
            "timeseries",
            "How long Prometheus took to fetch the metrics of each controller and listener pod.",
            one(f"scrape_duration_seconds{{{SYSTEM}}}", "{{pod}}"),
            unit=SECONDS,
            width=24,
        ),
    ),
)

ROWS = (RUNNER_PERFORMANCE, CONTROLLER_PERFORMANCE, TROUBLE_AND_FLOW, METRICS)
