"""A workflow file as typed values, or an error that names file, line, key and what is supported.

We read the part of GitHub's syntax that a shell on one machine can run. Everything else is
refused, never ignored: a job that silently ran without its `services:` would be worse than
none. The matrix is in `matrix.py`, when jobs run is in `runs.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runnerscale.fake_github.expressions import (
    Expression,
    ExpressionError,
    check_template,
    compile_expression,
)
from runnerscale.fake_github.matrix import INSTANCES_MAX, Combination, expand
from runnerscale.fake_github.workflow_yaml import Node, WorkflowError, read_yaml

TOP_KEYS = ("name", "on", "env", "jobs")
JOB_KEYS = ("name", "runs-on", "needs", "strategy", "env", "if", "steps", "timeout-minutes")
STEP_KEYS = ("name", "run", "env", "shell", "working-directory", "timeout-minutes", "if")
STRATEGY_KEYS = ("matrix", "fail-fast", "max-parallel")
SHELLS = ("bash", "sh", "python")

JOBS_MAX = 256
STEPS_MAX = 200
TIMEOUT_MINUTES_DEFAULT = 360.0  # GitHub's
TIMEOUT_MINUTES_MAX = 35 * 24 * 60.0

HINTS = {
    "uses": "actions and reusable workflows are not run here, write the commands with 'run'",
    "services": "there are no containers here, start what the job needs in a step",
    "container": "there are no containers here, jobs run as plain processes",
    "permissions": "there is no token to give permissions to",
    "secrets": "there are no secrets here",
    "outputs": "jobs cannot pass values on here",
    "defaults": "write shell and working-directory at each step",
    "concurrency": "runs do not wait for each other here",
    "with": "it belongs to 'uses', which is not run here",
    "id": "steps cannot pass values on here",
    "continue-on-error": "write '|| true' in the command",
}

Env = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class StepTemplate:
    """A step as written; texts may hold expressions."""

    name: str
    run: str
    shell: str
    env: Env
    working_directory: str
    timeout_s: float
    condition: Expression | None


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """A job as written, with its matrix already expanded: one combination per instance."""

    id: str
    name: str  # empty: the id
    labels: tuple[str, ...]
    group: str
    needs: tuple[str, ...]
    condition: Expression | None
    env: Env
    timeout_s: float
    steps: tuple[StepTemplate, ...]
    combinations: tuple[Combination, ...]  # one empty combination without a matrix
    has_matrix: bool
    fail_fast: bool
    max_parallel: int  # 0: no bound


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow that can be run."""

    file: str
    name: str
    event: str  # the first one of `on`
    env: Env
    jobs: Mapping[str, JobTemplate]  # in file order

    @property
    def instances(self) -> int:
        """How many jobs a run has, conditions aside."""
        return sum(len(job.combinations) for job in self.jobs.values())


def parse_workflow(text: str, file: str = "workflow.yml") -> Workflow:
    """Read a workflow file.

    Raises:
        WorkflowError: says where, what, and what is supported.
    """
    reader = _Reader(file)
    root = read_yaml(text, file)
    top = reader.mapping(root, "the workflow", TOP_KEYS)
    if "jobs" not in top:
        raise WorkflowError(file, root.line, "the workflow has no 'jobs'")
    jobs_node = top["jobs"]
    if jobs_node.kind != "map" or not jobs_node.entries:
        raise WorkflowError(file, jobs_node.line, "'jobs' must be a map with at least one job")
    if len(jobs_node.entries) > JOBS_MAX:
        raise WorkflowError(file, jobs_node.line, f"more than {JOBS_MAX} jobs")
    jobs = {
        name: _job(reader, name, key, value) for name, (key, value) in jobs_node.entries.items()
    }
    _check_needs(file, jobs, jobs_node)
    workflow = Workflow(
        file=file,
        name=reader.text(top.get("name"), "name") or file.rpartition("/")[2],
        event=_event(top.get("on")),
        env=reader.env(top.get("env")),
        jobs=jobs,
    )
    if workflow.instances > JOBS_MAX * 4:
        raise WorkflowError(file, jobs_node.line, f"the run would have {workflow.instances} jobs")
    return workflow


class _Reader:
    """Takes nodes apart; every complaint has a line."""

    def __init__(self, file: str) -> None:
        self.file = file

    def fail(self, node: Node, message: str) -> WorkflowError:
        return WorkflowError(self.file, node.line, message)

    def mapping(self, node: Node, what: str, known: Sequence[str]) -> dict[str, Node]:
        """The entries by key; unknown keys are refused by name."""
        if node.kind != "map":
            raise self.fail(node, f"{what} must be a map")
        for name, (key, _) in node.entries.items():
            if name not in known:
                hint = f" ({HINTS[name]})" if name in HINTS else ""
                raise self.fail(
                    key,
                    f"the key {name!r} of {what} is not supported here{hint}; "
                    f"supported: {', '.join(known)}",
                )
        return {name: value for name, (_, value) in node.entries.items()}

    def text(self, node: Node | None, what: str) -> str:
        """A scalar as text, its expressions checked."""
        if node is None or (node.kind == "scalar" and node.scalar is None):
            return ""
        if node.kind != "scalar":
            raise self.fail(node, f"{what!r} must be a text")
        value = node.scalar
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            check_template(text)
        except ExpressionError as problem:
            raise self.fail(node, f"the expression in {what!r} {problem}") from None
        return text

    def env(self, node: Node | None) -> Env:
        """Names and values."""
        if node is None or (node.kind == "scalar" and node.scalar is None):
            return ()
        if node.kind != "map":
            raise self.fail(node, "'env' must be a map of names and values")
        found: list[tuple[str, str]] = []
        for name, (key, value) in node.entries.items():
            if not name or "=" in name or "\0" in name:
                raise self.fail(key, f"{name!r} cannot be the name of an environment variable")
            found.append((name, self.text(value, f"env.{name}")))
        return tuple(found)

    def minutes_s(self, node: Node | None, default_s: float) -> float:
        """`timeout-minutes` in seconds."""
        if node is None:
            return default_s
        value = node.scalar
        if (
            node.kind != "scalar"
            or isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value <= TIMEOUT_MINUTES_MAX
        ):
            raise self.fail(node, "'timeout-minutes' must be a number above 0")
        return value * 60.0

    def condition(self, node: Node | None) -> Expression | None:
        """An `if`."""
        if node is None:
            return None
        if node.kind != "scalar" or node.scalar is None:
            raise self.fail(node, "'if' must be an expression")
        source = self._source(node.scalar)
        try:
            return compile_expression(source, status_allowed=True)
        except ExpressionError as problem:
            raise self.fail(node, f"the expression in 'if' {problem}") from None

    def _source(self, value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """A text or a list of texts."""
        nodes = node.items if node.kind == "list" else [node]
        found = tuple(self.text(each, what) for each in nodes)
        if not found or not all(found):
            raise self.fail(node, f"{what!r} must be a text or a list of texts, none of them empty")
        return found


def _job(reader: _Reader, job_id: str, key: Node, node: Node) -> JobTemplate:
    if not job_id or not all(c.isalnum() or c in "_-" for c in job_id) or job_id[0].isdigit():
        raise reader.fail(key, f"{job_id!r} cannot be the id of a job: letters, digits, - and _")
    entries = reader.mapping(node, f"job {job_id!r}", JOB_KEYS)
    if "runs-on" not in entries:
        raise reader.fail(key, f"job {job_id!r} has no 'runs-on'")
    steps = entries.get("steps")
    if steps is None or steps.kind != "list" or not steps.items:
        raise reader.fail(steps or key, f"job {job_id!r} needs 'steps', a list with at least one")
    if len(steps.items) > STEPS_MAX:
        raise reader.fail(steps, f"job {job_id!r} has more than {STEPS_MAX} steps")
    labels, group = _runs_on(reader, entries["runs-on"])
    needs = entries.get("needs")
    strategy = entries.get("strategy")
    parts = {} if strategy is None else reader.mapping(strategy, "strategy", STRATEGY_KEYS)
    return JobTemplate(
        id=job_id,
        name=reader.text(entries.get("name"), "name"),
        labels=labels,
        group=group,
        needs=reader.texts(needs, "needs") if needs is not None else (),
        condition=reader.condition(entries.get("if")),
        env=reader.env(entries.get("env")),
        timeout_s=reader.minutes_s(entries.get("timeout-minutes"), TIMEOUT_MINUTES_DEFAULT * 60),
        steps=tuple(_step(reader, each) for each in steps.items),
        combinations=_combinations(reader, parts.get("matrix")),
        has_matrix="matrix" in parts,
        fail_fast=_fail_fast(reader, parts.get("fail-fast")),
        max_parallel=_max_parallel(reader, parts.get("max-parallel")),
    )


def _step(reader: _Reader, node: Node) -> StepTemplate:
    entries = reader.mapping(node, "a step", STEP_KEYS)
    if "run" not in entries:
        raise reader.fail(node, "a step needs 'run'")
    shell = reader.text(entries.get("shell"), "shell")
    if shell and shell not in SHELLS:
        raise reader.fail(
            entries["shell"], f"the shell {shell!r} is not supported here; {', '.join(SHELLS)} are"
        )
    return StepTemplate(
        name=reader.text(entries.get("name"), "name"),
        run=reader.text(entries["run"], "run"),
        shell=shell,
        env=reader.env(entries.get("env")),
        working_directory=reader.text(entries.get("working-directory"), "working-directory"),
        timeout_s=reader.minutes_s(entries.get("timeout-minutes"), 0.0),
        condition=reader.condition(entries.get("if")),
    )


def _runs_on(reader: _Reader, node: Node) -> tuple[tuple[str, ...], str]:
    if node.kind != "map":
        return reader.texts(node, "runs-on"), ""
    entries = reader.mapping(node, "runs-on", ("group", "labels"))
    labels = reader.texts(entries["labels"], "labels") if "labels" in entries else ()
    group = reader.text(entries.get("group"), "group")
    if not labels and not group:
        raise reader.fail(node, "'runs-on' names neither a group nor labels")
    return labels, group


def _combinations(reader: _Reader, node: Node | None) -> tuple[Combination, ...]:
    if node is None:
        return ({},)
    if node.kind != "map" or not node.entries:
        raise reader.fail(node, "'matrix' must be a map; expressions for it are not supported here")
    _refuse_expressions(reader, node)
    try:
        found = expand(node.plain())
    except ValueError as problem:
        raise reader.fail(node, f"the matrix {problem}") from None
    if not found:
        raise reader.fail(node, "the matrix has no combination left")
    if len(found) > INSTANCES_MAX:
        raise reader.fail(node, f"the matrix has {len(found)} combinations, over {INSTANCES_MAX}")
    return tuple(found)


def _refuse_expressions(reader: _Reader, node: Node) -> None:
    if isinstance(node.scalar, str) and "${{" in node.scalar:
        raise reader.fail(node, "expressions inside 'matrix' are not supported here")
    for each in node.items:
        _refuse_expressions(reader, each)
    for _, each in node.entries.values():
        _refuse_expressions(reader, each)


def _fail_fast(reader: _Reader, node: Node | None) -> bool:
    if node is None:
        return True
    if not isinstance(node.scalar, bool):
        raise reader.fail(node, "'fail-fast' must be true or false")
    return node.scalar


def _max_parallel(reader: _Reader, node: Node | None) -> int:
    if node is None:
        return 0
    value = node.scalar
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise reader.fail(node, "'max-parallel' must be a whole number of at least 1")
    return value


def _event(node: Node | None) -> str:
    if node is None:
        return "workflow_dispatch"
    if node.kind == "scalar":
        return str(node.scalar or "workflow_dispatch")
    if node.kind == "list":
        return str(node.items[0].scalar) if node.items else "workflow_dispatch"
    return next(iter(node.entries), "workflow_dispatch")


def _check_needs(file: str, jobs: Mapping[str, JobTemplate], node: Node) -> None:
    def line(job_id: str) -> int:
        return node.entries[job_id][0].line

    for job in jobs.values():
        for needed in job.needs:
            if needed not in jobs:
                known = ", ".join(jobs)
                message = f"job {job.id!r} needs {needed!r}, which does not exist; jobs: {known}"
                raise WorkflowError(file, line(job.id), message)
    settled: set[str] = set()
    while len(settled) < len(jobs):
        free = [j.id for j in jobs.values() if j.id not in settled and settled >= set(j.needs)]
        if not free:
            circle = _circle(jobs, settled)
            message = f"jobs need each other in a circle: {' -> '.join(circle)}"
            raise WorkflowError(file, line(circle[0]), message)
        settled.update(free)


def _circle(jobs: Mapping[str, JobTemplate], settled: set[str]) -> list[str]:
    path: list[str] = []
    at = next(job_id for job_id in jobs if job_id not in settled)
    while at not in path:
        path.append(at)
        at = next(needed for needed in jobs[at].needs if needed not in settled)
    return [*path[path.index(at) :], at]
