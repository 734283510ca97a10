"""Every case, by system."""

from __future__ import annotations

from typing import cast

from killpoint import extensions
from killpoint.case import Case
from killpoint.cases import exposure, interruptions, sweeps
from killpoint.errors import BadUsage
from killpoint.invariants import BY_ID
from killpoint.systems.registry import SYSTEMS, part
from killpoint.systems.server import cases as servers


def _cases(of: object) -> tuple[Case, ...]:
    return cast("tuple[Case, ...]", of)


CASES: tuple[Case, ...] = (
    *interruptions.CASES,
    *sweeps.CASES,
    *exposure.CASES,
    *(case for name in SYSTEMS if name != "server" for case in part(name, "cases").CASES),
    *(case for cases in extensions.everything("cases", "CASES") for case in _cases(cases)),
)
"""Of implementations whose parts are driven from inside."""

SERVER_CASES: tuple[Case, ...] = servers.CASES
"""Of whole servers, which are judged from outside."""

EVERY_CASE = (*CASES, *SERVER_CASES, *servers.FULL_CASES)


def asked_of(*, server: bool, full: bool = False) -> tuple[Case, ...]:
    """The cases that a target is asked unless others are named: a whole server's, or all others.

    ``full``: those that are asked under ``--full`` alone are among them.
    """
    if server:
        return (*SERVER_CASES, *servers.FULL_CASES) if full else SERVER_CASES
    return CASES


def select(only: list[str], *, server: bool = False, full: bool = False) -> list[Case]:
    """Cases by invariant id or by name; for an empty list all that a target of the kind is asked.

    A case that is named is among them whatever the target is; of an invariant those that a target
    of the kind is asked.

    Raises:
        BadUsage: an id that no invariant or case has.
    """
    asked = asked_of(server=server, full=full)
    if not only:
        return list(asked)
    chosen: dict[str, Case] = {}
    for word in only:
        found = [case for case in asked if word == case.invariant]
        found += [case for case in EVERY_CASE if word == case.id]
        if not found and word not in BY_ID:
            known = [c.id for c in EVERY_CASE if c.invariant == word.split("/")[0]] or list(BY_ID)
            raise BadUsage(f"no invariant or case {word!r}; expected one of: {', '.join(known)}")
        chosen |= {case.id: case for case in found}
    return list(chosen.values())
