"""``serve:`` targets: whole servers, by the specs that users write."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Protocol, runtime_checkable

from killpoint.errors import BadUsage
from killpoint.systems.server.program import ServerProgram
from killpoint.systems.server.program_file import load_program
from killpoint.targets.protocol import Capability

PREFIX = "serve:"
FORMS = "serve:refengine, serve:FILE.toml"

_LONG_ANSWERS = (54, 50, 49, 2, 12, 36, 33, 37, 7, 35, 55, 42)
"""``request N of the ring``: to these the reference's model has more than four hundred tokens to
say; it ends most others early."""


@runtime_checkable
class HasServer(Protocol):
    """Capability ``server``: it can be started as a process tree, and asked over HTTP."""

    def server_program(self) -> ServerProgram:
        """How it is started, and by what its parts are known."""
        ...


class ServerTarget:
    """A whole server; nothing of it is loaded here."""

    capabilities: frozenset[Capability] = frozenset(("server",))
    preloads: tuple[str, ...] = ()

    def __init__(self, program: ServerProgram) -> None:
        self._program = program
        self.name = program.name
        self.version = program.version
        self.notes = list(program.notes)

    def load(self) -> None:
        """Nothing: a play starts it."""

    def server_program(self) -> ServerProgram:
        """See :class:`HasServer`."""
        return self._program


def resolve(spec: str) -> str:
    """A spec in the form that :func:`build` takes in any process.

    Raises:
        BadUsage: there is no such server, or its file is none.
    """
    what = spec.removeprefix(PREFIX)
    if what.endswith(".toml"):
        load_program(Path(what))
        return PREFIX + str(Path(what).absolute())
    if what == "refengine":
        if importlib.util.find_spec("refengine") is None:
            raise BadUsage("target serve:refengine: the package refengine is not installed here")
        return spec
    raise BadUsage(f"unknown server {what!r}; expected one of: {FORMS}")


def build(spec: str) -> ServerTarget:
    """The target of a resolved spec."""
    what = spec.removeprefix(PREFIX)
    return ServerTarget(load_program(Path(what)) if what.endswith(".toml") else _refengine())


def _refengine() -> ServerProgram:
    import importlib.metadata

    version = importlib.metadata.version("killpoint")
    command = [sys.executable, "-m", "refengine.cli", "serve", "--host", "{host}"]
    return ServerProgram(
        name="serve:refengine",
        version=version,
        command=[*command, "--port", "{port}", "--blocks", "512", "--drain", "20"],
        topologies={
            "tensor-parallel": ["--tensor-parallel", "2"],
            "data-parallel": ["--data-parallel", "2"],
            "apart": ["--prefill", "1"],
        },
        environment={"PYTHONPATH": _path()},
        model="refengine",
        metrics="/metrics",
        open_requests=["refengine_requests_open"],
        titles={
            "coordinator": r"^refengine:coor",
            "core": r"^refengine:core",
            "prefill": r"^refengine:pref",
            "worker": r"^refengine:\d",
        },
        survives=True,
        drain=20.0,
        start_within=90.0,
        answer_tokens=400,
        prompts=[f"request {number} of the ring" for number in _LONG_ANSWERS],
    )


def _path() -> str:
    """Where the package is, for a checkout that was not installed."""
    found = importlib.util.find_spec("refengine")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parents[1])
