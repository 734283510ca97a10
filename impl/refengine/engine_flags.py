"""An engine's settings as flags of a command line."""

from __future__ import annotations

import argparse

from .engine.model.size import ModelSize
from .engine.settings import EngineSettings

_ABOUT = {
    "tensor_parallel": "workers that share each step of a replica",
    "data_parallel": "replicas that serve side by side",
    "prefill": "more replicas, which only prefill and send the KV blocks",
    "device": "where the workers compute",
    "blocks": "of the KV cache, per replica",
    "block_size": "tokens of a block",
    "max_running": "requests that are batched together",
    "max_step_tokens": "tokens of one step; longer prompts are prefilled in chunks",
    "max_waiting": "requests that may wait; one more is refused",
    "start_timeout": "seconds for every replica to be ready",
    "step_timeout": "seconds after which a step's replica is started anew",
    "retries": "how often a request may be begun anew elsewhere",
    "kv_lease": "seconds for blocks on their way from prefill to decode",
}
_METAVARS = {int: "N", float: "SECONDS", str: None}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """One for each setting, with its default."""
    group = parser.add_argument_group("engine")
    defaults = EngineSettings()
    for name, about in _ABOUT.items():
        default: str | int | float = getattr(defaults, name)
        group.add_argument(
            "--" + name.replace("_", "-"),
            type=type(default),
            default=default,
            choices=["cpu", "cuda"] if name == "device" else None,
            metavar=_METAVARS[type(default)],
            help=f"{about} (default {default})",
        )
    group.add_argument(
        "--no-restart", dest="restart", action="store_false", help="leave dead parts dead"
    )
    group.add_argument(
        "--model-seed", type=int, default=0, metavar="N", help="of the weights (default 0)"
    )


def settings_of(options: argparse.Namespace) -> EngineSettings:
    """Of parsed flags; ValueError if no engine can be like that."""
    chosen = {name: getattr(options, name) for name in _ABOUT}
    size = ModelSize(seed=options.model_seed)
    return EngineSettings(**chosen, restart=options.restart, size=size)
