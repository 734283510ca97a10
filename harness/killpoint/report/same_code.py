"""Digests by which two runs are known to have judged the same code with the same judge."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from killpoint.systems.server.target import PREFIX, code_of

_PACKAGE = Path(__file__).parents[1]


def target_digest(spec: str, files: Mapping[str, str]) -> str:
    """Return the digest of a target's own files and its spec; empty if its files are not known.

    Of a whole server, the files are its pinned packages, or the reference's.

    ``vllm==X`` with and without a finding has the same files: they are edited as they are loaded.
    """
    try:
        read = [(name, Path(path).read_bytes()) for name, path in sorted(files.items())]
    except OSError:
        return ""
    if spec.startswith(PREFIX):
        read = code_of(spec)
    return _digest([("asked for", spec.encode()), *read]) if read else ""


def judge_digest() -> str:
    """Return the digest of killpoint's files, Python's version, and all installed packages."""
    code = ((str(path), path.read_bytes()) for path in sorted(_PACKAGE.rglob("*.py")))
    installed = sorted(f"{each.name} {each.version}" for each in importlib.metadata.distributions())
    return _digest([*code, ("installed", "\n".join([sys.version, *installed]).encode())])


def _digest(parts: Iterable[tuple[str, bytes]]) -> str:
    found = hashlib.sha256()
    for name, content in parts:
        found.update(f"{name} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()
