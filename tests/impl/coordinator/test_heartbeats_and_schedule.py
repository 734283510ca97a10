"""The heartbeat table and the publish schedule, at times that the test gives."""

from __future__ import annotations

from refengine.coordinator.server import HeartbeatTable, PublishSchedule


def test_the_first_change_decides_and_further_ones_put_nothing_off() -> None:
    when = PublishSchedule(0.0, interval=0.1, idle=4.0)
    when.published(1.0)
    assert when.due == 5.0
    when.changed(2.0)
    when.changed(2.05)
    assert when.due == 2.1
    when.published(2.1)
    assert when.due == 6.1


def test_a_change_just_before_it_is_due_does_not_delay_it() -> None:
    when = PublishSchedule(0.0, interval=0.1, idle=4.0)
    when.published(0.0)
    when.changed(3.95)
    assert when.due == 4.0


def test_who_is_silent_is_given_up_once_and_is_back_when_heard_again() -> None:
    who = HeartbeatTable(peer_timeout=3.0)
    assert who.subscribed(1, 0.0)
    assert who.due() == 3.0
    assert who.drop_silent(2.9) == []
    assert who.drop_silent(3.0) == [1]
    assert who.drop_silent(9.0) == []
    assert who.heard_from(1, 9.0)
    assert not who.heard_from(1, 9.1)
    assert who.due() == 12.1


def test_one_that_never_listened_is_neither_missed_nor_back() -> None:
    who = HeartbeatTable(peer_timeout=3.0)
    assert not who.heard_from(1, 0.0)
    assert who.drop_silent(99.0) == []
    assert not who.unsubscribed(1)


def test_a_replica_that_came_back_before_its_old_end_was_seen_stays() -> None:
    who = HeartbeatTable(peer_timeout=3.0)
    assert who.subscribed(1, 0.0)
    assert not who.subscribed(1, 1.0)
    assert not who.unsubscribed(1)
    assert who.unsubscribed(1)


def test_who_was_given_up_is_back_by_a_new_link_beside_its_old_one() -> None:
    who = HeartbeatTable(peer_timeout=3.0)
    assert who.subscribed(1, 0.0)
    assert who.drop_silent(3.0) == [1]
    assert who.subscribed(1, 4.0)
    assert not who.heard_from(1, 4.1)
    assert not who.unsubscribed(1)  # the old link's end
    assert who.drop_silent(7.0) == []


def test_the_first_publication_is_due_soon() -> None:
    assert PublishSchedule(1.0, interval=0.5, idle=4.0).due == 1.5


def test_one_that_ended_is_not_missed_any_more() -> None:
    who = HeartbeatTable(peer_timeout=3.0)
    assert who.subscribed(1, 0.0)
    assert who.unsubscribed(1)
    assert who.due() == float("inf")
    assert who.drop_silent(9.0) == []
