"""Burst: no runner, then so many wanted at once; until all pods are made, and all are online."""

import time

from benchmarks.eyes import delays
from benchmarks.floor import Floor
from benchmarks.machine import used
from benchmarks.report import Row, median_of, with_ratios
from benchmarks.servers import writes
from benchmarks.world import World, world

WITHIN_S = 300.0
Figures = dict[str, float | None]
RATIOS = ("online s", "CPU ms/runner")


async def measure(server: str, count: int, *, rounds: int) -> Row:
    """The medians of interleaved rounds of ours and of the floor."""
    ours: list[Figures] = []
    floors: list[Figures] = []
    for _ in range(rounds):
        floors.append(await floor(server, count))
        ours.append(await subject(server, count))
    return Row(f"burst {count}", server, with_ratios(median_of(ours), median_of(floors), RATIOS))


async def subject(server: str, count: int) -> Figures:
    """Our controller and listener."""
    async with world(server) as made:
        await made.start_controller()
        await made.add_set("bench", low=0, high=count)
        await made.until_listening()
        before, asked = made.ours(), await made.server.requests()
        calls = made.github.calls()
        server_before = used(made.server.pids())
        began_s = time.monotonic()
        for _ in range(count):
            made.github.queue("bench", seconds=3600.0)
        await made.eyes.until(lambda s: len(s.online) >= count, within_s=WITHIN_S)
        online_s = time.monotonic() - began_s
        await made.eyes.until(lambda s: len(s.running) >= count, within_s=WITHIN_S)
        after, now_asked = made.ours(), await made.server.requests()
        sights = made.eyes.sights
        late = delays(sights.started, sights.running)
        spent = now_asked - asked
        reads = sum(
            n for (who, verb, _), n in spent.items() if verb in ("get", "list") and "account" in who
        )
        now_calls = made.github.calls()
        jit = now_calls.get("jit-config", 0) - calls.get("jit-config", 0)
        _say_problems(made)
        return {
            "online s": online_s,
            "running p95 s": sorted(late)[int(0.95 * len(late))] if late else None,
            "writes/runner": writes(spent, "serviceaccount") / count,
            "reads/runner": reads / count,
            "JIT calls/runner": jit / count,
            "CPU ms/runner": 1000 * (after.cpu_s - before.cpu_s) / count,
            "server CPU ms/runner": 1000
            * (used(made.server.pids()).cpu_s - server_before.cpu_s)
            / count,
            "peak RSS MiB": used([made.controller.pid] if made.controller else []).peak_rss_mib,
        }


async def floor(server: str, count: int) -> Figures:
    """The same requests without a thought."""
    async with world(server) as made:
        script = Floor(made)
        await script.prepare()
        already = len(made.eyes.sights.online)
        cpu_s = time.process_time()
        began_s = time.monotonic()
        await script.create(count)
        await made.eyes.until(lambda s: len(s.online) >= count + already, within_s=WITHIN_S)
        online_s = time.monotonic() - began_s
        # The script shares its process with nodes and GitHub: what those take is in it.
        figures: Figures = {
            "online s": online_s,
            "CPU ms/runner": 1000 * (time.process_time() - cpu_s) / count,
        }
        await script.close()
        _say_problems(made)
        return figures


def _say_problems(made: World) -> None:
    for problem in made.nodes.problems[:3]:
        print(f"  nodes: {problem}", flush=True)
