"""An event that is set once and waited for without a lock (R9)."""

import threading
from types import SimpleNamespace

from refengine.base import cancel
from refengine.base.cancel import OneShotEvent


class TestOneShotEvent:
    def test_it_waits_for_its_deadline_and_not_once_it_is_set(self):
        event = OneShotEvent()
        assert not event.wait(0.0)
        assert not event.wait(-1.0)
        assert not event.wait(0.01)
        threading.Timer(0.02, event.set).start()
        assert event.wait(None)
        assert event.wait(-1.0)
        other = OneShotEvent()
        threading.Timer(0.02, other.set).start()
        assert other.wait(5.0)

    def test_seconds_are_milliseconds_to_the_kernel(self, monkeypatch):
        asked: list[float | None] = []
        poller = SimpleNamespace(register=lambda *_: None, poll=asked.append)
        monkeypatch.setattr(cancel, "select", SimpleNamespace(poll=lambda: poller, POLLIN=1))
        made = OneShotEvent()
        for seconds in (None, -2.0, 0.5, 3e6):
            made.wait(seconds)
        made.set()
        assert made.wait(9.0)
        assert asked == [None, 0.0, 500.0, 2e9]
