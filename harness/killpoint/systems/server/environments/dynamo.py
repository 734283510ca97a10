"""NVIDIA Dynamo without a GPU: its front end, and its mocker in the place of an engine.

It runs with the packages that vLLM's releases share. A small folder of its own goes first on the
path, with its two wheels, what they need beside those packages, and other releases of two of those
packages, which it requires. The package ``aisimulate``, which its metadata names, is left out: the
public index does not serve it, and neither the front end nor the mocker as they are started here
import it.
"""

from __future__ import annotations

from pathlib import Path

from killpoint.errors import BadUsage
from killpoint.systems.server.environments import locks, pip, store, vllm_cpu
from killpoint.systems.server.environments.pip import Tell

_LOCK = "dynamo"
_IMPORTED = "import dynamo.frontend.main, dynamo.mocker.main"
_NOTES = (
    "without the package aisimulate, which its metadata asks for and the public index does not"
    " serve; nothing that runs here imports it",
)


def release() -> str:
    """Return the release that can be made, as typed after ``serve:``."""
    return f"dynamo=={_version()}"


def deployment(spec: str, offline: bool, tell: Tell) -> vllm_cpu.Engine:
    """The release, from the cache or made now.

    Raises:
        BadUsage: killpoint has no pins for it.
        CannotWork: this machine cannot make it, or may not fetch it.
    """
    if spec != release():
        raise BadUsage(f"{spec}: killpoint has no pins for it, expected {release()}")
    base = vllm_cpu.packages(offline, tell)
    own = store.made(_plan(base, tell), offline, tell)
    python = vllm_cpu.interpreter(base.home)
    notes = (*own.record.notes, *base.record.notes)
    return vllm_cpu.Engine("dynamo", _version(), python, own.home, notes, (own, base))


def _version() -> str:
    return next(each.version for each in locks.load(_LOCK).packages if each.name == "ai-dynamo")


def _plan(base: store.Environment, tell: Tell) -> store.Plan:
    chosen = locks.load(_LOCK).chosen(locks.own_tags(), locks.own_python())
    python = vllm_cpu.interpreter(base.home)

    def fill(home: Path, log: Path, held: int) -> tuple[str, ...]:
        run = pip.Run(python, log, tell, (held,))
        target = ["--target", str(home), *vllm_cpu.by_hash(home, chosen)]
        pip.install(run, release(), target, len(chosen))
        tell(f"{home.name}: imported once, to see that it runs here")
        vllm_cpu.asked(python, _IMPORTED, {"PYTHONPATH": str(home)})
        return _NOTES

    return store.Plan(
        f"dynamo-{_version()}-py{locks.own_python()}",
        f"killpoint environment {release()}",
        locks.size(chosen),
        300 * 10**6,
        1,
        fill,
    )
