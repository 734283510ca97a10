"""Stage: plays scenarios one after another on real processes, each in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from killpoint import ledger as books
from killpoint.errors import CannotWork
from killpoint.extras import installed, lacking
from killpoint.history.log import Log
from killpoint.history.record import History
from killpoint.ledger import Ledger
from killpoint.points.target_lines import LineMap
from killpoint.runner import play_lock
from killpoint.runner.environment.private_shm import PrivateShm
from killpoint.runner.hang_detection import Stalled
from killpoint.runner.network.netns import Hosts
from killpoint.runner.observe import accelerators
from killpoint.runner.processes import remote_call
from killpoint.runner.processes.zygote_client import Zygote, ZygoteSource
from killpoint.runner.protocol import ForkRole
from killpoint.runner.scenario_runner import ScenarioRunner, prefork_modules
from killpoint.scenario import Count, Fault, Message, Scenario
from killpoint.systems.base import OwnPlayer, Player
from killpoint.systems.registry import own_player_of, system_of
from killpoint.targets.shapes import QueueShape

_LEFT_WITHIN = 5.0
"""Seconds of L1's grace. Once no process is left nothing can disappear by itself: no wait is
needed."""
_LONG = 5.0
"""Prescribed seconds from which on a play is long: most last a second or two."""


_STRIKES = ("raise", "interrupt")
"""Faults that are exceptions in a role."""
_FITS = QueueShape(readers=1, chunk_bytes=4096, chunks=4)
"""Shape of the next start's queue where the play's /dev/shm may have been too small for its own."""


class Play(msgspec.Struct):
    """A scenario as it was played: the record that checkers judge."""

    scenario: Scenario
    history: History
    ledger: Ledger
    unreached: list[str]
    """Faults whose point was not reached: the play says nothing of what they aim at."""
    stalled: str
    """Reason why the harness could not play it to the end, empty if it did."""
    folder: Path
    seconds: float
    unable: str = ""
    """Resource that the scenario needs and this machine does not permit; empty as a rule."""
    shared: bool = False
    """True if the same play was returned before, to be judged by another invariant."""
    provisional: bool = False
    """True if the target was started otherwise than its users start it."""
    alone: bool = False
    """True for a server's play that started it as its users do, with no other play on the machine:
    no further play is needed to confirm its violations."""
    lines: dict[str, list[int]] | None = None
    """Lines of the target's own files that it has run, by the file's path in the package; None if
    no role recorded them."""


class Stage:
    """Zygote of one target, and its plays. Use as a context manager."""

    def __init__(self, spec: str, source: ZygoteSource | None = None) -> None:
        """Start the zygote of a resolved target; ``source``: of which it is a copy.

        Raises:
            BadUsage, CannotWork: see :class:`Zygote`.
        """
        self.spec = spec
        try:
            self.root = Path(tempfile.mkdtemp(prefix="kp-", dir="/tmp"))
        except OSError as error:
            raise CannotWork(f"no place for the plays: {error}") from error
        self._count = 0
        self._shared: dict[tuple[bytes, bool], list[Play]] = {}
        """Plays that several invariants judge, by the system's key of the scenario, and whether
        alone."""
        self._asked: Counter[tuple[bytes, bool, str]] = Counter()
        """Number of them that each case was given."""
        self._players: dict[str, Player] = {}
        self.confirmed: set[str] = set()
        """See :class:`killpoint.search.case_run.PlaysAlone`."""
        self._alone: bool | None = None
        """Whether nobody plays beside; None: nothing is kept from doing so."""
        self._abandoned = False
        self._with: dict[tuple[str, ...], Zygote] = {}
        """Zygotes whose roles find further modules imported."""
        self._source = source
        self._lines: LineMap | None = None
        try:
            self.zygote = source.copy(self.root) if source else Zygote(spec, self.root)
        except BaseException:
            shutil.rmtree(self.root, ignore_errors=True)
            raise

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def abandon(self) -> None:
        """End a play that runs in another thread, with all that it started, and begin no other.

        Whoever waits for it, or asks for one more, is interrupted.
        """
        self._abandoned = True
        for player in list(self._players.values()):
            player.abandon()

    def close(self) -> None:
        """End the zygote and remove every play's folder."""
        for player in self._players.values():
            player.close()
        for zygote in self._with.values():
            zygote.close()
        self.zygote.close()
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def files(self) -> dict[str, str]:
        """Paths of the target's own files, by their path in its package."""
        return self.zygote.loaded.files

    @property
    def lines(self) -> LineMap:
        """Map of the lines of the target's own files."""
        if self._lines is None:
            self._lines = LineMap(self.files)
        return self._lines

    def play(self, scenario: Scenario) -> Play:
        """Play a scenario to its end, check what it left, then clean up.

        Raises:
            CannotWork: the machine has no room for its record.
            KeyboardInterrupt: the stage was abandoned.
        """
        system = own_player_of(scenario)
        if system is not None:
            return self._play_shared(system, scenario)
        with self._beside_others(scenario):
            return self._play(scenario)

    def play_recorded(self, scenario: Scenario) -> Play:
        """Do the same, and have its roles record which lines of the target's own files they run.

        Nothing is recorded of a play with a placed fault, whose roles are traced for its point, and
        of one that a system plays itself.

        Raises:
            CannotWork, KeyboardInterrupt: see :meth:`play`.
        """
        if own_player_of(scenario) is not None or _is_traced(scenario):
            return self.play(scenario)
        with self._beside_others(scenario):
            return self._play(scenario, self.lines)

    def _beside_others(self, scenario: Scenario) -> AbstractContextManager[object]:
        """Hold the lock for one play; that of plays alone serves it too."""
        if self._alone is not None:
            return contextlib.nullcontext()
        long = scenario.prescribed() >= _LONG
        return play_lock.beside_others(long=long, go_on=self._raise_if_abandoned)

    @contextmanager
    def without_others(self) -> Generator[None]:
        """Have no other play of this user's beside those that are played alone within.

        Raises:
            CannotWork: the folder of the lock cannot be used.
            KeyboardInterrupt: the stage was abandoned.
        """
        with play_lock.alone(go_on=self._raise_if_abandoned) as alone:
            self._alone = alone
            try:
                yield
            finally:
                self._alone = None

    def play_alone(self, scenario: Scenario) -> Play:
        """Play a scenario with no other play of this user's beside it on the machine.

        The play is stalled, and judges nothing, where the others do not end.

        Raises:
            CannotWork: the machine has no room for its record.
        """
        system = own_player_of(scenario)
        if system is not None:
            return self._play_shared(system, scenario, alone=True)
        with self.without_others() if self._alone is None else contextlib.nullcontext():
            alone = self._alone
            play = self._play(scenario)
        if not alone:
            play.stalled = play.stalled or "other plays on this machine did not end"
        return play

    def _raise_if_abandoned(self) -> None:
        if self._abandoned:
            raise KeyboardInterrupt

    def _play_shared(self, system: OwnPlayer, scenario: Scenario, *, alone: bool = False) -> Play:
        """Play it while no other server is played, or return an earlier play of the same key.

        A case that asks once more gets another play, or one that another case has got.
        """
        if declined := self._player(system).declines(scenario):
            return self._declined(scenario, declined)
        alone = alone or system.as_users(scenario)
        key = system.key(scenario), alone
        given = self._asked[*key, scenario.case]
        self._asked[*key, scenario.case] += 1
        known = self._shared.setdefault(key, [])
        if given < len(known):
            return msgspec.structs.replace(known[given], scenario=scenario, shared=True)
        go_on = self._raise_if_abandoned
        if alone:
            beside = play_lock.alone(go_on=go_on)
        else:
            beside = play_lock.beside_others(long=True, go_on=go_on)
        with play_lock.one_server(go_on=go_on) as first, beside as undisturbed:
            play = self._play_by(system, scenario, ordinary=alone)
        if not (first and undisturbed):
            play.stalled = play.stalled or "other plays on this machine did not end"
        play.alone = alone
        known.append(play)
        return play

    def _play_by(self, system: OwnPlayer, scenario: Scenario, *, ordinary: bool) -> Play:
        began = time.monotonic()
        self._count += 1
        folder = self.root / str(self._count)
        try:
            (folder / "t").mkdir(parents=True, mode=0o700)
            played = self._player(system).play(scenario, folder, ordinary=ordinary)
            history = History.read(folder)
        except OSError as error:
            raise CannotWork(f"cannot keep the record of a play: {error}") from error
        seconds = time.monotonic() - began
        told = played.ledger, played.unreached, played.stalled
        unable = next((event.text("error") for event in history.of("unable")), "")
        return Play(
            scenario, history, *told, folder, seconds, unable, provisional=played.provisional
        )

    def _player(self, system: OwnPlayer) -> Player:
        if system.name not in self._players:
            self._players[system.name] = system.player(self.spec, self.root)
        player = self._players[system.name]
        if self._abandoned:
            player.abandon()
        return player

    def _declined(self, scenario: Scenario, why: str) -> Play:
        """Return a play in which nothing was played, with the reason."""
        self._count += 1
        folder = self.root / str(self._count)
        try:
            folder.mkdir()
            log = Log(folder / "driver.jsonl", "driver")
            log.write("lacking", error=why)
            log.close()
            return Play(scenario, History.read(folder), Ledger(), [], "", folder, 0.0)
        except OSError as error:
            raise CannotWork(f"cannot keep the record of a play: {error}") from error

    def _play(self, scenario: Scenario, lines: LineMap | None = None) -> Play:
        if not installed("torch") and _is_of_tensors(scenario):
            unable = lacking("torch", "reference")
            return msgspec.structs.replace(self._declined(scenario, unable), unable=unable)
        began = time.monotonic()
        self._count += 1
        folder = self.root / str(self._count)
        shm: PrivateShm | None = None
        hosts: Hosts | None = None
        zygote = self._zygote_for(scenario)
        on_gpu = accelerators.used() if scenario.device == "cuda" else {}
        try:
            (folder / "t").mkdir(parents=True, mode=0o700)
            if lines is not None:
                lines.lay(folder)
            if scenario.shm_bytes is not None:
                shm = PrivateShm(zygote, folder, scenario.shm_bytes)
            if scenario.namespaces:
                hosts = Hosts(zygote, folder, scenario.connecting())
            try:
                stalled, unreached = self._run(zygote, scenario, folder, shm, hosts)
            except KeyboardInterrupt:
                _clear(zygote, folder, shm, hosts)
                raise
            history = History.read(folder)
            left = _settle_accounts(zygote, history, folder, shm, hosts)
            left.gpu_bytes = accelerators.kept(on_gpu, _LEFT_WITHIN) if on_gpu else 0
            ran = lines.read(folder) if lines is not None else None
        except OSError as error:
            raise CannotWork(f"cannot keep the record of a play: {error}") from error
        finally:
            for own in (shm, hosts):
                if own is not None:
                    own.close()
        seconds = time.monotonic() - began
        unable = hosts.refused if hosts is not None else ""
        unable = unable or next((event.text("error") for event in history.of("unable")), "")
        told = unreached, stalled, folder, seconds, unable
        return Play(scenario, history, left, *told, lines=ran)

    def call(self, function: str, data: bytes, within: float) -> bytes:
        """Call a function where the target is loaded, in its own process: ``remote_call.Call``.

        Raises:
            CannotWork: it ended without an answer, or returned none in that many seconds.
        """
        self._count += 1
        folder = self.root / str(self._count)
        try:
            folder.mkdir(mode=0o700)
            call = msgspec.msgpack.encode(remote_call.Call(function, data))
            order = ForkRole("remote-call", str(folder), start=remote_call.CALLED, request=call)
            pid = self.zygote.fork(order)
            if not self._ends(pid, within):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._ends(pid, 10.0)
                raise CannotWork(f"{function} gave no answer in {within:.0f} s (pid {pid})")
            answer = remote_call.answer(folder)
            if answer is not None:
                return answer
            said = (folder / "remote-call.err").read_text("utf-8", "replace").strip()
            raise CannotWork(f"{function} failed: {(said.splitlines() or ['no word'])[-1]}")
        except OSError as error:
            raise CannotWork(f"cannot keep what {function} says: {error}") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _ends(self, pid: int, within: float) -> bool:
        """Return whether a process of the zygote's has ended in that time."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            if any(each.pid == pid for each in self.zygote.exits()):
                return True
            self.zygote.pause(0.2)
        return False

    def _zygote_for(self, scenario: Scenario) -> Zygote:
        """Return the zygote whose roles find their imports, with as few others as possible."""
        loaded = self.zygote.loaded
        needed = prefork_modules(scenario, loaded)
        if not loaded.torch and installed("torch") and _needs_torch(scenario):
            needed = ["torch", *needed]
        if not needed:
            return self.zygote
        key = tuple(needed)
        if key not in self._with:
            if self._source is not None:
                self._with[key] = self._source.copy(self.root, key)
            else:
                self._with[key] = Zygote(self.spec, self.root, key, of=self.zygote)
        return self._with[key]

    def _run(
        self,
        zygote: Zygote,
        scenario: Scenario,
        folder: Path,
        shm: PrivateShm | None,
        hosts: Hosts | None,
    ) -> tuple[str, list[str]]:
        for own in (shm, hosts):
            if own is not None and own.refused:
                return own.refused, []
        keeper = shm.pid if shm is not None else 0
        stalled, unreached = self._direct(zygote, scenario, folder, keeper, hosts)
        if scenario.restart and not stalled:
            again = msgspec.structs.replace(scenario, steps=[*system_of(scenario).next_start])
            if shm is not None:
                again = msgspec.structs.replace(again, shape=_FITS)
            stalled, _ = self._direct(zygote, again, folder, keeper, hosts)
        return stalled, unreached

    def _direct(
        self, zygote: Zygote, scenario: Scenario, folder: Path, keeper: int, hosts: Hosts | None
    ) -> tuple[str, list[str]]:
        runner = ScenarioRunner(
            zygote, scenario, folder, shm_of=keeper, hosts=hosts, go_on=self._raise_if_abandoned
        )
        try:
            runner.play()
        except Stalled as error:
            return str(error), runner.unreached
        finally:
            runner.close()
        return "", runner.unreached

    def forget(self, play: Play) -> None:
        """Remove a play's folder, unless another invariant may judge it."""
        if not any(kept.folder == play.folder for each in self._shared.values() for kept in each):
            shutil.rmtree(play.folder, ignore_errors=True)


def _is_traced(scenario: Scenario) -> bool:
    """Return whether a role may be watched for points, or be struck by an exception."""
    return any(
        isinstance(step, Count) or (isinstance(step, Fault) and (step.at or step.fault in _STRIKES))
        for step in scenario.steps
    )


def _needs_torch(scenario: Scenario) -> bool:
    """Return whether a role handles tensors, or a stranger attacks a torch store."""
    return system_of(scenario).needs_torch(scenario) or any(
        message.kind in ("tensor", "shapes") for message in _messages(scenario)
    )


def _is_of_tensors(scenario: Scenario) -> bool:
    """Return whether nothing is left of a scenario where there is no torch."""
    messages = _messages(scenario)
    tensors = bool(messages) and all(message.kind == "tensor" for message in messages)
    return tensors or system_of(scenario).needs_torch(scenario)


def _messages(scenario: Scenario) -> list[Message]:
    found = [
        message
        for step in scenario.steps
        for message in (*getattr(step, "messages", ()), getattr(step, "message", None))
    ]
    return [message for message in found if isinstance(message, Message)]


def _clear(zygote: Zygote, folder: Path, shm: PrivateShm | None, hosts: Hosts | None) -> None:
    """End all processes of a play that is abandoned, and remove what they made."""
    ours = {own.pid for own in (shm, hosts) if own is not None}
    for pid in {*zygote.descendants()} - ours:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        _settle_accounts(zygote, History.read(folder), folder, shm, hosts)


def _settle_accounts(
    zygote: Zygote, history: History, folder: Path, shm: PrivateShm | None, hosts: Hosts | None
) -> Ledger:
    names = books.owned_names(history)
    temporary = folder / "t"
    seen = shm.path if shm is not None and not shm.refused else Path("/dev/shm")

    def below() -> list[int]:
        ours = {own.pid for own in (shm, hosts) if own is not None}
        return [pid for pid in zygote.descendants() if pid not in ours]

    began = time.monotonic()
    left = books.look(names, temporary, below(), seen)
    while left.processes and time.monotonic() - began < _LEFT_WITHIN:
        zygote.pause(0.05)
        left = books.look(names, temporary, below(), seen)
    left.waited = round(time.monotonic() - began, 3)
    exits = list(history.of("exit"))
    # A worker's own watchdog may end it by another signal: it runs no line of it either.
    ended = all(event.number("signal", 0) > 0 for event in history.of("gone"))
    left.all_killed = bool(exits) and ended and all(e.number("signal") == 9 for e in exits)
    books.remove(left, temporary, seen)
    if below():
        zygote.pause(0.5)
    return left
