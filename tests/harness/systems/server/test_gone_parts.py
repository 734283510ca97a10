"""A part that is gone when it is to be struck: what is said of the play."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.scenario import Fault
from killpoint.systems.server.strikes import Strikes
from killpoint.systems.server.watch import ServerWatch


def _struck(folder: Path, *, asked: bool) -> History:
    """Strike a core that was known and has ended."""
    log = Log(folder / "driver.jsonl", "driver")
    watch = SimpleNamespace(parts={}, known={"core-0"}, look=lambda: None)
    none = cast("Any", None)
    strikes = Strikes(folder, log, none, cast("ServerWatch", watch), none, none, 0)
    if asked:
        vars(strikes)["_asked_to_end"].add("front")
    asyncio.run(strikes.strike(Fault("kill", "core-0")))
    log.close()
    assert strikes.unreached == ["core-0 was gone"]
    return History.read(folder)


def test_before_any_end_was_asked_for_it_was_not_reached(tmp_path: Path) -> None:
    history = _struck(tmp_path, asked=False)
    assert [e.data.get("gone") for e in history.of("not-reached")] == [True]
    assert history.first("lacking") is None


def test_of_a_server_that_was_asked_to_end_there_is_no_drain_to_strike_it_in(
    tmp_path: Path,
) -> None:
    (lacking,) = _struck(tmp_path, asked=True).of("lacking")
    assert lacking.text("error").startswith("there is no drain to strike it in: core-0 had ended")
