"""Specification of a slot of the ring (SPEC 1): written flag, reader flags, and legal moves."""

from __future__ import annotations


class Slot:
    """Flags of one slot; each store is judged against the table of legal moves."""

    def __init__(self, readers: int) -> None:
        """Begin with all flags zero: case 1."""
        self.written = 0
        self.read = [0] * readers

    def case(self) -> int:
        """Return 1: not written; 2: written, unread; 3: read by some; 4: read by all."""
        if not self.written:
            return 1
        done = sum(self.read)
        return 2 if done == 0 else 4 if done == len(self.read) else 3

    def store(self, reader: int | None, flag: int, value: int) -> str:
        """Apply one store by a reader (its index) or the writer (None).

        Args:
            flag: 0 for *written*, 1 + i for the flag of reader i.

        Returns:
            Why the move is illegal, empty if it is legal.
        """
        before = self.case()
        again = reader is not None and flag == reader + 1 and self.read[reader] == 1
        if flag == 0:
            self.written = value
        else:
            self.read[flag - 1] = value
        after = self.case()
        if reader is None:
            legal = (before, after) in {(1, 1), (4, 1), (1, 2)}
            return "" if legal else "the writer may only go 1→1, 4→1, 1→2"
        if flag != reader + 1:
            return "a reader may store to its own flag only"
        if again and before != 1:
            return "a reader may only mark a slot once: it had read this one, 2→3, 3→3, 3→4"
        legal = (before, after) in {(2, 3), (3, 3), (3, 4)}
        legal = legal or (len(self.read) == 1 and (before, after) == (2, 4))
        return "" if legal and value else "a reader may only go 2→3, 3→3, 3→4, or 2→4 when alone"
