"""A gate: what is known is forgiven, what is gone is not, what is unsure stays so."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import case, hang, judgement, stored

from killpoint.report.gate import gate
from killpoint.report.known import Known

_CASES = ("Q6/a", "Q6/b", "R3/c", "W3/d")


def _known(name: str = "Q6/a", **more: Any) -> Known:
    return Known(**({"case": name, "kind": "hang", "target": "own", "cause": "waited"} | more))


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(_CASES),
        st.sampled_from(["held", "violated", "inconclusive", "unsupported", "left out"]),
    ),
    st.sampled_from([(), ("ring",)]),
)
def test_without_known_failures_its_status_is_that_of_the_judgement(
    words: dict[str, Any], lacking: tuple[str, ...]
) -> None:
    told = [case(id, word) for id, word in words.items() if word != "left out"]
    left = tuple(id for id, word in words.items() if word == "left out")
    with tempfile.TemporaryDirectory() as folder:
        run = stored(Path(folder), *told, left_out=left, lacking=lacking)
    assert gate(run).status == judgement(*told, left_out=left, lacking=lacking).status()


def test_all_violations_known_pass(tmp_path: Path) -> None:
    run = stored(tmp_path, hang("Q6/a"), hang("Q6/b"), case("R3/c"))
    judged = gate(run, [_known(), _known("Q6/b")])
    assert (judged.status, judged.new, len(judged.known)) == (0, [], 2)


def test_one_that_is_not_known_fails(tmp_path: Path) -> None:
    judged = gate(stored(tmp_path, hang("Q6/a"), hang("Q6/b", "it spins")), [_known()])
    assert (judged.status, [c.id for c in judged.new]) == (1, ["Q6/b"])


def test_an_entry_of_another_release_forgives_nothing(tmp_path: Path) -> None:
    run = stored(tmp_path, hang("Q6/a"), version="0.34.0")
    assert gate(run, [_known(releases="<0.34")]).status == 1
    assert gate(run, [_known(releases=">=0.34")]).status == 0


def test_a_known_failure_that_held_is_told_and_fails(tmp_path: Path) -> None:
    judged = gate(stored(tmp_path, case("Q6/a")), [_known(note="see 12")])
    assert judged.status == 1
    (line,) = judged.lines()
    assert line == "known failure no longer fails: Q6/a (hang) of own: see 12; remove it"


def test_one_that_is_not_strict_or_of_another_release_or_was_not_played_may_hold(
    tmp_path: Path,
) -> None:
    run = stored(tmp_path, case("Q6/a"))
    assert gate(run, [_known(strict=False), _known(releases=">2"), _known("Q6/z")]).status == 0


def test_a_doubt_beside_a_known_failure_of_one_invariant_is_inconclusive(tmp_path: Path) -> None:
    run = stored(tmp_path, hang("Q6/a"), case("Q6/b", "inconclusive"))
    assert gate(run, [_known()]).status == 3


def test_a_case_left_out_beside_a_known_failure_is_inconclusive(tmp_path: Path) -> None:
    run = stored(tmp_path, hang("Q6/a"), left_out=("Q6/b",))
    assert gate(run, [_known()]).status == 3
