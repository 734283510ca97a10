"""What a change touches, and what is asked first for that."""

from __future__ import annotations

from pathlib import Path

from killpoint.cases import CASES
from killpoint.findings.attribution import entries_of
from killpoint.review.change import ChangedFile, changed, sources
from killpoint.review.order import in_order, system_of

_QUEUE = "vllm/distributed/device_communicators/shm_broadcast.py"
_TEXT = """
class MessageQueue:
    def enqueue(self): return 1
    def dequeue(self):
        def inner(): return 2
        return inner
    def create_from_handle(self): pass
"""


def _tree(root: Path, **files: str) -> str:
    for name, text in {_QUEUE: _TEXT, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return f"vllm@{root}"


def test_code_is_compared_and_not_text(tmp_path: Path):
    one = sources(_tree(tmp_path / "a"))
    text = f"# moved\n\n{_TEXT.replace('return 1', 'return  1')}"
    other = sources(_tree(tmp_path / "b", **{_QUEUE: text, "vllm/sampler.py": "x = 1\n"}))
    assert changed(one, other) == []


def test_a_change_is_told_by_its_innermost_function(tmp_path: Path):
    one = sources(_tree(tmp_path / "a"))
    text = _TEXT.replace("return 2", "return 3") + "    def close(self): pass\n"
    other = sources(_tree(tmp_path / "b", **{_QUEUE: text, "vllm/envs.py": "x = 1\n"}))
    file = _QUEUE.removeprefix("vllm/")
    names = ["MessageQueue.close", "MessageQueue.dequeue.inner"]
    assert changed(one, other) == [ChangedFile(file, names), ChangedFile("envs.py", [])]


def test_exhibits_of_what_changed_are_asked_first_then_its_systems():
    change = ChangedFile("distributed/utils.py", ["StatelessProcessGroup.barrier"])
    order = in_order(CASES, [change], entries_of("vllm@tree"))
    assert {case.id for case in order} == {case.id for case in CASES}
    ids = [case.id for case in order]
    known = [e for e in entries_of("vllm@x") if e.place.file == change.file]
    of_function = {e.exhibit for e in known if e.place.function in change.functions}
    assert set(ids[: len(of_function)]) == of_function > {"G4/host-killed-in-any-call"}
    of_file = {e.exhibit for e in known}
    assert set(ids[: len(of_file)]) == of_file
    systems = [system_of(case) for case in order[len(of_file) :]]
    group, pipe = systems.count("group"), systems.count("pipe")
    assert set(systems[:group]) == {"group"}
    assert set(systems[group : group + pipe]) == {"pipe"}


def test_every_case_but_those_of_whole_engines_has_a_system():
    whole = {"engine", "server"}
    rest = [case for case in CASES if not system_of(case) and not whole & case.needs]
    assert {case.invariant[0] for case in rest} <= {"S", "L"}


def test_every_file_of_a_finding_is_of_a_system():
    from killpoint.review.order import SYSTEMS, systems_of

    for entry in entries_of("vllm@tree"):
        assert systems_of(ChangedFile(entry.place.file, [])) != SYSTEMS, entry.place.file
