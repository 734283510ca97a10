"""Mechanical mutants: what is changed, who is asked about it, and what their answers come to."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from mechanical import excuses
from mechanical.areas import AREAS, files_of
from mechanical.changes import Change, candidates, changes, planted
from mechanical.control import Control, Part, Trace, digest, together
from mechanical.footprint import Floor
from mechanical.job_processes import Ended
from mechanical.score import report, scored
from mechanical.store import Store
from mechanical.trial import Case, Fate, allowance, judged, telling_first

from killpoint.errors import BadUsage

ROOT = Path(__file__).parents[2]
HOME = ROOT / "impl" / "refengine"


def _news(source: str) -> list[str]:
    return [change.new for change in changes("a.py", source)]


# -- what is changed ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("x = a < b", ["x = a <= b", "x = a >= b"]),
        ("x = a == b", ["x = a != b"]),
        ("x = a is None", ["x = a is not None"]),
        ("x = a in b", ["x = a not in b"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not a", ["x = a"]),
        ("x = a + b", ["x = a - b"]),
        ("x = a << b & c", ["x = a << b | c", "x = a >> b & c"]),
        ("x = 3", ["x = 4", "x = 2"]),
        ("x = True", ["x = False"]),
        ("x += a", ["x -= a", "pass"]),
        ("x.y = a", ["pass"]),
        ("x, y.z = a", ["pass"]),
        ("f(a)", ["pass"]),
        ("del a", ["pass"]),
        ("raise a", ["pass"]),
        ("if a: b = c", ["if not a:"]),
        ("if not a: b = c", ["if a:"]),
        ("def f(): return a", ["return None"]),
        ("def f(): return False", ["return True"]),
        ("for a in b: break", ["continue"]),
    ],
)
def test_each_statement_has_its_changes(statement: str, expected: list[str]) -> None:
    assert _news(statement) == expected


@pytest.mark.parametrize(
    "statement",
    [
        '"""A text of 3."""',
        "x: Literal[3]",
        "x: int",
        "def f(x: int | None) -> bytes | None: ...",
        "T = int | None | Segment",
        "x = 'a' + b",
        "x = f'{a + 1}'",
        "def f(): return None",
        "def f(): return",
        "import a",
        "x = y",
        "@dataclass(frozen=True)\nclass A: pass",
    ],
)
def test_what_could_not_matter_or_would_always_show_is_left_alone(statement: str) -> None:
    assert _news(statement) == []


@pytest.mark.parametrize("call", ["os.kill(-child, 9)", "os.killpg(0, signal.SIGKILL)"])
def test_who_is_killed_is_left_as_it_is(call: str) -> None:
    """``kill(-1)`` and ``killpg(1)`` are every process of the user's."""
    assert _news(call) == ["pass"]


def test_a_change_is_told_with_its_place_and_keeps_every_line() -> None:
    source = "class A:\n    def f(self):\n        a = 1\n        return (self.b\n            < 5)\n"
    change = next(c for c in changes("group/a.py", source) if c.operator == "comparison")
    assert (change.scope, change.line) == ("A.f", 4)
    assert change.name == "group/a.py:4 A.f: return self.b < 5  ->  return self.b <= 5"
    lines = [getattr(node, "lineno", 0) for node in ast.walk(planted(source, change))]
    assert sorted(lines) == sorted(getattr(n, "lineno", 0) for n in ast.walk(ast.parse(source)))


def test_of_a_compound_statement_only_the_head_is_told() -> None:
    (change, *_) = changes("a.py", "if a == b:\n    f()\nelse:\n    g()\n")
    assert (change.old, change.new) == ("if a == b:", "if a != b:")


def test_a_case_is_told_without_the_others_at_the_line_of_its_match() -> None:
    first, *_ = changes("a.py", "match a:\n    case 1:\n        f()\n    case 2:\n        g()\n")
    assert (first.line, first.old, first.new) == (1, "case 1:", "case 2:")


def test_every_module_of_the_reference_is_in_exactly_one_area() -> None:
    named = sorted(file for files in files_of([], HOME).values() for file in files)
    assert named == sorted(str(path.relative_to(HOME)) for path in HOME.rglob("*.py"))


def test_areas_are_files_of_the_reference_and_words_that_name_nothing_are_refused() -> None:
    areas = files_of([], HOME)
    assert list(areas) == list(AREAS)
    assert "group/store_group.py" in areas["group"]
    assert files_of(["transport/"], HOME)["transport/"][-1] == "transport/session.py"
    with pytest.raises(BadUsage, match=r"rign.*ring, queue, group"):
        files_of(["rign"], HOME)


# -- whom it is asked -----------------------------------------------------------------------


def _footprint(floor: Floor, source: str, call: str) -> set[int]:
    """The lines that a call touches, of which the importing ones are forgotten."""
    names: dict[str, Any] = {}
    floor.lay()
    exec(compile(floor.marked("a.py", source), "a.py", "exec"), names)
    floor.lift()
    eval(call, names)
    return {line for _, line in floor.lift()}


BRANCHES = dedent('''\
    from __future__ import annotations
    """Not a docstring any more."""
    def f(a):
        """One that is."""
        if a:
            return 1
        for x in a, a:
            b = x
        return b
    ''')


def test_a_call_leaves_its_footprint() -> None:
    floor = Floor()
    assert _footprint(floor, BRANCHES, "f(1)") == {5, 6}
    assert _footprint(floor, BRANCHES, "f(0)") == {5, 7, 8, 9}


def test_a_killed_child_leaves_its_footprint() -> None:
    floor = Floor()
    names: dict[str, Any] = {}
    floor.lay()
    exec(compile(floor.marked("a.py", BRANCHES), "a.py", "exec"), names)
    floor.lift()
    pid = os.fork()
    if pid == 0:
        names["f"](1)
        os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    assert {line for _, line in floor.lift()} == {5, 6}


def test_markers_run_no_line_of_their_own() -> None:
    def lines(tree: ast.Module) -> list[int]:
        names: dict[str, Any] = {}
        exec(compile(tree, "a.py", "exec"), names)
        seen: list[int] = []

        def trace(frame: Any, event: str, _: Any) -> Any:
            if event == "line" and frame.f_code.co_filename == "a.py":
                seen.append(frame.f_lineno)
            return trace

        sys.settrace(trace)
        try:
            names["f"](0)
        finally:
            sys.settrace(None)
        return seen

    floor = Floor()
    floor.lay()
    assert lines(floor.marked("a.py", BRANCHES)) == lines(ast.parse(BRANCHES))


def _change(line: int = 5, file: str = "a.py", **more: Any) -> Change:
    known: dict[str, Any] = {"scope": "f", "operator": "constant", "old": "x = 1", "new": "x = 2"}
    return Change(file, line=line, path=(), node=ast.Pass(), **known | more)


def _trace(seconds: float, *lines: int, file: str = "a.py") -> Trace:
    return Trace(seconds, frozenset((file, line) for line in lines))


def test_the_tests_that_touch_a_statement_are_asked_the_fastest_first() -> None:
    tests = {"slow": _trace(9, 5), "other": _trace(0, 6), "fast": _trace(1, 5, 6)}
    assert Control(tests).tests_for(_change(5)) == ["fast", "slow"]
    assert Control(tests).tests_for(_change(7)) == []


def test_of_a_statement_that_runs_at_import_all_beside_who_touches_its_file_are_asked() -> None:
    tests = {"a::one": _trace(1, 6), "a::two": _trace(0), "b::far": _trace(0, 6, file="b.py")}
    control = Control(tests, imported=frozenset({("a.py", 2)}))
    assert control.tests_for(_change(2)) == ["a::two", "a::one"]


def test_a_test_that_imports_a_statement_late_is_asked_beside_the_others() -> None:
    tests = {"a::one": _trace(1, 6), "b::late": _trace(0, 2), "c::far": _trace(0)}
    control = Control(tests, imported=frozenset({("a.py", 2)}))
    assert control.tests_for(_change(2)) == ["b::late", "a::one"]


def test_of_a_file_of_which_nothing_runs_later_everybody_is_asked() -> None:
    tests = {"a::one": _trace(1, 6, file="b.py"), "b::two": _trace(0)}
    control = Control(tests, imported=frozenset({("a.py", 2)}))
    assert control.tests_for(_change(2)) == ["b::two", "a::one"]
    assert control.tests_for(_change(3)) == []


def test_who_caught_a_neighbour_is_asked_first_unless_slow() -> None:
    control = Control({name: _trace(s, 5) for name, s in (("a", 0.1), ("b", 0.2), ("c", 5.0))})
    assert telling_first(["a", "b", "c"], ["c", "b"], control) == ["b", "a", "c"]


def test_parts_make_a_control() -> None:
    whole = together(
        [
            Part({"one": _trace(1, 5)}, ["x: fails"], frozenset({("a.py", 1)}), ["zmq"]),
            Part({"two": _trace(1, 6)}, [], frozenset({("a.py", 2)}), ["numpy", "zmq"]),
        ]
    )
    assert list(whole.tests) == ["one", "two"]
    assert whole.broken == ["x: fails"]
    assert whole.imported == {("a.py", 1), ("a.py", 2)}
    assert whole.modules == ["numpy", "zmq"]


def test_a_digest_changes_with_any_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "b.py"
    file.write_text("1")
    before = digest([tmp_path])
    assert digest([tmp_path]) == before
    file.write_text("2")
    assert digest([tmp_path]) != before
    assert digest([file]) == digest([file])


# -- what the answers come to ---------------------------------------------------------------


def _end(test: str, *, failed: bool = False) -> dict[str, Any]:
    return {"did": "end", "test": test, "failed": failed, "why": "it is 2" if failed else ""}


@pytest.mark.parametrize(
    ("told", "overdue", "word", "by"),
    [
        ([_end("a"), _end("b"), {"did": "all"}], "", "survived", ""),
        ([_end("a"), _end("b", failed=True), {"did": "all"}], "", "killed", "b"),
        ([_end("a"), {"did": "start", "test": "b"}], "b", "timed-out", "b"),
        ([_end("a"), {"did": "start", "test": "b"}], "", "killed", "b"),
        ([{"did": "broke", "why": "Traceback\nNameError: x"}], "", "killed", ""),
    ],
)
def test_a_child_is_judged_by_what_it_told(
    told: list[dict[str, Any]], overdue: str, word: str, by: str
) -> None:
    fate = judged(Case(_change(), ["a", "b"]), Ended(told, overdue, 1.0))
    assert (fate.word, fate.by, fate.tests) == (word, by, 2)


def _fate(word: str, file: str = "a.py") -> Fate:
    return Fate(file, "f", 5, "constant", "x = 1", "x = 2", word)


def test_the_score_counts_deadlines_as_caught_and_the_uncovered_as_missed() -> None:
    fates = [_fate(word) for word in ("killed", "timed-out", "survived", "not-covered")]
    score = scored(fates, explained=3, untried=7)
    assert score.percent == 50
    assert str(score) == (
        " 50.0 %, 2 of 4, 1 by their deadline, 1 not covered, 3 explained, 7 not tried"
    )


def test_the_report_lists_who_was_missed_with_the_change() -> None:
    fates = [_fate("killed"), _fate("survived", "b.py")]
    text = "\n".join(report({"all": ["a.py", "b.py"]}, fates, {}, {}))
    assert "a.py                   100.0 %" in text
    assert "b.py:5 f: survived, 0 tests touch it\n  - x = 1\n  + x = 2" in text


def test_deadlines_come_from_the_control() -> None:
    assert allowance(0.0) == 2
    assert allowance(3.0) == 17


def test_what_was_killed_stays_killed_and_survivors_are_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store"
    for nth, word in enumerate(("killed", "survived")):
        Store(path, "tests 1").keep(_fate(word), "source", nth)
    same, later = Store(path, "tests 1"), Store(path, "tests 2")
    assert same.find(_change(), "source", 1) == _fate("survived")
    assert later.find(_change(), "source", 0) == _fate("killed")
    assert later.find(_change(), "source", 1) is None
    assert later.find(_change(), "another source", 0) is None
    assert later.find(_change(new="x = 3"), "source", 0) is None


# -- excuses --------------------------------------------------------------------------------


def test_every_excuse_that_is_kept_excuses_something() -> None:
    kept = excuses.load(ROOT / "tests" / "mutants" / "equivalent.toml")
    files = {excuse.file for excuse in kept}
    found = [c for file in files for c in candidates(file, (HOME / file).read_text("utf-8"))]
    assert excuses.stale(kept, found) == []


def test_an_excuse_for_what_is_gone_is_stale() -> None:
    excuse = excuses.Excuse("a.py", "f", "x = 1", "because", new="x = 2")
    assert excuses.stale([excuse], [_change()]) == []
    for other in ({"new": "x = 0"}, {"scope": "g"}, {"old": "y = 1"}, {"file": "b.py"}):
        assert excuses.stale([excuse], [_change(**other)]) == [excuse]


@pytest.mark.parametrize("text", ["[[equivalent]]\nfile='a'\nscope='f'\nold='x'\nwhy=' '\n", "x=1"])
def test_an_excuse_without_a_reason_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "equivalent.toml"
    path.write_text(text)
    with pytest.raises(BadUsage):
        excuses.load(path)


# -- the whole of it ------------------------------------------------------------------------

SOURCE = """\
def double(x):
    return x * 2

def weak(x):
    return x + 5

def unused():
    return 7

def down(n):
    while n != 0:
        n -= 1
    return n
"""
TESTS = """\
import os
from refengine.thing import double, down, weak

def test_double():
    pid = os.fork()
    if pid == 0:
        os._exit(double(3))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 6

def test_weak():
    weak(1)

def test_down():
    assert down(3) == 0

def test_that_fails_already():
    assert double(2) == 5
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "impl/refengine/__init__.py": "",
        "impl/refengine/thing.py": SOURCE,
        "tests/impl/test_thing.py": TESTS,
        "tests/mutants/equivalent.toml": (
            '[[equivalent]]\nfile = "thing.py"\nscope = "weak"\nold = "return x + 5"\n'
            'new = "return x + 6"\nwhy = "Nobody looks."\n'
        ),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def _mutation(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [checkout / "impl", ROOT / "tests" / "mutants", ROOT / "harness"]
    command = "import sys; from pathlib import Path; from mechanical.command import main; "
    command += "sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))"
    return subprocess.run(
        [sys.executable, "-c", command, str(checkout), *arguments],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "XDG_CACHE_HOME": str(checkout / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


def _words(mutants: Iterable[dict[str, Any]], scope: str) -> set[str]:
    return {mutant["word"] for mutant in mutants if mutant["scope"] == scope}


def test_mutants_meet_the_fate_that_the_tests_have_for_them(checkout: Path) -> None:
    ran = _mutation(checkout, "thing.py", "--json", "--jobs", "2")
    assert ran.returncode == 0, ran.stderr
    assert "test_that_fails_already" in ran.stderr
    told = json.loads(ran.stdout)
    mutants = told["mutants"]
    assert _words(mutants, "double") == {"killed"}
    assert {m["new"]: m["word"] for m in mutants if m["scope"] == "weak"} == {
        "return None": "survived",
        "return x - 5": "survived",
        "return x + 4": "survived",
    }
    assert _words(mutants, "unused") == {"not-covered"}
    assert {m["new"]: m["word"] for m in mutants if m["scope"] == "down"}["n += 1"] == "timed-out"
    assert told["areas"]["thing.py"]["explained"] == 1
    assert (checkout / "impl" / "refengine" / "thing.py").read_text() == SOURCE


def test_a_sample_says_what_was_left_out_and_too_low_a_score_is_told(checkout: Path) -> None:
    ran = _mutation(checkout, "thing.py", "--sample", "3", "--seed", "1", "--least", "101")
    assert ran.returncode == 1, ran.stderr
    assert "not tried" in ran.stdout


def test_a_stale_excuse_stops_the_run(checkout: Path) -> None:
    (checkout / "impl" / "refengine" / "thing.py").write_text(SOURCE.replace("x + 5", "x + 8"))
    ran = _mutation(checkout, "thing.py")
    assert ran.returncode == 2
    assert "return x + 5" in ran.stderr


def test_a_change_that_the_tests_cannot_even_begin_with_is_noticed(checkout: Path) -> None:
    (checkout / "impl/refengine/size.py").write_text("SIZE = 3\ndef size():\n    return SIZE\n")
    folder = checkout / "tests" / "impl"
    folder.joinpath("conftest.py").write_text("from refengine.size import SIZE\nassert SIZE == 3\n")
    folder.joinpath("test_size.py").write_text(
        "from refengine.size import size\ndef test_size():\n    size()\n"
    )
    ran = _mutation(checkout, "size.py", "--json")
    assert ran.returncode == 0, ran.stderr
    assert {m["new"]: m["word"] for m in json.loads(ran.stdout)["mutants"]} == {
        "SIZE = 4": "killed",
        "SIZE = 2": "killed",
        "return None": "survived",
    }
