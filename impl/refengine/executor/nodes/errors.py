"""The error of a pool that lost one of its nodes."""

from ...errors import PeerDied
from ...transport import Gone


class NodeLost(PeerDied):
    """The other node of a pool has left it, or is cut off (SPEC W3, Q18).

    Args:
        role: "node 1 (address)" or "the head (address)".
        pid: process id there of the process that started its workers; 0 if it never came.
        how: "was not heard of for 8 s", say.
    """

    def __init__(self, role: str, pid: int, how: str, waiting_for: str) -> None:
        super().__init__(role, pid, waiting_for)
        self.how = how
        self.facts = role, pid, how, waiting_for
        self.args = (
            f"{role} {how}; noticed while waiting for {waiting_for}. The pool has ended with it: "
            "find out whether its processes, its machine and the network are up, then start a "
            "new one on both nodes",
        )


def how_it_went(gone: Gone) -> str:
    """Return in words how the session with a node ended."""
    if gone.kind == "silent":
        return f"was not heard of for {gone.seconds:g} s"
    if gone.kind == "closed":
        return "has left"
    return "has ended without a goodbye"
