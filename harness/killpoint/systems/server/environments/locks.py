"""Pinned packages: the wheels that an environment is made of, by hash, and their sizes.

``ci/lock_environment.py`` writes the lock files. A wheel is pinned by the hash that the public
index gives; pip's own settings decide where a package comes from on this machine.
"""

from __future__ import annotations

import functools
import platform
from pathlib import Path

import msgspec
from packaging.tags import Tag, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from killpoint.errors import CannotWork

_FOLDER = Path(__file__).with_name("locks")


def files() -> list[Path]:
    """Return the lock files."""
    return sorted(_FOLDER.glob("*.json"))


class Wheel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of a release."""

    file: str
    bytes: int
    sha256: str

    def fits(self, tags: frozenset[Tag]) -> bool:
        """Return whether an interpreter with these tags can use it."""
        try:
            return not tags.isdisjoint(parse_wheel_filename(self.file)[3])
        except InvalidWheelFilename:
            return False


class Package(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One release of one project."""

    name: str
    version: str
    wheels: tuple[Wheel, ...]
    pythons: tuple[str, ...] = ()
    """Versions of Python (``3.11``) for which this release is chosen; empty: every one."""

    def fitting(self, tags: frozenset[Tag]) -> tuple[Wheel, ...]:
        """Return its wheels that an interpreter with these tags can use."""
        return tuple(wheel for wheel in self.wheels if wheel.fits(tags))

    def requirement(self) -> str:
        """Return a line for pip: this release, in no other file than the pinned ones."""
        return f"{self.name}=={self.version}" + "".join(
            f" --hash=sha256:{wheel.sha256}" for wheel in self.wheels
        )


class Lock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Packages that an environment is made of."""

    packages: tuple[Package, ...]
    torch: str = ""
    """Version of the build of torch that is installed beside them; it has no hash here."""
    pythons: tuple[str, ...] = ()
    """Versions of Python that such an environment can have; empty: every one."""

    def chosen(self, tags: frozenset[Tag], python: str) -> tuple[Package, ...]:
        """The packages for one interpreter, each with the wheels that fit it.

        Raises:
            CannotWork: a package has none.
        """
        found: list[Package] = []
        for package in self.packages:
            if package.pythons and python not in package.pythons:
                continue
            wheels = package.fitting(tags)
            if not wheels:
                raise CannotWork(
                    f"{package.name}=={package.version} has no wheel for Python {python} on"
                    f" {platform.machine()}"
                )
            found.append(msgspec.structs.replace(package, wheels=wheels))
        return tuple(found)


def load(name: str) -> Lock:
    """The lock file ``NAME.json`` of this package.

    Raises:
        CannotWork: it is damaged.
    """
    path = _FOLDER / f"{name}.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=Lock)
    except (OSError, msgspec.MsgspecError) as error:
        raise CannotWork(f"lock file {path}: {error}") from error


def size(packages: tuple[Package, ...]) -> int:
    """Return the bytes to fetch, by the first wheel of each package."""
    return sum(package.wheels[0].bytes for package in packages)


@functools.cache
def own_tags() -> frozenset[Tag]:
    """Return the tags of the wheels that this interpreter can use."""
    return frozenset(sys_tags())


def own_python() -> str:
    """Return the version of this interpreter, such as ``3.11``."""
    return ".".join(platform.python_version_tuple()[:2])
