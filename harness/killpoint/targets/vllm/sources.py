"""The files of vLLM that are served unmodified, and what can be read off them unexecuted."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path

import msgspec

from killpoint.errors import BadUsage, CannotWork

FOLDER = Path("vllm", "distributed", "device_communicators")
PACKAGE = ".".join(FOLDER.parts)
QUEUE = "shm_broadcast"
ARENA = "shm_tensor_arena"
STORAGE = "shm_object_storage"


class Features(msgspec.Struct, frozen=True):
    """What this copy of the queue offers, whatever its version is called."""

    deadlines: bool
    """``enqueue`` and ``dequeue`` both take ``timeout``."""
    cancel_event: bool
    """``dequeue`` takes an event that ends it."""
    shutdown: bool
    """The queue has ``shutdown()``."""
    ring: bool
    slots: bool
    remote: bool
    """The queue can be told which address its remote readers are to come to."""


class Sources(msgspec.Struct, frozen=True):
    """One copy of vLLM, as far as it is needed."""

    spec: str
    version: str
    root: Path
    """The folder that has ``vllm`` in it."""
    expected: dict[str, str] | None
    """sha256 by path for a stored release; None for a working tree, which may change."""
    origin: str
    """For people: where the files come from."""

    def modules(self) -> dict[str, Path]:
        """The real files, by the module that each is served as."""
        paths = {name: self.root / FOLDER / f"{name}.py" for name in (QUEUE, ARENA, STORAGE)}
        return {f"{PACKAGE}.{name}": path for name, path in paths.items() if path.is_file()}

    def read(self, path: Path) -> bytes:
        """A file's content.

        Raises:
            CannotWork: it cannot be read, or is not the file that was stored.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise CannotWork(f"{self.spec}: {error}") from error
        if self.expected is not None:
            known = self.expected.get(path.relative_to(self.root).as_posix())
            if hashlib.sha256(content).hexdigest() != known:
                raise CannotWork(
                    f"{self.spec}: {path} was changed since it was fetched; "
                    f"remove {self.root} and start again"
                )
        return content

    def features(self) -> Features:
        """What the queue's file offers.

        Raises:
            BadUsage: there is no message queue in it.
        """
        path = self.root / FOLDER / f"{QUEUE}.py"
        if not path.is_file():
            raise BadUsage(f"{self.spec}: it has no {FOLDER / QUEUE}.py")
        try:
            tree = ast.parse(self.read(path))
        except SyntaxError as error:
            raise CannotWork(f"{self.spec}: {path}: {error}") from error
        queue, ring = _methods(tree, "MessageQueue"), _methods(tree, "ShmRingBuffer")
        if not {"enqueue", "dequeue", "create_from_handle"} <= queue.keys():
            raise BadUsage(f"{self.spec}: its {QUEUE}.py has no message queue yet")
        return Features(
            deadlines="timeout" in queue["enqueue"] and "timeout" in queue["dequeue"],
            cancel_event="cancel" in queue["dequeue"],
            shutdown="shutdown" in queue,
            ring={"acquire_write", "acquire_read"} <= queue.keys(),
            slots={"get_metadata", "get_data"} <= ring.keys(),
            remote={"n_local_reader", "connect_ip"} <= queue.get("__init__", set()),
        )


def _methods(tree: ast.Module, name: str) -> dict[str, set[str]]:
    """A class's methods, and the names of each one's parameters."""
    found: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    arguments = item.args.args + item.args.kwonlyargs
                    found[item.name] = {argument.arg for argument in arguments}
    return found
