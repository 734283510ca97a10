"""An exception before any line that the sender's thread runs: the pipe works on, or has failed."""

import gc
from collections.abc import Iterator

import pytest

from refengine.errors import RefengineError
from refengine.pipe.errors import TransferFailed
from refengine.pipe.receiver import Receiver

from ..striking import strikes
from .pairs import Beside, links, put, receiver, sender

SENT = [b"one", bytes(300_000), b"", b"four"]


def told(act) -> list[BaseException]:
    try:
        act()
    except RefengineError as error:
        return [error]
    return []


def drain(end: Receiver) -> list[object]:
    """All that comes until nothing can come any more."""
    got: list[object] = []
    while True:
        try:
            got.append(end.receive(5.0)[0])
        except TransferFailed as error:
            got.append(error)
        except RefengineError as error:
            return [*got, error]


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What an earlier round left must not be collected, and struck, by this one's thread."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_nothing_hangs_nothing_is_kept_and_both_ends_are_told():
    """SPEC K2, K3, R9."""
    struck = 0
    for striker in strikes():
        out, into = links()
        end, other = sender(out, 200_000), receiver(into)
        run = end._run
        end._thread._target = lambda s=striker, r=run: s.during(r)
        takes = Beside(drain, other)
        end.start()
        errors = [error for data in SENT for error in told(lambda d=data, e=end: put(e, d, 5.0))]
        errors += told(lambda e=end: e.close(5.0))
        got = takes.result()
        assert end.send_queue.nbytes() == 0, striker.where
        assert not end._thread.is_alive(), striker.where
        assert out.sock.fileno() == -1, striker.where
        assert end._wakeup.fileno() == -1, striker.where
        arrived = [each for each in got if isinstance(each, bytes)]
        missing = [each for each in SENT if each not in arrived]
        assert arrived == [each for each in SENT if each in arrived], striker.where
        if missing:
            assert errors, (striker.where, got)
            struck += 1
        other.close(1.0)
    assert struck > 20
