"""Whether a secret can be seen in a place, in any of the forms in which bytes are usually shown."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

_SHORTEST = 8
"""Shorter secrets would be found anywhere by chance."""


def shown(secrets: Iterable[bytes], places: Mapping[str, bytes]) -> list[str]:
    """The places in which one of the secrets stands, by their names."""
    forms = [form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)]
    return [name for name, text in places.items() if any(form in text for form in forms)]


def own_places(complaints: Path) -> dict[str, bytes]:
    """What of this process others can read: its standard error, environment, command line."""
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
