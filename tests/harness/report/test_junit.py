"""JUnit XML of a run: what a gate reads there."""

from __future__ import annotations

from pathlib import Path

import pytest
from junit_rules import cases, properties
from made_runs import case, hang, stored

from killpoint.report import junit
from killpoint.report.gate import gate
from killpoint.report.known import Known


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where it is written, in a folder that is not there yet."""
    return tmp_path / "out" / "junit.xml"


def test_each_outcome_is_what_gates_expect_with_its_class_as_type(
    tmp_path: Path, file: Path
) -> None:
    run = stored(
        tmp_path,
        case("R3/held", seconds=1.23456),
        hang("Q6/hung"),
        case("Q6/unsure", "inconclusive", cause="its point was not reached"),
        case("Q6/broken", "inconclusive", cause="the judge itself failed", by_harness=True),
        case("Q6/lacking", "unsupported", cause="the target lacks x"),
        left_out=("W3/later",),
    )
    junit.write(run, file)
    found = cases(file)
    told = {
        id: [(child.tag, child.attrib["type"]) for child in element if child.tag != "properties"]
        for id, element in found.items()
    }
    assert told == {
        "R3/held": [],
        "Q6/hung": [("failure", "hang")],
        "Q6/unsure": [("error", "inconclusive")],
        "Q6/broken": [("error", "infrastructure")],
        "Q6/lacking": [("skipped", "unsupported")],
        "W3/later": [("error", "inconclusive")],
    }
    assert found["R3/held"].attrib["time"] == "1.235"


def test_a_violation_tells_cause_evidence_and_replay(tmp_path: Path, file: Path) -> None:
    junit.write(stored(tmp_path, hang("Q6/hung")), file)
    (failure,) = cases(file)["Q6/hung"].findall("failure")
    assert failure.attrib["message"].startswith("reader-0 still waited after 4.0 s")
    assert failure.text is not None
    assert "1 ms writer <sent>" in failure.text
    assert "killpoint replay runs/x/replays/Q6-hung.toml" in failure.text


def test_a_case_has_readable_properties(tmp_path: Path, file: Path) -> None:
    outcome = hang("Q6/hung")
    outcome.runs, outcome.struck, outcome.counts = 3, 2, {"points": 7}
    run = stored(tmp_path, outcome)
    junit.write(run, file)
    assert properties(cases(file)["Q6/hung"]) == {
        "case": "Q6/hung",
        "target": "own 1.5",
        "strength": "3 runs, 7 points, 2 of 3 faults struck",
        "seed": "4",
        "class": "hang",
        "kind": "hang",
        "signature": run.cases()[0].signature,
        "replay": "runs/x/replays/Q6-hung.toml",
    }


def test_what_is_known_is_skipped_and_what_is_gone_is_a_failure(tmp_path: Path, file: Path) -> None:
    run = stored(tmp_path, hang("Q6/hung"), case("R3/held"))
    known = [
        Known("Q6/hung", "hang", "own", cause="waited", note="ours"),
        Known("R3/held", "lost", "own", cause="never came"),
    ]
    junit.write(run, file, gate(run, known))
    found = cases(file)
    (skipped,) = found["Q6/hung"].findall("skipped")
    assert skipped.attrib == {
        "type": "hang",
        "message": "known failure: Q6/hung (hang) of own: ours",
    }
    (gone,) = found["R3/held (known failure)"].findall("failure")
    assert gone.attrib["type"] == "known-failure-gone"


def test_a_cause_may_quote_any_character(tmp_path: Path, file: Path) -> None:
    cause = 'it said <b>&"\x00\x1b[31m\ud800'.encode("utf-8", "replace").decode() + "\x07"
    junit.write(stored(tmp_path, hang("Q6/hung", cause)), file)
    (failure,) = cases(file)["Q6/hung"].findall("failure")
    assert failure.attrib["message"] == 'it said <b>&"\ufffd\ufffd[31m?\ufffd'


def test_a_run_that_could_not_be_made_is_one_error(file: Path) -> None:
    junit.write_failure("vllm==0.33.0", "no space left on device", file)
    (error,) = cases(file)["killpoint/run"].findall("error")
    assert error.attrib == {"type": "infrastructure", "message": "no space left on device"}
