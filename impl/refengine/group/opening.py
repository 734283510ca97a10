"""Turning a body into its object, in the caller's own thread."""

from collections.abc import Callable
from typing import Any

from ..base.cleanup import reproduce_error
from ..base.serialization import decode, read_message
from ..errors import Undecodable


def opened(body: memoryview, number: int, consume: Callable[[], None]) -> Any:
    """The object. Undecodable, once: then it was consumed, and the next call gets the next.

    An error that does not come again came from outside, and leaves the object where it is (R9).
    """
    try:
        return decode(read_message(body))
    except BaseException as error:
        if reproduce_error(lambda: decode(read_message(body))) is not type(error):
            raise
        consume()
        if isinstance(error, Exception):
            raise Undecodable(number) from error
        raise
