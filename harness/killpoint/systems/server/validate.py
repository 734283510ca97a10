"""Validation: well-formed scenarios of a server that nevertheless cannot be played."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

from killpoint.scenario_errors import Place
from killpoint.systems.server.program import TWO_NODES
from killpoint.systems.server.steps import ServerLine, ServerStart, ServerStep

if TYPE_CHECKING:
    from killpoint.scenario.scenario import Scenario
    from killpoint.scenario.steps import AnyStep

_FAULTS = (
    *("kill", "stop", "continue", "sigterm", "sigint"),
    *("starve", "fill-shm", "fill-tmp"),
)
_CABLE = ("cut", "heal")
_OF_ANY = ("probe-exposure", "attack")
"""Steps of every system that a server's play may have too; the tree is the front's."""


def unplayable_server(scenario: Scenario) -> Iterator[tuple[Place, str]]:
    """Yield the place and the reason of each thing that cannot be played."""
    steps = get_args(ServerStep)
    if scenario.server is None:
        for index, step in enumerate(scenario.steps):
            if isinstance(step, steps):
                what = f"{_tag(step)} without a server; expected a table [server]"
                yield ["steps", index], what
            elif getattr(step, "fault", None) == "fill-tmp":
                yield ["steps", index, "fault"], "fill-tmp without a server; expected a [server]"
        return
    for field in ("group", "pool", "pipe", "coordinator", "engine", "simulated"):
        if getattr(scenario, field) is not None:
            yield [field], f"a {field} beside a server; expected one of the two"
    if not scenario.steps or not isinstance(scenario.steps[0], ServerStart):
        yield ["steps"], "a server that nobody starts; expected `server-start` first"
    for index, step in enumerate(scenario.steps):
        fault = getattr(step, "fault", None)
        if fault is None and _tag(step) in _OF_ANY:
            if getattr(step, "how", "") == "flood":
                what = "a flood of a server; expected one of: listen, speak, lurk"
                yield ["steps", index, "how"], what
        elif fault is None and not isinstance(step, steps):
            yield ["steps", index], f"{_tag(step)} of a server; expected a server's steps"
        elif fault in _CABLE and scenario.server.topology != TWO_NODES:
            yield ["steps", index, "fault"], f"{fault} of one machine; expected two-nodes"
        elif (
            fault is not None
            and fault not in (*_FAULTS, *_CABLE)
            and not isinstance(step, ServerLine)
        ):
            what = f"{fault} of a part of a server; expected one of: {', '.join(_FAULTS)}"
            yield ["steps", index, "fault"], what
        elif fault is not None and getattr(step, "at", None) is not None:
            yield ["steps", index, "at"], "a point in a server; expected a fault at once"


def _tag(step: AnyStep) -> str:
    return str(step.__struct_config__.tag)
