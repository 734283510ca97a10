"""A canary leaves a trace that a history reads, and none before it is decoded."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

from killpoint.history.record import History
from killpoint.runner.environment.canary import canary


def test_decoding_a_canary_is_an_event_that_names_who_did_it(tmp_path: Path) -> None:
    body = canary(tmp_path / "canary.jsonl", "DEALER socket")
    assert list(History.read(tmp_path).events) == []
    pickle.loads(body)
    (told,) = History.read(tmp_path).of("canary")
    assert told.number("pid") == os.getpid()
    assert told.text("way") == "DEALER socket"
