"""Search for a secret in a place, in any of the forms in which bytes are usually printed."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_SHORTEST = 8
"""Bytes of the shortest secret: shorter ones would be found anywhere by chance."""


def shown(secrets: Iterable[bytes], places: Mapping[str, bytes]) -> list[str]:
    """Return the names of the places that contain one of the secrets."""
    forms = [form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)]
    return [name for name, text in places.items() if any(form in text for form in forms)]


def own_places(complaints: Path) -> dict[str, bytes]:
    """Return what others can read of this process: standard error, environment, arguments."""
    paths = {
        "its standard error": complaints,
        "its environment": Path("/proc/self/environ"),
        "its command line": Path("/proc/self/cmdline"),
    }
    handed_down = b"\0".join(key + b"=" + value for key, value in os.environb.items())
    found = {"what its children inherit": handed_down}
    for name, path in paths.items():
        with contextlib.suppress(OSError):
            found[name] = path.read_bytes()
    return found


def _forms(secret: bytes) -> set[bytes]:
    plain = base64.b64encode(secret).rstrip(b"=")
    urls = base64.urlsafe_b64encode(secret).rstrip(b"=")
    written = {repr(secret)[2:-1].encode(), str(list(secret))[1:-1].encode()}
    return {secret, secret.hex().encode(), secret.hex().upper().encode(), plain, urls, *written}
