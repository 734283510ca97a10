"""The unmutated run: how long each test takes, and which statements it touches."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from mechanical.changes import Change
from mechanical.footprint import Floor
from mechanical.job_processes import Ended, JobProcesses
from mechanical.planting import plant
from mechanical.session import Teller, run

_PATIENCE = 120.0
"""Seconds for one test, or for what is around them: nothing is known of them yet."""


class Trace(msgspec.Struct):
    """One test of the control run."""

    seconds: float
    touched: frozenset[tuple[str, int]]

    def reaches(self, change: Change) -> bool:
        """Whether it touches the change's file at all."""
        return any(file == change.file for file, _ in self.touched)


def _file(test: str) -> str:
    return test.partition("::")[0]


class Control(msgspec.Struct):
    """What the tests do when nothing is wrong."""

    tests: dict[str, Trace] = {}
    broken: list[str] = []
    """Tests that fail already: they can tell nothing, and are left out."""
    imported: frozenset[tuple[str, int]] = frozenset()
    """Statements that run when a module is imported, whatever the test."""
    modules: list[str] = []
    """Third parties' modules that the tests import."""

    def tests_for(self, change: Change) -> list[str]:
        """The tests that touch a change's statement, the fastest first.

        One that runs at import may show in any test beside one that touches its file; in any at
        all, if nothing of that file runs later.
        """
        place = change.file, change.line
        found = {name for name, trace in self.tests.items() if place in trace.touched}
        if place in self.imported:  # by some; a test that imports it late touches it, too
            files = {_file(name) for name, trace in self.tests.items() if trace.reaches(change)}
            found |= {name for name in self.tests if not files or _file(name) in files}
        return sorted(found, key=lambda name: (self.tests[name].seconds, name))


class Part(msgspec.Struct):
    """What one test file adds to the control."""

    tests: dict[str, Trace] = {}
    broken: list[str] = []
    imported: frozenset[tuple[str, int]] = frozenset()
    modules: list[str] = []


def measure(root: Path, files: Sequence[str], jobs: int) -> Iterator[tuple[str, Part]]:
    """Run every test of these files once, each file in a child of its own."""

    def work(file: str, out: int) -> None:
        floor = Floor()
        floor.lay()
        plant(floor.marked)
        teller = Teller(out, None, floor)
        run(teller, root, [file], to_the_end=True)
        teller.end()

    # Tests of a fabric wait more than they compute.
    for file, ended in JobProcesses(work, lambda *_: _PATIENCE, 2 * jobs).run(files):
        yield file, _part(file, ended)


def _part(file: str, ended: Ended) -> Part:
    part = Part()
    for line in ended.told:
        if line["did"] == "import":
            part.imported = places(line["touched"])
        elif line["did"] == "end" and not line["failed"]:
            part.tests[line["test"]] = Trace(line["seconds"], places(line["touched"]))
        elif line["did"] == "end":
            part.broken.append(f"{line['test']}: {line['why']}")
        elif line["did"] == "broke":
            raise RuntimeError(f"{file} could not be run: {line['why']}")
        elif line["did"] == "all":
            part.modules = line["modules"]
    if not ended.whole:
        part.broken.append(f"{file}: {ended.overdue or 'its process died'}")
    return part


def places(touched: Iterable[Sequence[str | int]]) -> frozenset[tuple[str, int]]:
    """(file, line) pairs, as JSON cannot tell them from lists."""
    return frozenset((str(file), int(line)) for file, line in touched)


def test_files(root: Path, paths: Sequence[str]) -> list[str]:
    """The test files at or below the paths, as pytest is told them."""
    found: list[Path] = []
    for path in paths:
        whole = root / path.partition("::")[0]
        found += sorted(whole.rglob("test_*.py")) if whole.is_dir() else [whole]
    return [str(path.relative_to(root)) for path in found]


def digest(paths: Iterable[Path]) -> str:
    """Changes whenever one of the files does, or a Python file below one of the folders."""
    sums = hashlib.sha256()
    for path in paths:
        for found in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            sums.update(str(found).encode() + b"\0" + found.read_bytes() + b"\0")
    return sums.hexdigest()[:16]


def remembered(root: Path, package: Path, paths: Sequence[str], jobs: int) -> Control:
    """The control; of test files that have not changed since the last time, from then.

    Nothing is remembered if the package has changed, or what test files share.
    """
    files = test_files(root, paths)
    shared = {path for file in files for path in (root / file).parent.glob("*.py")}
    shared -= {root / file for file in files}
    key = digest([package, *sorted(shared)])
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "killpoint"
    kept = {file: home / "mutation" / f"{key}-{digest([root / file])}.json" for file in files}
    fresh = [file for file in files if not kept[file].exists()]
    for file, part in measure(root, fresh, jobs):
        kept[file].parent.mkdir(parents=True, exist_ok=True)
        draft = kept[file].with_suffix(f".{os.getpid()}")
        draft.write_bytes(msgspec.json.encode(part))
        draft.rename(kept[file])
    return together(msgspec.json.decode(kept[file].read_bytes(), type=Part) for file in files)


def together(parts: Iterable[Part]) -> Control:
    """The control that these parts make up."""
    control = Control()
    modules: set[str] = set()
    for part in parts:
        control.tests |= part.tests
        control.broken += part.broken
        control.imported |= part.imported
        modules |= {*part.modules}
    control.modules = sorted(modules)
    return control
