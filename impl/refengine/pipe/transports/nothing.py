"""None in a tensor's place: it goes by the link, whatever carries tensors."""

from ..frames import Header, Kind

_NOTHING = memoryview(b"")


class Nothing:
    """A parcel without bytes."""

    def __init__(self, label: bytes) -> None:
        self._label = label

    def header(self, number: int) -> Header:
        """All there is to say."""
        return Header(Kind.NOTHING, number, label=self._label)

    def follows(self) -> memoryview:
        """No bytes."""
        return _NOTHING

    def beside(self) -> bool:
        """Nothing else is carried."""
        return False

    def free(self) -> None:
        """Nothing is held."""
