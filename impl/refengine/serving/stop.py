"""Stop strings, found in a text that comes in pieces."""


class StopFinder:
    """Gives on what cannot be part of a stop string; ends before the first that is complete."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """What can be given on, now that this came too."""
        if self.stopped:
            return ""
        self._held += text
        found = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self._give(min(found)[1])
        return self._give(len(self._held) - self._begun())

    def end(self) -> str:
        """What was held back, now that nothing more comes."""
        return self._give(0 if self.stopped else len(self._held))

    def _give(self, length: int) -> str:
        given, self._held = self._held[:length], self._held[length:]
        return given

    def _begun(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for length in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stops):
                return length
        return 0
