"""Parser of an HTTP answer as it comes: whether it ended as HTTP says it should, or was torn.

Sans I/O: bytes in, facts out. No HTTP library is used, because it would hide what is judged: a body
that is cut off, a stream without its last event.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

_EVENT_ENDS = re.compile(rb"\r?\n\r?\n")
_NEWLINE = b"\r\n"
_LONGEST_HEAD = 1 << 16


class HttpReply:
    """Answer of a server to one request, so far."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.ended = False
        """True once the body has ended as HTTP says it should."""
        self.torn = ""
        """Reason why the body never will end so; empty: it may."""
        self._raw = bytearray()
        self._left: int | None = None
        """Bytes that the body, or its present chunk, still has; None: until the connection ends, or
        the length of the next chunk has come."""
        self._chunked = False
        self._in_trailer = False
        self._events_from = 0

    @property
    def over(self) -> bool:
        """True once nothing more is to come."""
        return self.ended or bool(self.torn)

    def feed(self, data: bytes) -> None:
        """Take bytes that have come."""
        self._raw += data
        if not self.status and not self._take_head():
            return
        while not self.over and self._take_body():
            pass

    def end_of_file(self, why: str = "") -> None:
        """Take the end of the connection; ``why``: the words of an error, if it was one."""
        if self.over:
            return
        if self.status and self._left is None and not self._chunked and not why:
            self.ended = True
        elif not self.status and not self._raw:
            self.torn = f"the connection ended before an answer{_because(why)}"
        else:
            self.torn = f"the connection was torn inside the answer{_because(why)}"

    def events(self) -> list[str]:
        """Return the data of each server-sent event that is whole and was not returned yet."""
        fresh = bytes(self.body[self._events_from :])
        ends = [found.end() for found in _EVENT_ENDS.finditer(fresh)]
        if not ends:
            return []
        self._events_from += ends[-1]
        lines = [line.strip() for line in fresh[: ends[-1]].split(b"\n")]
        return [line[5:].strip().decode(errors="replace") for line in lines if line[:5] == b"data:"]

    @property
    def is_stream(self) -> bool:
        """True if its body is a stream of server-sent events."""
        return self.headers.get("content-type", "").startswith("text/event-stream")

    def _take_head(self) -> bool:
        head, found, rest = bytes(self._raw).partition(_NEWLINE * 2)
        if not found:
            if len(self._raw) > _LONGEST_HEAD:
                self.torn = "what came is no HTTP"
            return False
        first, *lines = head.split(_NEWLINE)
        words = first.split(None, 2)
        if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
            self.torn = "what came is no HTTP"
            return False
        self.status = int(words[1])
        for line in lines:
            key, _, value = line.decode("latin-1").partition(":")
            self.headers[key.strip().lower()] = value.strip()
        self._raw = bytearray(rest)
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        if not self._chunked and length.isdigit():
            self._left = int(length)
        return True

    def _take_body(self) -> bool:
        """Take a part of the body; return whether a further part may be there."""
        if self._chunked:
            return self._take_chunk()
        more = self._raw if self._left is None else self._raw[: self._left]
        self.body += more
        del self._raw[: len(more)]
        if self._left is not None:
            self._left -= len(more)
            self.ended = self._left == 0
        return False

    def _take_chunk(self) -> bool:
        if self._left is None:
            line, found, rest = bytes(self._raw).partition(_NEWLINE)
            if not found:
                return False
            if self._in_trailer:
                self._raw = bytearray(rest)
                self.ended = not line
                return bool(line)
            size = line.split(b";")[0].strip()
            try:
                self._left = int(size, 16)
            except ValueError:
                self.torn = "a chunk of the answer has no length"
                return False
            self._raw = bytearray(rest)
            if self._left == 0:
                self._left, self._in_trailer = None, True
            return True
        if len(self._raw) < self._left + 2:
            return False
        self.body += self._raw[: self._left]
        del self._raw[: self._left + 2]
        self._left = None
        return True


def _because(why: str) -> str:
    return f" ({why})" if why else ""


class ClientRequest(msgspec.Struct, frozen=True):
    """Request of a client."""

    prompt: str
    tokens: int
    stream: bool

    def body(self, model: str) -> bytes:
        """Return its body, as JSON."""
        fields: dict[str, object] = {"prompt": self.prompt, "max_tokens": self.tokens}
        fields |= {"temperature": 0, "stream": self.stream}
        fields |= {"model": model} if model else {}
        return msgspec.json.encode(fields)


def request(method: str, path: str, host: str, body: bytes = b"") -> bytes:
    """The bytes of a request whose connection the client closes after its answer."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Accept: */*"]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def requests_for(prompts: Sequence[str], tokens: int, clients: int) -> list[ClientRequest]:
    """Return a request for each client, every second one for a stream; prompts are used in turn."""
    known = prompts or [f"client {n} asks about the ring" for n in range(clients)]
    return [ClientRequest(known[n % len(known)], tokens, stream=n % 2 == 0) for n in range(clients)]
