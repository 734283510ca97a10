"""Lines that a campaign reached: kept over sessions, counted once, and told with what was not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_up_pool import session
from rich.console import Console

from killpoint.campaign import reached as store
from killpoint.campaign import settings
from killpoint.campaign.reached import Reached
from killpoint.campaign.reached_report import print_reached, summary, write_never_reached
from killpoint.campaign.settings import Settings
from killpoint.campaign.work_order import ItemReach, Lost, WorkOrder, WorkResult
from killpoint.cli import main
from killpoint.points.target_lines import Function, Outline
from killpoint.search.reach import CaseReach

_SEND = Function("Writer.send", 10, (11, 12, 13, 20))
_CLOSE = Function("Writer.close", 30, (31, 32))


def _item(*lines: int, digest: str = "one", functions: tuple[Function, ...] = ()) -> ItemReach:
    outline = Outline(digest, functions or (_SEND, _CLOSE))
    return ItemReach(
        CaseReach(1, {"writer.py": dict.fromkeys(lines, 1)}, 0), {"writer.py": outline}
    )


def _reached(*items: tuple[str, ItemReach]) -> Reached:
    reached = Reached()
    for number, (case, item) in enumerate(items):
        reached.add(f"{case}@{number}", case, item)
    return reached


def test_it_is_kept_over_sessions_and_given_to_the_cases_next_item(tmp_path: Path) -> None:
    def answer(order: WorkOrder) -> WorkResult | Lost:
        played = WorkResult(order.item.key, "held", seconds=0.1, plays=1)
        played.reached = _item(11 + order.item.round)
        return played

    first, second = [session(tmp_path, answer, 5) for _ in range(2)]
    kept = store.load(tmp_path)
    assert sum(case.plays for case in kept.cases.values()) == len(kept.items)
    for pool in (first, second):
        seen = [order.reach.plays for order in pool.orders if order.reach is not None]
        assert len(seen) == len(pool.orders)
        assert (min(seen) > 0) == (pool is second), "what the session before has reached"
    assert (tmp_path / "never-reached.txt").exists()


def test_what_an_order_says_does_not_change_while_it_is_played(tmp_path: Path) -> None:
    def answer(order: WorkOrder) -> WorkResult | Lost:
        played = WorkResult(order.item.key, "held", seconds=0.1, plays=1)
        played.reached = _item(11)
        return played

    pool = session(tmp_path, answer, 9)
    for order in pool.orders:
        assert order.reach is not None
        assert order.reach.plays <= order.item.round


def test_an_item_that_is_told_twice_counts_once() -> None:
    reached = Reached()
    assert reached.add("H1/generated@0", "H1/generated", _item(11))
    assert not reached.add("H1/generated@0", "H1/generated", _item(11))
    assert reached.cases["H1/generated"].plays == 1


def test_who_reached_a_line_first_is_kept() -> None:
    reached = _reached(("H1/a", _item(11)), ("H2/b", _item(11, 31)))
    assert reached.files["writer.py"].first == {11: "H1/a", 31: "H2/b"}


def test_lines_of_a_file_that_has_changed_are_forgotten() -> None:
    reached = _reached(("H1/a", _item(11, 12)), ("H2/b", _item(31, digest="another")))
    assert reached.files["writer.py"].first == {31: "H2/b"}
    assert reached.cases["H1/a"].lines == {}


def test_what_is_stored_is_what_is_read(tmp_path: Path) -> None:
    reached = _reached(("H1/a", _item(11, 12)))
    assert store.load(tmp_path) == Reached()
    store.save(tmp_path, reached)
    assert store.load(tmp_path) == reached


def test_a_damaged_file_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.create(tmp_path, Settings())
    (tmp_path / "reached.json").write_text("{")
    assert main(["campaign", "--status", str(tmp_path)]) == 2
    assert "expected the lines that a campaign reached" in capsys.readouterr().err


def test_the_report_says_what_was_reached_and_what_was_never_entered() -> None:
    told = summary(_reached(("H1/a", _item(11, 12)), ("H2/b", _item(20))))
    assert told == [
        "\nlines of the target's functions reached by 2 generated plays",
        "  writer.py  reached    3 of    6 lines  (first 2 by H1, 1 by H2)",
        "never entered: 1 function",
        "  writer.py:30  Writer.close  (2 lines)",
    ]


def test_the_longest_functions_come_first_and_most_only_in_the_full_list(tmp_path: Path) -> None:
    functions = [
        Function(f"f{n}", 100 * n, tuple(range(100 * n + 1, 101 * n + 1))) for n in range(1, 31)
    ]
    reached = _reached(("H1/a", _item(101, functions=tuple(functions))))
    with Console(record=True, width=60) as console:
        print_reached(tmp_path, reached, console)
    said = console.export_text()
    lengths = [int(found) for found in re.findall(r"\((\d+) lines\)", said)]
    assert lengths == list(range(30, 20, -1))
    assert f"and 19 more: {tmp_path / 'never-reached.txt'}" in said
    write_never_reached(tmp_path, reached)
    listed = (tmp_path / "never-reached.txt").read_text()
    assert sorted(re.findall(r"  (f\d+)  ", listed)) == sorted(f"f{n}" for n in range(2, 31))


def test_the_full_list_has_lines_of_functions_that_were_entered(tmp_path: Path) -> None:
    write_never_reached(tmp_path, _reached(("H1/a", _item(11))))
    listed = (tmp_path / "never-reached.txt").read_text()
    assert "writer.py:12-20  Writer.send\n" in listed
    assert "writer.py:30  Writer.close  (2 lines)\n" in listed


def test_a_target_without_python_files_is_told_so() -> None:
    nothing = ItemReach(CaseReach(1), {})
    (_, told) = summary(_reached(("H1/a", nothing)))
    assert "names no Python files of its own" in told
    nothing.others = ["fast.so"]
    (_, told) = summary(_reached(("H1/a", nothing)))
    assert told == "  not known: none of the target's 1 file is Python's"


def test_a_campaign_that_recorded_nothing_tells_nothing() -> None:
    assert summary(Reached()) == []
