"""One end of the socket pair between a front end and the engine: whole frames, never blocking."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque

_HEAD = struct.Struct("!I")
_MOST = 64 << 20  # bytes of a frame; a request's body is shorter
_AT_ONCE = 256 << 10  # bytes that are read before others have their turn


class Link:
    """Framed connection; any thread may send, one receives.

    Bytes that the other side does not read are kept here: senders have to check `waiting`.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._begun = False
        """True if a part of the first unsent frame has been sent."""
        self._came = bytearray()
        self.waiting = 0
        """Number of bytes that were not sent yet."""

    def fileno(self) -> int:
        """Descriptor for polling; -1 once closed."""
        return self._end.fileno()

    def send(self, frame: bytes) -> bool:
        """Send a frame now, or the rest of it by `flush`; return whether nothing is left unsent."""
        with self._lock:
            self._unsent.append(memoryview(_HEAD.pack(len(frame)) + frame))
            self.waiting += _HEAD.size + len(frame)
            return self._flush()

    def flush(self) -> bool:
        """Send as much as the other side takes; return whether nothing is left."""
        with self._lock:
            return self._flush()

    def _flush(self) -> bool:
        try:
            while self._unsent:
                sent = self._end.send(self._unsent[0], socket.MSG_NOSIGNAL)
                self.waiting -= sent
                self._begun = sent < len(self._unsent[0])
                if self._begun:
                    self._unsent[0] = self._unsent[0][sent:]
                else:
                    self._unsent.popleft()
        except BlockingIOError:
            pass
        except OSError:  # the other side is gone; `take` raises for it
            self._unsent.clear()
            self.waiting = 0
        return not self._unsent

    def drop(self) -> list[bytes]:
        """Drop unsent frames, but not the rest of one sent in part; return them in order."""
        dropped: list[bytes] = []
        with self._lock:
            while len(self._unsent) > self._begun:
                frame = self._unsent.pop()
                self.waiting -= len(frame)
                dropped.append(bytes(frame[_HEAD.size :]))
        return dropped[::-1]

    def take(self) -> list[bytes]:
        """Return the frames that have come; raise EOFError once the other side has ended."""
        try:
            came = self._end.recv(_AT_ONCE)
        except BlockingIOError:
            return []
        except OSError as error:
            raise EOFError("the link is broken") from error
        if not came:
            raise EOFError("the other side has ended")
        self._came += came
        return self._frames()

    def _frames(self) -> list[bytes]:
        frames: list[bytes] = []
        at = 0
        while len(self._came) - at >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._came, at)
            if length > _MOST:
                raise EOFError(f"a frame of {length} bytes makes no sense")
            end = at + _HEAD.size + length
            if len(self._came) < end:
                break
            frames.append(bytes(self._came[at + _HEAD.size : end]))
            at = end
        del self._came[:at]
        return frames

    def close(self) -> None:
        """Close this end. Idempotent."""
        with contextlib.suppress(OSError):
            self._end.close()
