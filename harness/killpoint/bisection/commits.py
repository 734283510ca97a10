"""A line of commits: each is checked out in a worktree of its own while it is judged."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from killpoint.bisection.git import Refused, git
from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.published import PROJECTS


class Commits(msgspec.Struct, frozen=True):
    """Commits of a working tree, of which nothing is touched."""

    tree: Path
    project: str
    inside: str
    """Path of the tree in its repository: empty, or a folder."""
    hashes: Sequence[str]
    names: Sequence[str]
    """Names for people: abbreviated, with the subject."""
    unit: str = "commit"

    @contextmanager
    def at(self, candidate: int) -> Generator[str]:
        """The commit in a worktree, which is removed when it is left.

        Each has a folder of its own: what was compiled from another commit is not taken for its.

        Raises:
            CannotWork: it cannot be checked out.
        """
        commit = self.hashes[candidate]
        place = Path(tempfile.mkdtemp(prefix="kp-bisect-", dir="/tmp"))
        worktree = place / commit[:12]
        try:
            try:
                git(self.tree, "worktree", "add", "--quiet", "--detach", str(worktree), commit)
            except Refused as error:
                raise CannotWork(f"{commit[:12]} cannot be checked out: {error}") from error
            yield f"{self.project}@{worktree / self.inside}"
        finally:
            with contextlib.suppress(Refused):
                git(self.tree, "worktree", "remove", "--force", "--force", str(worktree))
            shutil.rmtree(place, ignore_errors=True)


def single(tree: Path, revision: str, project: str) -> Commits:
    """Return one commit of a working tree, for :meth:`Commits.at` to check out.

    Raises:
        BadUsage: there is no such tree or commit.
    """
    try:
        inside = git(tree, "rev-parse", "--show-prefix")
    except Refused as error:
        raise BadUsage(f"{tree}: {error}; expected a git working tree") from error
    commit = _commit(tree, revision)
    name = git(tree, "log", "-1", "--no-show-signature", "--format=%h %s", commit)
    return Commits(tree, project, inside, [commit], [name])


def between(tree: Path, one: str, other: str, project: str | None) -> tuple[Commits, bool]:
    """Return every commit between two, both included, and whether the first is the older one.

    Of a merge only the first parent is followed: what it merged counts as one step.

    Raises:
        BadUsage: there is no such tree or commit, or neither commit comes after the other.
    """
    project = project or PROJECTS[0]
    try:
        inside = git(tree, "rev-parse", "--show-prefix")
    except Refused as error:
        raise BadUsage(f"--tree {tree}: {error}; expected a git working tree") from error
    first, second = (_commit(tree, revision) for revision in (one, other))
    if first == second:
        raise BadUsage(f"{one} and {other} are the same commit; expected two")
    if _contains(tree, first, second):
        old, new = first, second
    elif _contains(tree, second, first):
        old, new = second, first
    else:
        raise BadUsage(f"neither {one} nor {other} comes after the other; expected a range")
    hashes = _range(tree, old, new)
    names = [git(tree, "log", "-1", "--no-show-signature", "--format=%h %s", h) for h in hashes]
    return Commits(tree, project, inside, hashes, names), first == old


def _commit(tree: Path, revision: str) -> str:
    try:
        return git(tree, "rev-parse", "--verify", f"{revision}^{{commit}}")
    except Refused as error:
        raise BadUsage(f"{tree} has no commit {revision!r}: {error}") from error


def _contains(tree: Path, old: str, new: str) -> bool:
    try:
        git(tree, "merge-base", "--is-ancestor", old, new)
    except Refused:
        return False
    return True


def _range(tree: Path, old: str, new: str) -> list[str]:
    """The line of first parents from ``new`` down to the last that comes after ``old``."""
    since = f"{old}..{new}"
    after = set(git(tree, "rev-list", "--ancestry-path", since).splitlines())
    line = git(tree, "rev-list", "--first-parent", "--reverse", since).splitlines()
    return [old, *(commit for commit in line if commit in after)]
