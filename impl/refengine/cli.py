"""The command line: serve an engine over HTTP, or generate once."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import msgspec

from . import node_flags
from .engine.model.size import ModelSize
from .engine.settings import EngineSettings
from .errors import RefengineError
from .executor.nodes.settings import NodeSettings

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


def settings_of(options: argparse.Namespace, nodes: NodeSettings | None = None) -> EngineSettings:
    """Return the settings of parsed flags; ValueError if no engine can be like that."""
    chosen = {name: getattr(options, name) for name in _ABOUT}
    size = ModelSize(seed=options.model_seed)
    return EngineSettings(**chosen, restart=options.restart, size=size, nodes=nodes)


_BAD_USAGE, _CANNOT_WORK = 2, 70
_MOST_FRONT_ENDS = 64
_EXTRA = ("cloudpickle", "prometheus_client", "starlette", "torch", "uvicorn")
"""Modules of the extra `reference`: without them its parts can be imported, the engine cannot."""


class _BadUsage(Exception):
    """Return in one line what is wrong."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _BadUsage(f"{self.prog}: {message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status: 0, 2 bad usage, 70 it could not do its work."""
    try:
        options = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace], int] = options.command
        _require_extra()
        return command(options)
    except _BadUsage as error:
        return _ended(str(error), _BAD_USAGE)
    except BrokenPipeError:  # whoever read our output has enough; say nothing more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _CANNOT_WORK
    except (OSError, MemoryError, RefengineError) as error:
        return _ended(f"refengine could not do its work: {error}", _CANNOT_WORK)
    except KeyboardInterrupt:
        return _ended("interrupted", 128 + signal.SIGINT)


def _require_extra() -> None:
    for module in _EXTRA:
        if importlib.util.find_spec(module) is None:
            what = f"{module} is not installed here; expected the extra"
            raise _BadUsage(f"refengine: {what}: pip install 'killpoint[reference]'")


def _ended(text: str, status: int) -> int:
    print(" ".join(text.split()), file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="refengine", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)
    server = commands.add_parser(
        "serve",
        help="an OpenAI-compatible server: /v1/completions, /health, /metrics",
        description="Serve until SIGTERM or SIGINT; the first line on stdout says where.",
    )
    server.set_defaults(command=_serve)
    server.add_argument("--host", default="127.0.0.1", help="address (default 127.0.0.1)")
    server.add_argument(
        "--port", type=_port, default=8000, help="default 8000; 0 takes a free one and prints it"
    )
    server.add_argument(
        "--model-name", default="refengine", metavar="NAME", help="default refengine"
    )
    server.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help="its first line is the key that clients send; without, anybody is served",
    )
    server.add_argument(
        "--drain",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="after SIGTERM or SIGINT, for open requests to finish; new ones are refused with 503,"
        " and a second signal ends it at once (default 10)",
    )
    server.add_argument(
        "--front-ends",
        type=_front_ends,
        default=1,
        metavar="N",
        help="processes that answer HTTP at the one address (default 1: the engine's own process)",
    )
    node_flags.add_flags(server)
    add_flags(server)
    once = commands.add_parser(
        "generate",
        help="the model's continuation of one text",
        description="Start an engine, print how the model goes on from TEXT, end the engine.",
    )
    once.set_defaults(command=_generate)
    once.add_argument("text")
    once.add_argument("--max-tokens", type=_count, default=16, metavar="N", help="default 16")
    once.add_argument("--json", action="store_true", help="text, token ids and finish, as JSON")
    add_flags(once)
    return parser


def _serve(options: argparse.Namespace) -> int:
    nodes = _nodes(options)
    if nodes is not None and options.node_rank:
        from .serving.follower_command import follow

        return follow(nodes, options.start_timeout)
    settings = _settings(options, nodes)
    key = b"" if options.api_key_file is None else _key(options.api_key_file)
    from .serving.command import serve  # starlette and uvicorn are for this alone
    from .serving.http_side import ServeOptions

    serving = ServeOptions(
        options.host,
        options.port,
        options.model_name,
        key,
        options.drain,
        options.front_ends,
    )
    return serve(settings, serving)


def _generate(options: argparse.Namespace) -> int:
    from .engine import Engine
    from .engine.model.tokens import TextStream, encode

    if not (prompt := encode(options.text)):
        raise _BadUsage("refengine generate: the text is empty; one byte at least")
    settings = _settings(options)
    signal.signal(signal.SIGTERM, _terminated)
    began = time.monotonic()
    _progress(f"starting {settings.data_parallel + settings.prefill} replica(s)")
    with Engine(settings) as engine:
        _progress(f"ready in {time.monotonic() - began:.1f} s: {', '.join(engine.parts())}")
        began = time.monotonic()
        try:
            stream = engine.submit(prompt, options.max_tokens)
        except ValueError as error:
            raise _BadUsage(f"refengine generate: {error}") from None
        text, tokens, finish = TextStream(), list[int](), None
        while finish is None:
            delta = stream.next()
            tokens += delta.tokens
            finish = delta.finish
            if not options.json:
                _write(text.push(delta.tokens))
        seconds = time.monotonic() - began
    if options.json:
        decoder = TextStream()
        whole = decoder.push(tokens) + decoder.finish()
        said = {"text": whole, "token_ids": tokens, "finish_reason": finish}
        print(msgspec.json.encode(said).decode())
    else:
        _write(text.finish() + "\n")
    _progress(f"{len(tokens)} tokens in {seconds:.2f} s; finish: {finish}")
    return 0


def _nodes(options: argparse.Namespace) -> NodeSettings | None:
    try:
        return node_flags.settings_of(options)
    except ValueError as error:
        raise _BadUsage(f"refengine serve: {error}") from None


def _settings(options: argparse.Namespace, nodes: NodeSettings | None = None) -> EngineSettings:
    try:
        return settings_of(options, nodes)
    except ValueError as error:
        raise _BadUsage(f"refengine: {error}") from None


def _key(path: Path) -> bytes:
    key = path.read_bytes().partition(b"\n")[0].strip()
    if not key:
        raise _BadUsage(f"refengine serve: {path} has no key in its first line")
    return key


def _write(text: str) -> None:
    """At once; to a terminal nothing that would command it."""
    if sys.stdout.isatty():
        text = "".join(
            c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text
        )
    sys.stdout.write(text)
    sys.stdout.flush()


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(text, file=sys.stderr)


def _terminated(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 1 << 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port; expected 0 to 65535")


def _count(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens; expected 1 or more")


def _front_ends(text: str) -> int:
    if text.isdecimal() and 1 <= int(text) <= _MOST_FRONT_ENDS:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not a number of front ends; expected 1 to {_MOST_FRONT_ENDS}"
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if 0 <= seconds < float("inf"):
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a time; expected seconds, 0 or more")


if __name__ == "__main__":
    sys.exit(main())
