"""One bug, one signature: what a play draws anew is no part of it, and all else is."""

from __future__ import annotations

import pytest

from killpoint.signature import normalised, signature

_HANG = (
    "reader-0 still waited in receive after 4.0 s in MessageQueue.recv (…/shm_broadcast.py:1016): "
    "it waits for writer, dead by signal 9 at shm_broadcast.py:796 in acquire_write; the slot says "
    "that the overflow payload of message 2 follows, and it never left the writer"
)


def _same(one: str, other: str) -> bool:
    return signature("Q6/x", "hang", one) == signature("Q6/x", "hang", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_HANG, _HANG.replace("4.0 s", "11.37 s").replace("reader-0", "reader-1")),
        (_HANG, _HANG.replace(":1016", ":988").replace("…/", "/opt/v/vllm/distributed/")),
        (_HANG, _HANG.replace("message 2 ", "message 10 002 ")),
        (
            "left process 9933 /usr/bin/python3 -m engine --fd 7, alive",
            "left process 41 /home/me/.venv/bin/python -m engine --fd 12, alive",
        ),
        ("left shared-memory segment psm_8e582983", "left shared-memory segment psm_aa5829ff"),
        (
            "left shared-memory segment psm_8e582983",
            "left shared-memory segment psm_01234567, psm_aa5829ff, psm_76543210",
        ),
        (
            "a stranger was let in at tcp://127.0.0.1:40123 (pid 3312)",
            "a stranger was let in at tcp://[::1]:5 (pid 8)",
        ),
        (
            "1 message sent by two threads never reached reader-1",
            "17 messages sent by two threads never reached reader-0",
        ),
        (
            "engine-1 waits for engine-0 in an all-reduce of wave 3",
            "engine-0 waits for engine-1, engine-2 in an all-reduce of wave 11",
        ),
        (
            "request 0a1b2c3d-0000-4b4b-9c9c-0123456789ab failed at <object at 0x7f12ab>",
            "request 9a1b2c3d-1111-4b4b-9c9c-0123456789ab failed at <object at 0x55ee>",
        ),
        ("temporary file kp/ipc-3f2a", "temporary file kp/ipc-77"),
        ("it took 1e-05 s", "it took 2.5 s"),
    ],
)
def test_numbers_pids_times_paths_and_drawn_names_are_no_part_of_it(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert _same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (_HANG, _HANG.replace("signal 9", "signal 11")),
        (_HANG, _HANG.replace("acquire_write", "acquire_read")),
        (_HANG, _HANG.replace("at shm_broadcast.py", "at utils.py")),
        (_HANG, _HANG.replace("reader-0", "worker-0")),
        ("a tensor of int8 differs", "a tensor of int4 differs"),
        ("a tensor of float8_e4m3fn differs", "a tensor of float8_e5m2 differs"),
        ("writer ended with status 70", "writer ended with status 1"),
    ],
)
def test_who_where_and_by_what_is_part_of_it(one: str, other: str) -> None:
    assert not _same(one, other)


def test_case_and_kind_are_part_of_it_and_legible() -> None:
    name, kind, digest = signature("Q6/writer-dies", "hang", _HANG).split(":")
    assert (name, kind, len(digest)) == ("Q6/writer-dies", "hang", 10)


@pytest.mark.parametrize("cause", ["", "\0", "signal 9 \0", "\ud800", "N " * 9])
def test_any_text_has_one(cause: str) -> None:
    assert _same(cause, cause)


def test_a_signature_stays_the_same_for_ever() -> None:
    """Files of known failures keep them: a change of the rules is a change of those files."""
    assert signature("Q6/x", "hang", _HANG) == "Q6/x:hang:f753a3e55d"
