"""Three queues that this project did not write: what is told of them is true of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from killpoint.judgement.judge import judge
from killpoint.judgement.replay import replay
from killpoint.scenario import Fault, Message, Point, Receive, Scenario, Send, Wait, dump
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario
from killpoint.verdict import CaseOutcome

EXAMPLES = Path(__file__).parents[2] / "examples"
PIPES = "os_pipes:OsPipeTarget"
ZMQ = "zmq_broadcast:BroadcastTarget"
FIFO = "fast_fifo:FifoTarget"


@pytest.fixture(autouse=True)
def examples_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)


def judged(target: str, *cases: str) -> dict[str, CaseOutcome]:
    if target == FIFO:
        pytest.importorskip("faster_fifo")
    verdicts = judge(target, list(cases)).verdicts
    return {case.id: case for verdict in verdicts for case in verdict.cases}


class TestWhatATargetHasNot:
    """It is unsupported by the target then, and not by the machine."""

    def test_a_queue_of_pipes_has_no_native_thread_and_little_room_for_unread_messages(self):
        cases = ("Q6/writer-killed-inside-native-send", "Q16/closed-after-60MB")
        found = judged(PIPES, *cases, "Q7/reader-killed-anywhere")
        lacking = {id: (found[id].outcome, found[id].by_machine) for id in cases}
        assert lacking == dict.fromkeys(cases, ("unsupported", False))
        threads, room = (found[id].cause for id in cases)
        assert threads == "the writer has no native thread, whose system calls could be struck"
        assert room.startswith("the queue takes no more unread messages: message 0")
        # A reader's death is placed all the same, while the writer still sends.
        killed = found["Q7/reader-killed-anywhere"]
        assert (killed.outcome, killed.cause) == ("held", "")
        assert killed.struck


class TestCauses:
    def test_an_abort_is_told_with_what_the_library_wrote(self):
        (case,) = judged(ZMQ, "Q10/make-without-descriptors").values()
        assert case.kind == "crash", case.cause
        assert case.cause.startswith("writer aborted (signal 6) and wrote: Too many open files")


def test_what_multiprocessing_removes_at_a_normal_exit_is_no_leak():
    """A tensor goes by the standard library's resource sharer, whose socket is a file."""
    leaks = judged(FIFO, "R6/held-tensor-after-lap", "L1/clean-end")["L1/every-play"]
    assert leaks.outcome == "held", leaks.cause


class TestNativeCode:
    """Points at lines of Python cannot reach the inside of an extension module."""

    def test_it_is_asked_for_where_there_is_some(self):
        (case,) = judged(PIPES, "Q7/reader-killed-at-random-times").values()
        assert (case.outcome, case.cause) == ("unsupported", "the target lacks native")

    @pytest.mark.full
    def test_a_lock_that_died_with_its_holder_is_told_as_a_rate(self, tmp_path: Path):
        """Of large messages the copy under the lock is a good part of a receive: one in seven."""
        pytest.importorskip("faster_fifo")
        file = tmp_path / "series.toml"
        file.write_text(dump(_large(60)), "utf-8")  # with 20, one run in fifteen has no hit
        (outcome,) = replay(file, FIFO, tmp_path).outcomes
        assert (outcome.outcome, outcome.kind) == ("violated", "hang"), outcome.cause
        rate = outcome.rates[0]
        assert rate.what == "the writer hung"
        assert 0.0 < rate.low < rate.hits / rate.trials < rate.high <= 1.0
        assert outcome.cause.startswith(rate.words())

    @pytest.mark.full
    def test_the_reference_that_looks_at_its_peers_holds(self):
        id = "Q7/reader-killed-at-random-times"
        case = judged("struck_at_any_time:Reference", id)[id]
        assert (case.outcome, case.cause) == ("held", "")
        assert case.rates[0].hits == 0
        assert case.rates[0].trials >= 40


def _large(spread: int) -> Scenario:
    """A reader is killed in one of four receives of 3 MB; the writer has room for more."""
    message = [Message("array", 3_000_000)]
    steps = [
        *OPEN_QUEUE,
        Send(message * 4, timeout=9.0),
        Wait(("writer",)),
        Fault("kill", "reader-0", Point("receive", spread=spread)),
        Receive(4, ("reader-0",), timeout=1.0),
        Wait(("reader-0",)),
        Send([Message()], timeout=0.3),
        Wait(("writer",), within=3.0),
        Receive(5, ("reader-1",), timeout=0.3),
        Wait(("reader-1",), within=3.0),
    ]
    return queue_scenario("Q7/large-receives", *steps, chunks=32)
