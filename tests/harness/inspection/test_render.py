"""What a person reads."""

import argparse
import json
import os

import pytest
from scene import cast, process, ring

from killpoint.cli import main
from killpoint.inspection import command, ring_waits
from killpoint.inspection.model import Picture
from killpoint.inspection.render import lines


def picture(processes, *rings):
    found = ring_waits.edges(processes, rings)
    blamed = tuple(ring_waits.culprits(processes, rings, found, frozenset()))
    return Picture(
        10, tuple(processes.values()), rings, ("pid 10 listening a",), tuple(found), blamed
    )


HUNG = picture(
    cast(process(10, waits="slot"), process(20, 10), process(21, 10, state="T")), ring((1,), (1,))
)


def test_the_one_to_blame_stands_in_the_first_line():
    first, *rest = lines(HUNG, {("psm_1", 1): 41.2})
    assert first.startswith("everybody waits for: pid 21")
    assert "is stopped by a signal — 1 process waits for it" in first
    text = "\n".join(rest)
    assert "pid 10 waits for pid 21: reader 1 of psm_1 has not read slot 0" in text
    assert "reader 1 has not read slot 0 for 41 s; 2 behind" in text
    assert "slots ++" in text
    assert "FULL" in text
    assert "sockets" not in text


def test_all_shows_frames_and_sockets():
    text = "\n".join(lines(HUNG, {}, everything=True))
    assert "pid 10 listening a" in text
    assert "work (engine.py:1)" in text


def test_a_quiet_engine_is_told_so():
    first = next(lines(picture(cast(process(10))), {}))
    assert first == "all clear: nobody waits in vain"
    resting = cast(process(10), process(20, 10, "message"), process(21, 10, "message"))
    assert next(lines(picture(resting, ring(None)), {})).endswith("2 processes wait for work")


def test_since_counts_only_while_nothing_moves():
    since = command.Since()
    assert since.ages(HUNG, 100.0) == {("psm_1", 1): 0.0}
    assert since.ages(HUNG, 141.0) == {("psm_1", 1): 41.0}
    moved = picture(cast(process(10)), ring(None, (1,)))
    assert since.ages(moved, 142.0) == {("psm_1", 1): 0.0}
    assert since.ages(picture(cast(process(10)), ring(None, None)), 150.0) == {}


def test_the_command_speaks_json_and_its_status_tells(monkeypatch, capsys):
    monkeypatch.setattr(command, "look", lambda pid: HUNG)
    assert main(["inspect", "10", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["culprits"][0]["pid"] == 21
    monkeypatch.setattr(command, "look", lambda pid: picture(cast(process(10))))
    assert main(["inspect", "10"]) == 0


def test_watching_goes_on_until_it_is_interrupted(monkeypatch, capsys):
    waits = iter([None, KeyboardInterrupt])

    def rest(_):
        error = next(waits)
        if error:
            raise error

    monkeypatch.setattr(command, "look", lambda pid: HUNG)
    monkeypatch.setattr(command.time, "sleep", rest)
    asked = {"what": "10", "json": False, "watch": True, "all": False, "every": 1.0}
    with pytest.raises(KeyboardInterrupt):
        command.inspect(argparse.Namespace(**asked, bundle=None, bundle_on_hang=None))
    assert capsys.readouterr().out.count("everybody waits for") == 2


def test_no_such_process_is_bad_usage(capsys):
    assert main(["inspect", str(2**22 + os.getpid())]) == 2
    assert "there is no process" in capsys.readouterr().err
