"""Entry point: a command's exit status, however it ends."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from killpoint.errors import BadUsage, CannotWork, KillpointError
from killpoint.extras import lacking_in

_NOBODY_READS = 128 + signal.SIGPIPE
"""Exit status if the reader of standard output, such as ``head``, has closed it."""


class Parser(argparse.ArgumentParser):
    """Parser of a command line; it refuses with :class:`~killpoint.errors.BadUsage`."""

    def error(self, message: str) -> NoReturn:  # noqa: D102 # argparse's own
        raise BadUsage(f"{self.prog}: {message}; see {self.prog} --help")


def main() -> int:
    """The ``killpoint`` of a shell."""
    from killpoint.cli import main

    return main()


def run(
    command_line: Callable[[], argparse.ArgumentParser], arguments: Sequence[str] | None = None
) -> int:
    """Run one command of this command line; its exit status."""
    try:
        try:
            return _run(command_line, arguments)
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # rich and argparse leave by the latter
        if not _nobody_reads():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _NOBODY_READS


def _nobody_reads() -> bool:
    """Return whether standard output is a pipe, or a socket, whose other end has been closed."""
    with contextlib.suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False


def _run(
    command_line: Callable[[], argparse.ArgumentParser], arguments: Sequence[str] | None
) -> int:
    try:
        options = command_line().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = options.command
        return command(options)
    except KillpointError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return error.status
    except (OSError, MemoryError) as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            raise
        print(f"killpoint could not do its work: {error}", file=sys.stderr)
        return CannotWork.status
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # in a __set_name__, by Python 3.11
            return _interrupted()
        if lacking := lacking_in(error):
            print(f"killpoint: {lacking}", file=sys.stderr)
            return BadUsage.status
        # A fault of ours must not look like a verdict, whose status would be 1.
        print(f"killpoint failed: {type(error).__name__}: {error}", file=sys.stderr)
        return CannotWork.status
    except KeyboardInterrupt:
        return _interrupted()


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return 130
