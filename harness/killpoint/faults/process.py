"""Faults of a role's process: signals, exits, exceptions, throttling and holds."""

from __future__ import annotations

import signal

from killpoint.errors import BadUsage
from killpoint.faults.base import FaultTarget


class Kill:
    """End the process with nothing run on the way out."""

    name = "kill"
    summary = "SIGKILL, at once or where the role stands"
    ends = True

    def act(self, target: FaultTarget) -> None:
        """Send SIGKILL."""
        target.signal(signal.SIGKILL)


class Stop:
    """Freeze the process until a ``continue``."""

    name = "stop"
    summary = "SIGSTOP, until a later continue"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Send SIGSTOP; at its point the role sends it to itself, and is awaited."""
        if target.at_point and not target.held:
            target.has_stopped()
        else:
            target.signal(signal.SIGSTOP)


class Continue:
    """Let a stopped role go on."""

    name = "continue"
    summary = "SIGCONT, and a release from the point it was stopped at"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Send SIGCONT, then release the role from its point."""
        target.signal(signal.SIGCONT)
        if target.at_point:
            target.release("go")


class ExitNow:
    """Call ``os._exit(3)`` at a point, or between two operations."""

    name = "exit"
    summary = "os._exit(3): no clean-up, no signal"
    ends = True

    def act(self, target: FaultTarget) -> None:
        """Have the role exit where it is."""
        if target.at_point:
            target.release("exit")
        else:
            target.inject_in_role()


class RaiseError:
    """Raise an exception at a point, as a signal handler would."""

    name = "raise"
    summary = "an exception raised at a point inside the target's code"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the role raise at its point."""
        if not target.at_point:
            raise BadUsage("fault raise needs a point: give it `at`")
        target.release("raise")


class Interrupt:
    """Send SIGUSR1, for which every role has a handler that raises inside the target's code."""

    name = "interrupt"
    summary = "a signal handler raises in the role, at a point or in the call it waits in"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the role send the signal to itself at its point, or send it now."""
        if target.at_point:
            target.release("interrupt")
        else:
            target.signal(signal.SIGUSR1)


class Hold:
    """Leave the role standing at its point until a ``continue``."""

    name = "hold"
    summary = "the role stands at its point, unharmed, until a later continue"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Keep the role at its point: it is not released."""
        if not target.at_point:
            raise BadUsage("fault hold needs a point: give it `at`")
        target.held = True


class Slow:
    """Throttle a role by ``pause`` seconds a message."""

    name = "slow"
    summary = "a pause before each send or receive"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Have the role pause before each send or receive."""
        target.inject_in_role()


class Sigterm:
    """Send SIGTERM, and let the role go on from its point, if it stands at one."""

    name = "sigterm"
    summary = "SIGTERM, at once or where the role stands"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Send the signal before the release, so that it takes effect at the point."""
        target.signal(signal.SIGTERM)
        if target.at_point:
            target.release("go")


class Sigint:
    """Send SIGINT, and let the role go on from its point, if it stands at one."""

    name = "sigint"
    summary = "SIGINT to this one process, at once or where it stands"
    ends = False

    def act(self, target: FaultTarget) -> None:
        """Send the signal before the release, so that it takes effect at the point."""
        target.signal(signal.SIGINT)
        if target.at_point:
            target.release("go")
