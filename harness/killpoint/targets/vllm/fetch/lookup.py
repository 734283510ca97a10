"""Lookup of a project's releases in an index, and of the archive of one."""

from __future__ import annotations

import hashlib
import logging
import ssl
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import msgspec
from packaging.version import Version
from unearth import Link, Package, PackageFinder
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers import Fetcher, PyPIClient
from unearth.preparer import HTTPErrors

from killpoint.errors import BadUsage, CannotWork
from killpoint.targets.vllm.fetch.index import Index
from killpoint.targets.vllm.project import VLLM, Project


class Listing(msgspec.Struct, frozen=True):
    """Answers of all sources together."""

    archives: dict[Version, Link]
    """Archives by release, the most preferred source's where several have one: source archives, and
    wheels of releases without one where the project takes them."""
    releases: frozenset[Version]
    """Every release that was named, also those without an archive that will do."""
    troubles: tuple[str, ...]
    """One line for each source that could not be read."""
    yanked: frozenset[Version] = frozenset()
    """Releases of which every file was withdrawn by those who had published them."""


@contextmanager
def session(index: Index) -> Generator[Fetcher]:
    """Make a connection that trusts what the machine's settings trust."""
    verify: ssl.SSLContext | bool = True
    if index.cert is not None:
        try:
            verify = ssl.create_default_context(cafile=index.cert)
        except OSError as error:
            raise CannotWork(f"certificates in {index.cert}: {error}") from error
    client = PyPIClient(
        trusted_hosts=index.trusted_hosts,
        verify=verify,
        cert=index.client_cert,
        timeout=index.timeout,
        follow_redirects=True,
    )
    client.auth = MultiDomainBasicAuth(prompting=False, index_urls=list(index.index_urls))
    with client:
        yield cast("Fetcher", client)  # unearth's own client misses its own protocol by a type


def listing(index: Index, client: Fetcher, project: Project = VLLM) -> Listing:
    """Ask each source on its own, so that one that is down is not mistaken for an empty one."""
    archives: dict[Version, Link] = {}
    releases: set[Version] = set()
    offered: set[Version] = set()
    troubles: list[str] = []
    for finder in _finders(index, client):
        place = Link(finder.sources[0]["url"]).redacted
        with _warnings() as said:
            try:
                packages = list(finder.find_all_packages(project.name, allow_yanked=True))
            except (OSError, ValueError, *HTTPErrors) as error:
                troubles.append(f"{place}: {_named(error)}")
                continue
        troubles.extend(line for line in said if "Client Error(404)" not in line)
        for version, package in _versions(packages):
            releases.add(version)
            if not package.link.is_yanked:
                offered.add(version)
            if project.wheels or not package.link.is_wheel:
                archives.setdefault(version, package.link)
    told = tuple(_one_line(line) for line in troubles)
    return Listing(archives, frozenset(releases), told, frozenset(releases - offered))


def choose(wanted: Version, seen: Listing, project: Project = VLLM) -> Link:
    """Return the archive of a release.

    Raises:
        BadUsage: the release does not exist, or was published without a source archive.
        CannotWork: no source that could be read knows of any release.
    """
    if wanted in seen.archives:
        return seen.archives[wanted]
    name = f"{project.name}=={wanted}"
    why = f" ({'; '.join(seen.troubles)})" if seen.troubles else ""
    if not seen.archives:
        what = "an archive" if project.wheels else "a source archive"
        raise CannotWork(f"{name}: no package index here offers {what}{why}")
    if wanted in seen.releases:
        raise BadUsage(f"{name} was published without a source archive; {_near(wanted, seen)}")
    if seen.troubles:
        raise CannotWork(f"{name} was not found, and not every index could be read{why}")
    raise BadUsage(f"{name}: no such release; {_near(wanted, seen)}")


def download(client: Fetcher, link: Link, path: Path) -> None:
    """Write the archive to a new file.

    Raises:
        CannotWork: it cannot be fetched, or is not the file that the index described.
    """
    told = {
        name: values[0].lower()
        for name, values in (link.hash_option or {}).items()
        if name in hashlib.algorithms_available
    }
    digests = {name: hashlib.new(name) for name in told}
    plain = {"Accept-Encoding": "identity"}
    try:
        with (
            client.get_stream(link.url_without_fragment, headers=plain) as response,
            path.open("xb") as out,
        ):
            response.raise_for_status()
            for block in response.iter_bytes():
                out.write(block)
                for digest in digests.values():
                    digest.update(block)
    except (OSError, RuntimeError, *HTTPErrors) as error:
        raise CannotWork(f"cannot fetch {link.redacted}: {_named(error)}") from error
    for name, digest in digests.items():
        if digest.hexdigest() != told[name]:
            raise CannotWork(
                f"{link.redacted} does not match the index: "
                f"{name} is {digest.hexdigest()}, the index says {told[name]}"
            )


def _finders(index: Index, client: Fetcher) -> Iterator[PackageFinder]:
    if index.default_index:
        yield PackageFinder(session=client, ignore_compatibility=True)
    for url in index.index_urls:
        yield PackageFinder(session=client, index_urls=[url], ignore_compatibility=True)
    for url in index.find_links:
        yield PackageFinder(session=client, find_links=[url], ignore_compatibility=True)


def _versions(packages: list[Package]) -> Iterator[tuple[Version, Package]]:
    for package in sorted(packages, key=_preference):
        if package.version is not None:
            yield Version(package.version), package


def _preference(package: Package) -> tuple[bool, bool, str]:
    """Return the order: source, a wheel for any machine, then the same wheel on every machine."""
    link = package.link
    return link.is_wheel, not link.filename.endswith("-none-any.whl"), link.filename


def _near(wanted: Version, seen: Listing) -> str:
    known = sorted(seen.archives)
    below = [version for version in known if version < wanted][-2:]
    above = [version for version in known if version > wanted][:2]
    return "nearest with one: " + ", ".join(str(version) for version in below + above)


@contextmanager
def _warnings() -> Generator[list[str]]:
    """Collect what unearth only logs: sources that it passed over."""
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger = logging.getLogger("unearth.collector")
    handler, propagate = Keep(logging.WARNING), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield said
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {_one_line(str(error))}"
