"""A failure is never passed over, is made smaller, and says how to repeat it."""

import asyncio
import math
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from runnerscale.core.randomness import seeded
from tests.simulation import history, run
from tests.simulation import summary as summary_module
from tests.simulation.component import Component
from tests.simulation.drive import Outcome
from tests.simulation.faults import KINDS
from tests.simulation.interpreter import CHOSEN, import_path, interpreter
from tests.simulation.invariants import Breach
from tests.simulation.loop import SimulationLoop, Stuck
from tests.simulation.parts import start
from tests.simulation.progress import Progress
from tests.simulation.scenario import PlannedJob, Scenario, draw
from tests.simulation.shrinking import Keep, smaller
from tests.simulation.summary import Summary, possible_pairs
from tests.simulation.telling import drawn
from tests.simulation.trace import Trace
from tests.simulation.workers import chunks, played
from tests.simulation.writes import Write

SCENARIO = next(s for s in (draw(seed, KINDS) for seed in range(50)) if len(s.faults) > 4)
GUILTY = SCENARIO.faults[2]


def judged(scenario: Scenario) -> Outcome:
    """As if one fault and one job were enough for a breach."""
    outcome = Outcome(scenario.seed, Trace())
    outcome.trace.wrote(0.5, "the-controller", "delete", "pods demo/a-runner", "17")
    guilty = [fault for fault in scenario.faults if fault.draw == GUILTY.draw]
    if guilty and scenario.jobs:
        outcome.breaches = [
            Breach("no job dies by our hand", "the pod under job 1", guilty[0].at_s)
        ]
    return outcome


def test_what_is_not_needed_for_a_failure_is_left_out() -> None:
    kept = smaller(SCENARIO, judged(SCENARIO), judged)
    small = kept.of(SCENARIO)
    assert kept.faults == (2,)
    assert len(small.jobs) == len(small.sets) == 1
    assert small.faults[0].at_s == pytest.approx(GUILTY.at_s * kept.pace)
    assert judged(small).failed


def test_what_was_drawn_is_numbered_as_it_is_asked_for() -> None:
    told = drawn(SCENARIO, Keep(faults=(2, 4), jobs=(0,), pace=0.5))
    assert re.findall(r"^  fault (\d+): (\S+)", told, re.M) == [
        (str(at), SCENARIO.faults[at].kind) for at in (2, 4)
    ]
    assert re.findall(r"^  job (\d+): .* at (\S+) s", told, re.M) == [
        ("0", f"{SCENARIO.jobs[0].at_s * 0.5:.1f}")
    ]
    assert len(re.findall(r"^  fault ", drawn(SCENARIO, Keep()), re.M)) == len(SCENARIO.faults)


def test_a_job_without_end_is_said_to_be_one() -> None:
    lasting = replace(SCENARIO, jobs=(PlannedJob(1.0, SCENARIO.sets[0].name, math.inf),))
    assert "runs until all else is at rest" in drawn(lasting, Keep())


def test_a_write_in_the_trace_says_what_it_changed() -> None:
    def phase(phase: str) -> dict[str, object]:
        return {"metadata": {"resourceVersion": "1"}, "status": {"phase": phase}}

    write = Write("", "pods", "ns", "a", "u", phase("Pending"), phase("Running"))
    assert str(write) == "update pods ns/a: Pending -> Running"
    assert str(replace(write, before=phase("Running"))) == "update pods ns/a"
    assert str(replace(write, resource="secrets")) == "update secrets ns/a"
    event = {"metadata": {"resourceVersion": "1"}, "reason": "ScaleSetGone", "message": "/tmp/x"}
    made = replace(write, resource="events", before=None, after=event)
    assert str(made) == "create events ns/a: ScaleSetGone"


def test_another_failure_is_not_taken_for_the_same() -> None:
    first = replace(judged(SCENARIO), breaches=[Breach("terminal phases stay", "", 1.0)])
    assert smaller(SCENARIO, first, judged, runs_max=10) == Keep()


def test_the_search_ends_after_so_many_runs() -> None:
    runs = []

    def counted(scenario: Scenario) -> Outcome:
        runs.append(scenario)
        return judged(scenario)

    smaller(SCENARIO, judged(SCENARIO), counted, runs_max=5)
    assert len(runs) == 5


def test_a_planted_breach_fails_the_run_and_its_command_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run, "run_scenario", judged)
    seed = SCENARIO.seed
    assert run.main(["--log", "--seeds", str(seed), str(seed + 1), "--smaller"]) == 1
    told = capsys.readouterr().out
    assert "no job dies by our hand" in told
    assert re.search(r"0\.500 s +the-controller +delete +pods demo/a-runner +17", told)
    assert f"repeat all of it: make simulate SEED={seed}\n" in told
    command = re.search(r'repeat the smallest: make simulate SEED=(\d+) ARGS="(.*)"', told)
    assert command is not None
    assert "--keep-faults 2 " in command[2]
    assert run.main(["--log", "--seed", command[1], *shlex.split(command[2])]) == 1
    without = command[2].replace("--keep-faults 2", "--keep-faults none")
    assert run.main(["--log", "--seed", command[1], *shlex.split(without)]) == 0


def test_a_crash_of_the_simulation_is_a_failure_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(scenario: Scenario, folder: Path) -> Outcome:
        raise AssertionError("the harness is wrong")

    monkeypatch.setattr(history, "play", play)
    outcome = history.run_scenario(SCENARIO)
    assert outcome.failed
    assert outcome.rules == {"crash"}
    assert "the harness is wrong" in outcome.report()
    assert "Traceback" in outcome.crash


def test_a_world_in_which_nothing_will_ever_happen_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(scenario: Scenario, folder: Path) -> Outcome:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("never")

    monkeypatch.setattr(history, "play", play)
    assert "nothing will ever happen" in history.run_scenario(SCENARIO).crash


def test_what_a_component_raises_and_nobody_takes_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def breaks() -> None:
        raise ValueError("a mistake of a component")

    async def play(scenario: Scenario, folder: Path) -> Outcome:
        start(Component("a"), breaks())
        await asyncio.sleep(1)
        return Outcome(scenario.seed, Trace())

    monkeypatch.setattr(history, "play", play)
    outcome = history.run_scenario(SCENARIO)
    assert outcome.failed
    assert "a mistake of a component" in outcome.crash


def test_time_that_stands_still_is_told() -> None:
    async def spins() -> None:
        while True:  # noqa: ASYNC110 - this is the mistake
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="time stands still at 0"):
        SimulationLoop(seeded(1)).run(spins())


def test_a_step_without_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(scenario: Scenario, folder: Path) -> Outcome:
        while True:
            pass

    monkeypatch.setattr(history, "play", play)
    monkeypatch.setattr(history, "CPU_MAX_S", 0.2)
    assert "no end after 0 s of CPU" in history.run_scenario(SCENARIO).crash


def test_a_process_that_dies_is_the_failure_of_its_seed_and_the_others_are_played() -> None:
    def play(seed: int) -> dict[str, object]:
        if seed == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"seed": seed, "failed": ""}

    results = [each for _, part in played(chunks(0, 9, 3), play, workers=2) for each in part]
    assert sorted(each["seed"] for each in results) == list(range(9))
    failed = [each for each in results if each["failed"]]
    assert [each["seed"] for each in failed] == [4]
    assert "ended with -9" in failed[0]["failed"]


def test_a_long_run_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "soak" / "commit.jsonl"
    progress = Progress(path)
    progress.add([{"seed": seed, "failed": ""} for seed in (0, 1, 2, 5)], 1.5)
    with path.open("a") as file:
        file.write('{"wall_s": 1, "resu')  # killed while it wrote
    again = Progress(path)
    assert again.todo(0, 10, 3) == [(3, 5), (6, 9), (9, 10)]
    assert again.wall_s == 1.5
    again.add([{"seed": 3, "failed": ""}], 1.0)  # not lost with the line that has no end
    assert Progress(path).todo(0, 10, 3) == [(4, 5), (6, 9), (9, 10)]


def test_a_seed_whose_process_was_killed_is_played_again_later(tmp_path: Path) -> None:
    def play(seed: int) -> dict[str, object]:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"seed": seed, "failed": ""}

    progress = Progress(tmp_path / "commit.jsonl")
    for _, results in played([(0, 3)], play, workers=1):
        progress.add(results, 1.0)
    assert "ended with -9" in progress.results[1]["failed"]
    assert Progress(progress.path).todo(0, 3, 25) == [(1, 2)]


@pytest.mark.parametrize(
    "line",
    [
        *(b"null", b"[]", b"{}", b"7", b"\x00\x00", b"\xff\xfe", b"[" * 100_000),
        b'{"wall_s": 1.0}',
        b'{"wall_s": "1", "results": []}',
        b'{"wall_s": 1, "results": [{"failed": ""}]}',
        b'{"wall_s": 1, "results": [{"seed": "2", "failed": ""}]}',
        b'{"wall_s": 1, "results": [{"seed": 2}]}',
        b'{"wall_s": 1, "results": [{"seed": 2, "failed": "", "struck": 7}]}',
        b'{"wall_s": 1, "results": [{"seed": 2, "failed": "", "steps": "many"}]}',
    ],
)
def test_what_is_no_line_of_a_long_run_is_passed_over(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "commit.jsonl"
    path.write_bytes(b'{"wall_s": 1, "results": [{"seed": 1, "failed": ""}]}\n' + line + b"\n")
    progress = Progress(path)
    assert (list(progress.results), progress.unreadable) == ([1], 1)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--soak"],
        ["--seeds", "5", "5"],
        ["--seeds", "5", "1"],
        ["--seeds", "0", "1", "--workers", "0"],
        ["--seeds", "0", "1", "--chunk", "0"],
        *(["--seed", "1", "--pace", pace] for pace in ("0", "-1", "nan", "inf")),
        *(["--seed", "1", "--keep-faults", places] for places in ("x", "-1", ",")),
    ],
)
def test_what_would_stand_still_or_prove_nothing_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run.main(["--log", *arguments])
    assert caught.value.code == 2


def test_what_is_to_be_kept_must_be_there(capsys: pytest.CaptureFixture[str]) -> None:
    place = len(SCENARIO.faults)
    assert run.main(["--log", "--seed", str(SCENARIO.seed), "--keep-faults", f"0,{place}"]) == 2
    assert capsys.readouterr().err == f"seed {SCENARIO.seed} has no fault {place}\n"


def test_a_long_run_names_what_it_has_not_seen() -> None:
    summary = Summary(("a", "b", "c"))
    for seed in range(600):
        struck = ["a", "b"] if seed < 500 else ["a", "c"]
        summary.add({"seed": seed, "failed": "", "struck": struck})
    assert summary.rare == ["c (100)"]
    assert summary.unseen == ["b+c"]
    assert len(summary.lacks()) == 2


def test_what_never_meets_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_module, "HOUR_KINDS", ("an-hour", "another-hour"))
    pairs = possible_pairs(("api-410", "an-hour", "another-hour"))
    assert pairs == {"an-hour+api-410", "another-hour+api-410"}


def test_another_interpreter_plays_only_if_it_is_of_the_same_version() -> None:
    assert interpreter({}) == sys.executable
    assert interpreter({CHOSEN: "/no/such/python"}) == sys.executable
    assert interpreter({CHOSEN: "/bin/true"}) == sys.executable
    same = getattr(sys, "_base_executable")  # noqa: B009 - not in the stubs
    assert interpreter({CHOSEN: same}) == same


def test_another_interpreter_finds_our_packages_and_not_our_language() -> None:
    path = import_path(sys.path).split(os.pathsep)
    told = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; print(*sys.path, sep='\\n')"],
        capture_output=True,
        text=True,
        check=True,
        env={},
    ).stdout.splitlines()
    assert not {*path} & {each for each in told if each}
    assert any(each.endswith("site-packages") for each in path)
