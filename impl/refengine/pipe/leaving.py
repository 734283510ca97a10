"""A header and what follows it, on their way into a link: how much is gone, and what is next."""


class Leaving:
    """No I/O. `gone` grows by what the link took each time; nothing else changes (SPEC R9)."""

    def __init__(self, header: bytes, follows: memoryview) -> None:
        self._header, self._follows = memoryview(header), follows
        self.gone: list[int] = []

    def rest(self) -> memoryview:
        """What goes next, header and payload apart; empty once all has gone."""
        gone = sum(self.gone)
        self.gone = [gone]
        head = len(self._header)
        return self._header[gone:] if gone < head else self._follows[gone - head :]
