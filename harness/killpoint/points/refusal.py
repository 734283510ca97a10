"""Errors for kinds of points that this machine does not permit; they say nothing of the target."""

from __future__ import annotations


class Refused(Exception):
    """The machine lacks what a kind of point needs, or denies it to this user."""


class NothingThere(Refused):
    """The target has nothing that this kind of point could be placed at."""
