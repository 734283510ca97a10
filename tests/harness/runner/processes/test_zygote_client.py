"""A zygote ends with its runner, however that ends, and takes the plays' folder with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from killpoint.errors import BadUsage
from killpoint.extras import installed
from killpoint.history.log import Log
from killpoint.runner.processes.zygote_client import Zygote, ZygoteSource
from killpoint.runner.stage import Stage
from killpoint.scenario import Message, Receive, Send, Wait
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario

_DIRECTOR = """
import signal
from killpoint.runner.processes.zygote_client import ZygoteSource
from killpoint.runner.stage import Stage
stage = Stage("refengine", {source})
print(stage.root, stage.zygote.pid, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("source", ["None", "ZygoteSource('refengine')"])
def test_nothing_is_left_when_the_director_is_killed(source: str) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", _DIRECTOR.format(source=source)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert runner.stdout is not None
    with runner.stdout as said:
        root, zygote = said.readline().split()
    assert Path(root).is_dir()
    segment = Path(f"/dev/shm/killpoint-test-{runner.pid}")
    segment.touch()
    (play := Path(root) / "1").mkdir()
    log = Log(play / "writer.jsonl", "writer")
    log.write("segment", act="create", name=segment.name)
    log.close()
    watched = os.pidfd_open(int(zygote))
    try:
        runner.send_signal(signal.SIGKILL)
        runner.wait(10)
        assert select.select([watched], [], [], 20)[0], "the zygote outlived its runner by 20 s"
    finally:
        os.close(watched)
    assert not Path(root).exists()
    assert not segment.exists()


class _Late(BaseException):
    """What a test's timeout raises, wherever it waits."""


def _late(_number: int, _frame: object) -> None:
    raise _Late


def test_nothing_is_left_of_a_start_that_was_broken_off(
    tmp_path: Path, leftovers: Callable[[], set[str]]
) -> None:
    before = signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, 0.1)  # a start takes longer
    try:
        with pytest.raises(_Late):
            Zygote("refengine", tmp_path)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert leftovers() == set()


@pytest.fixture(scope="module")
def source() -> Iterator[ZygoteSource]:
    made = ZygoteSource("refengine")
    yield made
    made.close()


def test_a_copy_plays_and_knows_no_processes_but_its_own(source: ZygoteSource) -> None:
    steps = [Send([Message()]), Receive(1), Wait()]
    with Stage("refengine", source) as one, Stage("refengine", source) as other:
        play = one.play(queue_scenario("Q1/x", *OPEN_QUEUE, *steps))
        pids = {one.zygote.loaded.pid, other.zygote.loaded.pid}
        below = one.zygote.descendants()
    assert (play.stalled, play.ledger.processes) == ("", [])
    assert {event.text("outcome") for event in play.history.of("end")} == {"ok"}
    assert (len(pids), below) == (2, [])


@pytest.mark.skipif(not installed("torch"), reason="no torch")
def test_only_copies_that_are_to_have_torch_have_it(source: ZygoteSource, tmp_path: Path) -> None:
    made = [source.copy(tmp_path / "a", modules) for modules in ((), ("torch",), ())]
    found = [zygote.loaded.torch for zygote in made]
    for zygote in made:
        zygote.close()
    assert found == [False, True, False]


def test_a_copy_whose_modules_cannot_be_imported_is_refused(
    source: ZygoteSource, tmp_path: Path
) -> None:
    with pytest.raises(BadUsage, match="no_such_module"):
        source.copy(tmp_path / "a", ("no_such_module",))
    source.copy(tmp_path / "a").close()


def test_a_zygote_counts_no_copy_of_it_among_the_processes_of_its_plays(tmp_path: Path) -> None:
    first = Zygote("refengine", tmp_path / "a")
    copy = Zygote("refengine", tmp_path / "b", of=first)
    seen, known = first.descendants(), Path(f"/proc/{first.pid}/task/{first.pid}/children")
    children = [int(pid) for pid in known.read_text().split()]
    copy.close()
    first.close()
    assert (seen, children) == ([], [copy.pid])
