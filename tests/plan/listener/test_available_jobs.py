"""What is claimed of the jobs that an older server offers."""

from dataclasses import replace

import pytest

from runnerscale.listener.available_jobs import (
    OFFERS_MAX,
    Offers,
    asked,
    free_capacity,
    heard,
    listed,
    missed,
    to_claim,
)
from runnerscale.scaleset.model import JobEvent, JobEventKind, Statistics

OFFER = JobEvent(kind=JobEventKind.AVAILABLE, index=0, request_id=5)
BUSY = Statistics(available_jobs=3)


@pytest.mark.behaviour("C2 T200")
def test_no_more_is_claimed_than_there_is_room_for() -> None:
    offers = heard(Offers(), [replace(OFFER, request_id=n) for n in (5, 6, 7)], BUSY)
    assert to_claim(offers, BUSY, max_runners=2) == [5, 6]


@pytest.mark.behaviour("C2 T200")
def test_where_the_server_pushes_jobs_nothing_is_claimed() -> None:
    assigned = replace(OFFER, kind=JobEventKind.ASSIGNED, request_id=0)
    offers = heard(Offers(), [assigned, replace(OFFER, request_id=0)], BUSY)
    assert to_claim(offers, BUSY, max_runners=10) == []


def test_jobs_that_are_ours_already_take_room_whether_assigned_or_only_claimed() -> None:
    assert free_capacity(Statistics(assigned_jobs=3, acquired_jobs=1), max_runners=5) == 1
    assert free_capacity(Statistics(assigned_jobs=9), max_runners=5) == 0


def test_what_found_no_room_is_remembered_and_claimed_later() -> None:
    offers = asked(Offers((5, 6, 7)), [5, 6])
    later = heard(offers, [], Statistics(available_jobs=1))
    assert to_claim(later, Statistics(), max_runners=2) == [7]


def test_an_offer_that_found_an_owner_is_forgotten() -> None:
    gone = replace(OFFER, kind=JobEventKind.COMPLETED, request_id=6)
    assert heard(Offers((5, 6, 7)), [gone], BUSY) == Offers((5, 7))


def test_a_service_that_offers_nothing_any_more_clears_the_memory() -> None:
    assert heard(Offers((5, 6)), [], Statistics(available_jobs=0)) == Offers()


def test_an_offer_counts_though_the_statistics_beside_it_say_none() -> None:
    assert heard(Offers(), [OFFER], Statistics(available_jobs=0)) == Offers((5,))


def test_the_memory_is_bounded_and_keeps_the_newest() -> None:
    many = [replace(OFFER, request_id=n) for n in range(1, OFFERS_MAX + 3)]
    assert heard(Offers(), many, BUSY).request_ids[0] == 3


def test_offers_that_went_to_a_listener_before_us_are_missed_where_there_is_room() -> None:
    assert missed(Offers(), BUSY, max_runners=2)
    assert not missed(Offers((5,)), BUSY, max_runners=2)  # first those that we know
    assert not missed(Offers(), Statistics(), max_runners=2)
    assert not missed(Offers(), replace(BUSY, assigned_jobs=2), max_runners=2)
    assert listed([5, 6, 5]) == Offers((5, 6))
    assert len(listed(range(1, 2 * OFFERS_MAX)).request_ids) == OFFERS_MAX
