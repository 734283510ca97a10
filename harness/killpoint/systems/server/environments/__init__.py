"""Real engines on this machine: their environments, and how each is started."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from killpoint.cache import cache_root
from killpoint.errors import BadUsage
from killpoint.systems.server.environments import (
    dynamo,
    locks,
    mocker_model,
    profiles,
    tiny_model,
    users,
    vllm_cpu,
)
from killpoint.systems.server.environments.edited_engine import (
    EditedEngine,
    edited_engine,
    fitting_in,
)
from killpoint.systems.server.environments.pip import Tell
from killpoint.systems.server.environments.store import Environment
from killpoint.systems.server.program import ServerProgram

__all__ = [
    "FORMS",
    "fitting",
    "has_switch_offs",
    "made",
    "pins",
    "program",
    "releases",
    "vllm_release",
]

FORMS = (
    "vllm-cpu==X.Y.Z, vllm==X.Y.Z+cpu-kernels-0.32.0, transformers==X.Y.Z, dynamo==X.Y.Z,"
    " PATH/TO/VENV"
)
"""Forms of what stands after ``serve:`` that this package handles."""

_TRANSFORMERS, _DYNAMO = "transformers==", "dynamo=="
_RELEASE = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)==(?P<version>\S+)$")
_NOT_HERE = {
    "sglang": "its server needs a GPU, and its simulator is not on the package index",
    "tensorrt-llm": "its server needs a GPU",
    "lmdeploy": "its server needs a GPU",
    "tgi": "it is published as a container image",
    "llama.cpp": "its server is published as sources, which killpoint does not compile",
}
"""Engines that users ask for, and why killpoint makes no environment for them."""


def has_switch_offs(spec: str) -> bool:
    """Return whether findings can be switched off in it: a release of vLLM, or a folder."""
    release = _RELEASE.fullmatch(spec)
    if release is None:
        return Path(spec).expanduser().is_dir()
    return release["name"] in ("vllm", "vllm-cpu")


def program(spec: str, offline: bool, tell: Tell, off: Sequence[str] = ()) -> ServerProgram:
    """Return the server that ``serve:SPEC`` names, made ready to start.

    Args:
        spec: one of ``FORMS``, without ``serve:``.
        off: findings to switch off in it, if it is vLLM.
        offline: True to fetch nothing that is not in the cache.
        tell: called with size, time and progress, a line at a time.

    Raises:
        BadUsage: there is no such engine, release or environment; the text says why.
        CannotWork: this machine cannot make it, or may not fetch it.
    """
    if not _is_release(spec):
        found = users.vllm(Path(spec).expanduser())
        own = (found.version, found.notes, found.python, None, found.package)
        instead = _without(found.package, off)
        return profiles.vllm("vllm", *own, _model(), found.cpu, instead)
    if spec.startswith(_TRANSFORMERS):
        home = _with_transformers(spec, offline, tell)
        python = vllm_cpu.interpreter(home.home)
        version = spec.removeprefix(_TRANSFORMERS)
        return profiles.transformers(version, home.record.notes, python, _model())
    if spec.startswith(_DYNAMO):
        found = dynamo.deployment(spec, offline, tell)
        model = mocker_model.stored(_models())
        return profiles.dynamo(found.version, found.notes, found.python, found.site, model)
    engine = vllm_cpu.engine(spec, offline, tell)
    package = engine.site / "vllm"
    made = (engine.version, engine.notes, engine.python, engine.site, package)
    return profiles.vllm(engine.name, *made, _model(), True, _without(package, off))


def fitting(spec: str, offline: bool, tell: Tell) -> list[str]:
    """Return the findings that can be switched off in the vLLM of a spec: an edit of each fits.

    Raises:
        BadUsage, CannotWork: as :func:`program` does.
    """
    if _is_release(spec):
        return fitting_in(vllm_cpu.engine(spec, offline, tell).site / "vllm")
    return fitting_in(users.vllm(Path(spec).expanduser()).package)


def _without(package: Path, off: Sequence[str]) -> EditedEngine | None:
    return edited_engine(package, off) if off else None


def made(spec: str, offline: bool, tell: Tell) -> tuple[Environment, ...]:
    """Return the environments of a release, made if they are missing; none for a user's own.

    Raises:
        BadUsage, CannotWork: as :func:`program` does.
    """
    if not _is_release(spec):
        users.vllm(Path(spec).expanduser())
        return ()
    if spec.startswith(_TRANSFORMERS):
        return (_with_transformers(spec, offline, tell),)
    if spec.startswith(_DYNAMO):
        return dynamo.deployment(spec, offline, tell).environments
    return vllm_cpu.engine(spec, offline, tell).environments


def pins(spec: str) -> list[tuple[str, bytes]]:
    """Return what a release in the cache is made of: each lock file, and notes on the unpinned."""
    found = [(file.name, file.read_bytes()) for file in locks.files()]
    for environment in made(spec, offline=True, tell=lambda _: None):
        found.append((environment.home.name, "\n".join(environment.record.notes).encode()))
    return found


def vllm_release(version: str) -> str:
    """Return the form, as typed after ``serve:``, in which a release of vLLM can be made.

    It is the build for the CPU or, where no such build is pinned, vLLM's own Python over the
    kernels of another release.
    """
    known = vllm_cpu.releases()
    built, hybrid = f"vllm-cpu=={version}", f"vllm=={version}+cpu-kernels-{vllm_cpu.KERNELS}"
    return built if built in known else hybrid


def releases() -> list[str]:
    """Return every release that can be made, as typed after ``serve:``."""
    return [*vllm_cpu.releases(), _transformers(), dynamo.release()]


def _with_transformers(spec: str, offline: bool, tell: Tell) -> Environment:
    """Return the environment of vLLM's releases, which has transformers at one version."""
    locked = _transformers()
    if spec != locked:
        raise BadUsage(f"{spec}: killpoint has no pins for it, expected {locked}")
    return vllm_cpu.packages(offline, tell)


def _transformers() -> str:
    return f"{_TRANSFORMERS}{vllm_cpu.version_of('transformers')}"


def _is_release(spec: str) -> bool:
    release = _RELEASE.fullmatch(spec)
    name = release["name"] if release else spec
    if name in _NOT_HERE:
        raise BadUsage(f"{name} is not among the engines here: {_NOT_HERE[name]}")
    return release is not None


def _model() -> Path:
    return tiny_model.stored(_models())


def _models() -> Path:
    return cache_root() / "models"
