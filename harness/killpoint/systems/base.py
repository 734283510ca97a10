"""The base class of systems: one kind of thing that is put on trial, asked in place of a branch.

A system is a package with modules of fixed names (:mod:`killpoint.systems.registry`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Protocol

import msgspec

from killpoint.ledger import Ledger
from killpoint.scenario import AnyStep, Fault, Scenario, Wait
from killpoint.scenario_errors import Place, few
from killpoint.targets.shapes import Device


class PlayRemains(msgspec.Struct):
    """Remains of a play that are judged, beside the logs in its folder."""

    ledger: Ledger
    stalled: str
    """Why it could not be played to its end, empty if it was."""
    unreached: list[str]
    """What was to be done, and was not."""
    provisional: bool = False
    """Whether the target was started in a way that is not its users': what the play shows is told
    once an ordinary one has shown it too."""


class Player(Protocol):
    """Player of one system's scenarios on one target; it ends whatever it keeps for that."""

    def declines(self, scenario: Scenario) -> str:
        """Why the target cannot be in a scenario, or nothing it does could tell of its judges.

        Empty: it can, and is played.
        """
        ...

    def play(self, scenario: Scenario, folder: Path, *, ordinary: bool) -> PlayRemains:
        """Play it; logs go into ``folder``, the target's files into its ``t``.

        Everything that was started for the play has ended when it returns.

        Args:
            ordinary: whether the target is to be started as its users start it.
        """
        ...

    def abandon(self) -> None:
        """End the play that is under way in another thread, and begin no other one.

        What is abandoned raises ``asyncio.CancelledError`` where it was begun.
        """
        ...

    def close(self) -> None:
        """End what was kept between plays."""
        ...


class System:
    """One kind of thing that is put on trial. Subclass it in the package's module ``system``.

    Unless a system has a player of its own, its scenarios are played by roles: processes that the
    runner starts, and orders to do one step after another.
    """

    name: ClassVar[str]
    opens: ClassVar[tuple[type[AnyStep], ...]] = ()
    """Steps by which the first role makes what the others attach to: the runner waits for the
    handle (``Role.handle``), and ends a play that gets none."""
    attaches: ClassVar[tuple[type[AnyStep], ...]] = ()
    """Steps whose orders carry that handle."""
    joins: ClassVar[tuple[type[AnyStep], ...]] = ()
    """Steps whose orders carry an address and a secret to meet by."""
    needed: ClassVar[tuple[type[AnyStep], ...]] = ()
    """Steps that have to succeed: without that what follows would say nothing."""
    looks_in_roles: ClassVar[bool | None] = None
    """Whether its roles look for their own secrets (step ``probe-exposure``); None: if the target
    has capability ``wire``."""
    counts_descriptors: ClassVar[bool] = False
    """True if a look records which descriptors a role has open, in place of secrets."""
    brief_exit: ClassVar[bool] = True
    """False if a role may have a fork server's socket to remove as its interpreter ends."""
    listens: ClassVar[bool] = True
    """False if a target may do without any listener: then that a stranger found none is no reason
    to call a play of strangers inconclusive."""
    kept_whole: ClassVar[str] = ""
    """Why its scenarios are not shrunk; empty: they are."""
    next_start: ClassVar[tuple[AnyStep, ...]] = ()
    """Steps from the making to a clean end: what is played after a scenario with ``restart``."""

    def unplayable(self, scenario: Scenario) -> Iterator[tuple[Place, str]]:
        """Yield what cannot be played; asked of scenarios of other systems, too."""
        del scenario
        yield from ()

    def unplayable_link_fault(self, scenario: Scenario, step: Fault) -> Iterator[tuple[Place, str]]:
        """Yield why a fault cannot be done to the connections of its role."""
        if step.role in scenario.roles():
            what = f"{step.fault} of {step.role!r}, which has no TCP connection"
            yield ["role"], f"{what}; expected remote readers"

    def ends(self, roles: tuple[str, ...]) -> tuple[AnyStep, ...]:
        """Return the steps by which these roles, which have not been told to exit, leave."""
        del roles
        return ()

    def leaves_within(self, scenario: Scenario) -> float:
        """Return the seconds within which roles are to have left after the steps of ``ends``."""
        del scenario
        return 5.0

    def rank(self, scenario: Scenario, role: str, step: AnyStep) -> int:
        """Return the rank that an order for this step tells the role."""
        del step
        return scenario.roles().index(role)

    def numbers_taken(self, step: AnyStep, role: str) -> int:
        """Return how many sequence numbers of messages the role uses up with a step."""
        del step, role
        return 0

    def order_data(self, scenario: Scenario, step: AnyStep) -> bytes:
        """Return what an order for this step carries, beside handles and invitations."""
        del scenario, step
        return b""

    def needs_torch(self, scenario: Scenario) -> bool:
        """Return whether roles are to find torch imported, whatever messages there are."""
        del scenario
        return False

    def preforks(self, scenario: Scenario) -> bool:
        """Return whether the process that parts are forked from may be made before the play.

        Not if a start is on trial, or what is open to a process and what it leaves.
        """
        del scenario
        return False

    def on_device(self, scenario: Scenario, device: Device) -> Scenario:
        """Return the scenario as it is played with workers on this device."""
        del device
        return scenario


def unplayable_link_of_member(scenario: Scenario, step: Fault) -> Iterator[tuple[Place, str]]:
    """Yield why a fault cannot be done to a connection between the first role and a member."""
    if step.role == scenario.roles()[0] and not scenario.namespaces:
        what = f"{step.fault} of {step.role!r}, which listens and connects to nobody"
        expected = ", ".join(few(scenario.connecting())) or "a group of more than one rank"
        yield ["role"], f"{what}; expected a member that connects to it: {expected}"


class OwnPlayer(System):
    """A system whose scenarios are played by a player of its own, one at a time on a machine."""

    def key(self, scenario: Scenario) -> bytes:
        """Return the same for scenarios that are one play, judged by different invariants."""
        raise NotImplementedError

    def as_users(self, scenario: Scenario) -> bool:
        """Return whether a scenario starts the target as its users do, however it is played.

        Such a play has the machine to itself from the first: it needs no other one to confirm it.
        """
        raise NotImplementedError

    def player(self, spec: str, root: Path) -> Player:
        """Return what plays scenarios on the target of a resolved spec, in the folder ``root``."""
        raise NotImplementedError


def starts_at_once(scenario: Scenario, start: type[AnyStep], on_trial: frozenset[str]) -> bool:
    """Return whether a scenario begins with an undisturbed start, and judges nothing of it.

    Args:
        start: the system's step of it.
        on_trial: invariants that judge starts, or processes as they were started.
    """
    steps = scenario.steps
    undisturbed = len(steps) > 1 and isinstance(steps[0], start) and isinstance(steps[1], Wait)
    plain = scenario.start == "zygote" and scenario.umask is None and not scenario.terminal
    return undisturbed and plain and not on_trial.intersection(scenario.judges)
