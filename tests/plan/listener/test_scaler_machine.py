"""The wanted number by machine: any figures, limits, jobs, failures and restarts in any order.

Judged by a model that knows only what a reader of the set knows: which patches it may have
seen, and that 0 means exactly, a known id old news.
"""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from runnerscale.listener import scaler
from runnerscale.listener.scaler import SEQUENCE_MAX, Bounds, ScalerState, WantedPatch
from tests.properties import examples

LIMITS = st.tuples(st.integers(0, 5), st.integers(0, 10)).map(lambda n: Bounds(n[0], n[0] + n[1]))


class ScalerMachine(RuleBasedStateMachine):
    """One listener after the other; each decides, sends, and hears or does not hear."""

    @initialize(bounds=LIMITS, near_the_end=st.booleans())
    def begin(self, bounds: Bounds, near_the_end: bool) -> None:
        self.bounds = bounds
        self.assigned = 0
        self.start()
        if near_the_end:  # of what an int32 can count
            self.state = ScalerState(sequence=SEQUENCE_MAX - 2, target=0)
            self.told = True

    def start(self) -> None:
        self.state = ScalerState()
        self.told = False  # something was stored in this life
        self.meant: dict[int, int] = {}  # id: the number that it was sent with, since a success
        self.last_id = -1
        self.happened = False  # a job started or ended since the last stored number

    @rule()
    def restart(self) -> None:
        """Killed at any point; a successor begins with the same figures."""
        before = scaler.target(self.assigned, self.bounds)
        self.start()
        patch = scaler.decide(self.state, assigned=self.assigned, bounds=self.bounds)
        assert (patch.patch_id, patch.replicas) == (0, before), "the first word is exact, the same"

    @rule(assigned=st.integers(-2, 20))
    def statistics(self, assigned: int) -> None:
        fewer = scaler.target(min(assigned, self.assigned), self.bounds)
        more = scaler.target(max(assigned, self.assigned), self.bounds)
        assert fewer <= more, "more jobs never want fewer runners"
        self.assigned = assigned

    @rule(bounds=LIMITS)
    def limits(self, bounds: Bounds) -> None:
        self.bounds = bounds

    @rule()
    def job(self) -> None:
        self.state = scaler.disturbed(self.state)
        self.happened = True

    @rule(passed_empty=st.booleans(), outcome=st.sampled_from(["stored", "lost", "refused"]))
    def tell(self, passed_empty: bool, outcome: str) -> None:
        patch = scaler.decide(
            self.state, assigned=self.assigned, bounds=self.bounds, passed_empty=passed_empty
        )
        self.judge(patch, passed_empty=passed_empty)
        if outcome == "stored":
            self.state = scaler.stored(patch)
            self.told, self.happened = True, False
            self.meant.clear()
        else:  # it may have had its effect
            self.state = scaler.failed(self.state, patch)
            self.meant[patch.sequence] = patch.replicas
        self.last_id = patch.sequence

    def judge(self, patch: WantedPatch, *, passed_empty: bool) -> None:
        low, high = self.bounds.min_runners, self.bounds.max_runners
        assert low <= patch.replicas <= high
        assert patch.replicas == min(high, low + max(0, self.assigned))
        assert patch.patch_id in (0, patch.sequence) and 0 <= patch.sequence <= SEQUENCE_MAX
        wrapped = self.last_id >= SEQUENCE_MAX - 1 and patch.sequence <= 2
        again = self.meant.get(patch.sequence) == patch.replicas
        assert again or wrapped or patch.sequence > self.last_id, "ids never go back"
        assert again or wrapped or patch.sequence not in self.meant, "one id, two numbers"
        exact = patch.patch_id == 0
        if not self.told:
            assert exact, "until a first number is stored, nobody knows what the set was told"
            return
        if exact:
            assert not self.happened, "a job moved since: the number may be a moment old"
            assert patch.replicas == self.state.target, "it moved just now"
            assert passed_empty or patch.replicas == low
        elif passed_empty and not self.happened:
            assert patch.replicas != self.state.target, "a quiet poll is the time to be exact"

    @invariant()
    def growing_is_seen(self) -> None:
        wanted = scaler.target(self.assigned, self.bounds)
        assert scaler.grows(self.state, wanted) == (wanted > self.state.target)


TestScalerMachine = ScalerMachine.TestCase
TestScalerMachine.settings = examples(60, steps=30)
