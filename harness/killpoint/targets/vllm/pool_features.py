"""Features of a release's executor, read off its file and its settings unexecuted."""

from __future__ import annotations

import ast

import msgspec

METHODS = ("spawn", "fork", "forkserver")
_CHOSEN_BY = "VLLM_WORKER_MULTIPROC_METHOD"


class PoolFeatures(msgspec.Struct, frozen=True):
    """Features that this copy of vLLM's executor offers."""

    any_rank: bool
    """True if a single reply may be asked of any rank; else of rank 0 alone."""
    bare_reply: bool
    """True if a single reply comes by itself; else as a list of one."""
    non_blocking: bool
    lazy_futures: bool
    """True if its futures are of its own kind, which take no timeout and are done once they were
    asked; else such calls need a thread that there is only where batches may overlap."""
    overlap: bool
    """True if batches may overlap without a pipeline (asynchronous scheduling)."""
    output_thread: bool
    pipeline: bool
    starts: tuple[str, ...]
    """Start methods that its settings take."""


def read(executor: ast.Module, settings: ast.Module | None) -> PoolFeatures | None:
    """Return the features in the file, or None: no pool that reports the death of its workers."""
    calls = _parameters(executor, "MultiprocExecutor", "collective_rpc")
    if not calls or not _parameters(executor, "MultiprocExecutor", "register_failure_callback"):
        return None
    words = {node.attr for node in ast.walk(executor) if isinstance(node, ast.Attribute)}
    classes = {node.name for node in executor.body if isinstance(node, ast.ClassDef)}
    return PoolFeatures(
        any_rank="unique_reply_rank" in calls,
        bare_reply="kv_output_aggregator" in calls,
        non_blocking="non_block" in calls,
        lazy_futures="FutureWrapper" in classes,
        overlap="async_scheduling" in words,
        output_thread=bool(_parameters(executor, "WorkerProc", "async_output_busy_loop")),
        pipeline="pipeline_parallel_size" in words,
        starts=METHODS if settings is None else _starts(settings),
    )


def _parameters(tree: ast.Module, kind: str, method: str) -> set[str]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == kind:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == method:
                    return {argument.arg for argument in item.args.args + item.args.kwonlyargs}
    return set()


def _starts(settings: ast.Module) -> tuple[str, ...]:
    """Return the choices that the setting's own check leaves; all of them where it checks none."""
    for node in ast.walk(settings):
        if isinstance(node, ast.Call) and len(node.args) > 2:
            named, choices = node.args[0], node.args[2]
            if isinstance(named, ast.Constant) and named.value == _CHOSEN_BY:
                taken = {item.value for item in ast.walk(choices) if isinstance(item, ast.Constant)}
                return tuple(method for method in METHODS if method in taken)
    return METHODS
