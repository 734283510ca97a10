"""A process weighs what the kernel says, in bytes; one that is gone weighs nothing."""

from __future__ import annotations

import os
from pathlib import Path

from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.stage import scales


def test_memory_that_was_touched_is_weighed() -> None:
    before = scales.weigh(os.getpid())
    block = bytearray(b"\1" * (32 << 20))
    after = scales.weigh(os.getpid())
    assert before is not None
    assert after is not None
    assert after.rss - before.rss > len(block) * 0.9
    assert 0 < after.pss <= after.rss


def test_who_is_gone_is_not_weighed(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    assert scales.weigh(pid) is None
    log = Log(tmp_path / "director.jsonl", "director")
    scales.record(log, "writer", pid)
    scales.record(log, "reader-0", os.getpid())
    log.close()
    (told,) = History.read(tmp_path).of("weight")
    assert told.text("target") == "reader-0"
    assert told.number("rss") >= told.number("pss") > 0
