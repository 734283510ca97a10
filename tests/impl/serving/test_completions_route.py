"""A completion is the same whole or streamed; every request is answered, or cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from refengine.engine import Delta, EngineClosed, RequestFailed
from refengine.serving.app import application
from refengine.serving.http import MAX_BODY_BYTES
from refengine.serving.service import Service

from .exchange import SECONDS, Exchange, answer
from .fake_engine import FakeEngine, Script, spelled

PATH = "/v1/completions"
RAW = b"caf\xc3\xa9 \xff\xe2\x82 end"


def _app(engine: FakeEngine | None, model: str = "refengine") -> Any:
    service = Service(model, wall=lambda: 1700000000.5)
    service.engine = engine
    return application(service)


def _scripted(script: Script | str | bytes) -> Any:
    return _app(FakeEngine(script=script if callable(script) else spelled(script)))


def _joined(events: list[Any], index: int = 0) -> tuple[str, list[int], list[str]]:
    choices = [c for event in events for c in event["choices"] if c["index"] == index]
    tokens = [token for choice in choices for token in choice["token_ids"]]
    ends = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    return "".join(choice["text"] for choice in choices), tokens, ends


def test_a_completion_is_as_clients_of_openai_read_it() -> None:
    got = answer(_scripted("hello"), "POST", PATH, {"prompt": "abc", "model": "refengine"})
    body = got.json
    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    assert body.pop("id").startswith("cmpl-")
    assert body == {
        "object": "text_completion",
        "created": 1700000000,
        "model": "refengine",
        "choices": [
            {
                "index": 0,
                "text": "hello",
                "token_ids": list(b"hello"),
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }


@pytest.mark.parametrize("stop", [None, "é", ["nd", " \ufffd"]])
@pytest.mark.parametrize("most", [3, 4, 100])
@pytest.mark.parametrize("echo", [False, True])
def test_a_stream_says_what_the_whole_says(stop: object, most: int, echo: bool) -> None:
    asked = {"prompt": "a", "max_tokens": most, "stop": stop, "echo": echo}
    whole = answer(_scripted(RAW), "POST", PATH, asked).json["choices"][0]
    streamed = answer(_scripted(RAW), "POST", PATH, asked | {"stream": True})
    assert streamed.headers["content-type"].startswith("text/event-stream")
    expected = (whole["text"], whole["token_ids"], [whole["finish_reason"]])
    assert _joined(streamed.events) == expected
    assert whole["text"].startswith("a" if echo else "c")


def test_the_usage_of_a_stream_is_told_last_if_asked_for() -> None:
    asked = {"prompt": "ab", "stream": True}
    events = answer(_scripted("xyz"), "POST", PATH, asked).events
    assert not any("usage" in event for event in events)
    with_usage = asked | {"stream_options": {"include_usage": True}}
    *events, last = answer(_scripted("xyz"), "POST", PATH, with_usage).events
    assert {str(event["usage"]) for event in events} == {"None"}
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


def test_each_prompt_has_its_own_choice() -> None:
    app = _scripted(lambda prompt: [token + 1 for token in prompt])
    asked = {"prompt": ["abc", "x"]}
    choices = answer(app, "POST", PATH, asked).json["choices"]
    assert [(choice["index"], choice["text"]) for choice in choices] == [(0, "bcd"), (1, "y")]
    events = answer(app, "POST", PATH, asked | {"stream": True}).events
    assert [_joined(events, index)[0] for index in (0, 1)] == ["bcd", "y"]


def test_a_stop_string_cancels_what_the_model_would_go_on_with() -> None:
    async def play() -> None:
        engine = FakeEngine()
        exchange = Exchange("POST", PATH, {"prompt": "a", "stop": "!"})
        task = asyncio.create_task(exchange.play(_app(engine)))
        stream = await _submitted(engine)
        stream.put(Delta(tuple(b"so!")))
        await task
        assert exchange.json["choices"][0]["text"] == "so"
        assert engine.cancelled == [stream.request_id]

    asyncio.run(play())


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("tokens", [b"", b"so far"])
def test_a_client_that_hangs_up_has_its_request_cancelled(streamed: bool, tokens: bytes) -> None:
    async def play() -> None:
        engine = FakeEngine()
        exchange = Exchange("POST", PATH, {"prompt": ["a", "b"], "stream": streamed})
        task = asyncio.create_task(exchange.play(_app(engine)))
        stream = await _submitted(engine)
        if tokens:
            stream.put(Delta(tuple(tokens)))
        if tokens and streamed:
            await exchange.until(lambda seen: b"so far" in seen.body)
        exchange.hang_up()
        await task
        assert sorted(engine.cancelled) == sorted(engine.streams)
        assert not exchange.body.endswith(b"[DONE]\n\n")

    asyncio.run(play())


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestFailed("r", "core-0 was killed 4 times"), 500, "request_failed"),
        (EngineClosed("submit"), 503, "engine_closed"),
        (KeyError("bug"), 500, None),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_failed_request_is_told_with_its_cause(
    error: Exception, status: int, code: str | None, streamed: bool
) -> None:
    got = asyncio.run(_failed(error, streamed, b""))
    assert (got.status, got.json["error"]["code"]) == (status, code)
    assert str(error) in got.json["error"]["message"]
    assert not (streamed and b"[DONE]" in got.body)


def test_a_stream_that_fails_half_way_ends_with_the_cause() -> None:
    got = asyncio.run(_failed(RequestFailed("r", "core-0 was killed"), True, b"so"))
    *events, last = got.events
    assert (got.status, _joined(events)[0]) == (200, "so")
    assert "core-0 was killed" in last["error"]["message"]


async def _failed(error: Exception, streamed: bool, tokens: bytes) -> Exchange:
    engine = FakeEngine()
    exchange = Exchange("POST", PATH, {"prompt": ["a", "b"], "stream": streamed})
    task = asyncio.create_task(exchange.play(_app(engine)))
    stream = await _submitted(engine)
    if tokens:
        stream.put(Delta(tuple(tokens)))
    stream.put(error)
    await task
    assert [name for name in engine.streams if name != stream.request_id] == [
        name for name in engine.cancelled if name != stream.request_id
    ]
    return exchange


def test_an_engine_that_is_full_is_429_and_nothing_of_the_request_stays() -> None:
    engine = FakeEngine(most=2)
    got = answer(_app(engine), "POST", PATH, {"prompt": ["a", "b", "c"]})
    assert (got.status, got.json["error"]["code"]) == (429, "engine_full")
    assert got.headers["retry-after"] == "1"
    assert engine.cancelled == list(engine.streams)


def test_an_engine_that_is_starting_is_503() -> None:
    got = answer(_app(None), "POST", PATH, {"prompt": "a"})
    assert (got.status, got.json["error"]["code"]) == (503, "starting")


def test_another_model_is_404() -> None:
    got = answer(_scripted("x"), "POST", PATH, {"prompt": "a", "model": "gpt"})
    assert (got.status, got.json["error"]["code"]) == (404, "model_not_found")
    assert got.json["error"]["param"] == "model"


@pytest.mark.parametrize(
    ("asked", "field"),
    [({"prompt": [1, 999]}, "prompt"), ({"prompt": "a", "temperature": 1}, "temperature")],
)
def test_what_cannot_be_served_is_400(asked: object, field: str) -> None:
    got = answer(_scripted("x"), "POST", PATH, asked)
    assert (got.status, got.json["error"]["param"]) == (400, field)
    assert got.json["error"]["type"] == "invalid_request_error"


def test_a_body_that_is_too_long_is_not_read_to_its_end() -> None:
    got = answer(_scripted("x"), "POST", PATH, b" " * (MAX_BODY_BYTES + 1))
    assert got.status == 413


def test_a_client_that_hangs_up_while_it_asks_is_nobody_to_answer() -> None:
    async def play() -> None:
        exchange = Exchange("POST", PATH)
        exchange._requests[1:] = []  # pyright: ignore[reportPrivateUsage] # the body's end is not to come
        exchange.hang_up()
        await exchange.play(_app(FakeEngine()))
        assert exchange.sent == []

    asyncio.run(play())


async def _submitted(engine: FakeEngine) -> Any:
    """The first of its streams, once all prompts of the request have one."""
    async with asyncio.timeout(SECONDS):
        while not engine.streams:
            await asyncio.sleep(0)
    return next(iter(engine.streams.values()))
