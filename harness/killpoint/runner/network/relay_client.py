"""The runner's side of the relay: it starts it, lays routes through it, and orders faults."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import cast

import msgspec

from killpoint.errors import CannotWork

_PROGRAM = Path(__file__).with_name("relay.py")
_ANSWERS_WITHIN = 10.0


class Traffic(msgspec.Struct):
    """Figures of some roles' connections, from the relay."""

    met: int = 0
    """Number of connections that a fault met when it was applied."""
    connections: int = 0
    """Number of connections made in all."""
    open: int = 0
    bytes: int = 0
    to_role: int = 0
    to_peer: int = 0
    dropped: int = 0
    late: int = 0
    """Number of bytes that were delayed."""
    sprung: int = 0
    """Time at which a fault that waited for bytes was applied, in monotonic nanoseconds."""
    withheld: int = 0
    """Number of bytes that wait, or waited until the heal, because of a cut."""


_LEARNT = msgspec.json.Decoder(Traffic)  # once, by one thread: see killpoint.scenario.file


class Relay:
    """Relay process of one play; it ends when this is closed, or this process ends."""

    def __init__(self) -> None:
        """Start the relay.

        Raises:
            CannotWork: it cannot be started.
        """
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.settimeout(_ANSWERS_WITHIN)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROGRAM), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,
                start_new_session=True,
            )
        except OSError as error:
            self._control.close()
            raise CannotWork(f"cannot start the relay: {error}") from error
        finally:
            theirs.close()
        self.pid = self._process.pid

    def route(self, role: str, address: str, *, lazy: bool = False) -> str:
        """Return an address that leads to the given one, for this role alone.

        Args:
            address: ``host:port``, with an IPv6 host in brackets.
            lazy: the listener may be missing yet; until it is there, connections are refused.
        """
        host, port = split(address)
        near = self._ask(do="route", role=role, host=host, port=port, lazy=lazy)["port"]
        return joined("::1" if ":" in host else "127.0.0.1", near)

    def do(
        self,
        fault: str,
        roles: list[str],
        toward: str,
        seconds: float,
        after: int | None = None,
    ) -> Traffic:
        """Apply a fault to these roles' connections.

        Args:
            toward: ``role``, ``peer`` or ``both``; a reset has no direction.
            seconds: for ``delay``.
            after: number of further bytes that must have gone there before; None: at once.
        """
        return self._traffic(
            self._ask(do=fault, roles=roles, toward=toward, seconds=seconds, after=after)
        )

    def report(self, roles: list[str]) -> Traffic:
        """Return the figures so far."""
        return self._traffic(self._ask(do="report", roles=roles))

    def close(self) -> None:
        """End the relay, and every connection through it."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ANSWERS_WITHIN)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _traffic(self, answer: dict[str, int]) -> Traffic:
        return msgspec.convert(answer, Traffic)

    def _ask(self, **order: object) -> dict[str, int]:
        try:
            self._control.send(json.dumps(order).encode())
            data = self._control.recv(1 << 16)
        except OSError as error:
            raise CannotWork(f"the relay (pid {self.pid}) does not answer: {error}") from error
        if not data:
            raise CannotWork(f"the relay (pid {self.pid}) has died")
        answer = cast("dict[str, int]", json.loads(data))
        if "error" in answer:
            raise CannotWork(f"the relay cannot {order['do']}: {answer['error']}")
        return answer


def joined(host: str, port: int) -> str:
    """Return ``host:port``, with an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(address: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; an IPv6 host loses its brackets."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
