"""A tiny run from end to end, what it leaves behind, and peers that misbehave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from killpoint.bench import show
from killpoint.bench.baselines import Opponent, opponents
from killpoint.bench.plan import QUICK, Cell, Repetitions, plan
from killpoint.bench.process_factory import FactoryProcess, NotMeasured, ProcessFactory
from killpoint.bench.run import Bench, Outcome
from killpoint.bench.workload import Payload
from killpoint.cli import main
from killpoint.errors import BadUsage

PACE = Repetitions(
    groups=1, rounds=2, seconds=0.01, idle=0.05, wakes=2, settle=0.05, count=0.2, together=True
)
STUCK_SEGMENT = "stuck-by-the-test"
SMALL, LARGE = Payload("bytes", 64), Payload("array", 2 << 20)


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short place for temporary files, empty at the start."""
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def born(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pids of the measuring processes of this test."""
    pids: list[int] = []
    fork = ProcessFactory.fork

    def noting(self: ProcessFactory, role: str) -> FactoryProcess:
        member = fork(self, role)
        pids.append(member.pid)
        return member

    monkeypatch.setattr(ProcessFactory, "fork", noting)
    return pids


def owned(pids: list[int]) -> list[str]:
    """Segments that carry the pid of one of these (the reference's do), or the stuck queue's."""
    names = [path.name for path in Path("/dev/shm").iterdir()]
    return [n for n in names if any(f"-{pid}-" in n for pid in pids) or n == STUCK_SEGMENT]


def children() -> set[int]:
    return {
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


def measured(cells: list[Cell], *names: str) -> Outcome:
    found, missing = opponents(names[0], names[1:], names)
    return Bench(found, PACE, seed=1).run(cells, missing)


class TestRun:
    def test_every_row_is_measured_and_nothing_is_left(self, temporary: Path, born: list[int]):
        processes = children()
        cells = [
            Cell("roundtrip", SMALL),
            Cell("throughput", SMALL, 2),
            Cell("throughput", LARGE, 1),
            Cell("wake"),
            Cell("cpu"),
        ]
        outcome = measured(cells, "refengine", "pipe", "limit")
        assert outcome.failures() == []
        assert outcome.notes == []
        for entry in outcome.entries:
            for name in ("refengine", "pipe"):
                assert entry.figures[name].samples, (entry.what, name)
        assert [entry.what for entry in outcome.entries[-2:]] == ["idle reader", "blocked writer"]
        for entry in outcome.entries[:4]:
            assert entry.ratio("refengine", "pipe") is not None
        assert list(temporary.iterdir()) == []
        assert children() == processes
        assert len(born) > 20
        assert owned(born) == []

    def test_ratios_come_before_figures_and_the_machine_before_both(self):
        lines = show.text(measured([Cell("throughput", SMALL)], "refengine", "pipe")).split("\n")
        heads = ("machine:", "load average:", "cores in use", "How many times", "Figures:")
        places = [
            next(n for n, line in enumerate(lines) if line.startswith(head)) for head in heads
        ]
        assert places == sorted(places)

    def test_what_was_measured_before_an_interrupt_is_not_lost(self):
        def tell(_: str, number: int = 0, total: int = 0) -> None:
            if number == 1:
                raise KeyboardInterrupt

        found, _ = opponents("refengine", ["pipe"], [])
        cell = Cell("throughput", SMALL)
        outcome = Bench(found, PACE, 0, tell).run([cell, cell], {})
        assert len(outcome.entries) == 1
        assert outcome.failures() == ["interrupted: 1 of 2 cells were measured"]
        assert "interrupted: 1 of 2" in show.text(outcome)

    def test_posix_queues_refuse_what_is_too_large_for_them(self):
        found = [Opponent("pipe", "pipe", False), Opponent("posix-mq", "posix-mq", False, 100)]
        outcome = Bench(found, PACE, 0).run([Cell("throughput", Payload("bytes", 4096))], {})
        assert outcome.entries[0].figures["posix-mq"].missing == "takes 100 bytes at most here"
        assert outcome.failures() == []

    def test_a_peer_that_loses_messages_has_no_figure(self):
        outcome = measured([Cell("throughput", SMALL)], "refengine", "broken_pipes:DropsEveryFifth")
        figures = outcome.entries[0].figures["broken_pipes:DropsEveryFifth"]
        assert figures.samples == []
        assert figures.failed
        assert outcome.entries[0].ratio("refengine", "broken_pipes:DropsEveryFifth") is None
        assert outcome.entries[0].figures["refengine"].samples


class TestHang:
    def test_it_is_told_who_is_stuck_where_and_all_are_ended(
        self, temporary: Path, born: list[int], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("killpoint.bench.peer_processes.WITHIN", 1.0)
        outcome = measured([Cell("throughput", SMALL)], "refengine", "stuck_queue:NeverArrives")
        figures = outcome.entries[0].figures["stuck_queue:NeverArrives"]
        assert figures.missing is not None
        assert "reader 0" in figures.missing
        assert "asked to receive, did not answer within 1 s" in figures.missing
        assert "writer is in" in figures.missing
        assert list(temporary.iterdir()) == []
        assert owned(born) == []
        assert not any(Path(f"/proc/{pid}").exists() for pid in born)


class TestProcessFactory:
    def test_a_peer_that_cannot_be_loaded_says_why(self, temporary: Path):
        with pytest.raises(NotMeasured, match="no_such_module"):
            ProcessFactory("it", "no_such_module:Thing", temporary)

    def test_processes_are_forked_from_one_thread(self, temporary: Path):
        factory = ProcessFactory("pipe", "pipe", temporary)
        try:
            member = factory.fork("writer")
            assert len(list(Path(f"/proc/{member.pid}/task").iterdir())) == 1
            member.leave()
            assert member.end() is None
        finally:
            factory.close()


class TestOpponents:
    def test_who_was_not_asked_for_may_be_missing_with_a_reason(self):
        found, missing = opponents("refengine", ["pipe", "nobody==1.0"], [])
        assert [one.name for one in found] == ["refengine", "pipe"]
        assert "nobody" in missing["nobody==1.0"]

    def test_who_was_asked_for_may_not(self):
        with pytest.raises(BadUsage, match="nobody"):
            opponents("refengine", ["nobody==1.0"], ["nobody==1.0"])

    def test_the_target_is_no_peer_of_its_own(self):
        found, missing = opponents("refengine", ["refengine", "pipe"], [])
        assert [one.name for one in found] == ["refengine", "pipe"]
        assert missing == {"refengine": "it is the target"}


class TestPlan:
    def test_a_quick_run_has_few_cells_and_every_row(self):
        cells = plan(quick=True)
        assert {cell.row for cell in cells} == {"roundtrip", "throughput", "wake", "cpu"}
        assert len(cells) < 15
        assert QUICK.groups * QUICK.rounds >= 5

    def test_a_choice_is_taken_as_it_is(self):
        cells = plan(["throughput"], ["bytes"], [64, 4096], [1, 4], quick=True)
        assert [(c.payload.size, c.readers) for c in cells if c.payload] == [
            (64, 1),
            (64, 4),
            (4096, 1),
            (4096, 4),
        ]


class TestCommand:
    def test_it_prints_and_writes_every_sample(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("killpoint.bench.command.QUICK", PACE)
        written = tmp_path / "bench.json"
        status = main(
            "bench queue --quick --against pipe --peers none --rows throughput --readers 1 "
            f"--sizes 64,1MiB --payloads bytes --json {written}".split()
        )
        assert status == 0
        assert "to pipe" in capsys.readouterr().out
        whole = json.loads(written.read_text("utf-8"))
        assert [len(entry["figures"]["pipe"]["samples"]) for entry in whole["entries"]] == [2, 2]
        assert whole["entries"][0]["ratios"]["pipe"]["pairs"] == 2
        assert whole["machine"]["cores"] >= 1

    def test_a_peer_that_fails_is_status_70(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("killpoint.bench.command.QUICK", PACE)
        command = "bench queue --quick --against broken_pipes:DropsEveryFifth --peers none"
        chosen = "--rows throughput --readers 1 --sizes 64 --payloads bytes"
        status = main([*command.split(), *chosen.split()])
        told = capsys.readouterr()
        assert status == 70
        assert "DropsEveryFifth" in told.err
        assert told.err.count("\n") == 1

    @pytest.mark.parametrize(
        "wrong", ["--sizes 3", "--readers 0", "--rows speed", "--target nobody", "--against no==1"]
    )
    def test_what_is_wrong_is_one_line_and_status_2(
        self, capsys: pytest.CaptureFixture[str], wrong: str
    ):
        assert main(["bench", "queue", *wrong.split()]) == 2
        assert capsys.readouterr().err.count("\n") == 1
