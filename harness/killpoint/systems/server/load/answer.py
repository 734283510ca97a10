"""An answer of any number of completions, streamed or whole, as far as its client has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec

from killpoint.systems.server.load.http_reply import HttpReply

_DONE = "[DONE]"


@dataclass
class Said:
    """One completion of an answer."""

    text: str = ""
    finish: str = ""
    after: bool = False
    """True if more of it came after its finish."""


class Answer:
    """Completions of one request, their usage, and the end of their stream."""

    def __init__(self) -> None:
        self.choices: dict[int, Said] = {}
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.total_tokens: int | None = None
        self.done = 0
        """Number of times that the end of a stream came."""
        self.after_done = False
        """True if anything came after it."""
        self.error = ""

    def take(self, reply: HttpReply) -> None:
        """Take what has come since the last call."""
        if reply.status == 200 and reply.is_stream:
            for event in reply.events():
                self.after_done = self.after_done or self.done > 0
                if event == _DONE:
                    self.done += 1
                else:
                    self._content(event.encode())
        elif reply.ended:
            self._content(bytes(reply.body))

    def _content(self, body: bytes) -> None:
        try:
            found: object = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            found = None
        if not isinstance(found, dict):
            self.error = self.error or "what came is no JSON object"
            return
        content = cast("dict[str, Any]", found)
        if "error" in content or content.get("object") == "error":
            self.error = self.error or str(content.get("error") or content.get("message"))[:200]
        for choice in cast("list[dict[str, Any]]", content.get("choices") or []):
            said = self.choices.setdefault(int(choice.get("index") or 0), Said())
            text, finish = str(choice.get("text") or ""), choice.get("finish_reason")
            said.after = said.after or bool(said.finish and (text or finish))
            said.text += text
            said.finish = str(finish or said.finish)
        usage = cast("dict[str, Any]", content.get("usage") or {})
        if isinstance(usage.get("prompt_tokens"), int):
            self.prompt_tokens = usage["prompt_tokens"]
            self.completion_tokens = usage.get("completion_tokens")
            self.total_tokens = usage.get("total_tokens")
