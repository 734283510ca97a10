"""Who is who: a process's title, and whose a line of output is."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from refengine.executor import process

from ..roles import Role


class Stream:
    """A stream without a buffer: each write is seen."""

    encoding = "klingon"

    def __init__(self) -> None:
        self.did: list[str] = []

    def write(self, text: str) -> None:
        self.did.append(text)

    def flush(self) -> None:
        self.did.append("flush")


@pytest.fixture
def two() -> Any:
    stream: Any = Stream()
    return stream.did, process._PrefixedStream(stream, "> ")


def test_a_line_goes_on_whole_however_it_was_written(two):
    did, stream = two
    print("one", 2, file=stream)
    assert did == ["> one 2\n"]
    assert stream.write("three\n\nfour\nfi") == 14
    assert did[1:] == ["> three\n\n> four\n"]
    stream.writelines(["ve", "\n"])
    assert did[2:] == ["> five\n"]
    assert stream.encoding == "klingon"


def test_what_is_flushed_goes_on_at_once_and_its_line_begins_once(two):
    did, stream = two
    stream.write("50 %")
    assert did == []
    stream.flush()
    stream.write(" 100 %")
    stream.flush()
    stream.flush()
    stream.write("\nnext\n")
    assert did == ["> 50 %", "flush", " 100 %", "flush", "flush", "\n> next\n"]
    stream.write("a")
    stream.flush()
    stream.write("b\nc")
    stream.flush()
    assert did[6:] == ["> a", "flush", "b\n", "> c", "flush"]


def test_both_streams_of_a_worker_are_marked_and_the_process_has_a_title():
    def child(say: Any) -> None:
        sys.stdout, sys.stderr = Stream(), Stream()
        out, err = sys.stdout, sys.stderr
        process.prefix_output(3)
        print("one")
        print("two", file=sys.stderr)
        process.set_title(12)
        say([out.did, err.did, os.getpid(), Path("/proc/self/comm").read_text()])
        process.set_title(123456)
        say(Path("/proc/self/comm").read_text())
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__

    with Role(child) as role:
        out, err, pid, title = role.hear()
        assert out == [f"(worker 3 pid {pid}) one\n"]
        assert err == [f"(worker 3 pid {pid}) two\n"]
        assert title == "refengine:12\n"
        assert role.hear() == "refengine:12345\n"
