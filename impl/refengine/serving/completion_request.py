"""What a client may ask of `/v1/completions`, and what of it is refused.

Decoding is greedy. A field that would make other tokens than that is refused with the reason, one
that cannot matter is taken and ignored, and one that nobody knows is refused: it might matter.
"""

from __future__ import annotations

import re

import msgspec

from ..engine.tokens import encode
from .refused import Refused

PROMPTS = 128
"""That one request may have."""
STOPS = 16
_STOP_LENGTH = 1024  # characters


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """How an answer is streamed."""

    include_usage: bool = False
    """One more event, before the last, with the usage of the whole request."""


class CompletionRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of a request's JSON, as they came."""

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
        """The tokens of each prompt; Refused if there are none, too many, or of mixed kinds."""
        prompts = _prompts(self.prompt)
        if not 1 <= len(prompts) <= PROMPTS:
            reason = f"a request has 1 to {PROMPTS} prompts, this one {len(prompts)}"
            raise Refused(400, reason, "prompt")
        if not all(prompts):
            raise Refused(400, "a prompt has at least one token, and one here is empty", "prompt")
        return prompts

    def stops(self) -> tuple[str, ...]:
        """The texts at which a completion ends."""
        stops = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if len(stops) > STOPS or any(not 0 < len(stop) <= _STOP_LENGTH for stop in stops):
            reason = f"at most {STOPS} stop strings, of 1 to {_STOP_LENGTH} characters each"
            raise Refused(400, reason, "stop")
        return tuple(stops)

    def most(self) -> int:
        """Tokens that each completion may have."""
        return 16 if self.max_tokens is None else self.max_tokens


def decode(body: bytes) -> CompletionRequest:
    """The request of a body, with all that greedy decoding can give; else Refused."""
    try:
        asked = msgspec.json.decode(body, type=CompletionRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        field = re.search(r"\$\.(\w+)", str(error)) or re.search(r"field `(\w+)`", str(error))
        raise Refused(400, f"{error}", field and field[1]) from None
    _judge(asked)
    return asked


def _judge(asked: CompletionRequest) -> None:
    greedy = {
        "n": (asked.n, 1, "one completion of each prompt"),
        "best_of": (asked.best_of, 1, "one completion of each prompt"),
        "temperature": (asked.temperature, 0, "decoding is greedy: send 0, or leave it out"),
        "presence_penalty": (asked.presence_penalty, 0, "decoding is greedy"),
        "frequency_penalty": (asked.frequency_penalty, 0, "decoding is greedy"),
    }
    for field, (value, only, why) in greedy.items():
        if value is not None and value != only:
            raise Refused(400, f"{field} {value:g} is not to be had here: {why}", field)
    absent = {"logprobs": asked.logprobs is not None, "suffix": bool(asked.suffix)}
    for field, there in (absent | {"logit_bias": bool(asked.logit_bias)}).items():
        if there:
            raise Refused(400, f"{field} is not to be had here: leave it out", field)
    if asked.most() < 1:
        raise Refused(400, f"max_tokens is {asked.max_tokens}; 1 or more", "max_tokens")
    if asked.stream_options is not None and not asked.stream:
        raise Refused(400, "stream_options are for a request with stream", "stream_options")


def _prompts(prompt: str | list[str | int | list[int]]) -> list[list[int]]:
    if isinstance(prompt, str):
        return [encode(prompt)]
    texts = [encode(item) for item in prompt if isinstance(item, str)]
    tokens = [item for item in prompt if isinstance(item, int)]
    several = [item for item in prompt if isinstance(item, list)]
    if len(prompt) not in (len(texts), len(tokens), len(several)):
        raise Refused(400, "a prompt is a text, tokens, or a list of one of the two", "prompt")
    return [tokens] if tokens else texts or several
