"""An HTTP answer, byte by byte: whole, torn, or no answer, whatever the pieces it comes in."""

from __future__ import annotations

import pytest

from killpoint.systems.server.load.http_reply import ClientRequest, HttpReply, request

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = EVENTS + b"Transfer-Encoding: chunked\r\n\r\n"


def _reply(*pieces: bytes, ended: bool = True) -> HttpReply:
    reply = HttpReply()
    for piece in pieces:
        reply.feed(piece)
    if ended:
        reply.end_of_file()
    return reply


def _bytewise(data: bytes) -> list[bytes]:
    return [data[n : n + 1] for n in range(len(data))]


@pytest.mark.parametrize("split", [lambda data: [data], _bytewise], ids=["at once", "bytewise"])
@pytest.mark.parametrize(
    ("data", "body"),
    [
        (HEAD + b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (HEAD + b"Content-Length: 0\r\n\r\n", b""),
        (CHUNKED + b"5\r\nhello\r\n3;x=y\r\n...\r\n0\r\n\r\n", b"hello..."),
        (CHUNKED + b"5\r\nhello\r\n0\r\nTrailer: 1\r\n\r\n", b"hello"),
    ],
)
def test_a_body_ends_as_its_head_says(data: bytes, body: bytes, split: object) -> None:
    assert callable(split)
    reply = _reply(*split(data), ended=False)
    assert reply.ended
    assert not reply.torn
    assert bytes(reply.body) == body


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"Content-Length: 5\r\n\r\nhell",
        HEAD + b"Content-Le",
        CHUNKED + b"5\r\nhello\r\n",
        CHUNKED + b"5\r\nhel",
        CHUNKED + b"5\r\nhello\r\n0\r\n",
        CHUNKED,
    ],
)
def test_a_connection_that_ends_inside_an_answer_tears_it(data: bytes) -> None:
    reply = _reply(data)
    assert not reply.ended
    assert "torn inside the answer" in reply.torn


def test_a_body_without_a_length_ends_with_its_connection_unless_that_breaks() -> None:
    assert _reply(HEAD + b"\r\nhello").ended
    broken = _reply(HEAD + b"\r\nhello", ended=False)
    broken.end_of_file("ConnectionResetError")
    assert broken.torn
    assert not broken.ended


def test_no_answer_is_told_from_a_torn_one() -> None:
    assert "before an answer" in _reply().torn


@pytest.mark.parametrize("data", [b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * 70_000])
def test_what_is_no_http_is_told(data: bytes) -> None:
    assert "no HTTP" in _reply(data, ended=False).torn


def test_events_come_whole_and_once() -> None:
    reply = HttpReply()
    events: list[str] = []
    stream = b'data: {"a": 1}\n\ndata: two\r\n\r\n: a comment\n\ndata: [DONE]\n\n'
    for piece in _bytewise(CHUNKED + b"%x\r\n%s\r\n" % (len(stream), stream) + b"0\r\n\r\n"):
        reply.feed(piece)
        events += reply.events()
    assert events == ['{"a": 1}', "two", "[DONE]"]
    assert reply.is_stream


def test_a_request_says_how_long_its_body_is() -> None:
    body = ClientRequest("x", 8, stream=True).body("model")
    assert b'"stream":true' in body
    assert b'"model":"model"' in body
    assert b'"model"' not in ClientRequest("x", 8, stream=True).body("")
    sent = request("POST", "/v1/completions", "host", body)
    assert f"Content-Length: {len(body)}\r\n".encode() in sent
    assert sent.endswith(body)
