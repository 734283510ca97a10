"""Tokens are the bytes of UTF-8, and one that ends a text."""

import codecs
from collections.abc import Iterable

END = 256


def encode(text: str) -> list[int]:
    """One token a byte."""
    return list(text.encode())


class TextStream:
    """Makes text of tokens as they come; of a character that is not whole yet, nothing."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, tokens: Iterable[int]) -> str:
        """What these add. Bytes that are no UTF-8 become U+FFFD; END is no text."""
        return self._decoder.decode(bytes(token for token in tokens if token < END))

    def finish(self) -> str:
        """What an unfinished character at the very end becomes."""
        return self._decoder.decode(b"", final=True)
