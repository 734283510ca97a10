"""The sources of packages on this machine: pip's own settings, read but never written."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

_SECTIONS = ("global", "download")
_YES = frozenset({"1", "true", "yes", "on", "y", "t"})


class Index(msgspec.Struct, frozen=True):
    """Sources that pip would ask, in pip's own terms. No index URL at all means pip's default."""

    index_urls: tuple[str, ...] = ()
    """URLs in order of preference; empty where none was configured."""
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    timeout: float = 15.0
    default_index: bool = True
    """True if the default index is asked too, before ``index_urls``."""


def configured(environ: Mapping[str, str] | None = None) -> Index:
    """Return the settings that pip itself would use here, its environment variables first."""
    env = os.environ if environ is None else environ
    found = _settings(env)

    def words(key: str) -> tuple[str, ...]:
        return tuple(found.get(key, "").split())

    no_index = found.get("no-index", "").lower() in _YES
    main, extra = words("index-url"), words("extra-index-url")
    return Index(
        index_urls=() if no_index else (*main, *extra),
        find_links=tuple(_existing(words("find-links"))),
        trusted_hosts=words("trusted-host"),
        cert=found.get("cert") or None,
        client_cert=found.get("client-cert") or None,
        timeout=_seconds(found.get("timeout") or found.get("default-timeout")),
        default_index=not no_index and not main,
    )


def _settings(env: Mapping[str, str]) -> dict[str, str]:
    """Return every setting by name, later sources having replaced earlier ones."""
    sections: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    for path in _files(env):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError):
            continue
        for name in _SECTIONS:
            if parser.has_section(name):
                values = {_key(key): value for key, value in parser.items(name)}
                sections[name].update(values)
    merged: dict[str, str] = {}
    for name in _SECTIONS:
        merged.update(sections[name])
    for variable, value in env.items():
        if variable.startswith("PIP_") and value:
            merged[_key(variable.removeprefix("PIP_"))] = value
    return merged


def _files(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the configuration files that pip reads, the least important first."""
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    for folder in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        yield Path(folder, "pip", "pip.conf")
    yield Path("/etc/pip.conf")
    home = Path(env.get("HOME") or Path.home())
    if not (named and Path(named).exists()):
        yield home / ".pip" / "pip.conf"
        yield Path(env.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")
    yield Path(sys.prefix, "pip.conf")
    if named:
        yield Path(named)


def _key(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _existing(links: Iterable[str]) -> Iterator[str]:
    """Yield links that can be followed: pip skips a folder that is not there, and so do we."""
    for link in links:
        if "://" in link or link.startswith("file:"):
            yield link
        elif Path(link).expanduser().exists():
            yield str(Path(link).expanduser())


def _seconds(text: str | None) -> float:
    try:
        return float(text) if text else 15.0
    except ValueError:
        return 15.0
