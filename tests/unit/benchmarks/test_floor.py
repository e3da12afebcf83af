"""The floor's requests and answers: as few bytes are looked at as can be, and no fewer."""

import pytest
from benchmarks.floor.orders import Cut, Pattern, whole
from benchmarks.floor.wire import WireBroke, whole_answer


def test_marks_are_exchanged_wherever_they_stand_and_the_length_is_right() -> None:
    cut = Cut(
        Pattern("POST /NAME HTTP/1.1\r\nHost: x", '{"n":"NAME","u":"UID","v":"NAME"}'),
        "NAME",
        "UID",
    )
    sent = cut.filled(b"a-runner", b"7")
    body = b'{"n":"a-runner","u":"7","v":"a-runner"}'
    assert sent == (
        b"POST /a-runner HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


def test_the_marks_order_in_the_text_does_not_matter() -> None:
    cut = Cut(Pattern("A", "2 1 2 3"), "1", "2", "3")
    assert cut.filled(b"one", b"two", b"three").endswith(b"two one two three")


def test_a_request_without_body_says_so() -> None:
    assert whole(b"GET / HTTP/1.1", b"") == b"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"


HEAD = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("came", "answer"),
    [
        (HEAD + b"content-LENGTH: 5\r\n\r\nhello", (201, b"hello")),
        (
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n",
            (201, b"hello!"),
        ),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (201, b"")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
    ],
)
def test_an_answer_is_whole_at_its_last_byte_and_not_before(
    came: bytes, answer: tuple[int, bytes]
) -> None:
    assert whole_answer(came) == answer
    assert all(whole_answer(came[:end]) is None for end in range(len(came)))


def test_an_answer_that_never_says_where_it_ends_is_refused() -> None:
    with pytest.raises(WireBroke):
        whole_answer(HEAD + b"\r\nhello")
