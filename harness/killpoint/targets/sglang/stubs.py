"""Stand-ins of our own for the few things that SGLang's queue takes from the rest of SGLang.

Any other name does not exist: asking for it fails with an error that names it.
"""

from __future__ import annotations

import msgspec

from killpoint.targets.sglang.sources import FOLDER
from killpoint.targets.vllm.loading.stubs import is_ipv6, open_port

NOTES = (
    "sglang.srt.utils: ports and addresses are chosen by killpoint, all on this machine",
    "sglang.srt.environ: SGLANG_PORT is not honoured, ports are the system's choice",
    "sglang.srt.distributed: process groups are absent",
)
"""Parts that were replaced or switched off, for reports."""


class NetworkAddress(msgspec.Struct, frozen=True):
    """A host, whose brackets may be given or left out, and a port."""

    host: str
    port: int

    @property
    def is_ipv6(self) -> bool:
        """True if the host is an IPv6 address."""
        return is_ipv6(self.host.strip("[]"))

    def to_tcp(self) -> str:
        """Return the address as ZeroMQ takes it."""
        return tcp_address(self.host.strip("[]"), self.port)


class Unset:
    """Setting that has no value."""

    def get(self) -> None:
        """Return its default, None."""


class SimulatedEnvironment:
    """Settings that the queue reads."""

    SGLANG_PORT = Unset()

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"killpoint has no stand-in for sglang's setting {name}", name=name)


def modules() -> dict[str, dict[str, object]]:
    """Return every stand-in's contents, by module name."""
    network: dict[str, object] = {
        "NetworkAddress": NetworkAddress,
        "format_tcp_address": tcp_address,
        "get_ip": _this_machine,
        "get_local_ip_auto": _this_machine,
        "get_open_port": open_port,
        "is_valid_ipv6_address": is_ipv6,
    }
    parents = FOLDER.parts
    packages = [".".join(parents[: count + 1]) for count in range(len(parents))]
    return {
        **{name: {"__path__": []} for name in packages},
        "sglang.srt.environ": {"envs": SimulatedEnvironment()},
        "sglang.srt.utils": {"__path__": [], **network},
        "sglang.srt.utils.network": network,
    }


def tcp_address(host: str, port: int) -> str:
    """Return the address as ZeroMQ takes it: an IPv6 host stands in brackets."""
    return f"tcp://[{host}]:{port}" if is_ipv6(host) else f"tcp://{host}:{port}"


def _this_machine(fallback: str | None = None) -> str:
    del fallback
    return "127.0.0.1"
