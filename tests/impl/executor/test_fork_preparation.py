"""What is done once before a worker is forked, and what it leaves behind (W9)."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from refengine.executor import Zygote, fork_server, process, start_methods, worker
from refengine.executor.process import link_pair

from .whitebox.test_fork_server_steps import forks  # noqa: F401  a fixture

NOTES = """
import json, os, pathlib, sys, types
link, death = map(int, sys.argv[2:4])
notes = {
    "inheritable": [os.get_inheritable(fd) for fd in (link, death)],
    "threads": [os.environ[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS", "MKL")],
    "group": os.getpgid(0) == os.getpid(),
}
def set_num_threads(count):
    notes["torch"] = count
    path = pathlib.Path(__file__).with_suffix(".new")
    path.write_text(json.dumps(notes))
    path.rename(path.with_suffix(".json"))
sys.modules["torch"] = types.SimpleNamespace(set_num_threads=set_num_threads)
"""


def test_a_zygote_imports_with_one_thread_and_hands_nothing_on(forks, tmp_path, monkeypatch):  # noqa: F811  the fixture
    (tmp_path / "notes_it.py").write_text(NOTES)
    monkeypatch.syspath_prepend(tmp_path)
    did = tmp_path / "did"

    def note(word: str) -> None:
        with did.open("a") as notes:
            notes.write(word)

    monkeypatch.setattr(
        fork_server,
        "gc",
        SimpleNamespace(
            disable=lambda: note("off"),
            collect=lambda: note(", collected"),
            freeze=lambda: note(", frozen"),
            enable=lambda: note(", on"),
        ),
    )
    made = Zygote(("notes_it",))
    made.warm(20.0)
    made.close()
    assert json.loads((tmp_path / "notes_it.json").read_text()) == {
        "inheritable": [False, False],
        "threads": ["1", "1", "1"],
        "group": True,
        "torch": 1,
    }
    assert did.read_text() == "off, collected, frozen, on"


def test_unwritten_text_is_written_before_a_fork_and_not_twice(monkeypatch):
    did: list[Any] = []

    class Stream:
        def __init__(self, name: str) -> None:
            self.name = name

        def flush(self) -> None:
            did.append(self.name)
            raise ValueError("I/O operation on closed file")

    def fork() -> int:
        did.append("fork")
        return 4711

    monkeypatch.setattr(sys, "stdout", Stream("out"))
    monkeypatch.setattr(sys, "stderr", Stream("err"))
    monkeypatch.setattr(start_methods.os, "fork", fork)
    monkeypatch.setattr(start_methods, "ChildProcess", lambda pid: ("process", pid))
    link: Any = None
    found = start_methods.fork(link, "worker-0")
    monkeypatch.undo()
    assert found == ("process", 4711)
    assert did == ["out", "err", "fork"]


@pytest.mark.parametrize("of", ["fork", "zygote"])
def test_a_forked_worker_begins_with_nothing_of_its_parents(of, monkeypatch):
    did: list[Any] = []
    for module in (start_methods, fork_server):
        monkeypatch.setattr(module, "drop_parent_exit_handlers", lambda: did.append("begin"))
    for module in (start_methods, worker):
        monkeypatch.setattr(module, "worker_main", lambda link: did.append(link) or 6)
    monkeypatch.setattr(start_methods, "close_inherited", did.append)
    ours, theirs = link_pair()
    if of == "fork":
        status = start_methods._run_forked(theirs)
    else:
        status = fork_server._run(fork_server._WORKER, theirs)
    assert status == 6
    close_inherited = [{theirs.fileno()}] if of == "fork" else []
    assert did == ["begin", *close_inherited, theirs]
    ours.close()
    theirs.close()


def test_the_parents_own_exit_is_none_of_its_childrens_business(monkeypatch):
    did: list[str] = []
    registry: dict[Any, Any] = {"a": "finalizer"}
    fake = SimpleNamespace(
        _finalizer_registry=registry, _run_after_forkers=lambda: did.append("forkers")
    )
    monkeypatch.setattr(process, "_util", fake)
    process.drop_parent_exit_handlers()
    assert (registry, did) == ({}, ["forkers"])
