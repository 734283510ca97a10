"""The one TCP address in a handle of vLLM's, in whichever field a release keeps it.

From 0.8.0 a handle has ``remote_subscribe_addr``; before, ``connect_ip`` and
``remote_subscribe_port``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from killpoint.targets.vllm.loading.stubs import is_ipv6

_SCHEME = "tcp://"


def addresses(handle: Any) -> list[str]:
    """Return ``host:port`` of the socket that remote readers subscribe to, if there is one."""
    whole = getattr(handle, "remote_subscribe_addr", None)
    if whole is not None:
        return [str(whole).removeprefix(_SCHEME)]
    port = getattr(handle, "remote_subscribe_port", None)
    if port is None:
        return []
    host = str(handle.connect_ip)
    return [f"[{host}]:{port}" if is_ipv6(host) else f"{host}:{port}"]


def rerouted(handle: Any, table: dict[str, str]) -> Any:
    """Return a copy of the handle that leads elsewhere, as the table says."""
    moved = [table[address] for address in addresses(handle) if address in table]
    if not moved:
        return handle
    if hasattr(handle, "remote_subscribe_addr"):
        return dataclasses.replace(handle, remote_subscribe_addr=f"{_SCHEME}{moved[0]}")
    host, port = moved[0].rsplit(":", 1)
    return dataclasses.replace(handle, connect_ip=host.strip("[]"), remote_subscribe_port=int(port))
