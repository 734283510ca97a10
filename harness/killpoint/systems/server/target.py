"""``serve:`` targets: whole servers, by the specs that users write."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from killpoint import extras
from killpoint.errors import BadUsage
from killpoint.systems.server import environments
from killpoint.systems.server.environments.line_fault import LOADER, PLUGIN
from killpoint.systems.server.program import LinePath, ServerProgram, Topology
from killpoint.systems.server.program_file import load_program
from killpoint.targets.disclaimer import Disclaimer
from killpoint.targets.protocol import Capability
from killpoint.targets.vllm.fetch.specs import parted
from killpoint.targets.vllm.switch_offs import known
from killpoint.targets.vllm.switch_offs.servers import switchable
from killpoint.verdict import Kind

PREFIX = "serve:"
FORMS = f"refengine, FILE.toml, {environments.FORMS}"
"""Forms of what can stand after ``serve:``."""

_LINES = {
    "step": LinePath("core", "refengine.engine.core.core", "Core.stepped"),
    "run": LinePath("worker", "refengine.executor.worker", "WorkerLoop._run"),
    "reply": LinePath("worker", "refengine.executor.worker", "DirectReplies.result"),
}
"""Paths of the reference's code."""
_ENDS_ALL: dict[str, tuple[Kind, ...]] = {"E3": ("lost", "starved")}
"""Kinds of violation that a disclaimer of an invariant covers: a server that documents that a dead
part ends all requests is judged by how it ends them all the same."""
_NODES = [
    *("--tensor-parallel", "2", "--nnodes", "2"),
    *("--master-address", "{head}", "--master-port", "29501"),
]
_NODE_SECRET = {"REFENGINE_NODE_SECRET": "a secret of two nodes in a play"}
_LONG_ANSWERS = (54, 50, 49, 2, 12, 36, 33, 37, 7, 35, 55, 42)
"""Numbers N of ``request N of the ring``: to these the reference's model has more than four hundred
tokens to say; it ends most others early."""


@runtime_checkable
class HasServer(Protocol):
    """Capability ``server``: it can be started as a process tree, and asked over HTTP."""

    def server_program(self) -> ServerProgram:
        """Return how it is started, and by what its parts are known."""
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
        """Do nothing: a play starts the server."""

    @property
    def disclaimers(self) -> tuple[Disclaimer, ...]:
        """Promises that its own documents disclaim."""
        told = self._program.disclaims.items()
        return tuple(Disclaimer((id,), says, kinds=_ENDS_ALL.get(id, ())) for id, says in told)

    def server_program(self) -> ServerProgram:
        """See :class:`HasServer`."""
        return self._program


def resolve(spec: str) -> str:
    """Return a spec in the form that :func:`build` takes in any process.

    Raises:
        BadUsage: there is no such server, or its file is none.
        CannotWork: its environment cannot be made here.
    """
    what, off = _parted(spec)
    if off:
        known(off, switchable())
        _check_vllm(spec)
    if what.endswith(".toml"):
        load_program(Path(what))
        return PREFIX + str(Path(what).absolute())
    if what == "refengine":
        if importlib.util.find_spec("refengine") is None:
            raise BadUsage("target serve:refengine: the package refengine is not installed here")
        extras.require("target serve:refengine", "reference")
        return spec
    environments.made(what, offline=_offline(), tell=_tell)
    if "==" not in what:
        what = str(Path(what).expanduser().absolute())
    return _spec(what, off)


def build(spec: str) -> ServerTarget:
    """The target of a resolved spec."""
    what, off = _parted(spec)
    if what.endswith(".toml"):
        return ServerTarget(load_program(Path(what)))
    if what == "refengine":
        return ServerTarget(_refengine())
    return ServerTarget(environments.program(what, offline=True, tell=_tell, off=off))


def without(spec: str, off: Sequence[str]) -> str:
    """Return the spec of the same server with further findings switched off.

    Raises:
        BadUsage: nothing can be taken out of this server.
    """
    _check_vllm(spec)
    what, before = _parted(spec)
    return _spec(what, sorted({*before, *off}))


def switch_offs_of(resolved: str) -> list[str]:
    """Return the findings that can still be switched off in the code of a resolved server."""
    if not is_vllm(resolved):
        return []
    what, off = _parted(resolved)
    fitting = environments.fitting(what, offline=True, tell=_tell)
    return [id for id in fitting if id not in off]


def code_of(resolved: str) -> list[tuple[str, bytes]]:
    """Return what a server is made of, by name, where that is known: nothing of a user's own."""
    what, _ = _parted(resolved)
    if what == "refengine":
        package = Path(_path().split(os.pathsep)[0]) / "refengine"
        return [(str(file), file.read_bytes()) for file in sorted(package.rglob("*.py"))]
    return environments.pins(what) if "==" in what else []


def is_vllm(spec: str) -> bool:
    """Return whether it is vLLM's own server, of any builder."""
    what, _ = _parted(spec)
    own = what == "refengine" or what.endswith(".toml")
    return not own and environments.has_switch_offs(what)


def _check_vllm(spec: str) -> None:
    if not is_vllm(spec):
        raise BadUsage(f"target {spec}: of servers findings can be switched off in vLLM's alone")


def release(spec: str) -> str:
    """Return the release of a published server; empty if its spec does not name one."""
    what, _ = _parted(spec)
    return what.partition("==")[2].partition("+")[0]


def _parted(spec: str) -> tuple[str, tuple[str, ...]]:
    """Return what stands after ``serve:``, and the findings that are switched off in it."""
    what = spec.removeprefix(PREFIX)
    return parted(what, what)


def _spec(what: str, off: Sequence[str]) -> str:
    return PREFIX + what + (f"~{','.join(off)}" if off else "")


def _tell(line: str) -> None:
    """Report a line about the making of an environment."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # a command's own progress


def _offline() -> bool:
    """Return whether nothing is to be fetched."""
    return os.environ.get("KILLPOINT_OFFLINE", "") not in ("", "0")


def _refengine() -> ServerProgram:
    version = importlib.metadata.version("killpoint")
    topologies: dict[Topology, list[str]] = {
        "tensor-parallel": ["--tensor-parallel", "2"],
        "data-parallel": ["--data-parallel", "2"],
        "apart": ["--prefill", "1"],
    }
    if importlib.util.find_spec("refengine.serving.front_ends") is not None:
        topologies["front-ends"] = ["--front-ends", "2"]
    has_nodes = importlib.util.find_spec("refengine.executor.nodes") is not None
    if has_nodes:
        topologies["two-nodes"] = [*_NODES, "--node-rank", "0"]
    command = [sys.executable, "-m", "refengine.cli", "serve", "--host", "{host}"]
    return ServerProgram(
        name="serve:refengine",
        version=version,
        command=[*command, "--port", "{port}", "--blocks", "512", "--drain", "20"],
        topologies=topologies,
        follower=[*_NODES, "--node-rank", "1"] if has_nodes else [],
        node_environment=_NODE_SECRET if has_nodes else {},
        environment={"PYTHONPATH": _path()},
        model="refengine",
        readiness="/health/ready",
        metrics="/metrics",
        open_requests=["refengine_requests_open"],
        titles={
            "coordinator": r"^refengine:coor",
            "core": r"^refengine:core",
            "prefill": r"^refengine:pref",
            "api-server": r"^refengine:front",
            "worker": r"^refengine:\d",
        },
        lines=_LINES,
        by_replica=["refengine_requests_waiting", "refengine_requests_running"],
        survives=True,
        drain=20.0,
        start_within=90.0,
        answer_tokens=400,
        prompts=[f"request {number} of the ring" for number in _LONG_ANSWERS],
    )


def _path() -> str:
    """Return the path of the package, in case it is not installed, and of the line plugin."""
    found = importlib.util.find_spec("refengine")
    assert found is not None
    assert found.origin is not None
    own = Path(found.origin).parents[1]
    return os.pathsep.join(str(each) for each in (own, LOADER, PLUGIN))
