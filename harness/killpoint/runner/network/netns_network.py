"""Links between remote readers and the writer when each has a host: a cut takes them down."""

from __future__ import annotations

from functools import partial

import msgspec

from killpoint.history.log import Log
from killpoint.runner.network.netns import Hosts, Seen
from killpoint.runner.role_process import RoleProcess
from killpoint.scenario import Fault, Scenario


class _Done(msgspec.Struct):
    """A cut or heal that was applied, and the state of the hosts just before and after."""

    step: Fault
    before: dict[str, Seen]
    after: dict[str, Seen]


class NetnsNetwork:
    """Interface of :class:`.relay_network.RelayNetwork` for a play with hosts."""

    def __init__(self, scenario: Scenario, log: Log, hosts: Hosts) -> None:
        """Use hosts that exist, with all links up."""
        self._scenario = scenario
        self._log = log
        self._hosts = hosts
        self._done: list[_Done] = []
        self.addresses: list[str] = []

    def routes(self, role: str) -> None:
        """Return no routes: every role reaches the writer by the address in the handle."""
        return

    def place(self, role: str, host: tuple[str, int]) -> tuple[str, int]:
        """Return the host's own address, where every rank finds it."""
        del role
        return host

    def aim(self, actor: RoleProcess, step: Fault) -> None:
        """Prepare the actor for a fault of its link."""
        actor.relayed = partial(self._strike, step)

    def _strike(self, step: Fault, fault: str) -> None:
        struck = [self._hosts.of(step.role)]
        before = self._hosts.look(struck)
        if fault == "cut":
            self._hosts.cut(struck, step.toward)
        else:
            self._hosts.heal(struck)
        self._done.append(_Done(step, before, self._hosts.look(struck)))
        self._tell(self._done[-1])

    def missed(self) -> list[str]:
        """Return the faults that had nothing to strike, in words."""
        out: list[str] = []
        for done in self._done:
            if not _struck(done):
                self._log.write("not-reached", target=done.step.role, fault=done.step.fault)
                out.append(f"{done.step.fault} of {done.step.role}: no connection to strike")
        return out

    def _tell(self, done: _Done) -> None:
        for name, seen in done.after.items():
            self._log.write(
                "link",
                fault=done.step.fault,
                target=done.step.role,
                carries=seen.carries,
                connections=done.before[name].connections,
                resent=seen.resent,
            )

    def close(self) -> None:
        """Mend all links, so that the next set of roles finds them up."""
        self._hosts.heal(self._hosts.names)


def _struck(done: _Done) -> bool:
    """Return whether the link went as ordered, with a connection that a cut could harm."""
    if done.step.fault == "heal":
        return all(seen.carries for seen in done.after.values())
    connected = any(seen.connections for seen in done.before.values())
    down = not any(seen.carries for seen in done.after.values())
    return connected and (down or done.step.toward != "both")
