"""Ten minutes are ten minutes: what does not fit is left out, further rounds before first ones."""

from benchmarks.budget import CLEAN_UP_S, Budget, Rounds, Step


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def step(round_s: float, rounds: int = 3) -> Step:
    return Step("burst", "embedded", 100, rounds, round_s)


def play(rounds: Rounds, watch: Watch, each_s: float) -> int:
    for _ in rounds:
        watch.now_s += each_s
    return rounds.done


def test_all_rounds_are_made_where_there_is_time() -> None:
    watch = Watch()
    rounds = Budget(None, now=watch).rounds(step(30), [step(30)])
    assert play(rounds, watch, 1_000.0) == 3
    assert rounds.note == ""


def test_further_rounds_leave_room_for_the_first_of_each_later_case() -> None:
    watch = Watch()
    budget = Budget(200 + CLEAN_UP_S, now=watch)
    # 200 s; 100 for the others: two rounds of 40 end at 80, a third would end at 120.
    rounds = budget.rounds(step(40), [step(60), step(40)])
    assert play(rounds, watch, 40.0) == 2
    assert rounds.note == "2 of 3 rounds: no time for more"


def test_the_first_round_is_made_even_where_the_later_ones_then_do_not_fit() -> None:
    watch = Watch()
    rounds = Budget(100 + CLEAN_UP_S, now=watch).rounds(step(40), [step(300)])
    assert play(rounds, watch, 40.0) == 1


def test_a_case_that_does_not_fit_any_more_is_left_out() -> None:
    watch = Watch()
    budget = Budget(100 + CLEAN_UP_S, now=watch)
    assert budget.fits(step(100))
    watch.now_s += 1
    assert not budget.fits(step(100))


def test_a_slow_machine_is_noticed_and_reckoned_with() -> None:
    watch = Watch()
    budget = Budget(100 + CLEAN_UP_S, now=watch)
    budget.took(step(10), 60.0, 2)  # 20 s were reckoned
    assert budget.slowness == 3.0
    assert not budget.fits(step(40))
    assert budget.fits(step(33))


def test_no_case_goes_on_after_the_end_of_the_whole_time() -> None:
    watch = Watch()
    budget = Budget(100 + CLEAN_UP_S, now=watch)
    assert budget.bound_s(step(10)) == 100.0
    assert Budget(None, now=watch).bound_s(step(100)) == 2_400.0  # eight times three rounds
