"""What a machine does not permit: it says nothing of the target."""

from __future__ import annotations


class Refused(Exception):
    """This machine has not what a kind of point needs, or not for us."""


class NothingThere(Refused):
    """The target has nothing of what a kind of point is made of: it cannot be asked."""
