"""From what a user writes after ``--target`` to a target that any process can build again."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import cast

from killpoint.errors import BadUsage
from killpoint.targets.protocol import Target

FORMS = "refengine, vllm==X.Y.Z, vllm@PATH, module:object"


def resolve(spec: str) -> str:
    """The spec in the form that :func:`build` takes in any process, fetched if it must be.

    Raises:
        BadUsage: no such target, release or path.
        CannotWork: a release exists, but this machine cannot get it.
    """
    if spec == "refengine":
        if importlib.util.find_spec("refengine") is None:
            raise BadUsage("target refengine: the package refengine is not installed here")
        return spec
    if spec.startswith("vllm"):
        from killpoint.targets.vllm import resolve as resolve_vllm

        return resolve_vllm(spec)
    if ":" in spec:
        _object(spec)
        return spec
    raise BadUsage(f"unknown target {spec!r}; expected one of: {FORMS}")


def build(resolved: str) -> Target:
    """The target for a resolved spec, not loaded yet."""
    if resolved == "refengine":
        from killpoint.targets.refengine import RefengineTarget

        return RefengineTarget()
    if resolved.startswith("vllm"):
        from killpoint.targets.vllm import build as build_vllm

        return build_vllm(resolved)
    return _object(resolved)()


def _object(spec: str) -> Callable[[], Target]:
    module, _, name = spec.partition(":")
    try:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise BadUsage(f"target {spec}: {error}; expected an importable module:object") from error
    if not callable(found):
        raise BadUsage(f"target {spec}: not callable; expected a class or function of no argument")
    return cast("Callable[[], Target]", found)
