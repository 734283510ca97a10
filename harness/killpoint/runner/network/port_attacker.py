"""A stranger: it knows only the ports that the kernel lists, and attacks as anyone could.

It runs in a process of its own, and logs in a file of its own what it received. A message is
recognised by its pattern; a canary that was decoded has journalled that itself.
"""

from __future__ import annotations

import contextlib
import importlib
import select
import socket
import time
from pathlib import Path

import msgspec
import zmq

from killpoint.history.log import Log
from killpoint.runner import payload
from killpoint.runner.environment.canary import canary
from killpoint.runner.network.flood import Crowd, as_itself, as_stranger, stay
from killpoint.runner.network.store_attacker import StoreAttacker

STRANGER = "stranger"
"""Start method of a stranger's process."""

_TICK = 0.05
_STAYS_AT_MOST = 120.0
_FROM_LISTENERS = ("SUB", "DEALER", "PULL", "REQ")
_TO_LISTENERS = ("XSUB", "DEALER", "PUSH", "REQ", "PUB", "PAIR")
_LAST_LOOKS = 4
_MEETS_WITHIN = 2.0
_MET = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_DISCONNECTED
)
"""Events after which it is known whether the other side talks to a stranger."""
_SPOKEN = 10
"""Rounds in which a stranger sends; then it stays connected in silence."""


class AttackOrders(msgspec.Struct):
    """Orders of a stranger."""

    how: str
    addresses: list[tuple[str, int]]
    seed: int
    """With ``count``: parameter of the patterns by which a message is recognised."""
    count: int
    pid: int = 0
    """For ``lurk``: root of the process tree to watch."""
    spared: list[int] = []
    """For ``lurk``: ports that are not visited, since any client may connect to them."""
    words: list[str] = []
    """Texts by which a message of a server is recognised, beside its number."""


def run(name: str, folder: Path, data: bytes) -> None:
    """Execute the orders until the runner has put ``NAME.stop`` into the folder."""
    orders = msgspec.json.decode(data, type=AttackOrders)
    log = Log(folder / f"{name}.jsonl", name)
    if orders.how in ("flood", "lurk"):
        _crowd(orders, log, folder, name)
        return
    for module in ("encodings.idna", "zmq.utils.monitor"):
        importlib.import_module(module)  # later another user may read none of our files
    uid = as_stranger()
    stranger = _Attacker(orders, log, folder)
    end = time.monotonic() + _STAYS_AT_MOST
    stranger.connect()
    stranger.meet()
    stranger.turn()
    log.write("stranger-stands", how=orders.how, ports=len(orders.addresses), uid=uid)
    while time.monotonic() < end:
        with as_itself():
            if (folder / f"{name}.stop").exists():
                break
        stranger.turn()
    for _ in range(_LAST_LOOKS):
        stranger.turn()
    log.write("stranger-leaves", how=orders.how)
    stranger.close()


def _crowd(orders: AttackOrders, log: Log, folder: Path, name: str) -> None:
    crowd, uid = Crowd(log), as_stranger()
    try:
        crowd.flood(orders.addresses)
        log.write("stranger-stands", how=orders.how, ports=len(orders.addresses), uid=uid)
        stay(crowd, folder, name, orders.pid, _STAYS_AT_MOST, orders.spared)
        log.write("stranger-leaves", how=orders.how, ports=crowd.ports)
    finally:
        crowd.close()


class _Attacker:
    def __init__(self, orders: AttackOrders, log: Log, folder: Path) -> None:
        self._orders = orders
        self._log = log
        self._trace = folder / "canary.jsonl"
        self._context = zmq.Context()
        self._zmtp: dict[zmq.Socket[bytes], tuple[str, int]] = {}
        self._meetings: dict[zmq.Socket[bytes], zmq.Socket[bytes]] = {}
        self._raw: dict[socket.socket, tuple[str, int]] = {}
        self._stores: list[StoreAttacker] = []
        self._poller = zmq.Poller()
        self._rounds = 0

    def connect(self) -> None:
        for host, port in self._orders.addresses:
            target = _reachable(host)
            self._plain(target, port)
            listens = self._orders.how == "listen"
            for kind in _FROM_LISTENERS if listens else _TO_LISTENERS:
                self._peer(kind, target, port)
        addresses = [(_reachable(host), port) for host, port in self._orders.addresses]
        self._stores = StoreAttacker.among(addresses)
        for store in self._stores:
            self._log.write("stranger-let-in", way="TCP store", port=store.port)

    def _plain(self, host: str, port: int) -> None:
        bodies = [b""] if self._orders.how == "listen" else self._framed()
        for body in bodies:
            try:
                line = socket.create_connection((host, port), timeout=2.0)
            except OSError as error:
                self._log.write("stranger-refused", port=port, error=str(error))
                return
            with contextlib.suppress(OSError):
                line.sendall(body)
            line.setblocking(False)
            self._raw[line] = ("raw bytes", port)
            self._poller.register(line, zmq.POLLIN)
        self._log.write("stranger-connected", port=port)

    def _framed(self) -> list[bytes]:
        body = canary(self._trace, "raw bytes")
        lengths = [
            len(body).to_bytes(size, order) for size in (4, 8) for order in ("big", "little")
        ]
        return [body, *(length + body for length in lengths)]

    def _peer(self, kind: str, host: str, port: int) -> None:
        peer: zmq.Socket[bytes] = self._context.socket(getattr(zmq, kind))
        peer.setsockopt(zmq.LINGER, 0)
        peer.setsockopt(zmq.IPV6, int(":" in host))
        if kind == "SUB":
            peer.setsockopt(zmq.SUBSCRIBE, b"")
        self._meetings[peer] = peer.get_monitor_socket(_MET)
        peer.connect(f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}")
        self._zmtp[peer] = (kind, port)
        if kind not in ("PUSH", "PUB"):
            self._poller.register(peer, zmq.POLLIN)
        if kind == "REQ" and self._orders.how == "listen":
            with contextlib.suppress(zmq.ZMQError):
                peer.send(b"", zmq.NOBLOCK)

    def meet(self) -> None:
        """Wait until each peer has been let in or turned away; log the result."""
        # It brings asyncio along: a third of what a zygote imports, and only strangers need it.
        from zmq.utils.monitor import recv_monitor_message

        end = time.monotonic() + _MEETS_WITHIN
        for peer, monitor in self._meetings.items():
            kind, port = self._zmtp[peer]
            event = 0
            if monitor.poll(max(0, int((end - time.monotonic()) * 1000))):
                event = int(recv_monitor_message(monitor)["event"])
            met = event == zmq.EVENT_HANDSHAKE_SUCCEEDED
            word = "stranger-let-in" if met else "stranger-turned-away"
            self._log.write(word, way=f"{kind} socket", port=port, answered=bool(event))
            peer.disable_monitor()
        self._meetings.clear()

    def turn(self) -> None:
        """Receive for a tick, after sending if the orders are to."""
        if self._orders.how == "speak" and self._rounds < _SPOKEN:
            self._rounds += 1
            self._speak()
        if self._zmtp or self._raw:
            ready = dict(self._poller.poll(int(_TICK * 1000)))
        else:
            select.select([], [], [], _TICK)
            ready = {}
        for peer, (kind, port) in self._zmtp.items():
            if peer in ready:
                self._drain(peer, kind, port)
        for line, (way, port) in list(self._raw.items()):
            if line.fileno() in ready:
                self._read(line, way, port)
        for store in self._stores:
            if self._orders.how == "listen":
                for key, value in store.values():
                    self._note("TCP store", store.port, value, key)

    def _speak(self) -> None:
        for peer, (kind, _port) in self._zmtp.items():
            body = canary(self._trace, f"{kind} socket")
            for frames in ([body], [b"", body], [body, body]):
                with contextlib.suppress(zmq.ZMQError):
                    peer.send_multipart(frames, zmq.NOBLOCK)
        for store in self._stores:
            store.set_all(canary(self._trace, "TCP store"))

    def _drain(self, peer: zmq.Socket[bytes], kind: str, port: int) -> None:
        with contextlib.suppress(zmq.ZMQError):
            while True:
                self._note(f"{kind} socket", port, b"".join(peer.recv_multipart(zmq.NOBLOCK)))

    def _read(self, line: socket.socket, way: str, port: int) -> None:
        try:
            data = line.recv(1 << 20)
        except OSError:
            data = b""
        if data:
            self._note(way, port, data)
            return
        self._poller.unregister(line)
        del self._raw[line]
        line.close()

    def _note(self, way: str, port: int, data: bytes, key: str = "") -> None:
        holds = payload.recognised(data, self._orders.seed, self._orders.count)
        words = enumerate(self._orders.words)
        holds = holds or [number for number, word in words if word.encode() in data]
        self._log.write(
            "stranger-got",
            way=way,
            port=port,
            size=len(data),
            key=key,
            holds=holds,
            begin=data[:32].hex(),
        )

    def close(self) -> None:
        """Close all connections without a message."""
        for line in self._raw:
            line.close()
        for peer in self._zmtp:
            peer.close(0)
        self._context.term()


def _reachable(host: str) -> str:
    """Return the address at which a listener on all addresses is reached from this machine."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
