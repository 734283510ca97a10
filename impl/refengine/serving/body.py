"""A request's body, as long as it may be and no longer."""

from __future__ import annotations

import asyncio

from .order import ClientGone, Receive
from .refused import Refused

LONGEST = 4 << 20
"""Bytes."""
_SECONDS = 30.0


async def read_body(receive: Receive) -> bytes:
    """All of it; Refused if it is too long, or takes too long to come (SPEC S4)."""
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("the client hung up while it asked")
                body += message.get("body", b"")
                more = message.get("more_body", False)
                if len(body) > LONGEST:
                    raise Refused(413, f"a request's body may have {LONGEST} bytes, not more")
    except TimeoutError:
        raise Refused(408, f"the request's body did not come within {_SECONDS:g} s") from None
    return bytes(body)
