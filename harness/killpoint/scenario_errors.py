"""Place of an error in a scenario's text, and what was expected there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import cast

from msgspec import inspect

Place = Sequence[str | int]
"""The way to a value: the names of keys, and places in arrays."""

_OPAQUE = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
_HEADER = re.compile(r"^[ \t]*\[{1,2}[ \t]*([\w.-]+)[ \t]*\]{1,2}[ \t]*$", re.MULTILINE)


def explain(text: str, message: str, root: type, read: object = None) -> tuple[int, str]:
    """Line and sentence for what a decoder of ``root`` said of a well-formed TOML text.

    ``read``: what was decoded, if it is not the text as it stands.
    """
    read = tomllib.loads(text) if read is None else read
    said, _, at = message.partition(" - at `$")
    place: list[str | int] = [
        int(index) if index else word for word, index in re.findall(r"([\w-]+)|\[(\d+)\]", at)
    ]
    field = re.match(r"Object (?:contains unknown|missing required) field `([^`]+)`", said)
    if field is None:
        wrong = re.match(r"Invalid (?:enum )?value '(.*)'", said)
        words = _words(root, read, place)
        if wrong and words:
            said = f"unknown word {wrong[1]!r} for `{place[-1]}`; expected one of: {_list(words)}"
            return line_of(text, place), said
        return line_of(text, place), message[0].lower() + message[1:]
    key = field[1]
    if "unknown" in said:
        known = _list(_keys(root, read, place))
        return line_of(text, [*place, key]), f"unknown key {key!r}; expected one of: {known}"
    words = _words(root, read, [*place, key])
    expected = f"one of: {_list(words)}" if words else "a value for it"
    return line_of(text, place), f"missing required field `{key}`; expected {expected}"


def line_of(text: str, place: Place) -> int:
    """The line of the key that ``place`` ends in; of what it should stand in, if it is absent."""
    bare = _OPAQUE.sub(_hide, text)
    headers = list(_HEADER.finditer(bare))
    at, end = 0, len(bare)
    rest = list(place)
    steps = [header for header in headers if header[1] == "steps"]
    if len(rest) > 1 and rest[0] == "steps" and isinstance(rest[1], int) and rest[1] < len(steps):
        at = steps[rest[1]].start()
        after = [header for header in headers if header.start() > at]
        end = min([h.start() for h in after if not h[1].startswith("steps.")], default=end)
        rest = rest[2:]
    elif len(rest) == 1 and headers and _find(bare, str(rest[0]), 0, headers[0].start()):
        end = headers[0].start()
    for position, part in enumerate(rest):
        if isinstance(part, str):
            found = _find(bare, part, at, end)
            at = found.start() if found else at
        elif position + 1 < len(rest):
            at = _table(bare, at, end, part)
    return bare.count("\n", 0, at) + 1


def _hide(found: re.Match[str]) -> str:
    """A string or a comment as blanks, so that only keys are left to be found."""
    word = found.group()
    if word[0] != "#" and re.compile(r"[ \t]*[=.]").match(found.string, found.end()):
        return f" {word[1:-1]} "
    return re.sub(r"[^\n]", " ", word)


def _find(bare: str, key: str, at: int, end: int) -> re.Match[str] | None:
    return re.compile(rf"(?<![\w-]){re.escape(key)}(?![\w-])").search(bare, at, end)


def _table(bare: str, at: int, end: int, index: int) -> int:
    """Return where the ``index``-th inline table after ``at`` begins."""
    depth = seen = 0
    for place in range(at, end):
        if bare[place] == "{":
            if depth == 0 and seen == index:
                return place
            seen += depth == 0
            depth += 1
        depth -= bare[place] == "}"
    return at


def _list(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


def _keys(root: type, read: object, place: Place) -> list[str]:
    kinds, value = _walk(root, read, place)
    structs = _structs(kinds, value)
    tags = [struct.tag_field for struct in structs if struct.tag_field]
    return [field.encode_name for struct in structs for field in struct.fields] + tags


def _words(root: type, read: object, place: Place) -> list[str]:
    """The words of which one may stand there, if it is a place for words of a set."""
    kinds, value = _walk(root, read, place[:-1])
    structs = _structs(kinds, value)
    tags = [str(struct.tag) for struct in structs if place and struct.tag_field == place[-1]]
    inner, _ = _walk(root, read, place)
    return tags + [
        str(word) for kind in inner if isinstance(kind, inspect.LiteralType) for word in kind.values
    ]


def _walk(root: type, read: object, place: Place) -> tuple[list[inspect.Type], object]:
    """Return the types that may stand at a place, and the value that does."""
    kinds, value = [inspect.type_info(root)], read
    for part in place:
        if isinstance(part, int):
            arrays = (inspect.ListType, inspect.VarTupleType)
            kinds = [kind.item_type for kind in kinds if isinstance(kind, arrays)]
            value = cast("list[object]", value)[part] if isinstance(value, list) else None
        else:
            structs = _structs(kinds, value)
            fields = [field for struct in structs for field in struct.fields]
            kinds = [field.type for field in fields if field.encode_name == part]
            table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
            value = table.get(part)
        kinds = [one for kind in kinds for one in getattr(kind, "types", [kind])]
    return kinds, value


def _structs(kinds: Iterable[inspect.Type], value: object) -> list[inspect.StructType]:
    """The tables that may stand there: one, if the value says which it is."""
    found = [kind for kind in kinds if isinstance(kind, inspect.StructType)]
    table = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return [s for s in found if s.tag_field and table.get(s.tag_field) == s.tag] or found


_MANY = 8
"""Roles that a complaint names one by one."""


def few(roles: list[str]) -> list[str]:
    """Role names for a complaint: of very many numbered ones, the first and the last."""
    numbered = [role for role in roles if role[-1].isdigit()]
    kinds = {role.rsplit("-", 1)[0] for role in numbered}
    if len(numbered) <= _MANY or len(kinds) > 1:
        return roles
    span = min(numbered, key=len), max(numbered, key=lambda role: int(role.split("-")[1]))
    return sorted({*roles} - {*numbered} | {f"{span[0]} to {span[1]}"})
