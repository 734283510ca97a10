"""The journal: what was written is read again, whatever end its writer met."""

from __future__ import annotations

from pathlib import Path

import pytest

from killpoint.campaign.history import CampaignHistory
from killpoint.campaign.item import Item
from killpoint.campaign.journal import Begun, Ended, Entry, GivenBack, Journal, Session, read
from killpoint.errors import BadUsage

_A, _B = Item("R1/two-readers"), Item("Q6/writer-killed-at-stores", 1, seed=7, full=True)


def _kept(path: Path, *entries: Entry) -> Path:
    with Journal(path) as journal:
        for entry in entries:
            journal.add(entry)
    return path


def test_entries_are_read_as_they_were_written(tmp_path: Path) -> None:
    entries = [Session(0.0, 1, 9.0), Begun(0.1, _B), Ended(3.0, _B.key, "held", 2.9)]
    assert read(_kept(tmp_path / "j", *entries)) == entries


@pytest.mark.parametrize("torn", [b'{"type":"end","t":4.0,"key"', b'{"type":"end"}', b"\xff"])
def test_a_torn_last_line_never_counted_and_the_next_entry_stands_alone(
    tmp_path: Path, torn: bytes
) -> None:
    path = _kept(tmp_path / "j", Session(0.0, 1, 9.0), Begun(0.1, _A))
    path.write_bytes(path.read_bytes() + torn)
    assert len(read(path)) == 2
    assert read(_kept(path, Ended(5.0, _A.key, "held")))[2:] == [Ended(5.0, _A.key, "held")]


def test_a_damaged_whole_line_is_told_by_its_number(tmp_path: Path) -> None:
    path = _kept(tmp_path / "j", Session(0.0, 1, 9.0))
    path.write_bytes(path.read_bytes() + b"what?\n")
    with pytest.raises(BadUsage, match=r"j:2: .*expected an entry"):
        read(path)


def test_what_was_begun_is_open_until_it_ended_or_was_given_back() -> None:
    past = CampaignHistory([Session(0.0, 1, 9.0), Begun(0.1, _A), Begun(0.2, _B)])
    assert set(past.open) == {_A.key, _B.key}
    past.take(Ended(3.0, _A.key, "held", 2.5))
    past.take(GivenBack(4.0, _B.key, "interrupted"))
    assert (past.open, set(past.ended), past.losses) == ({}, {_A.key}, {})
    assert (past.spent, past.shares) == (4.0, {"R1": 2.5})


def test_an_item_that_took_its_worker_or_the_campaign_along_is_counted() -> None:
    begun = [Session(0.0, 1, 9.0), Begun(0.1, _A)]
    past = CampaignHistory(
        [*begun, GivenBack(1.0, _A.key, "lost"), Begun(1.1, _A), Session(2.0, 2, 9.0)]
    )
    assert past.losses == {_A.key: 2}
    assert past.budget == 11.0


def test_what_a_strength_takes_is_guessed_until_it_was_played() -> None:
    past = CampaignHistory([Begun(0.0, Item(_B.case)), Ended(2.0, Item(_B.case).key, "held", 2.0)])
    assert past.expected(Item(_B.case, 3)) == pytest.approx(2.4)
    assert past.expected(_B) == pytest.approx(20.0)
    past.take(Begun(3.0, _B))
    past.take(Ended(9.0, _B.key, "held", 5.0))
    assert past.expected(_B) == pytest.approx(6.0)
