"""A completion, assembled from an HTTP answer, and the kind of end that it came to (E1, E2, E5)."""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from killpoint.systems.server.load.http_reply import HttpReply

End = Literal["whole", "error", "torn", "no-answer", "refused", "truncated", "differs", "hang"]
"""``whole``: all of it, as far as a client can tell; ``error``: a status or an event that says so;
``torn``: the connection broke inside the answer; ``no-answer``: before it; ``refused``: there was
no connection; ``truncated``: it passes for whole, and is not; ``differs``: it has other tokens than
the same request had undisturbed; ``hang``: the client gave up."""
_FINISHED = ("stop", "length")


class Completion:
    """One completion, as far as its client has received it."""

    def __init__(self, tokens: int) -> None:
        self.text = ""
        self.pieces = 0
        self.finish = ""
        self.error = ""
        self.used: int | None = None
        """Number of tokens that the server says it has generated."""
        self.done = False
        """True once the last event, or the whole answer, was taken."""
        self._tokens = tokens

    def take(self, reply: HttpReply) -> None:
        """Take what has come since the last call."""
        if reply.status == 200 and reply.is_stream:
            for event in reply.events():
                self._event(event)
        elif reply.ended and not self.done:
            self.done = True
            self._whole(bytes(reply.body), reply.status)

    def end(
        self, reply: HttpReply, undisturbed: str | None, *, marked: bool = True
    ) -> tuple[End, str]:
        """Return the kind of end, and why.

        Args:
            undisturbed: the text that it should have.
            marked: True if the server ends its streams with ``[DONE]``; of one that does not, a
                stream with a ``finish_reason`` whose body ended as HTTP says is whole.
        """
        if not reply.status:
            return "no-answer", reply.torn
        if self.error or reply.status != 200:
            return "error", f"{reply.status} {self.error}".strip()
        if reply.torn:
            return "torn", reply.torn
        if self.finish not in _FINISHED:
            how = f"finish_reason {self.finish!r}" if self.finish else "no finish_reason"
            return "truncated", f"status 200, the body ended as HTTP says it should, {how}"
        if reply.is_stream and marked and not self.done:
            return "truncated", "status 200, the stream ended without its [DONE]"
        return self._compared(undisturbed)

    def _compared(self, undisturbed: str | None) -> tuple[End, str]:
        if undisturbed is not None and self.text != undisturbed:
            short = undisturbed.startswith(self.text)
            return ("truncated", self._short()) if short else ("differs", _difference())
        if self.finish == "length" and self.used is not None and self.used < self._tokens:
            return "truncated", self._short()
        return "whole", ""

    def _short(self) -> str:
        return f"status 200, finish_reason {self.finish!r}, and fewer tokens than there are"

    def _event(self, event: str) -> None:
        if event == "[DONE]":
            self.done = True
            return
        content = _decoded(event.encode())
        if content is None:
            self.error = self.error or "an event that is no JSON"
            return
        self._content(content)

    def _whole(self, body: bytes, status: int) -> None:
        content = _decoded(body)
        if content is not None:
            self._content(content)
        if status != 200 and not self.error:
            self.error = body.decode(errors="replace").strip()[:200]
        elif content is None:
            self.error = self.error or "an answer that is no JSON"

    def _content(self, content: dict[str, Any]) -> None:
        if "error" in content:
            error: object = content["error"]
            of = cast("dict[str, object]", error if isinstance(error, dict) else {"message": error})
            self.error = str(of.get("message") or "")[:200] or "an error without a message"
        elif content.get("object") == "error":
            self.error = str(content.get("message", ""))[:200]
        for choice in cast("list[dict[str, Any]]", content.get("choices") or []):
            more = str(choice.get("text") or "")
            self.text += more
            self.pieces += bool(more)
            self.finish = str(choice.get("finish_reason") or self.finish)
        usage = cast("dict[str, Any]", content.get("usage") or {})
        if isinstance(used := usage.get("completion_tokens"), int):
            self.used = used


def _difference() -> str:
    return "status 200, and other tokens than the same request had undisturbed"


def _decoded(body: bytes) -> dict[str, Any] | None:
    try:
        found: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None
