"""A look in a file: it is read elsewhere, says the same, and holds no secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from killpoint.cli import main
from killpoint.errors import BadUsage
from killpoint.inspection import bundle
from killpoint.inspection.bundle import plain
from killpoint.inspection.model import Culprit, Edge, Picture, Process, Ring, Slot, Thread

SECRETS = ("s3cr3tvalue", "sk-abcdefgh12345678", "hunter2", "Tell me about", "10.1.2.3", "alice")


def _picture() -> Picture:
    command = "vllm serve --api-key s3cr3tvalue --prompt 'Tell me about' --port 8000"
    thread = Thread(
        "MainThread",
        ("wait (/home/alice/engine.py:7)", "run (threading.py:982)"),
        "wait (/home/alice/engine.py:7)",
        "socket",
        10,
        line='key = "hunter2"',
    )
    worker = Process(11, 10, "VLLM::Worker", "T", 3.0, ())
    ring = Ring("psm_1", "vllm", 1, (Slot(0, True, (0,), 4),), (10, 11), 10, {0: 11})
    why = "reads a socket to 10.1.2.3, with Authorization: Bearer sk-abcdefgh12345678"
    edge = Edge(10, 11, why)
    culprit = Culprit(11, "pid 11 (VLLM::Worker) is stopped by a signal", (10,))
    return Picture(
        10, (Process(10, 1, command, "S", 9.5, (thread,)), worker), (ring,), (), (edge,), (culprit,)
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("python -m vllm serve --hf-token hf_abc -tp 2", "python -m vllm serve --hf-token … -tp …"),
        ("serve --api-key=abc --x", "serve --api-key=… --x"),
        ("at VLLM_API_KEY=abc", "at …"),
        ("https://me:pw@host/x", "https://…@host/x"),
        ("/home/alice/a.py and /root/b.py", "~/a.py and ~/b.py"),
        ("to 10.0.0.7:80, from 127.0.0.1:90", "to …:80, from 127.0.0.1:90"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJz", "token …"),
        ("0123456789abcdef0123456789abcdef", "…"),
        ("EngineCoreProc._process_input_queue (vllm/v1/engine/core.py:1588)", ""),
        ("vllm-0.33.0+cpu-kernels-0.32.0 waits", ""),
        ("pid 12 waits for pid 13: a message in psm_4593c76f", ""),
    ],
)
def test_what_may_be_secret_is_taken_out_and_what_tells_of_a_hang_is_not(
    text: str, told: str
) -> None:
    assert plain(text) == (told or text)


def test_no_secret_is_in_the_file_which_is_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "look.json"
    bundle.write(bundle.bundle(_picture()), file)
    text = file.read_text("utf-8")
    assert [secret for secret in SECRETS if secret in text] == []
    assert file.stat().st_mode & 0o777 == 0o600
    again = bundle.read(file).picture
    assert again.culprits == _picture().culprits
    assert again.processes[0].command == "vllm serve --api-key … --prompt … --port …"
    assert again.processes[0].threads[0].at == "wait (~/engine.py:7)"
    assert again.rings == _picture().rings


def test_what_could_not_be_seen_there_is_said_with_what_it_takes() -> None:
    (told,) = bundle.bundle(_picture()).missing
    assert told.startswith("Python stacks: pid 11 have none of their readable stacks")
    assert "CAP_SYS_PTRACE" in told
    seen = msgspec.structs.replace(_picture(), processes=_picture().processes[:1])
    assert bundle.bundle(seen).missing == ()


def test_a_file_that_is_none_or_of_a_later_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "look.json"
    with pytest.raises(BadUsage, match="cannot be read"):
        bundle.read(file)
    file.write_text("{}")
    with pytest.raises(BadUsage, match="no bundle of inspect --bundle"):
        bundle.read(file)
    later = msgspec.structs.replace(bundle.bundle(_picture()), schema=99, killpoint="9.9")
    file.write_bytes(msgspec.json.encode(later))
    with pytest.raises(BadUsage, match=r"schema is 99.*made by killpoint 9\.9"):
        bundle.read(file)


def test_read_elsewhere_it_names_the_same_culprit_with_the_same_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = "import os, signal, sys; os.kill(os.getpid(), signal.SIGSTOP)"
    stopped = subprocess.Popen([sys.executable, "-c", program, "--api-key", "s3cr3tvalue"])
    os.waitid(os.P_PID, stopped.pid, os.WSTOPPED | os.WNOWAIT)
    file = tmp_path / "look.json"
    try:
        assert main(["inspect", str(stopped.pid), "--bundle", str(file)]) == 1
        here = capsys.readouterr()
        waited = tmp_path / "hang.json"
        asked = ["inspect", str(stopped.pid), "--watch", "--bundle-on-hang", str(waited)]
        assert main(asked) == 1
    finally:
        stopped.kill()
        stopped.wait()
    capsys.readouterr()
    assert f"killpoint inspect {file}" in here.err
    assert main(["inspect", str(file)]) == 1
    there = capsys.readouterr().out
    blamed = next(line for line in here.out.splitlines() if line.startswith("everybody waits for"))
    assert plain(blamed) in there
    assert there.startswith("a bundle of killpoint ")
    assert "s3cr3tvalue" not in file.read_text("utf-8")
    assert main(["inspect", str(waited)]) == 1


@pytest.mark.parametrize(
    "asked", [["1", "--bundle-on-hang", "x"], ["x.json", "--watch"], ["x.json", "--bundle", "y"]]
)
def test_options_that_do_not_go_together_are_bad_usage(asked: list[str]) -> None:
    assert main(["inspect", *asked]) == 2
