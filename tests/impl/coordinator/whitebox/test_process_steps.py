"""What the coordinator's two processes do, with a child or a loop that the test holds."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refengine.base import ownership
from refengine.coordinator import Coordinator, CoordinatorSettings, process
from refengine.coordinator.links import BindAddress
from refengine.errors import DeadlinePassed, PeerDied


class Child:
    """A process that does what the test says, which is little."""

    def __init__(self, *, lives: bool = False, exitcode: int | None = 0) -> None:
        self.pid: int | None = 4711
        self.exitcode = exitcode
        self.lives = lives
        self.steps: list[object] = []
        self.sentinel = os.eventfd(0 if lives else 1)

    def start(self) -> None:
        raise OSError("no process")

    def join(self, seconds: float | None = None) -> None:
        self.steps.append(seconds)

    def is_alive(self) -> bool:
        return self.lives

    def kill(self) -> None:
        self.steps.append("kill")


class Half:
    """A coordinator with such a child, and the child's end of its link."""

    def __init__(self, child: Child) -> None:
        self.made: Any = object.__new__(Coordinator)
        self.made._link, self.theirs = multiprocessing.Pipe()
        self.made._process = child
        self.made._folder = ownership.new_directory()

    def close(self) -> None:
        self.theirs.close()
        self.made._link.close()
        os.close(self.made._process.sentinel)
        ownership.remove_directory(self.made._folder)


@pytest.mark.parametrize(("lives", "steps"), [(False, [5.0]), (True, [5.0, "kill", None])])
def test_a_child_has_five_seconds_to_end_and_nothing_is_left(
    lives: bool, steps: list[object]
) -> None:
    child = Child(lives=lives)
    half = Half(child)
    half.made.close()
    assert child.steps == steps
    assert half.made._link.closed
    assert not half.made._folder.exists()
    half.close()


@pytest.mark.parametrize(
    ("exitcode", "killed"), [(-9, 9), (-1, 1), (0, None), (1, None), (None, None)]
)
def test_a_child_that_ends_too_soon_is_dead_and_of_what(
    exitcode: int | None, killed: int | None
) -> None:
    child = Child(exitcode=exitcode)
    half = Half(child)
    half.theirs.close()
    with pytest.raises(PeerDied) as caught:
        half.made._reported(5.0)
    assert (caught.value.role, caught.value.pid) == ("the coordinator", 4711)
    assert caught.value.signal == killed
    assert child.steps == [5.0]  # it hung up a moment before it is dead
    half.close()


def test_a_child_that_does_not_come_up_is_waited_for_until_the_deadline() -> None:
    half = Half(Child(lives=True))
    with pytest.raises(DeadlinePassed, match=r"waited 0\.01 s for the coordinator's process"):
        half.made._reported(0.01)
    half.close()


def test_one_that_cannot_be_started_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    child, told, links, swept = Child(), [], [], []
    child.pid = None

    class Spawning:
        def Pipe(self) -> Any:
            links.extend(multiprocessing.Pipe())
            return tuple(links)

        def Process(self, **how: Any) -> Child:
            told.append(how)
            return child

    monkeypatch.setattr(multiprocessing, "get_context", lambda _: Spawning())
    monkeypatch.setattr(ownership, "remove_stale_names", lambda: swept.append("swept"))
    with pytest.raises(OSError, match="no process"):
        Coordinator(3)
    ((how,),) = (told,)
    engines, place, settings, theirs, parent = how["args"]
    assert how["daemon"]  # it ends with its parent
    assert (engines, settings, theirs, parent) == (3, None, links[1], os.getpid())
    assert links[0].closed
    assert not Path(place.folder).exists()
    assert swept == ["swept"]
    assert inspect.signature(Coordinator).parameters["timeout"].default == 30.0
    links[1].close()
    os.close(child.sentinel)


class Turns:
    """A loop whose turns end as the test says."""

    addresses = "addresses"

    def __init__(self, *ends: list[int]) -> None:
        self.ends = list(ends)
        self.steps: list[object] = []

    def watch(self, fd: int) -> None:
        self.steps.append(fd)

    def turn(self) -> list[int]:
        self.steps.append("turn")
        return self.ends.pop(0)

    def close(self) -> None:
        self.steps.append("close")


class Link:
    """The child's end."""

    def __init__(self) -> None:
        self.sent: list[object] = []

    def send(self, what: object) -> None:
        self.sent.append(what)

    def fileno(self) -> int:
        return 99


@pytest.fixture
def restored() -> Iterator[None]:
    """What the child sets of its process, as it was."""
    name, mask = Path("/proc/self/comm").read_text(), os.umask(0o022)
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)
    os.umask(mask)
    Path("/proc/self/comm").write_text(name)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("ends", "moved", "turns"),
    [
        ([[], [], [99]], 0, 3),
        ([[99]], 0, 1),
        ([[], []], 1, 1),
        ([], 0, 1),  # a turn that raises
    ],
)
def test_the_child_turns_until_its_parent_lets_go_or_is_another(
    ends: list[list[int]], moved: int, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, link = Turns(*ends), Link()
    told: list[object] = []
    monkeypatch.setattr(process, "CoordinatorServer", lambda *args: told.append(args) or loop)
    place, settings = BindAddress(str(ownership.new_directory())), CoordinatorSettings()
    child: Any = link
    try:
        process._serve(2, place, settings, child, os.getppid() + moved)
    except IndexError:
        assert not ends
    assert told == [(2, place, settings)]
    assert link.sent == ["addresses"]
    assert loop.steps == [99, *["turn"] * turns, "close"]
    assert not Path(place.folder).exists()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    assert Path("/proc/self/comm").read_text() == "refengine:coord\n"
    assert os.umask(0o022) == 0o077
