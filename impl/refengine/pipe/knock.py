"""How a rank connects to a neighbour's door."""

import socket
from collections.abc import Callable

from ..base.cleanup import ReleaseStack
from ..base.security import Keys, SocketFactory
from .handshake import VERDICT_BYTES, WELCOME_BYTES, Caller, Connecting, refusal
from .link import Across, Link


def knock(
    address: tuple[str, int],
    keys: Keys,
    me: Caller,
    rank: int,
    left: Callable[[], float],
    sockets: SocketFactory,
) -> "Link | str":
    """A link to the door of `rank`, or why it refused us.

    ConnectionError if nobody is there, or not one of ours; TimeoutError if nothing came in time.
    """
    undo = ReleaseStack()
    try:
        sock = undo.acquire(socket.socket.close, sockets.connect_tcp, *address, left())
        hands = Connecting(keys, me)
        sock.sendall(hands.hello)  # small and first, as the proof: there is room for both
        proof = hands.proof(read(sock, WELCOME_BYTES, left))
        if proof is None:
            raise ConnectionError("whoever listens there does not know the key")
        sock.sendall(proof)
        reason = refusal(read(sock, VERDICT_BYTES, left))
        if not reason:
            return Link(sock, Across(rank, hands.pid, hands.place), hands.session)
    except BaseException:
        undo.close()
        raise
    undo.close()
    return reason


def read(sock: socket.socket, count: int, left: Callable[[], float]) -> bytes:
    """Exactly so many bytes; ConnectionError if it ends before."""
    heard = b""
    while len(heard) < count:
        sock.settimeout(left())
        more = sock.recv(count - len(heard))
        if not more:
            raise ConnectionError("it hung up")
        heard += more
    return heard
