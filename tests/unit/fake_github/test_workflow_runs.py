"""When the jobs of a run are queued, with what, and how the run ends."""

import tracemalloc
from typing import Any

import pytest

from runnerscale.fake_github import jobs, runs
from runnerscale.fake_github.expressions import RUN_MAX, VALUE_MAX
from runnerscale.fake_github.model import Job, JobState, Result
from runnerscale.fake_github.run_model import Run
from runnerscale.fake_github.workflow import parse_workflow
from tests.unit.fake_github.world import World


class RunWorld(World):
    """Runs a workflow without scale sets: jobs are ended by hand."""

    def start(self, text: str, **more: Any) -> Run:
        return self.do(runs.start_run, parse_workflow(text), **more)

    def queued(self, run: Run) -> dict[str, Job]:
        return {
            job.request.display_name: job
            for job in self.state.jobs.values()
            if job.request.run_id == run.id and job.state is not JobState.COMPLETED
        }

    def end(self, run: Run, name: str, result: Result = Result.SUCCEEDED) -> None:
        self.do(jobs.complete, self.queued(run)[name], result)

    def results(self, run: Run) -> dict[str, str]:
        return {i.name: i.result for node in run.nodes.values() for i in node.instances}


CHAIN = """
on: [push, pull_request]
jobs:
  a: {runs-on: x, steps: [{run: a}]}
  b: {runs-on: x, needs: a, steps: [{run: b}]}
  c: {runs-on: x, needs: [a, b], steps: [{run: c}]}
  on-failure: {runs-on: x, needs: c, if: failure(), steps: [{run: f}]}
  always: {runs-on: x, needs: [b, on-failure], if: always(), steps: [{run: "echo ${{ needs.b.result }}"}]}
"""  # noqa: E501


def test_jobs_are_queued_as_what_they_need_ends() -> None:
    world = RunWorld()
    run = world.start(CHAIN)
    order = []
    while not run.finished_s:
        (name,) = world.queued(run)
        order.append(name)
        world.end(run, name)
    assert order == ["a", "b", "c", "always"]
    assert world.results(run)["on-failure"] == "skipped"
    assert run.conclusion == "success"
    assert run.event == "push"


def test_a_failure_skips_what_needs_it_and_wakes_what_waits_for_failure() -> None:
    world = RunWorld()
    run = world.start(CHAIN)
    world.end(run, "a")
    world.end(run, "b", Result.FAILED)
    # c is skipped; failure() looks at all ancestors, so it sees b through c
    assert list(world.queued(run)) == ["on-failure"]
    world.end(run, "on-failure")
    last = world.queued(run)["always"]
    assert last.request.steps[0].run == "echo failure"
    world.end(run, "always")
    assert world.results(run)["c"] == "skipped"
    assert run.conclusion == "failure"


def test_a_skipped_job_skips_what_needs_it() -> None:
    world = RunWorld()
    run = world.start(
        "jobs:\n"
        "  a: {runs-on: x, if: \"github.event_name == 'release'\", steps: [{run: a}]}\n"
        "  b: {runs-on: x, needs: a, steps: [{run: b}]}\n"
    )
    assert world.results(run) == {"a": "skipped", "b": "skipped"}
    assert run.conclusion == "success"


MATRIX = """
jobs:
  m:
    runs-on: ["${{ matrix.os }}", x]
    name: test ${{ matrix.os }}
    strategy: {max-parallel: 2, fail-fast: FAST, matrix: {os: [a, b, c, d]}}
    steps: [{run: x}]
  after: {runs-on: x, needs: m, steps: [{run: x}]}
"""


def test_a_matrix_runs_no_more_at_once_than_it_may() -> None:
    world = RunWorld()
    run = world.start(MATRIX.replace("FAST", "true"))
    assert list(world.queued(run)) == ["test a", "test b"]
    assert world.queued(run)["test a"].request.labels == ("a", "x")
    world.end(run, "test b")
    assert list(world.queued(run)) == ["test a", "test c"]
    world.end(run, "test a")
    world.end(run, "test c")
    world.end(run, "test d")
    assert list(world.queued(run)) == ["after"]


def test_fail_fast_cancels_the_rest_of_the_matrix() -> None:
    world = RunWorld()
    run = world.start(MATRIX.replace("FAST", "true"))
    world.end(run, "test a", Result.FAILED)
    assert world.results(run) == {
        "test a": "failed",
        "test b": "canceled",
        "test c": "canceled",
        "test d": "canceled",
        "after": "skipped",
    }
    assert run.conclusion == "failure"


def test_without_fail_fast_the_rest_of_the_matrix_goes_on() -> None:
    world = RunWorld()
    run = world.start(MATRIX.replace("FAST", "false"))
    world.end(run, "test a", Result.FAILED)
    assert list(world.queued(run)) == ["test b", "test c"]
    for name in ("test b", "test c", "test d"):
        world.end(run, name)
    assert world.results(run)["after"] == "skipped"


def test_a_matrix_job_without_an_expression_in_its_name_shows_its_values() -> None:
    world = RunWorld()
    run = world.start(
        "jobs: {m: {runs-on: x, strategy: {matrix: {a: [1], b: [y, z]}}, steps: [{run: x}]}}"
    )
    assert list(world.queued(run)) == ["m (1, y)", "m (1, z)"]


def test_expressions_and_environment_are_resolved_before_a_runner_sees_them() -> None:
    world = RunWorld()
    run = world.start(
        """
name: Build
env: {A: top, B: "${{ github.repository }}"}
jobs:
  j:
    runs-on: x
    env: {A: job, C: "${{ env.B }}!"}
    timeout-minutes: 2
    strategy: {matrix: {v: [7]}}
    steps:
      - run: echo ${{ env.A }} ${{ env.S }} ${{ matrix.v }} ${{ github.run_id }}
        env: {S: "${{ env.C }}"}
        if: failure()
      - run: two
        working-directory: w${{ matrix.v }}
""",
        repository="o/r",
    )
    request = world.queued(run)["j (7)"].request
    env = dict(request.env)
    assert (env["A"], env["B"], env["C"]) == ("job", "o/r", "o/r!")
    assert env["GITHUB_RUN_ID"] == str(run.id)
    assert (env["GITHUB_WORKFLOW"], env["GITHUB_JOB"], env["CI"]) == ("Build", "j", "true")
    first, second = request.steps
    assert first.run == f"echo job o/r! 7 {run.id}"
    assert first.run_when == (False, True, False)
    assert second.run_when == (True, False, False)
    assert (first.name, second.working_directory) == (f"Run {first.run}", "w7")
    assert request.timeout_s == 120
    assert (request.owner, request.repository) == ("o", "r")
    assert request.workflow_ref == "o/r/.github/workflows/workflow.yml@refs/heads/main"


def test_labels_can_be_given_instead_of_those_of_the_file() -> None:
    world = RunWorld()
    run = world.start(CHAIN, labels=("demo",))
    assert world.queued(run)["a"].request.labels == ("demo",)


def test_a_canceled_run_cancels_what_runs_and_still_does_what_always_is_done() -> None:
    world = RunWorld()
    run = world.start(CHAIN)
    world.do(runs.cancel_run, run)
    assert world.results(run)["a"] == "canceled"
    assert list(world.queued(run)) == ["always"]
    world.end(run, "always")
    assert run.conclusion == "cancelled"


def test_an_expression_that_fails_while_running_fails_its_job_with_a_note() -> None:
    world = RunWorld()
    run = world.start(
        "jobs: {a: {runs-on: x, steps: [{run: \"${{ format('{3}', github.job) }}\"}]},"
        " b: {runs-on: x, if: always(), needs: a, steps: [{run: x}]}}"
    )
    assert world.results(run)["a"] == "failed"
    assert "without a value" in run.nodes["a"].instances[0].note
    world.end(run, "b")
    assert run.conclusion == "failure"


def tenfold(inner: str, times: int) -> str:
    """An expression whose value is ten times as long, so many times."""
    for _ in range(times):
        inner = f"format('{'{0}' * 10}', {inner})"
    return inner


@pytest.mark.parametrize("times", [5, 9])  # of 10 characters: 1 MB, 10 GB
@pytest.mark.parametrize(
    "job",
    [
        "runs-on: x, steps: [{{run: '${{{{ {} }}}}'}}]",
        "runs-on: x, steps: [{{run: x, env: {{A: '${{{{ {} }}}}'}}}}]",
        "runs-on: '${{{{ {} }}}}', steps: [{{run: x}}]",
        "runs-on: x, if: '{}', steps: [{{run: x}}]",
    ],
)
def test_an_expression_that_would_fill_the_memory_fails_its_job(job: str, times: int) -> None:
    world = RunWorld()
    bomb = tenfold("github.run_id", times).replace("'", "''")
    tracemalloc.start()
    run = world.start(f"jobs: {{a: {{{job.format(bomb)}}}}}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (instance,) = run.nodes["a"].instances
    assert instance.result in ("failed", "skipped")
    assert f"makes a text of more than {VALUE_MAX} characters" in instance.note
    assert peak < 8 * VALUE_MAX


def test_a_name_that_would_fill_the_memory_stays_as_it_is_written_and_is_cut() -> None:
    world = RunWorld()
    bomb = tenfold("github.run_id", 9)
    run = world.start(
        f'jobs: {{a: {{name: "${{{{ {bomb} }}}}", runs-on: x, steps: [{{run: x}}]}}}}'
    )
    assert run.nodes["a"].instances[0].name.startswith("${{ format(")
    long = world.start(
        f"jobs: {{a: {{runs-on: x, strategy: {{matrix: {{v: [{'y' * 5000}]}}}}, "
        "steps: [{run: x}]}}"
    )
    assert len(long.nodes["a"].instances[0].name) == runs.NAME_CHARS_MAX


def test_texts_that_are_each_short_enough_are_together_too_much_for_a_job_and_for_a_run() -> None:
    # 100,000 characters a step, which count as they are made, inside out, and as they are put in.
    world = RunWorld()
    step = '{run: "${{ ' + tenfold("'0123456789' || github.job", 4) + ' }}"}'
    run = world.start(f"jobs: {{a: {{runs-on: x, steps: [{', '.join([step] * 11)}]}}}}")
    assert world.results(run) == {"a": "failed"}
    assert "this job makes too much text" in run.nodes["a"].instances[0].note
    few = ", ".join([step] * 2)
    many = world.start(
        f"jobs: {{a: {{runs-on: x, strategy: {{matrix: {{v: {list(range(256))}}}}}, "
        f"steps: [{few}]}}}}"
    )
    made = [each for each in many.nodes["a"].instances if each.job_id]
    assert 20 < len(made) < 100
    assert sum(len(job.request.steps[0].run) for job in world.queued(many).values()) < RUN_MAX
    assert "this run makes too much text" in many.nodes["a"].instances[-1].note


def test_a_large_ordinary_run_is_far_from_the_bounds() -> None:
    world = RunWorld()
    step = '{run: "echo ${{ matrix.v }} ${{ github.sha || github.ref }} ' + "x" * 500 + '"}'
    run = world.start(
        f"jobs: {{a: {{runs-on: x, strategy: {{matrix: {{v: {list(range(256))}}}}}, "
        f"steps: [{', '.join([step] * 20)}]}}}}"
    )
    assert all(each.job_id for each in run.nodes["a"].instances)


def test_old_runs_are_forgotten_but_never_unfinished_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS_MAX", 3)
    world = RunWorld()
    unfinished = world.start(CHAIN)
    for _ in range(5):
        world.start("jobs: {a: {runs-on: x, if: 'false', steps: [{run: a}]}}")
    assert unfinished.id in world.state.runs
    assert len(world.state.runs) == 3
