"""Network between two sides of a play that speak TCP: a relay, if a fault needs one."""

from __future__ import annotations

from functools import partial

import msgspec

from killpoint.history.log import Log
from killpoint.runner.network.relay_client import Relay, Traffic, joined, split
from killpoint.runner.role_process import RoleProcess
from killpoint.scenario import Fault, Scenario


class _Done(msgspec.Struct):
    """A fault that was applied, and the figures at that time."""

    step: Fault
    roles: list[str]
    met: Traffic


class RelayNetwork:
    """Relay of a play; none is started unless the scenario has a fault for it."""

    def __init__(self, scenario: Scenario, log: Log) -> None:
        """Start nothing yet."""
        self._scenario = scenario
        self._log = log
        self._relay: Relay | None = None
        self._done: list[_Done] = []
        self.addresses: list[str] = []
        """Addresses in the handle of the queue."""

    def routes(self, role: str) -> dict[str, str] | None:
        """Return the addresses by which this role reaches the writer's; None: those themselves.

        Raises:
            CannotWork: the relay cannot be started.
        """
        relay = self._relay_for(role)
        if relay is None:
            return None
        return {address: relay.route(role, address) for address in self.addresses}

    def place(self, role: str, host: tuple[str, int]) -> tuple[str, int]:
        """Return the address at which this rank of a group finds its host: its own, or a relay's.

        The host need not listen yet: until it does, the relay refuses as the host itself would.

        Raises:
            CannotWork: the relay cannot be started.
        """
        relay = self._relay_for(role)
        return host if relay is None else split(relay.route(role, joined(*host), lazy=True))

    def _relay_for(self, role: str) -> Relay | None:
        if role not in self._scenario.connecting() or not self._scenario.networked():
            return None
        if self._relay is None:
            self._relay = Relay()
        return self._relay

    def aim(self, actor: RoleProcess, step: Fault) -> None:
        """Prepare the actor for a fault of its connections."""
        actor.relayed = None if self._relay is None else partial(self._strike, step)

    def _strike(self, step: Fault, fault: str) -> None:
        assert self._relay is not None
        roles, toward = self._seen_from_afar(step)
        met = self._relay.do(fault, roles, toward, step.pause, step.after)
        self._done.append(_Done(step, roles, met))
        self._tell(step, met)

    def _seen_from_afar(self, step: Fault) -> tuple[list[str], str]:
        """Return the roles whose routes a fault is for; for the writer all, other way round."""
        if step.role != "writer":
            return [step.role], step.toward
        flipped = {"role": "peer", "peer": "role"}.get(step.toward, step.toward)
        return self._scenario.connecting(), flipped

    def missed(self) -> list[str]:
        """Return the faults that had nothing to strike, in words; called at the end of the play."""
        if self._relay is None:
            return []
        out: list[str] = []
        harmed: set[str] = set()  # a party that has not come back is not to be struck twice
        for done in self._done:
            now = self._relay.report(done.roles)
            self._tell(done.step, now, at_end=True)
            struck = _struck(done, now)
            harmed |= set(done.roles) if struck else set()
            if not struck and not harmed & set(done.roles):
                self._log.write("not-reached", target=done.step.role, fault=done.step.fault)
                out.append(f"{done.step.fault} of {done.step.role}: no connection to strike")
        return out

    def _tell(self, step: Fault, traffic: Traffic, *, at_end: bool = False) -> None:
        figures = {key: value for key, value in msgspec.structs.asdict(traffic).items() if value}
        mark = {"at_end": True} if at_end else {}
        self._log.write("relay", fault=step.fault, target=step.role, **figures, **mark)

    def close(self) -> None:
        """End the relay."""
        if self._relay is not None:
            self._relay.close()
            self._relay = None


def _struck(done: _Done, now: Traffic) -> bool:
    """Return whether there was a connection that the fault was applied to."""
    if done.step.fault == "heal":
        return True
    if done.step.after is not None:
        return now.sprung > done.met.sprung
    if done.step.fault == "delay" and done.step.pause > 0:
        return now.late > done.met.late
    return done.met.met > 0 or (
        done.step.fault != "reset" and now.connections > done.met.connections
    )
