"""One end of the socket pair between a front end and the engine: whole frames, and no wait."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque

_HEAD = struct.Struct("!I")
_MOST = 64 << 20  # bytes of a frame; a request's body is shorter
_AT_ONCE = 256 << 10  # bytes that are taken before others have their turn


class Link:
    """Any thread may send; one takes.

    What the other side does not take is kept here: whoever sends looks at `waiting`.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        end.setblocking(False)
        self._lock = threading.Lock()
        self._unsent: deque[memoryview] = deque()
        self._begun = False
        """Whether a part of the first of these has been sent."""
        self._came = bytearray()
        self.waiting = 0
        """Bytes that were not sent yet."""

    def fileno(self) -> int:
        """For polling; -1 once closed."""
        return self._end.fileno()

    def send(self, frame: bytes) -> bool:
        """Now, or as `flush` is called; whether all of it was sent now."""
        with self._lock:
            self._unsent.append(memoryview(_HEAD.pack(len(frame)) + frame))
            self.waiting += _HEAD.size + len(frame)
            return self._flush()

    def flush(self) -> bool:
        """Send what the other side takes; whether nothing is left."""
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
        except OSError:  # nobody is there; whoever takes sees it
            self._unsent.clear()
            self.waiting = 0
        return not self._unsent

    def drop(self) -> None:
        """Forget what was not sent, but for the rest of a frame of which a part was."""
        with self._lock:
            while len(self._unsent) > self._begun:
                self.waiting -= len(self._unsent.pop())

    def take(self) -> list[bytes]:
        """The frames that have come. EOFError once the other side has ended."""
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
        """Idempotent."""
        with contextlib.suppress(OSError):
            self._end.close()
