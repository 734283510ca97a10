"""The zygote's half for vLLM: its imports, and the start of vLLM's command line.

vLLM's platform for CPUs spawns every process, so that each imports vLLM again. Here they are
forked, as vLLM does it on GPUs; nothing else of vLLM is changed. A violation in a forked play is to
be shown once by an ordinary start, because forks inherit what new processes do not.
"""

import importlib
import multiprocessing
import sys
from typing import Any

_MODULES = (
    "vllm",
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.cli.serve",
    "vllm.entrypoints.cli.benchmark.main",
    "vllm.entrypoints.cli.collect_env",
    "vllm.entrypoints.cli.download_kernels",
    "vllm.entrypoints.cli.launch",
    "vllm.entrypoints.cli.openai",
    "vllm.entrypoints.cli.preload",
    "vllm.entrypoints.cli.run_batch",
    "vllm.entrypoints.cli.snapshot",
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.launchers.api_server.entry",
    "vllm.entrypoints.launchers.app",
    "vllm.entrypoints.serve",
    "vllm.entrypoints.openai.completion.serving",
    "vllm.entrypoints.openai.chat_completion.serving",
    "vllm.v1.engine.core",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.coordinator",
    "vllm.v1.engine.input_processor",
    "vllm.v1.executor.multiproc_executor",
    "vllm.v1.worker.cpu_worker",
    "vllm.v1.worker.cpu_model_runner",
    "vllm.v1.attention.backends.cpu_attn",
    "vllm.model_executor.models.llama",
    "vllm.model_executor.model_loader.default_loader",
    "transformers.models.llama.configuration_llama",
    "transformers.tokenization_utils_fast",
)
"""Modules of several releases; those that a release does not have are not imported ahead."""


_MODEL = ("vllm.model_executor.models.llama", "LlamaForCausalLM")
"""Module and class of the model that is served (:mod:`.tiny_model`)."""


def preload() -> None:
    """Import vLLM, single-threaded, and have it fork its processes."""
    fork = multiprocessing.get_context("fork")

    def get_context(_method: "str | None" = None) -> Any:
        return fork

    multiprocessing.get_context = get_context
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            sys.stdout.write(f"not imported ahead: {error}\n")
    _register(*_MODEL)
    platforms = importlib.import_module("vllm.platforms")
    assert platforms.current_platform.device_type == "cpu", platforms.current_platform


def _register(module: str, architecture: str) -> None:
    """Register the model's class: else each start asks a new process for it, for seconds."""
    try:
        cls = getattr(importlib.import_module(module), architecture)
        models = importlib.import_module("vllm.model_executor.models")
        models.ModelRegistry.register_model(architecture, cls)
    except (ImportError, AttributeError) as error:
        sys.stdout.write(f"not registered ahead: {error}\n")


def serve() -> None:
    """Run ``vllm serve …``, as ``sys.argv`` has it."""
    importlib.import_module("vllm.entrypoints.cli.main").main()
