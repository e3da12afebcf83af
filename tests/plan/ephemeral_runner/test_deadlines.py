"""The numbers, where one must fit another."""

from runnerscale.controllers.ephemeral_runner import deadlines as d


def test_a_runner_that_never_comes_online_is_gone_before_its_job_is_offered_again() -> None:
    assert d.ONLINE_WITHIN_S + d.OFFLINE_CONFIRMED_AFTER_S < 300


def test_an_uninstall_without_means_ends_within_five_minutes() -> None:
    assert d.UNREGISTERED_GIVEN_UP_AFTER_S < d.CREDENTIALS_GIVEN_UP_AFTER_S < 300


def test_an_outage_of_an_hour_leaks_nothing() -> None:
    assert d.GITHUB_GIVEN_UP_AFTER_S > 3600


def test_github_lets_go_of_a_lost_job_before_we_give_up_on_it() -> None:
    assert d.JOB_RELEASED_WITHIN_S > 15 * 60


def test_all_questions_together_stay_within_their_rate() -> None:
    assert d.asked_every_s(alive=1) == 120
    assert d.asked_every_s(alive=1000) == 10_000
    assert d.busy_asked_every_s(alive=10) == 3600
    assert d.busy_asked_every_s(alive=1000) == 10_000


def test_what_began_together_is_spread_and_always_the_same_way() -> None:
    shares = [d.spread(f"uid-{n}") for n in range(1000)]
    assert all(0 <= share < 1 for share in shares)
    assert 0.4 < sum(shares) / len(shares) < 0.6
    assert d.spread("uid-1") == d.spread("uid-1")
