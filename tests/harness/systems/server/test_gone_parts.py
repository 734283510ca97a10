"""A part that is gone when it is to be struck: what is said of the play."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.scenario import Fault
from killpoint.systems.server.driver import Driver


def _struck(folder: Path, *, asked: bool) -> History:
    """Strike a core that the driver knew and that has ended."""
    driver = object.__new__(Driver)
    driver.log = Log(folder / "driver.jsonl", "driver")
    driver.unreached = []
    watch = SimpleNamespace(parts={}, known={"core-0"}, look=lambda: None)
    vars(driver).update(_watch=watch, _asked_to_end={"front"} if asked else set())
    asyncio.run(driver._strike(Fault("kill", "core-0")))
    driver.log.close()
    assert driver.unreached == ["core-0 was gone"]
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
