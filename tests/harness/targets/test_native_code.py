"""Whose extension modules are a target's own."""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType

import pytest

from killpoint.targets.native import native_code


def _module(name: str, *, extension: bool = False) -> ModuleType:
    module = ModuleType(name)
    loader = ExtensionFileLoader(name, f"/x/{name}.so") if extension else None
    module.__spec__ = ModuleSpec(name, loader)
    return module


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An adapter's module, and what it has imported."""
    home = _module("their_queue.adapter")
    for name in ("their_queue._ring", "fast_ring", "numpy._core._multiarray_umath", "zmq._zmq"):
        monkeypatch.setitem(sys.modules, name, _module(name, extension=True))
    monkeypatch.setitem(sys.modules, "_pickle", sys.modules.get("_pickle") or _module("_pickle"))
    monkeypatch.setitem(sys.modules, "their_queue.adapter", home)
    return home


def _target(home: ModuleType, **known: object) -> object:
    return type("Adapter", (), {"__module__": home.__name__, **known})()


def test_what_its_own_package_ships_is_its_own(loaded: ModuleType) -> None:
    assert native_code(_target(loaded)) == ["their_queue._ring"]


def test_so_is_what_it_has_imported_by_name(loaded: ModuleType) -> None:
    vars(loaded)["fast_ring"] = sys.modules["fast_ring"]
    assert native_code(_target(loaded)) == ["fast_ring", "their_queue._ring"]


def test_numpy_zeromq_and_the_standard_library_are_nobodys(loaded: ModuleType) -> None:
    for name in ("numpy", "zmq", "pickle"):
        vars(loaded)[name] = _module(name)
    assert native_code(_target(loaded)) == ["their_queue._ring"]


def test_what_the_adapter_declares_holds(loaded: ModuleType) -> None:
    assert native_code(_target(loaded, native=("fast_ring",))) == ["fast_ring"]
    assert native_code(_target(loaded, native=())) == []
