"""What a completion came to: each end is told from each other."""

from __future__ import annotations

import json

import pytest

from killpoint.systems.server.load.completion import Completion, End
from killpoint.systems.server.load.http_reply import HttpReply

TEXT = "one two three"


def _ended(data: bytes, *, undisturbed: str | None = TEXT, marked: bool = True) -> tuple[End, str]:
    reply, completion = HttpReply(), Completion(tokens=3)
    for n in range(0, len(data), 7):
        reply.feed(data[n : n + 7])
        completion.take(reply)
    reply.end_of_file()
    completion.take(reply)
    return completion.end(reply, undisturbed, marked=marked)


def _whole(text: str, finish: str | None = "length", status: int = 200, **more: object) -> bytes:
    body = json.dumps({"choices": [{"text": text, "finish_reason": finish}], **more})
    return _answer(status, body)


def _answer(status: int, body: str) -> bytes:
    return f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def _stream(*events: object, end: bytes = b"0\r\n\r\n") -> bytes:
    lines = [e if isinstance(e, str) else json.dumps(e) for e in events]
    chunks = [f"data: {line}\n\n".encode() for line in lines]
    head = (
        b"HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    return head + b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks) + end


def _piece(text: str, finish: str | None = None) -> dict[str, object]:
    return {"choices": [{"text": text, "finish_reason": finish}]}


ERROR = {"error": {"message": "the worker is dead"}}
PARTS = (_piece("one "), _piece("two "))


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (_whole(TEXT), "whole"),
        (_whole(TEXT, "stop"), "whole"),
        (_stream(*PARTS, _piece("three", "length"), "[DONE]"), "whole"),
        (_whole("one two"), "truncated"),
        (_whole("one two", "abort"), "truncated"),
        (_whole("one two", None), "truncated"),
        (_stream(*PARTS, _piece("", "length"), "[DONE]"), "truncated"),
        (_stream(*PARTS, _piece("", "abort"), "[DONE]"), "truncated"),
        (_stream(*PARTS, "[DONE]"), "truncated"),
        (_stream(*PARTS), "truncated"),
        (_stream(*PARTS, _piece("three", "length")), "truncated"),
        (_stream(*PARTS, end=b""), "torn"),
        (_whole(TEXT)[:-3], "torn"),
        (_stream(*PARTS, ERROR, "[DONE]"), "error"),
        (_stream(*PARTS, ERROR, end=b""), "error"),
        (_answer(500, json.dumps(ERROR)), "error"),
        (_answer(503, "busy"), "error"),
        (_answer(200, "not json"), "error"),
        (_whole("one TWO three"), "differs"),
        (_stream(_piece("one "), _piece("2 three", "length"), "[DONE]"), "differs"),
        (b"", "no-answer"),
    ],
)
def test_an_answer_comes_to_one_end(data: bytes, end: End) -> None:
    assert _ended(data)[0] == end


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (_stream(*PARTS, _piece("three", "length")), "whole"),
        (_stream(*PARTS, _piece("three", "length"), end=b""), "torn"),
        (_stream(*PARTS, _piece("three")), "truncated"),
        (_stream(*PARTS, _piece("", "length")), "truncated"),
    ],
)
def test_of_a_server_that_marks_no_end_the_finish_reason_is_the_mark(data: bytes, end: End) -> None:
    assert _ended(data, marked=False)[0] == end


def test_an_error_tells_its_cause_and_one_without_a_word_only_its_status() -> None:
    assert _ended(_answer(500, json.dumps(ERROR)))[1] == "500 the worker is dead"
    assert _ended(_answer(500, ""))[1] == "500"


def test_without_a_control_the_count_of_tokens_tells_what_was_cut() -> None:
    short = _whole("one", usage={"completion_tokens": 1})
    assert _ended(short, undisturbed=None)[0] == "truncated"
    assert _ended(_whole("one two three"), undisturbed=None)[0] == "whole"
