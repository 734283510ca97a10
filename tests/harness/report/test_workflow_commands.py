"""Annotations are lines that GitHub reads back as they were meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_runs import case, found, hang, stored

from killpoint.report.gate import gate
from killpoint.report.known import Known
from killpoint.report.workflow_commands import annotate, failure


def _read(line: str) -> tuple[str, dict[str, str], str]:
    """As the runner of GitHub Actions reads a line."""
    assert "\n" not in line
    assert line.startswith("::")
    command, _, data = line[2:].partition("::")
    level, _, rest = command.partition(" ")
    pairs = dict(each.split("=", 1) for each in rest.split(","))
    for code, sign in (("%3A", ":"), ("%2C", ",")):
        pairs = {name: value.replace(code, sign) for name, value in pairs.items()}
    pairs = {name: _data(value) for name, value in pairs.items()}
    return level, pairs, _data(data)


def _data(text: str) -> str:
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


def _annotated(folder: Path, *cases: Any, known: tuple[Known, ...] = ()) -> list[Any]:
    return [_read(line) for line in annotate(gate(stored(folder, *cases), known))]


def test_a_violation_is_an_error_with_its_cause_and_replay(tmp_path: Path) -> None:
    cause = "100% of it:\r\nlost, :: and %0A"
    (read,) = _annotated(tmp_path, hang("Q6/a,b", cause), case("R3/held"))
    replay = "killpoint replay runs/x/replays/Q6-a,b.toml"
    assert read == ("error", {"title": "Q6/a,b: hang"}, f"{cause}\n{replay}")


def test_what_is_known_is_no_error_what_is_gone_is_and_a_doubt_warns(tmp_path: Path) -> None:
    known = (
        Known("Q6/hung", "hang", "own", cause="waited"),
        Known("R3/held", "lost", "own", cause="never"),
    )
    doubt = case("W3/unsure", "inconclusive", cause="not reached, twice")
    read = _annotated(tmp_path, hang("Q6/hung"), case("R3/held"), doubt, known=known)
    assert [(level, pairs["title"]) for level, pairs, _ in read] == [
        ("error", "R3/held: known failure no longer fails"),
        ("warning", "W3/unsure: inconclusive"),
    ]


def test_beyond_what_github_shows_the_last_one_counts_the_rest(tmp_path: Path) -> None:
    read = _annotated(tmp_path, *(hang(f"Q6/c{n}") for n in range(25)))
    assert len(read) == 10
    assert read[-1][1] == {"title": "16 more"}


def test_a_run_that_could_not_be_made_is_an_error() -> None:
    level, pairs, data = _read(failure("no space: left"))
    assert (level, data) == ("error", "no space: left")
    assert pairs == {"title": "killpoint could not do its work"}


def test_an_annotation_names_the_finding(tmp_path: Path) -> None:
    run = stored(tmp_path, found("Q6/a", "deaf-reader"), target="vllm")
    (line,) = annotate(gate(run))
    assert line.startswith("::error title=Q6/a%3A hang (bites%3A deaf-reader)::")
