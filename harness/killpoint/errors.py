"""The two ways in which killpoint itself ends early: what was asked is wrong, or cannot be done."""

from __future__ import annotations


class KillpointError(Exception):
    """An end that the command line prints as one line."""

    status = 70


class BadUsage(KillpointError):
    """Error of the user: the request does not exist or is not well formed (exit status 2)."""

    status = 2


class CannotWork(KillpointError):
    """The harness cannot do its own work: no disk, no index, no memory (exit status 70)."""

    status = 70
