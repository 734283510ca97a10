"""What one ``check`` leaves for CI, and the exit status that a gate reads."""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import pytest
from junit_rules import cases
from made_runs import case, hang, stored

from killpoint.errors import BadUsage, CannotWork
from killpoint.report.check_outputs import Outlets, add_options

_CASE = "Q6/published-before-death"
_KNOWN = f'[[known]]\ncase = "{_CASE}"\nkind = "hang"\ntarget = "own"\ncause = "waited"\n'


def _outlets(*arguments: str) -> Outlets:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="own")
    add_options(parser)
    return Outlets(parser.parse_args(arguments))


def _left(folder: Path, *outcomes: Any, asked: tuple[str, ...] = ()) -> tuple[int, str]:
    stored(folder / "run", *outcomes)
    out = io.StringIO()
    return _outlets(*asked).leave(folder / "run", out), out.getvalue()


def test_nothing_is_left_that_was_not_asked_for(tmp_path: Path) -> None:
    assert _left(tmp_path, hang("Q6/published-before-death"), case("R3/a")) == (1, "")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["verdict.json"]


def test_known_failures_change_the_status_and_never_the_verdict(tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(_KNOWN)
    asked = ("--known", str(tmp_path / "known.toml"))
    status, said = _left(tmp_path, hang("Q6/published-before-death"), case("R3/a"), asked=asked)
    assert (status, said) == (0, "known failure: Q6/published-before-death (hang) of own\n")
    assert '"outcome": "violated"' in (tmp_path / "run" / "verdict.json").read_text()
    status, said = _left(tmp_path, case("Q6/published-before-death"), asked=asked)
    assert (status, said[:31]) == (1, "known failure no longer fails: ")


def test_files_go_where_they_were_asked_for(tmp_path: Path) -> None:
    files = [tmp_path / "a" / "junit.xml", tmp_path / "b" / "summary.md"]
    asked = ("--junit", str(files[0]), "--summary", str(files[1]))
    assert _left(tmp_path, hang("Q6/published-before-death"), asked=asked) == (1, "")
    assert list(cases(files[0])) == ["Q6/published-before-death"]
    assert "### ✗ Q6/published-before-death: hang" in files[1].read_text()


def test_in_github_actions_it_annotates_and_appends_to_the_jobs_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("what was there\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert _left(tmp_path, hang(_CASE))[1].startswith(f"::error title={_CASE}%3A hang::")
    assert summary.read_text().startswith("what was there\n## killpoint: own 1.5")
    assert _left(tmp_path, hang("Q6/published-before-death"), asked=("--no-annotate",))[1] == ""


def test_what_could_not_be_judged_is_told_everywhere_and_raised(tmp_path: Path) -> None:
    asked = ["--annotate"]
    for name in ("junit", "summary"):
        asked += [f"--{name}", str(tmp_path / name)]
    out = io.StringIO()
    with pytest.raises(CannotWork), _outlets(*asked).or_why_not(out):
        raise CannotWork("no space left")
    assert out.getvalue() == "::error title=killpoint could not do its work::no space left\n"
    assert list(cases(tmp_path / "junit")) == ["killpoint/run"]
    assert "no space left" in (tmp_path / "summary").read_text()


def test_bad_usage_is_for_whoever_wrote_the_command(tmp_path: Path) -> None:
    out = io.StringIO()
    outlets = _outlets("--annotate", "--junit", str(tmp_path / "junit"))
    with pytest.raises(BadUsage), outlets.or_why_not(out):
        raise BadUsage("no such case")
    assert (out.getvalue(), list(tmp_path.iterdir())) == ("", [])


def test_a_wrong_file_of_known_failures_is_told_before_anything_is_played(tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(_KNOWN.replace("hang", "hung"))
    with pytest.raises(BadUsage, match="unknown kind 'hung'"):
        _outlets("--known", str(tmp_path / "known.toml"))
