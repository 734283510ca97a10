"""Looks with ``killpoint inspect`` in a play: what is told where none comes."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from killpoint.systems.server.processes import onlooker


def test_a_look_that_does_not_come_is_told_and_its_process_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = "import signal; signal.pause()"
    monkeypatch.setattr(onlooker, "_COMMAND", [sys.executable, "-c", waits])
    monkeypatch.setattr(onlooker, "_WITHIN", 0.2)

    async def look() -> None:
        async for _ in onlooker.looks(os.getpid(), 1):
            pytest.fail("it answered")

    with pytest.raises(onlooker.NoAnswer, match=r"killpoint inspect took more than 0\.2 s"):
        asyncio.run(look())
