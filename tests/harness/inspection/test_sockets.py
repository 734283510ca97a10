"""Sockets of a process, and what nobody has read."""

import os
import socket

from killpoint.inspection.processes import look, tree
from killpoint.inspection.sockets import lines


def test_listeners_connections_and_unread_bytes_are_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as client:
        port = server.getsockname()[1]
        client.connect(("127.0.0.1", port))
        other, _ = server.accept()
        path = str(tmp_path / "s")
        with other, socket.socket(socket.AF_UNIX) as unix:
            unix.bind(path)
            other.sendall(b"12345")
            text = "\n".join(lines([os.getpid()]))
        me, peer = client.getsockname()[1], port
    assert f"listening 127.0.0.1:{port}" in text
    assert f"connected 127.0.0.1:{me} → 127.0.0.1:{peer}, 5 bytes not read yet" in text
    assert path in text


def test_a_process_that_calls_itself_something_is_told_so(tmp_path):
    for pid, name, words in (
        (1, "refengine:1", b"/venv/bin/python\0-c\0import x\0"),
        (2, "python3.11", b"/venv/bin/python3.11\0engine.py\0"),
        (3, "kthreadd", b""),
    ):
        (tmp_path / str(pid)).mkdir()
        stat = f"{pid} ({name}) S 0 " + " ".join(["0"] * 17) + " 100 0"
        (tmp_path / str(pid) / "stat").write_text(stat)
        (tmp_path / str(pid) / "cmdline").write_bytes(words)
    (tmp_path / "uptime").write_text("20.00 1.00")
    told = [look(pid, tmp_path).command for pid in (1, 2, 3)]
    assert told == [
        "refengine:1 · /venv/bin/python -c import x",
        "/venv/bin/python3.11 engine.py",
        "kthreadd",
    ]


def test_a_process_is_told_with_its_state_and_age():
    found = look(os.getpid())
    assert found.state == "R"
    assert found.age >= 0
    assert tree(2**22 + 1) == []
