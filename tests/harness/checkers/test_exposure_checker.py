"""S1 to S4 on tapes: listeners, rights, strangers, keys and floods."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic import Tape, convicted, judged

from killpoint.checkers import CHECKERS
from killpoint.checkers.finding import Inconclusive, Lacking
from killpoint.ledger import Ledger
from killpoint.scenario import Scenario
from killpoint.targets.protocol import GroupShape, QueueShape
from killpoint.verdict import Violation


def _looked(*addresses: str, pid: int = 7) -> Tape:
    tape = Tape().tell("director", "looked", target="writer", pid=7, pids=[7, 8])
    for address in addresses:
        tape.tell(
            "director",
            "listener",
            target="writer",
            address=address,
            port=5000,
            pid=pid,
            by="python",
        )
    return tape


def _group(tape: Tape, host: str = "127.0.0.1") -> list[Violation]:
    scenario = Scenario("S1/x", ["S1"], [], group=GroupShape(2, host))
    return CHECKERS["S1"](scenario, tape.history(), Ledger()).violations


def _remote(id: str, tape: Tape, host: str = "127.0.0.1") -> list[Violation]:
    scenario = Scenario(f"{id}/x", [id], [], shape=QueueShape(2, remote=1, host=host))
    return CHECKERS[id](scenario, tape.history(), Ledger()).violations


# -- S1 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.7", "fe80::1"])
def test_a_local_queue_that_listens_beyond_loopback_is_exposed(address: str) -> None:
    found = convicted("S1", _looked(address))
    assert found.kind == "exposure"
    assert address in found.cause
    assert "opened by writer, process … (python)" in found.cause


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.53", "::1", "::ffff:127.0.0.1"])
def test_loopback_is_never_too_wide(address: str) -> None:
    assert judged("S1", _looked(address)).violations == []


def test_a_listener_of_a_child_names_the_child() -> None:
    assert "(by a child)" in convicted("S1", _looked("0.0.0.0", pid=8)).cause


def test_a_group_may_listen_at_its_host_and_no_wider() -> None:
    assert _group(_looked("10.1.2.3"), "10.1.2.3") == []
    assert _group(_looked("::ffff:10.1.2.3"), "10.1.2.3") == []
    assert _group(_looked("::"))[0].kind == "exposure"
    assert "127.0.0.1 was asked for" in _group(_looked("0.0.0.0"))[0].cause


def test_a_queue_with_remote_readers_may_listen_at_its_host() -> None:
    assert _remote("S1", _looked("10.1.2.3"), "10.1.2.3") == []
    assert _remote("S1", _looked("0.0.0.0"), "10.1.2.3")[0].kind == "exposure"
    assert _remote("S1", _looked("0.0.0.0"), "0.0.0.0") == []


def test_remote_readers_without_any_listener_were_not_looked_at() -> None:
    with pytest.raises(Inconclusive, match="no TCP listener"):
        _remote("S1", _looked())


# -- S2 -------------------------------------------------------------------------------------


def _path(kind: str, mode: int, *folders: int, directory: bool = False) -> Tape:
    chain = [[f"/tmp/{n}", folder] for n, folder in enumerate(folders)]
    facts: dict[str, Any] = {"mode": mode, "owner": 0, "folders": chain, "directory": directory}
    name = {"name": "psm_1"} if kind.startswith("segment") else {"path": "/tmp/0/x"}
    return _looked().tell("director", kind, target="writer", **name, **facts)


@pytest.mark.parametrize(
    ("tape", "word"),
    [
        (_path("socket-path", 0o666, 0o755), "everybody"),
        (_path("socket-path", 0o777), "everybody"),
        (_path("socket-path", 0o660, 0o750), "group"),
        (_path("segment-rights", 0o604), "everybody"),
        (_path("segment-made", 0o660), "was made with mode 0o660"),
        (_path("file-rights", 0o644, 0o755), "everybody"),
        (_path("file-rights", 0o750, directory=True), "its group"),
    ],
)
def test_what_others_can_use_is_exposed(tape: Tape, word: str) -> None:
    found = convicted("S2", tape, umask=0)
    assert found.kind == "exposure"
    assert word in found.cause
    assert "under umask 0o000" in found.cause


@pytest.mark.parametrize(
    "tape",
    [
        _path("socket-path", 0o600, 0o755),
        _path("socket-path", 0o755, 0o755),  # connecting takes the right to write
        _path("socket-path", 0o666, 0o700),
        _path("socket-path", 0o666, 0o777, 0o700),
        _path("segment-rights", 0o600),
        _path("segment-made", 0o600),
        _path("file-rights", 0o644, 0o700),
        _path("file-rights", 0o700, directory=True),
    ],
)
def test_what_is_its_owners_alone_is_held(tape: Tape) -> None:
    assert judged("S2", tape, umask=0).violations == []


def test_what_a_segments_name_was_drawn_with_is_no_part_of_the_cause() -> None:
    cause = convicted("S2", _path("segment-made", 0o660)).cause
    assert "writer's segment psm… was made" in cause


def test_a_temporary_path_is_nobodys_in_particular() -> None:
    assert convicted("S2", _path("file-rights", 0o644)).cause.startswith("temporary path /tmp/…")


def test_a_target_that_makes_no_path_has_nothing_to_judge() -> None:
    with pytest.raises(Lacking):
        judged("S2", _looked())


def test_who_was_not_looked_at_is_no_evidence() -> None:
    with pytest.raises(Inconclusive) as found:
        judged("S2", Tape())
    assert not isinstance(found.value, Lacking)


# -- S3 -------------------------------------------------------------------------------------


def _visited(ports: int = 1) -> Tape:
    return Tape().tell("stranger-1", "stranger-stands", how="listen", ports=ports)


def _got(tape: Tape, holds: list[int]) -> Tape:
    return tape.tell("stranger-1", "stranger-got", way="SUB socket", port=5000, holds=holds)


def test_a_stranger_that_read_a_message_is_an_exposure() -> None:
    found = _remote("S3", _got(_visited().sent(4), [4]))
    assert found[0].kind == "exposure"
    assert "read message 4 at port … (SUB socket)" in found[0].cause


def test_greetings_and_noise_are_no_message() -> None:
    tape = _got(_visited(), []).sent(0).gets(0, "reader-0").gets(0, "reader-1")
    assert _remote("S3", tape) == []


def test_a_canary_that_fired_names_who_decoded_it() -> None:
    tape = _visited().tell("canary", "canary", pid=41, way="raw bytes")
    tape.tell("director", "exit", target="writer", pid=41, code=0)
    found = _remote("S3", tape)
    assert found[0].kind == "exposure"
    assert found[0].cause.startswith("writer decoded")


def test_a_key_in_a_repr_is_an_exposure() -> None:
    tape = Tape().tell("reader-0", "secrets", count=1, shown=["the handle's repr"])
    found = _remote("S3", tape)
    assert (found[0].kind, "the handle's repr" in found[0].cause) == ("exposure", True)
    held = Tape().tell("reader-0", "secrets", count=1, shown=[])
    assert _remote("S3", held) == []


def test_handles_without_a_secret_have_none_to_show() -> None:
    tape = Tape()
    for role in ("writer", "reader-0"):
        tape.tell(role, "secrets", count=0, shown=[])
    with pytest.raises(Lacking, match="no secret"):
        _remote("S3", tape)
    visited = _visited().sent(0).gets(0, "reader-0").gets(0, "reader-1")
    assert _remote("S3", visited.tell("writer", "secrets", count=0, shown=[])) == []


def test_nobody_who_looked_for_keys_is_inconclusive() -> None:
    with pytest.raises(Inconclusive) as found:
        _remote("S3", Tape().sent(0))
    assert not isinstance(found.value, Lacking)


def test_a_message_lost_after_a_stranger_came_is_lost() -> None:
    tape = _visited().sent(0).sent(1).gets(0, "reader-0").gets(0, "reader-1").gets(1, "reader-1")
    assert _remote("S3", tape)[0].kind == "lost"


def test_a_call_that_fails_after_a_stranger_came_is_told() -> None:
    tape = _visited().ordered("writer", "ready", "error")
    assert "writer failed in ready" in _remote("S3", tape)[0].cause


def test_a_stranger_that_found_no_port_is_no_evidence() -> None:
    with pytest.raises(Inconclusive):
        _remote("S3", _visited(ports=0))


# -- S4 -------------------------------------------------------------------------------------


def _flooded(
    arrived: int = 1200,
    *,
    grown: int = 0,
    descriptors: int = 900,
    logged: int = 0,
    able: bool = True,
    denied: float = 0.0,
) -> Tape:
    tape = Tape().tell("director", "intrude", target="writer", how="flood", owners=["python"])
    tape.later(5000).tell("director", "denied", target="writer", ns=int(denied * 1e9), over=0)
    about = {"port": 5000, "asked": 1200, "arrived": arrived, "able": able, "s": 5.0}
    tape.tell("stranger-1", "stranger-flooded", **about)
    cost = {"grown": grown, "most": 1024, "descriptors": descriptors, "allowed": 1024}
    return tape.tell("director", "flood-cost", target="writer", **cost, logged=logged)


def test_a_flood_that_came_and_cost_little_is_borne() -> None:
    found = judged("S4", _flooded())
    assert (found.violations, found.counts["connections"]) == ([], 1200)


def test_the_last_descriptors_are_not_for_strangers() -> None:
    cause = convicted("S4", _flooded(descriptors=1000)).cause
    assert "held more than 960 of 1024 descriptors" in cause


def test_memory_for_strangers_is_an_exposure() -> None:
    assert "more than 40 MiB of memory" in convicted("S4", _flooded(grown=50 << 20)).cause


def test_a_line_of_log_for_each_stranger_is_an_exposure() -> None:
    assert judged("S4", _flooded(logged=1200 * 40)).violations == []
    assert "more than 64 KiB of log" in convicted("S4", _flooded(logged=1200 * 60)).cause


def test_a_listener_that_takes_no_more_bears_the_flood() -> None:
    assert judged("S4", _flooded(300)).violations == []


@pytest.mark.parametrize(
    ("tape", "why"),
    [
        (_flooded(0), "none of the 1200 connections"),
        (_flooded(1000, able=False), "1000 of 1200 connections .* the stranger had no descriptor"),
        (_flooded(300, denied=4.0), "300 of 1200 connections .* kept a party from running"),
    ],
)
def test_a_flood_that_fell_short_by_no_doing_of_the_listeners_is_no_evidence(
    tape: Tape, why: str
) -> None:
    with pytest.raises(Inconclusive, match=why):
        judged("S4", tape)
