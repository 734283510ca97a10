"""Snapshots restore a run's objects, since to build them costs as much as a hundred steps.

All objects that are reached from the given roots, and did not exist before they were made, are
restored: attributes, containers, bytes, the cells of closures. Nothing is guessed: an object of a
kind whose state cannot be read from outside makes everything be built anew for each run.
"""

from __future__ import annotations

import copy
import functools
import gc
import io
import pickle
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

_EMPTY = object()
"""Marker for a cell that holds nothing yet, and for a slot that was not set."""
_WORD = 8

_WITHOUT_STATE = (
    type,
    types.ModuleType,
    types.CodeType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    property,
    weakref.ref,
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    type(...),
    type(NotImplemented),
    range,
)
_ITERATORS = (map, type(iter([])))
"""Kinds whose position can be read, but not restored."""
_MEMO = type(pickle.Pickler(io.BytesIO()).memo)
_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())


class Unkept(Exception):
    """An object is of a kind whose state cannot be restored."""


class Earlier:
    """Objects that existed before, and are no part of a run's state.

    The garbage collector is told to freeze them all. The objects that it tracks when it is asked
    for the first time have been made since: some thousands, and not a hundred thousand.
    """

    def __init__(self) -> None:
        self._frozen_before = gc.get_freeze_count() > 0
        gc.freeze()

    def __contains__(self, thing: object) -> bool:
        return gc.is_tracked(thing) and id(thing) not in self._since

    @functools.cached_property
    def _since(self) -> set[int]:
        since = {id(thing) for thing in gc.get_objects()}
        if not self._frozen_before:
            gc.unfreeze()
        return since


class Snapshot:
    """State of all objects that the roots lead to.

    Args:
        roots: themselves part of it, whenever they were made.
        earlier: made before the rest was.

    Raises:
        Unkept: it cannot be restored.
    """

    def __init__(self, roots: Iterable[object], earlier: Earlier) -> None:
        self._attributes: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._slots: list[tuple[Any, str, Any]] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._bytes: list[tuple[bytearray, bytes]] = []
        self._others: list[tuple[Any, list[Any]]] = []
        """Sets and deques."""
        self._cells: list[tuple[types.CellType, Any]] = []
        self._files: list[tuple[Any, Any]] = []
        self._memos: list[tuple[Any, Any]] = []
        """Memos, which are all that a pickler keeps from one object to the next."""
        self._iterators: list[tuple[Any, Any]] = []
        self._locks: list[Any] = []
        self._views: list[memoryview] = []
        self._kept: dict[int, object] = {}
        todo = list(roots)
        first = len(todo)
        while todo:
            thing = todo.pop(0 if first else -1)
            known = id(thing) in self._kept or (not first and thing in earlier)
            first -= bool(first)
            if not known:
                self._kept[id(thing)] = thing
                todo += self._keep(thing)
        del self._kept

    def restore(self) -> bool:
        """Restore everything; return False if that is impossible and it must be built anew."""
        if not self._is_whole():
            return False
        for live, saved in self._attributes:
            live.update(saved)
            if len(live) != len(saved):
                live.clear()
                live.update(saved)
        for live, saved in self._dicts:
            live.clear()
            live.update(saved)
        for live, saved in self._lists:
            live[:] = saved
        for live, saved in self._bytes:
            live[:] = saved
        for live, saved in self._others:
            live.clear()
            (live.extend if _is(live, deque) else live.update)(saved)
        for cell, saved in self._cells:
            _fill(cell, saved)
        for file, state in self._files:
            file.__setstate__(state)
        for pickler, memo in self._memos:
            pickler.memo = memo
        for thing, name, saved in self._slots:
            _set(thing, name, saved)
        return True

    def _is_whole(self) -> bool:
        """Return whether no lock is held, no view was released, and no iterator has gone on."""
        if any(thing.__reduce__() != place for thing, place in self._iterators):
            return False
        return all(map(_is_free, self._locks)) and all(map(_is_open, self._views))

    def _keep(self, thing: Any) -> Iterator[object]:
        """Record an object's state; yield the objects that it leads to."""
        kind: type = thing.__class__
        if _is(thing, *_WITHOUT_STATE):
            return
        if _is(thing, tuple, frozenset):
            yield from thing
        elif kind is types.FunctionType:
            yield from (thing.__closure__ or ())
            yield from (thing.__defaults__ or ())
            yield thing.__kwdefaults__
            if thing.__dict__:
                yield thing.__dict__
        elif kind is types.MethodType:
            yield from (thing.__self__, thing.__func__)
        elif kind is types.BuiltinMethodType or kind is types.MethodWrapperType:
            yield thing.__self__
        elif kind is functools.partial:
            yield from (thing.func, thing.args, thing.keywords)
        elif kind is types.CellType:
            saved = _content(thing)
            self._cells.append((thing, saved))
            yield saved
        elif _is(thing, *_ITERATORS):
            place = thing.__reduce__()
            self._iterators.append((thing, place))
            for part in place:  # made just now: only what is inside was there
                yield from part if isinstance(part, tuple) else (part,)
        elif kind is pickle.Pickler:
            self._memos.append((thing, thing.memo.copy()))
            yield from gc.get_referents(thing)
        elif kind is io.BytesIO:
            self._files.append((thing, thing.__getstate__()))
        elif kind is _MEMO:
            yield from gc.get_referents(thing)
        elif kind is memoryview:
            self._views.append(thing)
            yield thing.obj
        elif kind is _LOCK or kind is _RLOCK:
            if not _is_free(thing):
                raise Unkept("a lock that is held")
            self._locks.append(thing)
        else:
            yield from self._keep_contents(thing)
            yield from self._keep_attributes(thing)

    def _keep_contents(self, thing: Any) -> Iterator[object]:
        if _is(thing, dict):
            saved: dict[Any, Any] = dict(thing)
            self._dicts.append((thing, saved))
            yield from saved
            yield from saved.values()
        elif _is(thing, list):
            content: list[Any] = list(thing)
            self._lists.append((thing, content))
            yield from content
        elif _is(thing, bytearray):
            self._bytes.append((thing, bytes(thing)))
        elif _is(thing, set, deque):
            elements: list[Any] = list(thing)
            self._others.append((thing, elements))
            yield from elements

    def _keep_attributes(self, thing: Any) -> Iterator[object]:
        """Yield the attributes that a class written in Python, or a struct, gives its objects."""
        kind: type = thing.__class__
        names = _slots_of(kind)
        if names is None:
            if not _never_changes(thing):
                raise Unkept(f"a {type(thing).__qualname__}")
            return
        for name in names:
            saved = getattr(thing, name, _EMPTY)
            yield saved
            if _may_change(thing, name, saved):
                self._slots.append((thing, name, saved))
        live: dict[str, Any] | None = getattr(thing, "__dict__", None)
        if live is not None:
            values = dict(live)
            self._attributes.append((live, values))
            yield from values.values()


@functools.lru_cache(maxsize=512)
def _slots_of(kind: type) -> tuple[str, ...] | None:
    """Return the slots of a class's objects beside a ``__dict__``; None if some are hidden."""
    names = [
        name
        for each in kind.__mro__
        for name, what in vars(each).items()
        if isinstance(what, types.MemberDescriptorType) and what.__objclass__ is each
    ]
    base = next(each for each in kind.__mro__ if each in _PLAIN)
    words = (kind.__basicsize__ - base.__basicsize__) // _WORD
    hidden = words - len(names)
    hidden -= bool(kind.__dictoffset__ > 0) + bool(kind.__weakrefoffset__ > 0)
    hidden += bool(base.__dictoffset__ > 0) + bool(base.__weakrefoffset__ > 0)
    if hidden > 0 and not issubclass(kind, msgspec.Struct):
        return None
    return tuple(names)


def _never_changes(thing: Any) -> bool:
    """Return whether an object is immutable, by its own copy or as a known kind."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(thing, numpy.dtype):
        return True
    try:
        return copy.copy(thing) is thing
    except Exception:
        return False


_PLAIN = (object, OrderedDict, defaultdict, dict, list, set, deque, bytearray)
"""Base types whose whole state can be read."""


def _is(thing: Any, *kinds: type) -> bool:
    return isinstance(thing, kinds)


def _is_free(lock: Any) -> bool:
    if not lock.acquire(False):
        return False
    lock.release()
    return not getattr(lock, "_is_owned", bool)()


def _is_open(view: memoryview) -> bool:
    try:
        return view.nbytes >= 0
    except ValueError:
        return False


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _fill(cell: types.CellType, content: Any) -> None:
    if content is not _EMPTY:
        cell.cell_contents = content
    elif _content(cell) is not _EMPTY:
        del cell.cell_contents


def _may_change(thing: Any, name: str, value: Any) -> bool:
    """Return whether an attribute can be set, as it cannot on a frozen object."""
    try:
        _set(thing, name, value)
    except (AttributeError, TypeError):
        return False
    return True


def _set(thing: Any, name: str, value: Any) -> None:
    if value is not _EMPTY:
        setattr(thing, name, value)
    elif hasattr(thing, name):
        delattr(thing, name)
