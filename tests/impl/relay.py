"""A TCP relay between two ends of a line, which can hold traffic up, drop it, or break it."""

import contextlib
import selectors
import socket
import struct
import threading

_RESET = struct.pack("ii", 1, 0)


class Relay:
    """Forwards `address` ("tcp://host:port") from a port of its own, in one thread."""

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("tcp://").rpartition(":")
        self._target = (host.strip("[]"), int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._inward: set[socket.socket] = set()  # ends at the connecting party
        self.held: set[str] = set()
        self._later_held = False
        self._held_ends: set[socket.socket] = set()
        self._accepted: list[tuple[socket.socket, socket.socket]] = []
        self.dropped: set[str] = set()
        self.forwarded = 0
        self._stop = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self, *ways: str) -> None:
        """Hold what goes "in" (towards the listener) or "out"; both by default."""
        self.held = set(ways or ("in", "out"))

    def heal(self) -> None:
        with self._lock:
            self.held, self._later_held = set(), False
            self._held_ends.clear()

    def cut_later(self) -> None:
        """Hold all that goes by connections that are made from now on."""
        self._later_held = True

    def cut_one(self, number: int, *ways: str) -> None:
        """Hold what goes these ways by one connection, of those made so far; nothing else of it."""
        near, far = self._accepted[number]
        with self._lock:
            self._held_ends -= {near, far}
            self._held_ends |= {{"in": near, "out": far}[way] for way in ways}

    @property
    def accepted(self) -> int:
        """Number of connections that were made."""
        return len(self._accepted)

    def half_open(self, way: str) -> None:
        """Drop for good what goes that way."""
        self.dropped = {way}

    def reset(self) -> None:
        """Break every connection with a RST."""
        with self._lock:
            for end in list(self._pairs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                self._forget(end)

    def close(self) -> None:
        self._stop = True
        self._thread.join()
        self.reset()
        self._listener.close()
        self._selector.close()

    def _forget(self, end: socket.socket) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(end)
        self._pairs.pop(end, None)
        end.close()

    def _run(self) -> None:
        while not self._stop:
            ready, moved = self._selector.select(0.01), False
            for key, _ in ready:
                with self._lock:
                    if key.fileobj is self._listener:
                        self._accept()
                        moved = True
                    elif key.fileobj in self._pairs:
                        moved |= self._forward(key.fileobj)
            if ready and not moved:  # all of it is held
                threading.Event().wait(0.002)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(self._target, timeout=1)
        except OSError:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            near.close()
            return
        self._inward.add(near)
        self._accepted.append((near, far))
        if self._later_held:
            self._held_ends |= {near, far}
        for a, b in ((near, far), (far, near)):
            a.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs[a] = b
            self._selector.register(a, selectors.EVENT_READ)

    def _forward(self, end: socket.socket) -> bool:
        """Pass on what has come to one end; return False if that is held."""
        way = "in" if end in self._inward else "out"
        if way in self.held or end in self._held_ends:
            return False
        other = self._pairs[end]
        try:
            data = end.recv(1 << 16)
            if data and way not in self.dropped:
                other.settimeout(5)
                other.sendall(data)
                self.forwarded += len(data)
        except OSError:
            data = b""
        if not data:
            for each in (end, other):
                self._forget(each)
        return True
