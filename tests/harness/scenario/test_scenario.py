"""Scenario files: what goes out comes back, and what is wrong is told by file, line and word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from killpoint import scenario as script
from killpoint.bundled_scenarios import scenario_files
from killpoint.cases import CASES
from killpoint.errors import BadUsage
from killpoint.scenario import Attack, Fault, Scenario, dump, dump_shape, load, parse, parse_shape
from killpoint.targets.protocol import GroupShape, QueueShape

_ROLES = ["writer", "reader-0"]
_seconds = st.one_of(st.none(), st.floats(-5, 3600, allow_nan=False))
_roles = st.lists(st.sampled_from([*_ROLES, "all", "readers"]), min_size=1, max_size=3).map(tuple)
_role = st.sampled_from(_ROLES)
_verbs = st.sampled_from(["make", "attach", "ready", "send", "receive", "close"])
_points = st.one_of(
    st.builds(script.Point, op=_verbs, line=st.integers(0, 900), nth=st.integers(0, 9)),
    st.builds(script.Point, op=_verbs, name=st.just("overflow-marker"), nth=st.integers(0, 9)),
)
_stores = st.builds(script.Point, op=_verbs, store=st.integers(0, 99), nth=st.integers(0, 9))
_calls = st.builds(
    script.Point, op=_verbs, syscall=st.sampled_from(["sendto", "write"]), call=st.integers(0, 99)
)
_pages = st.builds(script.Point, op=_verbs, page=st.integers(0, 9000), nth=st.integers(0, 9))
_messages = st.builds(
    script.Message,
    kind=st.sampled_from(
        ["bytes", "array", "arrays", "tensor", "nested", "buffers", "shapes", "undecodable"]
    ),
    size=st.integers(0, 1 << 33),
    buffers=st.integers(0, 200_000),
    repeat=st.integers(1, 100_000),
    step=st.integers(-99, 99),
)
_threads = st.integers(1, 16)
_steps = st.one_of(
    st.builds(script.Make),
    st.builds(script.Attach, roles=_roles),
    st.builds(script.Ready, roles=_roles, timeout=_seconds),
    st.builds(
        script.Send,
        messages=st.lists(_messages, max_size=3),
        timeout=_seconds,
        mutate=st.booleans(),
        threads=_threads,
        keep_on=st.booleans(),
        burst=st.booleans(),
    ),
    st.builds(script.Receive, count=st.integers(1, 99), roles=_roles, timeout=_seconds),
    st.builds(script.RingRead, roles=_roles, fails=st.booleans()),
    st.builds(script.RingAttach, how=st.sampled_from(["missing", "small"]), role=_role),
    st.builds(script.ForkCopy, role=_role),
    st.builds(script.VerifyHeld, roles=_roles),
    st.builds(script.Close, roles=_roles),
    st.builds(script.Drop, roles=_roles, cycle=st.booleans()),
    st.builds(script.Exit, roles=_roles, brief=st.booleans()),
    st.builds(script.Cancel, roles=_roles),
    st.builds(script.WaitBlocked, roles=_roles, within=st.floats(0, 60)),
    st.builds(script.Pause, seconds=st.floats(0, 60)),
    st.builds(script.Wait, roles=_roles, within=st.floats(0, 60)),
    st.builds(
        script.Fault,
        fault=st.sampled_from(["kill", "stop", "continue", "exit"]),
        role=_role,
        at=st.one_of(st.none(), _points, _stores),
    ),
    st.builds(script.Fault, fault=st.sampled_from(["kill", "stop"]), role=_role, at=_pages),
    st.builds(script.Fault, fault=st.just("kill"), role=_role, at=_calls),
    st.builds(
        script.Count,
        role=_role,
        at=st.builds(script.Point, op=_verbs, nth=st.integers(0, 9)),
        of=st.sampled_from(["lines", "pages", "stores"]),
    ),
)
_scenarios = st.builds(
    Scenario,
    case=st.text(min_size=1, max_size=30),
    judges=st.lists(st.sampled_from(["R3", "Q6"]), min_size=1, max_size=2),
    steps=st.lists(_steps, min_size=1, max_size=6),
    title=st.text(max_size=60),
    shape=st.builds(QueueShape, readers=st.integers(1, 3), chunk_bytes=st.integers(64, 1 << 24)),
    start=st.sampled_from(["zygote", "fork", "spawn", "forkserver"]),
    seed=st.integers(0, 1 << 40),
    observe=st.booleans(),
    restart=st.booleans(),
)


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(_scenarios)
def test_any_scenario_survives_its_file(scenario: Scenario) -> None:
    assert parse(dump(scenario), "x.toml") == scenario


def test_every_shipped_scenario_is_one_and_survives_its_file() -> None:
    for path in scenario_files():
        scenario = load(path)
        assert parse(dump(scenario), "again") == scenario
        assert scenario.judges


def test_a_file_with_a_former_name_of_a_step_goes_on_playing() -> None:
    for former, now in (("settle", "wait-blocked"), ("recheck", "verify-held")):
        text = _GOOD.replace('do = "make"', f'do = "{former}"\nroles = ["readers"]', 1)
        assert parse(text, "x.toml") == parse(text.replace(former, now), "x.toml")
        assert f'do = "{now}"' in dump(parse(text, "x.toml"))
        with pytest.raises(BadUsage, match=r"unknown key 'rolls'; expected one of: .*roles"):
            parse(text.replace("roles =", "rolls =", 1), "x.toml")


def test_a_shape_survives_its_bytes() -> None:
    shape = QueueShape(3, 4096, 2, max_buffers=9)
    assert parse_shape(dump_shape(shape)) == shape


def test_groups_of_roles_are_spelled_out() -> None:
    scenario = Scenario("R3/x", ["R3"], [], shape=QueueShape(readers=2))
    assert scenario.named(("readers", "writer")) == ["reader-0", "reader-1", "writer"]
    assert scenario.named(("all",)) == ["writer", "reader-0", "reader-1"]


# -- what is wrong --------------------------------------------------------------------------

_GOOD = """\
case = "R3/x"
judges = ["R3"]
start = "zygote"

[shape]
readers = 2

[[steps]]
do = "make"

[[steps]]
do = "send"
timeout = 5.0
messages = [{ kind = "array", size = 10 }]

[[steps]]
do = "receive"
count = 3
roles = ["reader-1"]

[[steps]]
do = "fault"
fault = "kill"
role = "writer"
at = { op = "send", line = 4 }
"""


def _complaint(old: str, new: str, *more: tuple[str, str]) -> tuple[int, str]:
    text = _GOOD
    for was, becomes in ((old, new), *more):
        assert text.count(was) == 1, f"{was!r} is not unique"
        text = text.replace(was, becomes)
    return _told(text)


def _told(text: str) -> tuple[int, str]:
    with pytest.raises(BadUsage) as caught:
        parse(text, "dir/file.toml")
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("dir/file.toml:")
    line, _, rest = text.removeprefix("dir/file.toml:").partition(": ")
    return int(line), rest


def test_the_good_one_is_good() -> None:
    assert len(parse(_GOOD, "x").steps) == 4


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('start = "zygote"', 'strat = "zygote"', 3, ["'strat'", "expected", "start"]),
        ("readers = 2", "raeders = 2", 6, ["'raeders'", "expected", "readers", "chunk_bytes"]),
        ("timeout = 5.0", "timeuot = 5.0", 13, ["'timeuot'", "expected", "timeout"]),
        ("count = 3", "coutn = 3", 18, ["'coutn'", "expected", "count"]),
        ("size = 10", "sice = 10", 14, ["'sice'", "expected", "size", "repeat"]),
        ("line = 4", "lien = 4", 25, ["'lien'", "expected", "line", "nth"]),
    ],
)
def test_a_misspelt_key_is_told_with_its_line_and_the_keys_there_are(
    old: str, new: str, line: int, words: list[str]
) -> None:
    at, text = _complaint(old, new)
    assert at == line
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("count = 3", 'count = "three"', 18, ["expected", "int", "str"]),
        ("count = 3", "count = 0", 18, ["expected", ">= 1"]),
        ("size = 10", "size = -1", 14, ["expected", ">= 0"]),
        ("readers = 2", 'readers = "two"', 6, ["expected", "int", "str"]),
        ("timeout = 5.0", "timeout = 99999.0", 13, ["expected", "3600"]),
        ("line = 4", "line = 4.5", 25, ["expected", "int", "float"]),
    ],
)
def test_a_wrong_type_or_range_is_told_with_its_line_and_what_was_expected(
    old: str, new: str, line: int, words: list[str]
) -> None:
    at, text = _complaint(old, new)
    assert at == line
    for word in words:
        assert word in text


_ENUMS = [
    ('start = "zygote"', 'start = "spwan"', 3, "spwan", "spawn"),
    ('kind = "array"', 'kind = "arrya"', 14, "arrya", "tensor"),
    ('fault = "kill"', 'fault = "kil"', 23, "kil", "stop"),
    ('op = "send"', 'op = "sned"', 25, "sned", "receive"),
    ('do = "receive"', 'do = "recieve"', 17, "recieve", "receive"),
]


@pytest.mark.parametrize(("old", "new", "line", "wrong", "_expected"), _ENUMS)
def test_a_wrong_word_is_told_with_its_line(
    old: str, new: str, line: int, wrong: str, _expected: str
) -> None:
    at, text = _complaint(old, new)
    assert wrong in text
    assert at == line


@pytest.mark.parametrize(("old", "new", "_line", "_wrong", "expected"), _ENUMS)
def test_a_wrong_word_is_told_with_the_words_there_are(
    old: str, new: str, _line: int, _wrong: str, expected: str
) -> None:
    _, text = _complaint(old, new)
    assert "expected" in text
    assert expected in text


_ONE = "expected one of: reader-0, reader-1, writer"
_SOME = "expected one of: all, reader-0, reader-1, readers, writer"


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ('["reader-1"]', '["reader-7"]', 19, _SOME),
        ('["reader-1"]', '["writer", "raeder-1"]', 19, _SOME),
        ('role = "writer"', 'role = "writre"', 24, _ONE),
    ],
)
def test_a_role_that_does_not_exist_is_told_with_the_roles_there_are(
    old: str, new: str, line: int, expected: str
) -> None:
    at, text = _complaint(old, new)
    assert at == line
    assert "no role" in text
    assert text.endswith(expected)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('role = "writer"', 'role = "all"', 24),
        ("timeout = 5.0", 'timeout = 5.0\nrole = "readers"', 14),
    ],
)
def test_a_group_where_one_role_is_meant_is_told(old: str, new: str, line: int) -> None:
    at, text = _complaint(old, new)
    assert at == line
    assert "is not one role" in text
    assert text.endswith(_ONE)


def test_a_thousand_readers_are_not_listed_one_by_one() -> None:
    _, text = _complaint("readers = 2", "readers = 1024", ('["reader-1"]', '["reader-1024"]'))
    assert "expected one of: all, reader-0 to reader-1023, readers, writer" in text


def test_a_step_that_is_missing_what_it_needs_says_what() -> None:
    _, text = _complaint("count = 3\n", "")
    assert "missing required field `count`" in text


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("timeout = 5.0", "timeout = = 5.0", 13),
        ('[[steps]]\ndo = "make"', '[[steps]\ndo = "make"', 8),
        ("count = 3", "count = 3\ncount = 4", 19),
    ],
)
def test_broken_toml_is_told_with_its_line(old: str, new: str, line: int) -> None:
    at, text = _complaint(old, new)
    assert at == line
    assert "expected a scenario in TOML" in text


def test_a_file_that_cannot_be_read_is_bad_usage(tmp_path: Path) -> None:
    binary = tmp_path / "b.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "none.toml", tmp_path, binary):
        with pytest.raises(BadUsage, match="cannot be read"):
            load(path)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('judges = ["R3"]', "judges = 3", 2),
        ("readers = 2", "readers = [2]", 6),
        ('fault = "kill"', 'fault = "kil"', 23),
    ],
)
def test_the_line_is_that_of_the_key_not_of_a_word_that_stands_elsewhere(
    old: str, new: str, line: int
) -> None:
    at, _ = _complaint(old, new)
    assert at == line


def test_a_time_that_is_no_number_is_refused() -> None:
    _complaint("timeout = 5.0", "timeout = nan")


@pytest.mark.parametrize(
    "line", ["readers = 0", "readers = -1", "readers = 9999", "chunk_bytes = -1"]
)
def test_a_shape_that_nothing_can_be_made_of_is_refused(line: str) -> None:
    text = _GOOD.replace("readers = 2", line).replace('["reader-1"]', '["readers"]')
    with pytest.raises(BadUsage):
        parse(text, "f")


_UNPLAYABLE = {
    "no-judge": ('judges = ["R3"]', "judges = []", 2, "expected one of: R1, R2"),
    "unknown-judge": ('judges = ["R3"]', 'judges = ["R99"]', 2, "expected one of: R1, R2"),
    "raise-nowhere": (
        'fault = "kill"\nrole = "writer"\nat = { op = "send", line = 4 }',
        'fault = "raise"\nrole = "writer"',
        23,
        "expected `at`",
    ),
    "point": ('at = { op = "send", line = 4 }', 'at = { op = "send" }', 25, "expected `line`"),
    "count": ('do = "fault"\nfault = "kill"', 'do = "count"', 24, "expected `op` and `nth` alone"),
}


@pytest.mark.parametrize(("old", "new", "line", "words"), _UNPLAYABLE.values(), ids=_UNPLAYABLE)
def test_a_scenario_that_cannot_be_played_is_refused_when_it_is_read(
    old: str, new: str, line: int, words: str
) -> None:
    at, text = _complaint(old, new)
    assert at == line
    assert words in text


def test_a_connection_is_harmed_only_where_there_is_one() -> None:
    cut = Scenario("Q18/x", ["Q18"], [Fault("cut", "reader-0")], shape=QueueShape(2, remote=1))
    with pytest.raises(BadUsage, match=r"no TCP connection; expected one of: writer, reader-1"):
        parse(dump(cut), "f")
    cut.shape = QueueShape(2)
    with pytest.raises(BadUsage, match="expected remote readers"):
        parse(dump(cut), "f")
    cut.shape = QueueShape(2, remote=2)
    assert parse(dump(cut), "f") == cut


def test_a_groups_connections_are_harmed_at_its_members_never_at_its_host() -> None:
    cut = Scenario("G4/x", ["G4"], [Fault("cut", "rank-0")], group=GroupShape(ranks=3))
    with pytest.raises(BadUsage, match=r"rank-0.*listens.*a member.*: rank-1, rank-2"):
        parse(dump(cut), "f")
    cut.steps = [Fault("half-open", "rank-2", toward="peer")]
    assert parse(dump(cut), "f") == cut
    assert cut.connecting() == ["rank-1", "rank-2"]


def test_a_reader_gets_a_host_of_its_own_only_where_that_can_be_played() -> None:
    def complaint(**changes: Any) -> str:
        cut = [Fault("cut", "reader-0")]
        good = Scenario("Q18/x", ["Q18"], cut, shape=QueueShape(1, remote=1), namespaces=True)
        assert parse(dump(good), "f") == good
        with pytest.raises(BadUsage) as refused:
            parse(dump(msgspec.structs.replace(good, **changes)), "f")
        return str(refused.value)

    assert "without remote readers" in complaint(shape=QueueShape(1), steps=[])
    assert "without remote readers" in complaint(group=GroupShape(ranks=1), steps=[])
    assert "which have their own" in complaint(group=GroupShape(host="::1"), steps=[])
    assert "expected one of: cut, heal" in complaint(steps=[Fault("reset", "reader-0")])
    assert "expected one of the two" in complaint(shm_bytes=1 << 20)
    assert "which have their own" in complaint(shape=QueueShape(1, remote=1, host="::1"))
    assert "attacker" in complaint(steps=[Attack("writer", "listen")])


def test_cases_and_scenarios_speak_of_the_same_roles() -> None:
    scenario = Scenario("R3/x", ["R3"], [], shape=QueueShape(readers=64))
    assert scenario.roles()[-1] == "reader-63"
    assert len({case.id for case in CASES}) == len(CASES)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('fault = "kill"', 'fault = "raise"', 23, ["raise at a page", "kill, stop"]),
        ('do = "fault"\nfault = "kill"', 'do = "count"', 24, ["a count names no line"]),
    ],
)
def test_a_page_where_it_can_be_nothing_is_told(
    old: str, new: str, line: int, words: list[str]
) -> None:
    at, text = _complaint(old, new, ("line = 4", "page = 4"))
    assert at == line
    for word in words:
        assert word in text


@pytest.mark.parametrize("fault", ["stop", "raise", "exit"])
def test_a_tracer_can_only_kill(fault: str) -> None:
    at = ("line = 4", 'syscall = "sendto", call = 4')
    line, text = _complaint('fault = "kill"', f'fault = "{fault}"', at)
    assert line == 23
    assert f"{fault} at a native system call; expected: kill" in text


def test_a_count_of_calls_says_which() -> None:
    more = ('role = "writer"', 'role = "writer"\nof = "calls"'), (", line = 4", "")
    _, text = _complaint('do = "fault"\nfault = "kill"', 'do = "count"', *more)
    assert "`syscall`" in text
