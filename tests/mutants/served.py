"""Planted bugs of the HTTP server as ``serve:`` targets: the reference's own, with the edits made.

A server is started as a program of its own, so the edits are made as in an interpreter that a
mutant starts (see :mod:`mutated`): by ``sitecustomize``, which each such interpreter imports.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import msgspec

from killpoint.systems.server import target

_SPAWNED = Path(__file__).parent / "spawned"


def served(name: str, folder: Path) -> str:
    """Write the program of this broken server to a file there; return the spec of its target."""
    program = target.build("serve:refengine").server_program()
    paths = os.pathsep.join((str(_SPAWNED), program.environment["PYTHONPATH"]))
    changed = {"REFENGINE_MUTANT": name, "PYTHONPATH": paths}
    environment = program.environment | changed
    fields = cast("dict[str, Any]", msgspec.to_builtins(program))
    fields |= {"name": "mutant", "version": name, "environment": environment}
    file = folder / f"{name}.toml"
    told = {key: value for key, value in fields.items() if value is not None}
    file.write_bytes(msgspec.toml.encode(told))
    return f"serve:{file}"
