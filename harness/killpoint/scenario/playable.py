"""Checks for well-formed scenarios that cannot be played or judged."""

from __future__ import annotations

from collections.abc import Iterator

from killpoint import extensions
from killpoint.invariants import BY_ID
from killpoint.scenario.scenario import Scenario
from killpoint.scenario.steps import (
    NETWORK_FAULTS,
    AnyStep,
    Attach,
    Attack,
    Count,
    Fault,
    Make,
    Pause,
    Ready,
    Receive,
    Send,
    Wait,
)
from killpoint.scenario_errors import Place, few
from killpoint.systems.registry import SYSTEMS, part, system_named, system_of


def unplayable(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield the place and the text of each reason why a scenario cannot be played or judged."""
    known = f"expected one of: {', '.join(BY_ID)}"
    if not scenario.judges:
        yield ["judges"], f"no invariant judges it; {known}"
    for id in scenario.judges:
        if id not in BY_ID:
            yield ["judges"], f"no invariant {id!r}; {known}"
    for name in SYSTEMS:
        yield from system_named(name).unplayable(scenario)
    yield from _steps_of_others(scenario)
    if scenario.namespaces:
        yield from _no_hosts(scenario)
    if scenario.simulated is not None:
        yield from _not_simulated(scenario)
    if scenario.shape.remote > scenario.shape.readers:
        what = f"{scenario.shape.remote} remote readers of {scenario.shape.readers}"
        yield ["shape", "remote"], f"{what}; expected at most as many as there are readers"
    for index, step in enumerate(scenario.steps):
        for place, what in (
            *_bad_roles(scenario, step),
            *_bad_point(step),
            *_bad_wire(scenario, step),
        ):
            yield ["steps", index, *place], what


def _steps_of_others(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield the steps of systems outside the tree that the scenario is not of."""
    for name in extensions.entries("systems"):
        own: tuple[type, ...] = part(name, "steps").STEPS
        for index, step in enumerate(scenario.steps):
            if scenario.system() != name and isinstance(step, own):
                what = f"{step.__struct_config__.tag} without a {name}"
                yield ["steps", index], f"{what}; expected `extension = {{ system = {name!r} }}`"


_SIMULATED_STEPS = "not simulated; expected make, attach, ready, pause, send, receive, wait"


def _not_simulated(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield the parts of a scenario that a simulated world does not have."""
    for index, step in enumerate(scenario.steps):
        if not isinstance(step, Make | Attach | Ready | Pause | Send | Receive | Wait):
            yield ["steps", index], _SIMULATED_STEPS
    if scenario.shape.remote:
        yield ["shape", "remote"], "remote readers are not simulated; expected none"


_LINK_FAULTS = ("cut", "heal")


def _no_hosts(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield what cannot be played with a network namespace for each remote reader."""
    if not scenario.connecting():
        yield ["namespaces"], "namespaces without remote readers; expected `shape.remote` above 0"
    if scenario.shm_bytes is not None:
        yield ["shm_bytes"], "a /dev/shm beside namespaces; expected one of the two"
    given = scenario.subject()
    if getattr(given, "host", None) != getattr(type(given)(), "host", None):
        place = "shape" if given is scenario.shape else given.system
        yield [place, "host"], "a host beside namespaces, which have their own; expected none"
    for index, step in enumerate(scenario.steps):
        if isinstance(step, Attack):
            yield ["steps", index], "an attacker cannot enter namespaces; expected none"
        elif isinstance(step, Fault) and step.fault in {*NETWORK_FAULTS} - {*_LINK_FAULTS}:
            what = f"{step.fault} of a link; expected one of: {', '.join(_LINK_FAULTS)}"
            yield ["steps", index, "fault"], what
        elif isinstance(step, Fault) and step.after is not None:
            yield ["steps", index, "after"], "bytes of a link are not counted; expected no `after`"


def _bad_roles(scenario: Scenario, step: AnyStep) -> Iterator[tuple[Place, str]]:
    single, collective = scenario.roles(), ("all", *scenario.subject().collective())
    every = {*collective, *single}
    for role in getattr(step, "roles", ()):
        if role not in every:
            expected = ", ".join(few(sorted(every)))
            yield ["roles"], f"no role {role!r}; expected one of: {expected}"
    for field in ("role", "to", "source"):
        role = getattr(step, field, single[0])
        if role not in single:
            what = f"{role!r} is not one role" if role in collective else f"no role {role!r}"
            yield [field], f"{what}; expected one of: {', '.join(few(sorted(single)))}"


_AFTER_BYTES = ("cut", "half-open", "reset")
"""Faults that a relay can apply once so many bytes have passed."""


def _bad_wire(scenario: Scenario, step: AnyStep) -> Iterator[tuple[Place, str]]:
    """Yield faults of connections for roles that have none."""
    if not isinstance(step, Fault):
        return
    if step.after is not None and step.fault not in _AFTER_BYTES:
        what = f"a {step.fault} after some bytes; expected one of: {', '.join(_AFTER_BYTES)}"
        yield ["after"], what
    if step.fault in NETWORK_FAULTS:
        yield from system_of(scenario).unplayable_link_fault(scenario, step)


_AT_PAGES = ("kill", "stop")
"""Faults of a process wherever it is, even inside one instruction."""


def _bad_point(step: AnyStep) -> Iterator[tuple[Place, str]]:
    if isinstance(step, Count):
        if step.of == "calls" and step.at.syscall is None:
            yield ["at"], "a count of calls without their name; expected `syscall` in it"
        if step.at.kind() is not None:
            where = "line" if step.at.line is not None else step.at.kind() or ""
            yield ["at", where], "a count names no line; expected `op` and `nth` alone"
    elif isinstance(step, Fault):
        if step.at is None and step.fault in ("raise", "hold"):
            yield ["fault"], f"a {step.fault} without a point; expected `at`"
        if step.at is not None and step.at.kind() is None:
            yield ["at"], "a point that is nowhere; expected `line` or `name` in it"
        elif step.at is not None and step.at.page is not None and step.fault not in _AT_PAGES:
            what = f"{step.fault} at a page; expected one of: {', '.join(_AT_PAGES)}"
            yield ["fault"], what
        elif step.at is not None and step.at.kind() == "times" and step.fault not in _AT_PAGES:
            what = f"{step.fault} at a random time; expected one of: {', '.join(_AT_PAGES)}"
            yield ["fault"], what
        elif step.at is not None and step.at.kind() == "calls" and step.fault != "kill":
            yield ["fault"], f"{step.fault} at a native system call; expected: kill"
