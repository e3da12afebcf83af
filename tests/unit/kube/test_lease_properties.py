"""The lease by machine: never two at work, and somebody again within a bound.

Three electors with clocks that run unequally fast and walls that disagree by hours; requests and
answers that are late or lost; conflicts, foreign hands, stops, and deaths that leave the lease
behind. Time is the loop's own: what an elector believes about it is its own affair.
"""

import asyncio
from contextlib import suppress
from typing import Any

import async_solipsism
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnerscale.core.randomness import seeded
from runnerscale.kube.errors import Unreachable
from runnerscale.kube.lease import DURATION_S, RENEW_DEADLINE_S, RETRY_S, LeaderLease
from tests.properties import examples
from tests.unit.kube.scripted import MiniServer, client_on
from tests.unit.kube.test_lease import PATH

SEATS = ("a", "b", "c")
LATE_MAX_S = 8.0  # one way
# The last lease may be renewed by a request that was on its way; then it runs out, is looked at
# once more by somebody whose clock is slow, and taken.
LEADS_AGAIN_WITHIN_S = 2 * LATE_MAX_S + 1.05 * DURATION_S + RENEW_DEADLINE_S + 3 * RETRY_S


class Crooked:
    """A clock that runs `rate` times as fast as true time, from another point."""

    def __init__(self, rate: float, off_s: float) -> None:
        self.rate, self.off_s = rate, off_s

    def now_s(self) -> float:
        return 1_800_000_000.0 + self.off_s + self.monotonic_s()

    def monotonic_s(self) -> float:
        return self.off_s + asyncio.get_running_loop().time() * self.rate

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self.rate)


class Process:
    """One life of one elector, and its way to the server."""

    host = "mini"

    def __init__(self, site: "Site", seat: str, number: int) -> None:
        self.site, self.seat, self.name = site, seat, f"{seat}-{number}"
        self.dead = self.abandoned = False
        lease = LeaderLease(
            client_on(self),
            namespace="ns",
            name="lease",
            identity=self.name,
            clock=site.clocks[seat],
            random=seeded(number),
            abandon=self.abandon,
        )
        self.task = asyncio.get_running_loop().create_task(lease.run(self.work))

    async def request(self, method: str, path: str, **given: Any) -> Any:
        net = self.site.nets[self.seat]
        await self._travel(net["there"])
        if self.dead or net["cut"]:
            raise Unreachable("cut off", sent=False)
        answer = await self.site.server.request(method, path, **given)
        await self._travel(net["back"])
        if self.dead or net["cut"] or net["deaf"]:
            raise Unreachable("the answer was lost")
        return answer

    async def _travel(self, seconds: float) -> None:
        # Who gave up waiting does not call the packet back.
        if seconds:
            await asyncio.sleep(seconds)

    async def work(self) -> None:
        site = self.site
        assert not site.working, f"{self.name} began while {site.working} was at work"
        site.working.add(self.name)
        site.began_s.append(asyncio.get_running_loop().time())
        try:
            await asyncio.sleep(1_000_000)
        finally:
            if not self.dead and site.slow_end_s:
                await asyncio.sleep(site.slow_end_s)
            site.working.discard(self.name)

    def abandon(self) -> None:
        self.abandoned = True
        self.site.working.discard(self.name)  # the process is gone, and its work with it

    async def kill(self) -> None:
        """No last word: its work stops here, and nothing more of it reaches anybody."""
        self.dead = True
        self.site.working.discard(self.name)
        self.task.cancel()
        with suppress(asyncio.CancelledError, RuntimeError):
            await self.task

    async def stop(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError, RuntimeError):
            await self.task

    @property
    def ended(self) -> bool:
        return self.task.done()


class Site:
    def __init__(self, rates: list[float], off_s: list[float]) -> None:
        self.server = MiniServer()
        self.clocks = {
            seat: Crooked(rate, off) for seat, rate, off in zip(SEATS, rates, off_s, strict=True)
        }
        self.nets: dict[str, dict[str, Any]] = {seat: self.good() for seat in SEATS}
        self.working: set[str] = set()
        self.began_s: list[float] = []
        self.slow_end_s = 0.0
        self.lives: dict[str, Process] = {}
        self.numbers = 0

    @staticmethod
    def good() -> dict[str, Any]:
        return {"cut": False, "deaf": False, "there": 0.0, "back": 0.0}

    def start(self, seat: str) -> None:
        self.numbers += 1
        self.lives[seat] = Process(self, seat, self.numbers)

    async def do(self, what: str, seat: str, seconds: float) -> None:
        if seat == "leader":
            seat = next((name.split("-")[0] for name in self.working), SEATS[0])
        net, life = self.nets[seat], self.lives[seat]
        late_s = min(seconds / 4, LATE_MAX_S)
        match what:
            case "cut" | "deaf":
                net[what] = True
            case "there" | "back":
                net[what] = late_s
            case "heal":
                self.nets[seat] = self.good()
            case "kill":
                await life.kill()
                self.start(seat)
            case "stop":
                await life.stop()
                self.start(seat)
            case "slow":
                self.slow_end_s = min(seconds, 5.0)
            case "touch":  # somebody annotates it: a conflict for whoever writes next
                if PATH in self.server.objects:
                    self.server.put(PATH, self.server.objects[PATH])
            case "delete":
                if PATH in self.server.objects and not self.working:
                    self.server.drop(PATH)
        for other in SEATS:  # a supervisor starts anew what ended
            if self.lives[other].ended:
                self.judge(self.lives[other])
                self.start(other)

    @staticmethod
    def judge(life: Process) -> None:
        """Only who could not end his work in time goes by himself."""
        if not life.task.cancelled():
            error = life.task.exception()
            assert isinstance(error, RuntimeError) and life.abandoned, error


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["cut", "deaf", "there", "back", "heal", "kill", "stop", "slow", "touch", "delete"]
        ),
        st.sampled_from(["leader", "leader", *SEATS]),
        st.integers(1, 120).map(lambda quarters: quarters / 4),
    ),
    max_size=14,
)
# One per cent apart: the margin of half a second is there for that.
RATES = st.lists(st.sampled_from([1.0, 0.99, 1.01]), min_size=3, max_size=3)
OFF = st.lists(st.sampled_from([0.0, 7200.0, -86_400.0]), min_size=3, max_size=3)


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.filterwarnings("ignore::async_solipsism.ResolutionWarning")
@examples(40)
@given(STEPS, RATES, OFF)
def test_never_two_and_somebody_again_within_a_bound(
    steps: list[tuple[str, str, float]], rates: list[float], off_s: list[float]
) -> None:
    async def scenario() -> None:
        site = Site(rates, off_s)
        for seat in SEATS:
            site.start(seat)
        for what, seat, seconds in steps:
            await site.do(what, seat, seconds)
            await asyncio.sleep(seconds)
        site.slow_end_s = 0.0
        for seat in SEATS:
            await site.do("heal", seat, 0.0)
        healed_s = asyncio.get_running_loop().time()
        while not site.working:
            await asyncio.sleep(0.5)
            passed_s = asyncio.get_running_loop().time() - healed_s
            assert passed_s <= LEADS_AGAIN_WITHIN_S, "nobody leads"
        await asyncio.sleep(200.0)
        for life in site.lives.values():
            if life.ended:  # its work had begun to end, slowly, before all was healed
                site.judge(life)
        assert len(site.working) == 1
        for life in site.lives.values():
            if not life.ended:
                await life.stop()

    with asyncio.Runner(loop_factory=async_solipsism.EventLoop) as runner:
        runner.run(scenario())
