"""Tokenizer: a token is a byte of UTF-8, or END, which ends a text."""

import codecs
from collections.abc import Iterable

END = 256


def encode(text: str) -> list[int]:
    """Return the text's tokens, one per byte of UTF-8."""
    return list(text.encode())


class TextStream:
    """Decodes tokens as they come, but a character only once it is whole."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, tokens: Iterable[int]) -> str:
        """Return the text that these tokens add. Invalid bytes become U+FFFD; END adds nothing."""
        return self._decoder.decode(bytes(token for token in tokens if token < END))

    def finish(self) -> str:
        """Return the text of an unfinished character at the end."""
        return self._decoder.decode(b"", final=True)
