"""The command line: what is wrong is one line on stderr and a status, and nothing is left."""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from killpoint.cases import CASES
from killpoint.cli import COMMANDS, check, command_line, main
from killpoint.faults import FAULTS
from killpoint.findings.attribution import Attribution
from killpoint.invariants import CATALOGUE
from killpoint.report.html import document
from killpoint.runner.stage import Stage
from killpoint.verdict import CaseOutcome

Leftovers = Callable[[], set[str]]

_TYPO = """\
case = "R3/x"
judges = ["R3"]

[[steps]]
do = "receive"
coutn = 3
"""


_RING_CASE = next(case.id for case in CASES if "ring" in case.needs)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, so that a run folder would show."""
    place = tmp_path / "cwd"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def _one_line(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.endswith("\n")
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["COMMAND"]),
        (["chekc"], ["chekc", "check"]),
        (["check", "--target", "nope"], ["'nope'", "expected", "refengine", "module:object"]),
        (["check", "--target", "json:nope"], ["json:nope", "expected"]),
        (["check", "--target", "no.such:thing"], ["no.such", "expected"]),
        (["check", "--target", "json:__name__"], ["not callable", "expected"]),
        (["check", "--target", "vllm@/no/such/tree"], ["/no/such/tree"]),
        (["check", "--only", "R99"], ["'R99'", "expected", "R1"]),
        (["check", "--only", "R99", "--only", "R1"], ["'R99'", "expected", "R1"]),
        (["check", "--only", "R3/nothing"], ["'R3/nothing'", "expected", "R3/stream"]),
        (["check", "--shard", "3/2"], ["'3/2'", "I/N"]),
        (["check", "--shard", "0/2"], ["'0/2'", "I/N"]),
        (["check", "--shard", "half"], ["'half'", "I/N"]),
        (["check", "--seed", "x"], ["--seed", "'x'"]),
        (["check", "--budget", "long"], ["--budget", "'long'"]),
        (["check", "--device", "tpu"], ["'tpu'", "cpu"]),
        (["check", "--nope"], ["--nope"]),
        (["replay"], ["file"]),
        (["replay", "missing.toml"], ["missing.toml", "expected a scenario file"]),
        (["recheck", "missing"], ["missing", "expected the folder of a run"]),
        (["explain", "R99"], ["'R99'", "expected", "R1"]),
        (["list", "everything"], ["'everything'", "cases"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_bad_usage_is_2_with_one_line_and_nothing_left(
    arguments: list[str],
    words: list[str],
    folder: Path,
    leftovers: Leftovers,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(arguments) == 2
    line = _one_line(capsys)
    for word in words:
        assert word in line
    assert list(folder.iterdir()) == []
    assert leftovers() == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--jobs", "-1"],
        ["--jobs", "0"],
        ["--budget", "-5"],
        ["--budget", "0"],
        ["--budget", "nan"],
        ["--budget", "inf"],
        ["--only", ","],
        ["--only", ""],
    ],
    ids="-".join,
)
def test_numbers_that_make_no_sense_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("a stage was started")

    monkeypatch.setattr(Stage, "__init__", started)
    assert main(["check", *arguments]) == 2
    assert "expected" in _one_line(capsys)


def test_a_misspelt_key_is_told_by_file_line_and_word(
    folder: Path, leftovers: Leftovers, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "typo.toml").write_text(_TYPO)
    assert main(["replay", "typo.toml"]) == 2
    line = _one_line(capsys)
    assert line.startswith("typo.toml:6: unknown key 'coutn'; expected one of: ")
    assert leftovers() == set()


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [("coutn = 3", "count = 3", "R99"), ('"R3"]', '"R3"', "line"), ("coutn = 3", "", "count")],
)
def test_other_bad_files_are_told_too(
    folder: Path, old: str, new: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _TYPO.replace(old, new)
    (folder / "bad.toml").write_text(text.replace('"R3"]', '"R99"]') if word == "R99" else text)
    assert main(["replay", "bad.toml"]) == 2
    line = _one_line(capsys)
    assert line.startswith("bad.toml:")
    assert word in line


def test_a_target_that_is_not_there_leaves_no_folder_that_was_made_for_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "there").mkdir()
    assert main(["check", "--target", "nope", "--out", "there/deep/er"]) == 2
    assert list((folder / "there").iterdir()) == []
    _one_line(capsys)


def test_an_out_that_cannot_be_written_is_70(
    folder: Path, leftovers: Leftovers, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "file").write_text("x")
    for out in ("file/runs", "/proc/nothing/here"):
        assert main(["check", "--only", "R3/stream", "--out", out]) == 70
        assert "could not do its work" in _one_line(capsys)
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert leftovers() == set()


def _full_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def test_a_full_disk_is_70_with_one_line_and_nothing_left(folder: Path) -> None:
    """A limit of no byte a file is a full disk that needs no rights to make."""
    before = set(Path("/tmp").glob("kp-*"))
    temporary = folder / "tmp"
    temporary.mkdir()
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(temporary),
    }
    done = subprocess.run(
        [sys.executable, "-m", "killpoint.cli", "check", "--only", "R3/stream", "--jobs", "1"],
        env=environment,
        preexec_fn=_full_disk,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 70, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (folder / "runs").exists()
    mine = {path for path in set(Path("/tmp").glob("kp-*")) - before if _names(path, done)}
    assert mine == set()


def _names(path: Path, done: subprocess.CompletedProcess[str]) -> bool:
    """Whether the message speaks of this folder: others may be at work on this machine."""
    return str(path) in done.stderr


@pytest.mark.parametrize("around", [None, RuntimeError("Error calling __set_name__")])
def test_an_interrupt_is_told_as_one_also_where_python_wraps_it(
    around: Exception | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            if around is None:
                raise
            raise around from error

    monkeypatch.setattr(check, "plan", pressed)
    assert main(["check"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.full
def test_an_interrupt_while_violations_are_attributed_leaves_the_run_and_what_was_settled(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(_self: Attribution, cases: Sequence[CaseOutcome], *_: object) -> None:
        next(c for c in cases if c.violations).violations[0].finding = "late-replies"
        raise KeyboardInterrupt

    monkeypatch.setattr(Attribution, "of_cases", pressed)
    words = ["check", "--target", "broken_groups:LosesOne", "--only", "G1/lanes-apart"]
    assert main([*words, "--shrink", "0", "--jobs", "1"]) == 130
    (written,) = folder.glob("runs/*/verdict.json")
    told = f"what was judged before that is in {written.parent.relative_to(folder)}\ninterrupted\n"
    assert capsys.readouterr().err.endswith(told)
    assert json.loads(written.read_text())["findings"][0]["id"] == "late-replies"


def test_a_shard_without_a_case_ran_nothing(folder: Path) -> None:
    arguments = ["check", "--only", "R8/missing-segment", "--jobs", "1", "--json"]
    assert main([*arguments, "--shard", "2/2"]) == 3
    (written,) = folder.glob("runs/*/verdict.json")
    assert json.loads(written.read_text())["invariants"] == {}
    assert (written.parent / "report.html").is_file()


def test_a_report_that_cannot_be_written_leaves_the_verdict_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(document, "beside", full)
    arguments = ["check", "--only", "R8/missing-segment", "--jobs", "1", "--json"]
    assert main([*arguments, "--shard", "2/2"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["invariants"] == {}
    assert err == "report.html was not written: OSError: [Errno 28] No space left on device\n"


def test_what_the_budget_left_no_time_for_is_inconclusive_and_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["check", "--only", "R8", "--jobs", "1", "--json", "--budget", "1e-9"]
    assert main(arguments) == 3
    found = json.loads(capsys.readouterr().out)
    assert "R8/missing-segment" in found["left_out"]
    assert found["invariants"]["R8"]["verdict"] == "inconclusive"
    assert "left out: " in found["invariants"]["R8"]["strength"]


def test_a_replay_on_a_target_that_lacks_what_its_case_needs_is_not_reached(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def played(*_: object) -> None:
        raise AssertionError("it was played")

    monkeypatch.setattr(Stage, "play", played)
    (folder / "ring.toml").write_text(_TYPO.replace("coutn", "count").replace("R3/x", _RING_CASE))
    assert main(["replay", "ring.toml", "--target", "pipe_queue:PipeTarget"]) == 3
    out = capsys.readouterr().out
    assert "unsupported: the target lacks" in out
    assert out.endswith("not-reached\n")


def test_lists_name_everything_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    for what, names in {
        "invariants": [item.id for item in CATALOGUE],
        "cases": [case.id for case in CASES],
        "faults": list(FAULTS),
        "targets": ["refengine", "vllm==X.Y.Z", "sglang==X.Y.Z", "sglang@PATH", "module:object"],
    }.items():
        assert main(["list", what]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines if line.split()[0] in names] == names


def test_explain_prints_the_clause(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "R3"]) == 0
    assert "once each" in capsys.readouterr().out


def test_a_check_that_holds_writes_its_verdict_and_leaves_no_process(
    folder: Path, leftovers: Leftovers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--only", "R8/missing-segment", "--jobs", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (written,) = folder.glob("runs/*/verdict.json")
    assert json.loads(written.read_text()) == printed
    assert printed["invariants"]["R8"]["verdict"] == "holds"
    assert "1 holds" in (written.parent / "report.html").read_text("utf-8")
    assert leftovers() == set()
    assert main(["recheck", str(written.parent)]) == 0


def test_a_check_leaves_what_ci_asks_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = '[[known]]\ncase = "R8/missing-segment"\nkind = "hang"\ntarget = "refengine"\n'
    (folder / "known.toml").write_text(known + 'cause = "waited"\n')
    asked = ["--known", "known.toml", "--junit", "j.xml", "--summary", "s.md", "--annotate"]
    assert main(["check", "--only", "R8/missing-segment", "--jobs", "1", "--json", *asked]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["invariants"]["R8"]["verdict"] == "holds"
    assert "known failure no longer fails: R8/missing-segment" in err
    assert "::error title=R8/missing-segment%3A known failure no longer fails::" in err
    assert 'name="missing-segment"' in (folder / "j.xml").read_text()
    assert "R8" in (folder / "s.md").read_text()


def test_known_failures_of_a_case_that_there_is_not_are_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = '[[known]]\nkind = "hang"\ncase = "R8/mising-segment"\ntarget = "refengine"\n'
    (folder / "known.toml").write_text(known + 'cause = "waited"\n')
    assert main(["check", "--only", "R8/missing-segment", "--known", "known.toml"]) == 2
    line = _one_line(capsys)
    assert line.startswith("known.toml:3: [[known]] entry 1: there is no case 'R8/mising-segment'")
    assert "R8/missing-segment" in line
    assert list(folder.iterdir()) == [folder / "known.toml"]


@pytest.mark.parametrize("asked", ["list cases", "explain W3", "check --help", "--version"])
def test_a_reader_that_has_had_enough_ends_a_command_quietly(asked: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "killpoint.cli", *asked.split()]
    with os.fdopen(writing, "wb") as nobody_reads:
        ended = subprocess.run(command, stdout=nobody_reads, stderr=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGPIPE, b"")


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _parsers(each)


def test_the_help_of_every_option_says_its_default() -> None:
    silent = [
        f"{parser.prog} {action.option_strings[0]}"
        for parser in _parsers(command_line())
        for action in parser._actions
        if action.option_strings and action.default not in (None, argparse.SUPPRESS, [], ())
        if not isinstance(action.default, bool) and "default" not in (action.help or "")
    ]
    assert silent == []


def test_each_command_is_listed_with_the_words_of_its_own_module() -> None:
    listed = {command.name: command.help for command in COMMANDS}
    (whole,) = (
        action
        for action in command_line()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    assert {choice.dest: choice.help for choice in whole._choices_actions} == listed
    assert command_line("").format_help() == command_line().format_help()


def test_the_list_of_commands_imports_none_of_them() -> None:
    heavy = {"hypothesis", "msgspec", "numpy", "rich", "zmq"}
    script = (
        f"import sys, killpoint.cli as cli; cli.command_line(''); print({heavy} & {{*sys.modules}})"
    )
    assert subprocess.check_output([sys.executable, "-c", script]) == b"set()\n"
