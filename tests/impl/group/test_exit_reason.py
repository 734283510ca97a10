"""How a rank's part ended, told to others and turned into errors (G3, G4)."""

import pytest

from refengine.errors import GroupClosed, PeerSilent, RankDied
from refengine.group.exit_reason import ExitReason
from refengine.transport import Gone


@pytest.mark.parametrize("kind", ["closed", "died", "silent"])
def test_an_end_is_understood_as_it_was_told(kind: str):
    told = ExitReason(3, Gone(kind, 1.5, lost=7, pid=42), 5)
    assert ExitReason.unpack(3, memoryview(told.pack())) == told


def test_a_loss_of_unknown_size_is_told_as_none():
    told = ExitReason(3, Gone("closed", lost=-1))
    assert ExitReason.unpack(3, memoryview(told.pack())).how.lost == 0
    assert ExitReason(3, Gone("closed", lost=0)).pack() == told.pack()


def test_a_rank_that_said_nothing_of_gathers_gave_to_none():
    assert ExitReason(1, Gone("died")).gathers == 0


def test_one_that_left_names_what_it_could_not_hand_over():
    error = ExitReason(3, Gone("closed", lost=7)).error("x")
    assert isinstance(error, GroupClosed)
    assert (error.who, error.lost) == ("rank 3", 7)


def test_one_that_was_cut_off_names_for_how_long():
    error = ExitReason(3, Gone("silent", 2.5)).error("an object")
    assert isinstance(error, PeerSilent)
    assert (error.role, error.seconds, error.waiting_for) == ("rank 3", 2.5, "an object")


def test_one_that_died_names_its_process():
    error = ExitReason(3, Gone("died", pid=42)).error("an object")
    assert isinstance(error, RankDied)
    assert (error.rank, error.pid, error.waiting_for) == (3, 42, "an object")
