"""Whole servers as a system that is put on trial: how one of their scenarios is played."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from killpoint import ledger as books
from killpoint.errors import BadUsage
from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.systems.base import Played
from killpoint.systems.server.driver import Driver, Stalled
from killpoint.systems.server.program import ServerProgram
from killpoint.systems.server.supervisor import Supervisor
from killpoint.systems.server.target import HasServer
from killpoint.targets.registry import build


class ServerSystem:
    """See :class:`killpoint.systems.base.System`."""

    name = "server"

    def owns(self, scenario: Scenario) -> bool:
        """Whether it is a scenario of a server."""
        return scenario.server is not None

    def key(self, scenario: Scenario) -> bytes:
        """What two scenarios share that are one play, judged by different invariants."""
        plain = msgspec.structs.replace(scenario, case="", judges=[], title="", target="")
        return msgspec.json.encode(plain)

    def play(self, spec: str, scenario: Scenario, folder: Path) -> Played:
        """Start a server, let clients ask, do what is to be done to it, and end what is left."""
        target = build(spec)
        if not isinstance(target, HasServer):
            raise BadUsage(f"target {spec}: it cannot be started as a server")
        program = target.server_program()
        assert scenario.server is not None
        if not program.plays_in(scenario.server.topology):
            return _lacking(folder, f"the target has no {scenario.server.topology} topology")
        with Supervisor() as supervisor:
            return _played(program, scenario, folder, supervisor)


def _lacking(folder: Path, why: str) -> Played:
    log = Log(folder / "driver.jsonl", "driver")
    log.write("lacking", error=why)
    log.close()
    return Played(Ledger(), "", [])


def _played(
    program: ServerProgram, scenario: Scenario, folder: Path, supervisor: Supervisor
) -> Played:
    driver = Driver(program, scenario, folder, supervisor)
    stalled = ""
    try:
        asyncio.run(driver.play())
    except Stalled as error:
        stalled = str(error)
    finally:
        driver.log.close()
    temporary = folder / "t"
    names = driver.segments
    if not supervisor.shared_shm:
        names = {path.name for path in supervisor.shm.iterdir()}
    left = books.look(names, temporary, driver.tree.pids(), supervisor.shm)
    left.all_killed = _all_killed(History.read(folder))
    gone = msgspec.structs.replace(left, processes=[])  # the launcher ends those
    if supervisor.shared_shm:
        books.remove(gone, temporary)
    return Played(left, stalled, driver.unreached)


def _all_killed(history: History) -> bool:
    """Whether every part that ever was died of SIGKILL."""
    ends = list(history.of("front-ended", "part-ended"))
    return bool(ends) and all(event.number("signal", 0) == 9 for event in ends)
