"""The files of vLLM that are served unmodified, and the features read off them unexecuted."""

from __future__ import annotations

import ast
import hashlib
from pathlib import Path
from types import CodeType
from typing import ClassVar

import msgspec
from packaging.version import InvalidVersion, Version

from killpoint.errors import BadUsage, CannotWork
from killpoint.points.tracing import PASSED_OVER
from killpoint.syntax import parsed
from killpoint.targets.edits import added
from killpoint.targets.vllm import pool_features, switch_offs

FOLDER = Path("vllm", "distributed", "device_communicators")
PACKAGE = ".".join(FOLDER.parts)
QUEUE = "shm_broadcast"
ARENA = "shm_tensor_arena"
STORAGE = "shm_object_storage"
GROUPS = Path("vllm", "distributed", "utils.py")
GROUP = "vllm.distributed.utils"
SETTINGS = Path("vllm", "envs.py")
ENGINES = Path("vllm", "v1", "engine", "__init__.py")
COORDINATOR = Path("vllm", "v1", "engine", "coordinator.py")
EXECUTORS = Path("vllm", "v1", "executor")
PIPES = Path("vllm", "distributed", "kv_transfer", "kv_pipe")
PIPE = "vllm.distributed.kv_transfer.kv_pipe.pynccl_pipe"
_WITH_PIPES = (Version("0.6.5"), Version("0.12.0"))
"""First and last release that have a pipe."""
EXECUTOR = "vllm.v1.executor.multiproc_executor"


class Features(msgspec.Struct, frozen=True):
    """Features that this copy of vLLM offers, independent of its version's name."""

    deadlines: bool
    """True if ``enqueue`` and ``dequeue`` both take ``timeout``."""
    cancel_event: bool
    """True if ``dequeue`` takes an event that ends it."""
    shutdown: bool
    """True if the queue has ``shutdown()``."""
    ring: bool
    slots: bool
    remote: bool
    """True if the queue takes the address that its remote readers are to connect to."""
    group: bool = False
    """True if there is a stateless process group beside the queue."""
    store_timeout: bool = False
    """True if a timeout can be given where a group is made."""
    barrier_timeout: bool = False
    pool: pool_features.PoolFeatures | None = None
    """Features of its executor; None: there is none."""
    pipe: bool = False
    """True if there is a pipe for KV caches beside the group."""
    coordinator: bool = False
    """True if there is a coordinator for data-parallel replicas."""


class Sources(msgspec.Struct, frozen=True):
    """One copy of vLLM, as far as it is needed."""

    folder: ClassVar[Path] = FOLDER
    """Folder of the queue's file, below the root."""
    spec: str
    version: str
    root: Path
    """Folder that has the import package in it."""
    expected: dict[str, str] | None
    """sha256 by path for a stored release; None for a working tree, which may change."""
    origin: str
    """Origin of the files, as a text for reports."""
    off: tuple[str, ...] = ()
    """Findings that are switched off in the code as it is loaded, by id."""

    def modules(self) -> dict[str, Path]:
        """Return the real files, by the module that each is served as."""
        paths = {name: self.root / FOLDER / f"{name}.py" for name in (QUEUE, ARENA, STORAGE)}
        real = {f"{PACKAGE}.{name}": path for name, path in paths.items() if path.is_file()}
        grouped = {GROUP: self.root / GROUPS} if self._group() else {}
        return real | grouped | self._executors() | self._pipes()

    def files(self) -> list[Path]:
        """Return every file whose code is run."""
        coordinators = [self.root / COORDINATOR] if self._has(COORDINATOR) else []
        return [*self.modules().values(), *coordinators]

    def whole(self) -> bool:
        """Return whether it has everything that this killpoint keeps of a release.

        A release that an older one stored lacks the pipe, the settings and the files that came to
        be kept before them, or the engine of a release that has one beside its executor.
        """
        if self.expected is None:
            return True
        executor, engine = EXECUTORS / "__init__.py", ENGINES
        new = executor.as_posix() not in self.expected or engine.as_posix() in self.expected
        kept = SETTINGS.as_posix() in self.expected and new
        return kept and (bool(self._pipes()) or not _has_pipes(self.version))

    def _executors(self) -> dict[str, Path]:
        """Return the pool's files, if all of them are there."""
        names = ("multiproc_executor", "abstract")
        files = {name: EXECUTORS / f"{name}.py" for name in names}
        if not all(self._has(file) for file in files.values()):
            return {}
        package = ".".join(EXECUTORS.parts)
        return {f"{package}.{name}": self.root / file for name, file in files.items()}

    def _pipes(self) -> dict[str, Path]:
        """Return the pipe's files, if all of them and a group are there."""
        files = {name: PIPES / f"{name}.py" for name in ("base", PIPE.rpartition(".")[2])}
        if not (self._group() and all(self._has(file) for file in files.values())):
            return {}
        return {f"{PIPE.rpartition('.')[0]}.{name}": self.root / at for name, at in files.items()}

    def _pool(self) -> pool_features.PoolFeatures | None:
        files = self._executors()
        if not files:
            return None
        chosen = self._parsed(self.root / SETTINGS) if self._has(SETTINGS) else None
        return pool_features.read(self._parsed(files[EXECUTOR]), chosen)

    def _has(self, file: Path) -> bool:
        known = self.expected is None or file.as_posix() in self.expected
        return known and (self.root / file).is_file()

    def _group(self) -> dict[str, set[str]]:
        """Return the methods of the stateless process group; empty if there is none."""
        if not self._has(GROUPS):
            return {}
        return _methods(self._parsed(self.root / GROUPS), "StatelessProcessGroup")

    def _parsed(self, path: Path) -> ast.Module:
        try:
            return parsed(self.read(path))
        except SyntaxError as error:
            raise CannotWork(f"{self.spec}: {path}: {error}") from error

    def module(self) -> str:
        """Return the name that the queue's module is imported by."""
        return ".".join((*self.folder.parts, QUEUE))

    def code(self, path: Path) -> bytes:
        """Return a file's content as it is executed: unchanged but for switch-offs.

        Raises:
            CannotWork: as :meth:`read`; or no part of a switch-off fits this copy.
        """
        return switch_offs.applied(self.off, path, self.read(path)) if self.off else self.read(path)

    def compiled(self, path: Path) -> CodeType:
        """Return a file's code, compiled; lines that a switch-off adds to it are no points.

        Raises:
            CannotWork: as :meth:`code`.
        """
        code = self.code(path)
        if self.off:
            PASSED_OVER[str(path)] = added(self.read(path).decode(), code.decode())
        return compile(code, str(path), "exec", dont_inherit=True)

    def switched_off(self) -> list[str]:
        """Return notes on the findings that are switched off, and on those that no edit fits."""
        if not self.off:
            return []
        texts = [(path, self.read(path)) for path in self.files()]
        absent = [id for id in self.off if not any(switch_offs.fits(id, *each) for each in texts)]
        there = ", ".join(id for id in self.off if id not in absent)
        told = [f"switched off, by edits as the code was loaded: {there}"] if there else []
        return told + [f"not switched off, since no edit fits: {', '.join(absent)}"] * bool(absent)

    def read(self, path: Path) -> bytes:
        """Return a file's content.

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
        """Return the features of the queue's file.

        Raises:
            BadUsage: there is no message queue in it.
        """
        path = self.root / self.folder / f"{QUEUE}.py"
        if not path.is_file():
            raise BadUsage(f"{self.spec}: it has no {self.folder / QUEUE}.py")
        tree, group = self._parsed(path), self._group()
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
            group=bool(group),
            store_timeout="store_timeout" in group.get("create", ()),
            barrier_timeout="timeout" in group.get("barrier", ()),
            pool=self._pool(),
            pipe=bool(self._pipes()),
            coordinator=self._has(COORDINATOR),
        )


def _has_pipes(version: str) -> bool:
    try:
        return _WITH_PIPES[0] <= Version(version) <= _WITH_PIPES[1]
    except InvalidVersion:
        return False


def _methods(tree: ast.Module, name: str) -> dict[str, set[str]]:
    """Return a class's methods, and the names of each one's parameters."""
    found: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    arguments = item.args.args + item.args.kwonlyargs
                    found[item.name] = {argument.arg for argument in arguments}
    return found
