"""A gate: what is known is forgiven, what is gone is not, what is unsure stays so."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import case, found, hang, judgement, stored

from killpoint.findings.registry import finding
from killpoint.report.gate import gate
from killpoint.report.known import Known

_CASES = ("Q6/a", "Q6/b", "R3/c", "W3/d")


def _known(name: str = "Q6/a", **more: Any) -> Known:
    return Known(**({"case": name, "kind": "hang", "target": "own", "cause": "waited"} | more))


@settings(max_examples=60)
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


def _of_finding(id: str, **more: Any) -> Known:
    return Known(target="vllm", finding=id, **more)


_EXHIBIT = finding("deaf-reader").exhibit


def test_a_known_finding_forgives_each_case_that_shows_it_and_no_other(tmp_path: Path) -> None:
    shown = [
        found("Q6/a", "deaf-reader"),
        found("L1/b", "deaf-reader", "deaf-reader"),
        found("Q6/c", "deaf-reader", "deaf-start"),
        found("Q6/d", "new"),
        found("Q6/e", None),
        hang("Q6/f"),
    ]
    run = stored(tmp_path, *shown, target="vllm")
    judged = gate(run, [_of_finding("deaf-reader")])
    assert [c.id for c in judged.new] == ["Q6/c", "Q6/d", "Q6/e", "Q6/f"]
    assert [c.id for c, _ in judged.known] == ["Q6/a", "L1/b"]
    assert judged.lines()[0] == "known failure: deaf-reader of vllm"
    both = gate(run, [_of_finding("deaf-reader"), _of_finding("deaf-start")])
    assert "Q6/c" not in [c.id for c in both.new]
    assert len(gate(run, [_of_finding("deaf-reader", releases="<0.1")]).known) == 0


def test_a_known_finding_is_gone_once_its_exhibit_holds_and_nothing_shows_it(
    tmp_path: Path,
) -> None:
    run = stored(tmp_path / "1", case(_EXHIBIT), target="vllm")
    judged = gate(run, [_of_finding("deaf-reader")])
    assert (judged.status, [k.name for k in judged.gone]) == (1, ["deaf-reader"])
    assert gate(run, [_of_finding("deaf-reader", strict=False)]).status == 0
    still = stored(tmp_path / "2", case(_EXHIBIT), found("L1/b", "deaf-reader"), target="vllm")
    assert gate(still, [_of_finding("deaf-reader")]).status == 0
    unasked = stored(tmp_path / "3", case("R3/c"), target="vllm")
    assert gate(unasked, [_of_finding("deaf-reader")]).status == 0
