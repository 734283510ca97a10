"""The terminal of a whole program: keys are typed at it, and it can hang up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from pexpect import EOF, TIMEOUT
from pexpect.fdpexpect import fdspawn

from killpoint.history.log import Log
from killpoint.runner.observe.diagnosis import state
from killpoint.runner.role_process import RoleProcess
from killpoint.scenario import Key

Until = Callable[[Callable[[], bool], float, str | None], bool]

_KEYS: dict[Key, str] = {"ctrl-c": "\x03", "ctrl-z": "\x1a", "fg": "fg\n"}
_ECHOES: dict[Key, bytes] = {"ctrl-c": b"^C", "ctrl-z": b"^Z"}
"""Echo of a key at the terminal, once that has sent the signal."""
_STOPS_WITHIN = 5.0
_READS_WITHIN = 0.3
_LOOKS = 2
"""Looks in a row, a tick apart, at which the program does not run."""


class Terminal:
    """Pseudo-terminal, of which this object is the user's side."""

    def __init__(self, folder: Path) -> None:
        """Open one; its output is kept in the folder."""
        master, self._slave = os.openpty()
        self.path = os.ttyname(self._slave)
        self._tty: fdspawn[bytes] = fdspawn(master, timeout=0)
        self._kept = folder / "terminal.txt"
        self.printed = b""
        self.open = True

    def fileno(self) -> int:
        """Return the descriptor, for selectors."""
        return int(self._tty.child_fd)

    def taken(self) -> None:
        """Close the other side here, since another process has it open now."""
        if self._slave >= 0:
            os.close(self._slave)
            self._slave = -1

    def read(self) -> bool:
        """Keep the output so far; return whether more may come."""
        try:
            printed = self._tty.read_nonblocking(4096, timeout=0)
        except TIMEOUT:
            return True
        except EOF:
            return False
        self.printed += printed
        with self._kept.open("ab") as file:
            file.write(printed)
        return True

    def press(self, key: Key) -> None:
        """Type a key; a hang-up closes this side, and the kernel tells the other."""
        if key == "hang-up":
            self.close()
        elif self.open:
            self._tty.send(_KEYS[key])

    def close(self) -> None:
        """Close both sides."""
        self.taken()
        if self.open:
            self.open = False
            self._tty.close()


class TerminalSession:
    """User at the terminal of a play's executor."""

    def __init__(
        self, folder: Path, log: Log, actors: dict[str, RoleProcess], until: Until
    ) -> None:
        """``until``: serves all roles, by ticks, until a condition holds or time is over."""
        self.terminal = Terminal(folder)
        self._log = log
        self._actors = actors
        self._until = until

    def press(self, key: Key) -> None:
        """Type a key; wait until its stop, or the continuation after one, is seen."""
        program = self._actors["executor"]
        self._let_it_read(program)
        self._log.write("intent", fault=key, target=program.name)
        echo = _ECHOES.get(key, b"")
        before = self.terminal.printed.count(echo)
        self.terminal.press(key)
        if echo:  # typing is not yet sending a signal
            self._until(lambda: self.terminal.printed.count(echo) > before, _STOPS_WITHIN, "")
        self._log.write("fault", fault=key, target=program.name, pid=program.pid)
        if key == "ctrl-z":
            self._until(lambda: state(program.pid) in ("T", ""), _STOPS_WITHIN, "")
        elif key == "fg":
            self._until(lambda: state(program.pid) != "T", _STOPS_WITHIN, "")
        elif key == "hang-up":  # the kernel tells the job when its shell has ended
            self._until(lambda: state(program.child) in ("Z", ""), _STOPS_WITHIN, "")
        for actor in self._actors.values():
            if actor.alive:
                actor.stopped = state(actor.pid) == "T"

    def _let_it_read(self, program: RoleProcess) -> None:
        """Let the program read pending orders, which a key's interruption would lose."""
        looks = 0

        def waits() -> bool:
            nonlocal looks
            looks = looks + 1 if state(program.pid) != "R" else 0
            return looks > _LOOKS

        self._until(waits, _READS_WITHIN, "")
