"""S1 to S3 of servers tell what a tree shows to strangers from what it does not, on tapes."""

from __future__ import annotations

import pytest
from server_tape import PARTS, ServerTape

from killpoint.checkers.finding import Inconclusive, Lacking


def _looked(*parts: str) -> ServerTape:
    tape = ServerTape().asks(1, "whole", 2, control=True)
    for number, part in enumerate(parts or PARTS):
        tape.at(3, "looked", target=part, pid=100 + number, pids=[100 + number])
    return tape


def _listens(tape: ServerTape, address: str, part: str = "front") -> ServerTape:
    facts = {"target": part, "address": address, "port": 4711, "pid": 100 + PARTS.index(part)}
    return tape.at(3.1, "listener", **facts, by="python")


def _cause(tape: ServerTape, id: str, kind: str = "exposure") -> str:
    found = tape.violation(id)
    assert found is not None
    assert found.kind == kind
    return found.cause


@pytest.mark.parametrize(("address", "wide"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_s1_nobody_of_the_tree_listens_wider_than_the_api_was_asked_to(
    address: str, wide: bool
) -> None:
    tape = _listens(_listens(_looked(), "127.0.0.1"), address, "worker-0")
    found = tape.judged("S1")
    assert [each.kind for each in found.violations] == (["exposure"] if wide else [])
    if wide:
        assert "worker-0 listens on all addresses" in found.violations[0].cause
        assert "where 127.0.0.1 was asked for" in found.violations[0].cause


def test_s1_a_server_at_all_addresses_was_asked_to_be_there() -> None:
    tape = _listens(_looked(), "0.0.0.0")
    tape.events[0].data["host"] = "0.0.0.0"
    assert tape.judged("S1").violations == []


def test_s1_a_tree_in_which_nobody_was_found_to_listen_says_nothing() -> None:
    with pytest.raises(Inconclusive, match="no TCP listener"):
        _looked().judged("S1")
    with pytest.raises(Inconclusive, match="nobody was looked at"):
        ServerTape().judged("S1")


def _at(tape: ServerTape, kind: str, mode: int) -> ServerTape:
    facts: dict[str, object] = {"target": "core-0", "mode": mode, "owner": 0, "folders": []}
    return tape.at(3.2, kind, path="/tmp/x", name="psm_1", directory=False, **facts)


@pytest.mark.parametrize("kind", ["socket-path", "segment-rights", "file-rights"])
def test_s2_what_others_may_use_is_exposed_under_umask_000(kind: str) -> None:
    assert "under umask 0o000" in _cause(_at(_looked(), kind, 0o666), "S2")
    assert _at(_looked(), kind, 0o600).judged("S2").counts == {"paths": 1}


def test_s2_a_tree_without_a_path_is_not_asked() -> None:
    with pytest.raises(Lacking):
        _looked().judged("S2")


def _visited(tape: ServerTape | None = None, ports: int = 2) -> ServerTape:
    tape = tape or _looked()
    tape.at(4, "intrude", target="front", how="listen", ports=ports, owners=["core"])
    for _ in range(ports):
        tape.at(4.5, "stranger-connected", port=4711)
    return tape.at(5, "stranger-stands", how="listen", ports=ports, uid=65534)


def test_s3_holds_where_strangers_get_nothing_and_all_are_answered() -> None:
    tape = _visited().asks(3, "whole", 6).asks(6, "open", 9)
    assert tape.judged("S3").counts == {"strangers": 1, "keys looked for": 0}
    alone = _visited(ports=0).asks(3, "whole", 6)
    assert alone.judged("S3").violations == []


def test_s3_what_was_decoded_is_told_with_the_part_that_did() -> None:
    tape = _visited().at(6, "canary", pid=102, way="raw bytes")
    assert f"{PARTS[2]} decoded what a stranger" in _cause(tape, "S3")


@pytest.mark.parametrize(
    ("way", "holds", "told"),
    [
        ("SUB socket", [], True),
        ("TCP store", [], True),
        ("raw bytes", [], False),
        ("raw bytes", [3], True),
    ],
)
def test_s3_what_only_a_peer_is_sent_or_what_holds_a_request(
    way: str, holds: list[int], told: bool
) -> None:
    facts = {"way": way, "port": 4711, "size": 9, "begin": "00", "key": "", "holds": holds}
    tape = _visited().asks(3, "whole", 6).at(6, "stranger-got", **facts)
    assert (tape.violation("S3") is not None) == told


def test_s3_a_request_that_is_lost_after_strangers_came_is_one_too_many() -> None:
    before = _visited(_looked().asks(1, "error", 3.5, status=500)).asks(3, "whole", 6)
    assert before.judged("S3").violations == []
    tape = _visited(_looked().asks(1, "error", 6, status=500))
    assert "after strangers came, 1 of 1 requests got no answer" in _cause(tape, "S3", "lost")


def test_s3_where_no_stranger_came_nothing_is_said() -> None:
    with pytest.raises(Inconclusive, match="no stranger"):
        _looked().asks(3, "whole", 6).judged("S3")
