"""Envelopes: order, growing ids, redelivery, the bound of 50, and nothing lost."""

import hypothesis.strategies as st
from hypothesis import given

from runnerscale.fake_github.message_queue import FIRST_ID, MESSAGES_MAX, MessageQueue


def queue_of(count: int) -> MessageQueue:
    queue = MessageQueue()
    for number in range(count):
        queue.add({"n": number})
    return queue


def test_ids_begin_where_live_ones_do_and_grow() -> None:
    queue = queue_of(120)
    ids = []
    while (envelope := queue.next_after(ids[-1] if ids else 0)) is not None:
        ids.append(envelope.id)
    assert ids == [FIRST_ID, FIRST_ID + 1, FIRST_ID + 2]
    assert FIRST_ID == 100_000_001


def test_an_envelope_holds_at_most_fifty_messages() -> None:
    queue = queue_of(70)
    first = queue.next_after(0)
    assert first is not None
    assert len(first.messages) == MESSAGES_MAX == 50
    second = queue.next_after(first.id)
    assert second is not None
    assert [m["n"] for m in second.messages] == list(range(50, 70))


def test_an_undeleted_envelope_comes_back_with_the_same_id_and_content() -> None:
    queue = queue_of(1)
    first = queue.next_after(0)
    queue.add({"n": 1})
    again = queue.next_after(0)
    assert first is not None
    assert again is first
    assert again.deliveries == 2


def test_the_cursor_skips_but_does_not_discard() -> None:
    queue = queue_of(1)
    first = queue.next_after(0)
    assert first is not None
    queue.add({"n": 1})
    second = queue.next_after(first.id)
    assert second is not None
    assert second.id == first.id + 1
    assert queue.undeleted == [first.id, second.id]


def test_deleting_twice_is_no_error() -> None:
    queue = queue_of(1)
    first = queue.next_after(0)
    assert first is not None
    assert queue.delete(first.id) is True
    assert queue.delete(first.id) is False
    assert queue.next_after(0) is None


def test_changed_statistics_are_worth_one_envelope_without_messages() -> None:
    queue = MessageQueue()
    queue.add_news()
    queue.add_news()
    envelope = queue.next_after(0)
    assert envelope is not None
    assert envelope.messages == ()
    assert queue.next_after(envelope.id) is None


def test_the_oldest_goes_when_nobody_ever_deletes() -> None:
    queue = MessageQueue(undeleted_max=2)
    cursor = 0
    for number in range(4):
        queue.add({"n": number})
        envelope = queue.next_after(cursor)
        assert envelope is not None
        cursor = envelope.id
    assert queue.undeleted == [FIRST_ID + 2, FIRST_ID + 3]
    assert queue.dropped == 2


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 130)),
        st.tuples(st.just("poll"), st.just(0)),
        st.tuples(st.just("poll at cursor"), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 10)),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_every_message_is_delivered_in_order_whatever_is_polled_and_deleted(
    actions: list[tuple[str, int]],
) -> None:
    queue = MessageQueue()
    added = 0
    delivered: dict[int, list[object]] = {}
    cursor = 0
    for what, number in actions:
        if what == "add":
            for _ in range(number):
                queue.add({"n": added})
                added += 1
        elif what == "delete":
            seen = sorted(delivered)
            if number < len(seen):
                queue.delete(seen[number])
        else:
            envelope = queue.next_after(cursor if "cursor" in what else 0)
            if envelope is not None:
                content = [m["n"] for m in envelope.messages]
                assert delivered.setdefault(envelope.id, content) == content
                cursor = max(cursor, envelope.id)
    while (envelope := queue.next_after(cursor)) is not None:
        delivered[envelope.id] = [m["n"] for m in envelope.messages]
        cursor = envelope.id
    in_order = [n for envelope_id in sorted(delivered) for n in delivered[envelope_id]]
    assert in_order == list(range(added))
