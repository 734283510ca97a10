"""Clients of a burst: when they ask, cancel and ask again, of an engine that a test turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from killpoint.history.event import Event
from killpoint.history.log import Log
from killpoint.systems.engine.burst_thread import BurstThread
from killpoint.systems.engine.steps import Ask, Burst, Client
from killpoint.targets.engine_protocol import EngineHealth, EnginePiece, EngineShape, HasEngine


class _Engine:
    """An engine of requests that get a token at each poll, or stand still."""

    def __init__(self, *, still: bool = False) -> None:
        self.still = still
        self.names: list[str] = []
        self.streams: list[dict[str, Any]] = []

    def engine_submit(self, end: object, prompt: Sequence[int], max_tokens: int) -> dict[str, Any]:
        return self.engine_submit_as(end, "", prompt, max_tokens)

    def engine_submit_as(
        self, end: object, id: str, prompt: Sequence[int], max_tokens: int
    ) -> dict[str, Any]:
        del end, prompt
        open_ = [each["id"] for each in self.streams if not each["finish"]]
        assert not id or id not in open_
        self.names.append(id)
        self.streams.append({"id": id, "left": max_tokens, "finish": ""})
        return self.streams[-1]

    def engine_poll(self, end: object, stream: dict[str, Any]) -> EnginePiece | None:
        del end
        if stream["finish"]:
            return EnginePiece([], stream["finish"])
        if self.still:
            return None
        stream["left"] -= 1
        stream["finish"] = "" if stream["left"] else "length"
        return EnginePiece([7], stream["finish"])

    def engine_cancel(self, end: object, stream: dict[str, Any]) -> None:
        del end
        stream["finish"] = stream["finish"] or "cancelled"

    def engine_health(self, end: object) -> EngineHealth:
        del end
        return EngineHealth(alive=True, ready=True, progressing=True, replicas=1)

    def engine_parts(self, end: object) -> dict[str, int]:
        del end
        return {}


def _played(tmp_path: Path, engine: _Engine, *clients: Client, still: float | None = None) -> Any:
    log = Log(tmp_path / "front-end.jsonl", "front-end")
    thread = BurstThread(
        cast("HasEngine", engine),
        None,
        log,
        EngineShape(),
        0,
        look=0.05,
        word=lambda _: "error",
        tell=lambda _: None,
    )
    thread.begin(Burst(list(clients)))
    thread.start()
    began = time.monotonic()
    calm = thread.calm(20.0, still)
    took = time.monotonic() - began
    thread.halt()
    assert thread.broken is None
    log.close()
    lines = (tmp_path / "front-end.jsonl").read_bytes().splitlines()
    told = [msgspec.json.decode(line, type=Event) for line in lines]
    return thread, told, calm, took


def test_a_client_asks_again_by_its_id_as_soon_as_its_last_request_has_ended(
    tmp_path: Path,
) -> None:
    engine = _Engine()
    asks = [Ask(max_tokens=2), Ask(max_tokens=9, cancel_at=3), Ask(max_tokens=1, cancel_ended=True)]
    thread, told, calm, _ = _played(tmp_path, engine, Client(asks, id="one"), Client([asks[0]]))
    assert calm
    assert sorted(engine.names) == ["", "one", "one", "one"]
    ends = {event.data["n"]: event.data for event in told if event.kind == "answer"}
    assert sorted(str(end["finish"]) for end in ends.values()) == [
        *["cancelled", "length", "length", "length"]
    ]
    kinds = [event.kind for event in told]
    assert kinds.count("cancelled") == kinds.count("cancelled-ended") == 1
    assert [each.max_tokens for each in thread.known()] == [2, 9, 1]


def test_what_is_cancelled_before_its_first_token_need_not_be_computed_alone(
    tmp_path: Path,
) -> None:
    engine = _Engine(still=True)
    asks = [Ask(cancel_after=0.0), Ask(own=2, cancel_after=0.05)]
    thread, told, calm, took = _played(tmp_path, engine, Client(asks))
    assert calm
    assert took >= 0.05
    assert list(thread.known()) == []
    assert [event.kind for event in told if event.kind in ("first", "answer")] == ["answer"] * 2


def test_requests_that_stand_still_are_not_waited_for(tmp_path: Path) -> None:
    _, _, calm, took = _played(tmp_path, _Engine(still=True), Client([Ask()]), still=0.3)
    assert not calm
    assert 0.3 <= took < 20.0


def test_health_is_looked_at_as_soon_as_an_idle_engine_has_a_request(tmp_path: Path) -> None:
    _, told, _, _ = _played(tmp_path, _Engine(), Client([Ask()]))
    kinds = [event.kind for event in told]
    assert kinds[kinds.index("request") + 1] == "looked"
