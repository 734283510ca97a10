"""The fields of a `/v1/completions` request, and one completion's text as it grows.

Decoding is greedy. A field that would make other tokens than that is refused with the reason, one
that cannot matter is ignored, and an unknown one is refused: it might matter. A completion takes
its tokens one by one, so that the end of its text does not depend on how they were batched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from ..engine import Delta
from ..engine.model.tokens import TextStream, encode
from .http import ApiError

MAX_PROMPTS = 128
"""Maximum number of prompts in a request."""
MAX_STOPS = 16
_STOP_LENGTH = 1024  # characters


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Options of a streamed response."""

    include_usage: bool = False
    """True for one more event, before the last, with the usage of the whole request."""


class CompletionRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Fields of a request's JSON, as received."""

    prompt: str | list[str | int | list[int]]
    model: str | None = None
    max_tokens: int | None = 16
    stop: str | list[str] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    echo: bool | None = False

    n: int | None = 1
    best_of: int | None = 1
    temperature: float | None = 0.0
    logprobs: int | None = None
    suffix: str | None = None
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    logit_bias: dict[str, float] | None = None

    user: str | None = None
    seed: int | None = None
    top_p: float | None = 1.0

    def prompts(self) -> list[list[int]]:
        """Return the tokens of each prompt; raise ApiError if none, too many, or of mixed kinds."""
        prompts = _prompts(self.prompt)
        if not 1 <= len(prompts) <= MAX_PROMPTS:
            reason = f"a request has 1 to {MAX_PROMPTS} prompts, this one {len(prompts)}"
            raise ApiError(400, reason, "prompt")
        if not all(prompts):
            raise ApiError(400, "a prompt has at least one token, and one here is empty", "prompt")
        return prompts

    def stops(self) -> tuple[str, ...]:
        """Return the texts at which a completion ends."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(stops) > MAX_STOPS or any(not 0 < len(stop) <= _STOP_LENGTH for stop in stops):
            reason = f"at most {MAX_STOPS} stop strings, of 1 to {_STOP_LENGTH} characters each"
            raise ApiError(400, reason, "stop")
        return tuple(stops)

    def token_limit(self) -> int:
        """Return the maximum number of tokens of each completion."""
        return 16 if self.max_tokens is None else self.max_tokens


def decode_request(body: bytes) -> CompletionRequest:
    """Decode a request's body; raise ApiError for anything that greedy decoding cannot serve."""
    try:
        request = msgspec.json.decode(body, type=CompletionRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        field = re.search(r"\$\.(\w+)", str(error)) or re.search(r"field `(\w+)`", str(error))
        raise ApiError(400, f"{error}", field and field[1]) from None
    _check_fields(request)
    return request


def _check_fields(request: CompletionRequest) -> None:
    greedy = {
        "n": (request.n, 1, "one completion of each prompt"),
        "best_of": (request.best_of, 1, "one completion of each prompt"),
        "temperature": (request.temperature, 0, "decoding is greedy: send 0, or leave it out"),
        "presence_penalty": (request.presence_penalty, 0, "decoding is greedy"),
        "frequency_penalty": (request.frequency_penalty, 0, "decoding is greedy"),
    }
    for field, (value, only, why) in greedy.items():
        if value is not None and value != only:
            raise ApiError(400, f"{field} {value:g} is not to be had here: {why}", field)
    absent = {"logprobs": request.logprobs is not None, "suffix": bool(request.suffix)}
    for field, there in (absent | {"logit_bias": bool(request.logit_bias)}).items():
        if there:
            raise ApiError(400, f"{field} is not to be had here: leave it out", field)
    if request.token_limit() < 1:
        raise ApiError(400, f"max_tokens is {request.max_tokens}; 1 or more", "max_tokens")
    if request.stream_options is not None and not request.stream:
        raise ApiError(400, "stream_options are for a request with stream", "stream_options")


def _prompts(prompt: str | list[str | int | list[int]]) -> list[list[int]]:
    if isinstance(prompt, str):
        return [encode(prompt)]
    texts = [encode(item) for item in prompt if isinstance(item, str)]
    tokens = [item for item in prompt if isinstance(item, int)]
    several = [item for item in prompt if isinstance(item, list)]
    if len(prompt) not in (len(texts), len(tokens), len(several)):
        raise ApiError(400, "a prompt is a text, tokens, or a list of one of the two", "prompt")
    return [tokens] if tokens else texts or several


class StopFinder:
    """Finds stop strings in a text that comes in pieces; ends before the first complete one.

    Text that may yet become a stop string is held back.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """Add text; return the part that cannot belong to a stop string any more."""
        if self.stopped:
            return ""
        self._held += text
        found = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self._give(min(found)[1])
        return self._give(len(self._held) - self._begun())

    def end(self) -> str:
        """Return the text that was held back, at the end of all text."""
        return self._give(0 if self.stopped else len(self._held))

    def _give(self, length: int) -> str:
        given, self._held = self._held[:length], self._held[length:]
        return given

    def _begun(self) -> int:
        """Return the length of the longest suffix of the text that begins a stop string."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for length in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stops):
                return length
        return 0


@dataclass(frozen=True)
class Piece:
    """Addition of one delta to a completion."""

    text: str
    """Text of whole characters, without any that may yet become a stop string."""
    tokens: tuple[int, ...]
    finish: str | None = None


class Choice:
    """The completion of one prompt."""

    def __init__(self, stops: tuple[str, ...] = ()) -> None:
        self.text = ""
        self.tokens: list[int] = []
        """Tokens so far; those of the stop string are included, though the text lacks it."""
        self.finish: str | None = None
        self._decoder = TextStream()
        self._finder = StopFinder(stops)

    def take(self, delta: Delta) -> Piece:
        """Take a delta, and return the piece it adds; not to be called after a finish."""
        text, began = "", len(self.tokens)
        for token in delta.tokens:
            self.tokens.append(token)
            text += self._finder.push(self._decoder.push([token]))
            if self._finder.stopped:
                break
        self.finish = delta.finish
        if delta.finish and not self._finder.stopped:
            text += self._finder.push(self._decoder.finish()) + self._finder.end()
        if self._finder.stopped:
            self.finish = "stop"
        self.text += text
        return Piece(text, tuple(self.tokens[began:]), self.finish)
