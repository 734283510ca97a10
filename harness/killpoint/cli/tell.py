"""`killpoint explain` and `list`: what there is, and what it means."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from killpoint.bundled_scenarios import scenario_files
from killpoint.cases import EVERY_CASE
from killpoint.faults import FAULTS
from killpoint.invariants import CATALOGUE
from killpoint.judgement.explain import explain
from killpoint.scenario import load
from killpoint.systems.server.environments import FORMS as ENGINES


def add_parser(commands: Any) -> None:
    """Add `explain`."""
    about = commands.add_parser("explain", help="an invariant or a case: clause, needs, strength")
    about.set_defaults(command=_explain)
    about.add_argument("id")


def add_list_parser(commands: Any) -> None:
    """Add `list`."""
    listing = commands.add_parser("list", help="what there is")
    listing.set_defaults(command=_list)
    listing.add_argument("what", choices=sorted(_LISTS))


def _explain(options: argparse.Namespace) -> int:
    print(explain(options.id))
    return 0


def _list_invariants() -> Iterator[str]:
    for item in CATALOGUE:
        yield f"{item.id:4} {item.level:6} {item.clause}"


def _list_cases() -> Iterator[str]:
    for case in EVERY_CASE:
        yield f"{case.id:42} {case.summary}" + (" (--full)" if case.full else "")


def _list_scenarios() -> Iterator[str]:
    for path in scenario_files():
        yield f"{path.parent.name}/{path.name:44} {load(path).title}"


def _list_targets() -> Iterator[str]:
    yield from (
        "refengine        the reference implementation",
        "vllm==X.Y.Z      the queue of a published vLLM release, from its source archive",
        "vllm@PATH        the queue of a vLLM working tree",
        "sglang==X.Y.Z    the queue of a published SGLang release, from its source or a wheel",
        "sglang@PATH      the queue of an SGLang working tree",
        "serve:refengine  the reference implementation's server, judged from outside as a whole",
        "serve:FILE.toml  any OpenAI-compatible server, told in a file (docs/servers.md)",
        f"serve:…          a real engine's server (docs/environments.md): {ENGINES}",
        "module:object    your own adapter (docs/own-implementation.md)",
    )


def _list_faults() -> Iterator[str]:
    for fault in FAULTS.values():
        yield f"{fault.name:9} {fault.summary}"


_LISTS: dict[str, Callable[[], Iterator[str]]] = {
    "invariants": _list_invariants,
    "cases": _list_cases,
    "scenarios": _list_scenarios,
    "targets": _list_targets,
    "faults": _list_faults,
}


def _list(options: argparse.Namespace) -> int:
    for line in _LISTS[options.what]():
        print(line)
    return 0
