"""The `ServerProgram` of each engine: how it is started, watched and told apart, as data."""

from __future__ import annotations

import os
from pathlib import Path

from killpoint.systems.server.environments.edited_engine import IMPORTS, EditedEngine
from killpoint.systems.server.environments.line_fault import PLUGIN
from killpoint.systems.server.environments.tiny_model import PROMPTS
from killpoint.systems.server.program import (
    AskedDrain,
    LinePath,
    ServerProgram,
    UtilityCall,
    Zygote,
)

SERVED = "tiny"
"""Name of the model in requests."""

_FLAGS = {
    "--served-model-name": SERVED,
    "--dtype": "float32",
    "--max-model-len": "4096",
    "--max-num-seqs": "16",
}
_CPU_FLAGS = {"--kv-cache-memory-bytes": str(64 << 20)}
_QUIET = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}
_CPU = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # Its presence counts: without it a replica of 0.33.0 asks for a memory node of its own.
    "VLLM_CPU_SIM_MULTI_NUMA": "0",
    "TORCHDYNAMO_DISABLE": "1",  # the first request compiles for half a minute otherwise
}
_PER_PLAY = {
    "VLLM_CACHE_ROOT": "{folder}/cache",
    "VLLM_CONFIG_ROOT": "{folder}/config",
    "HF_HOME": "{folder}/hf",
    "TORCHINDUCTOR_CACHE_DIR": "{folder}/inductor",
    "TRITON_CACHE_DIR": "{folder}/triton",
}
_UNWANTED = (
    *("PYTHONHOME", "PYTHONFAULTHANDLER", "PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE"),
    "VLLM_RPC_BASE_PATH",  # its sockets go to TMPDIR, where they are told if they stay
)
"""Variables of the caller's environment that no server is to inherit."""
_OPEN = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_SECURITY = "docs/usage/security.md: "
_DISCLAIMS = {
    "S1": f"{_SECURITY}torch's store listens on all interfaces, and who runs it is to block every"
    " port but the API's",
    "S3": f"{_SECURITY}what its processes say to each other is not protected, and is to be kept on"
    " a network of its own",
}
_CORE, _POOL = "vllm.v1.engine.core", "vllm.v1.executor.multiproc_executor"
_QUEUE = "vllm.distributed.device_communicators.shm_broadcast"
_LINES = {
    "step": LinePath("core", _CORE, "EngineCore.step"),
    "schedule": LinePath("core", "vllm.v1.core.sched.scheduler", "Scheduler.schedule"),
    "blocks": LinePath("core", "vllm.v1.core.kv_cache_manager", "KVCacheManager.allocate_slots"),
    "call": LinePath("core", _POOL, "MultiprocExecutor.collective_rpc"),
    "output": LinePath("core", _CORE, "EngineCoreProc.process_output_sockets"),
    "message": LinePath("worker", _QUEUE, "MessageQueue.dequeue"),
    "run": LinePath("worker", _POOL, "WorkerProc._execute_worker_rpc"),
    "reply": LinePath("worker", _POOL, "WorkerProc.enqueue_output"),
    "publish": LinePath(
        "coordinator", "vllm.v1.engine.coordinator", "DPCoordinatorProc.process_input_socket"
    ),
    "shutdown": LinePath("core", _CORE, "EngineCore.shutdown"),
    "overflow": LinePath(
        "core", _QUEUE, "MessageQueue.enqueue", "self.local_socket.send_multipart"
    ),
    "handshake": LinePath("worker", _QUEUE, "MessageQueue.wait_until_ready", "recv = self.local_"),
    "group-send": LinePath("core", "vllm.distributed.utils", "StatelessProcessGroup.send_obj"),
    "group-barrier": LinePath("core", "vllm.distributed.utils", "StatelessProcessGroup.barrier"),
    "worker-shutdown": LinePath("worker", _POOL, "WorkerProc.shutdown"),
}
_RPC, _DEV = "/collective_rpc", {"VLLM_SERVER_DEV_MODE": "1"}
_PADDED = '{"method": "check_health", "args": ["{padding}"]}'
_CALLS = {
    "refused": UtilityCall(_RPC, '{"method": "no_such_method"}', environment=_DEV),
    "accepted": UtilityCall(_RPC, '{"method": "check_health"}', environment=_DEV),
    "unsendable": UtilityCall(_RPC, '{"method": "get_model"}', environment=_DEV),
    "large": UtilityCall(_RPC, _PADDED, 17 << 20, _DEV),
    "nearly-large": UtilityCall(_RPC, _PADDED, 15 << 20, _DEV),
}
"""Calls of all workers: one that each refuses, one that none refuses, one whose result is an object
that cannot be sent, one that is larger than a chunk of the queue, and one that is not."""
_DRAIN = AskedDrain(["--shutdown-timeout", "20"], 20.0)
"""Without the option vLLM kills its parts as soon as it is told to end."""
_TWO_NODES = [
    *("--tensor-parallel-size", "2", "--nnodes", "2"),
    *("--master-addr", "{head}", "--master-port", "29501"),
]
_HELPER = r"multiprocessing\.(resource_tracker|forkserver)"
_BESIDE = str(Path(__file__).with_name("beside.py"))
_MOCKER = r"^\S+ \S+ -m dynamo\.mocker "
_PREFILLS = ["--disaggregation-mode", "prefill"]
_RANDOM = "the tokens of Dynamo's mocker are drawn at random: no answer comes twice, whoever has it"
_KEPT = (
    "its front end and its workers are services of their own, which whoever deploys them ends: here"
    " killpoint's launcher does"
)
_DYNAMOS = (
    "its workers are Dynamo's own mocker, which runs no model: tokens are random, one every few"
    " milliseconds",
    "its workers are started beside its front end, and ended after it, by killpoint's own launcher,"
    " in the place of whatever deploys it",
)
_DYNAMO_SETTINGS = ("DYN_NAMESPACE", "DYN_SYSTEM_PORT", "DYN_REQUEST_PLANE", "DYN_EVENT_PLANE")
_ZYGOTE = [str(Path(__file__).with_name(name)) for name in ("zygote.py", "zygote_vllm.py")]


def vllm(
    name: str,
    version: str,
    notes: tuple[str, ...],
    python: Path,
    site: Path | None,
    package: Path,
    model: Path,
    cpu: bool,
    instead: EditedEngine | None = None,
) -> ServerProgram:
    """Return vLLM's own server, started by its command line.

    Args:
        site: the folder that goes first on the path; None: vLLM lies in the environment itself.
        package: the folder of its files.
        cpu: True for a build for the CPU; one for GPUs is started with its own defaults.
        instead: edited files that it imports in the place of its own, if any.
    """
    flags = [word for pair in (_FLAGS | (_CPU_FLAGS if cpu else {})).items() for word in pair]
    folders = (IMPORTS if instead else None, site, PLUGIN)
    path = {"PYTHONPATH": os.pathsep.join(str(each) for each in folders if each)}
    path |= instead.variables() if instead else {}
    fixed = path | _QUIET | (_CPU if cpu else {})
    command = [str(python), str((site or python.parent.parent) / "bin" / "vllm"), "serve"]
    served = [str(model), "--host", "{host}", "--port", "{port}", "--enforce-eager"]
    zygote = [f"{key}={value}" for key, value in fixed.items()]
    return ServerProgram(
        name=name,
        version=version,
        notes=[*notes, *(instead.notes if instead else ())],
        command=[*command, *served, *flags],
        topologies={
            "tensor-parallel": ["--tensor-parallel-size", "2"],
            "data-parallel": ["--data-parallel-size", "2"],
            "front-ends": ["--api-server-count", "2"],
            "two-nodes": [*_TWO_NODES, "--node-rank", "0"],
        },
        follower=[*_TWO_NODES, "--node-rank", "1", "--headless"],
        node_environment={"VLLM_HOST_IP": "{own}", "GLOO_SOCKET_IFNAME": "{link}"},
        environment=dict.fromkeys(_UNWANTED, "") | fixed | _PER_PLAY,
        model=SERVED,
        metrics="/metrics",
        open_requests=list(_OPEN),
        by_replica=list(_OPEN),
        disclaims=_DISCLAIMS,
        titles={
            "coordinator": r"VLLM::DPCoordinat",
            "worker": r"VLLM::Worker",
            "core": r"VLLM::EngineCor",
            "api-server": r"VLLM::APIServer",
            "helper": _HELPER,
        },
        asked_drain=_DRAIN if _can_drain(package) else None,
        start_within=240.0,
        prompts=list(PROMPTS),
        utility=UtilityCall(_RPC, '{"method": "check_health"}', environment=_DEV),
        calls=_CALLS,
        lines=_LINES,
        keeps=["cache/modelinfos"],
        zygote=Zygote(["env", *zygote, str(python), _ZYGOTE[0], "{socket}", _ZYGOTE[1]])
        if cpu
        else None,
    )


def _can_drain(package: Path) -> bool:
    """Return whether a vLLM has the option; in releases before, requests in flight are dropped."""
    options = package / "engine" / "arg_utils.py"
    return options.is_file() and _DRAIN.arguments[0] in options.read_text()


def transformers(version: str, notes: tuple[str, ...], python: Path, model: Path) -> ServerProgram:
    """The server of the transformers library: one process, which generates in a thread."""
    script = str(python.with_name("transformers"))
    address, placed = (
        ["--host", "{host}", "--port", "{port}"],
        ["--device", "cpu", "--dtype", "float32"],
    )
    return ServerProgram(
        name="transformers",
        version=version,
        notes=list(notes),
        command=[str(python), script, "serve", str(model), *address, *placed],
        environment=dict.fromkeys(_UNWANTED, "")
        | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "HF_HOME": "{folder}/hf"}
        # torch's cache, whose folder each start finds again, is no leak
        | {"TORCHINDUCTOR_CACHE_DIR": "{folder}/inductor"},
        model=str(model),
        titles={"helper": _HELPER},
        start_within=120.0,
        prompts=list(PROMPTS),
    )


def dynamo(
    version: str, notes: tuple[str, ...], python: Path, site: Path, model: Path
) -> ServerProgram:
    """Dynamo's front end, with mockers for workers, which find each other by files.

    The front is the front end itself: a launcher of ours (``beside.py``) becomes it once it has
    forked a keeper of the mockers. So E6 and E7 judge Dynamo's own process: its drain with its
    workers at work, and its status. E8 is not judged, since the keeper ends the workers; nor are E2
    and E10, which compare tokens, since a mocker's are random. A truncated answer is seen all the
    same (:mod:`.mocker_model`).

    A mocker is a whole engine, so it stands for a core, and a second one for a replica; no part of
    it is a worker that shares its steps. A play of two workers is played with one mocker.
    """
    files = ["--discovery-backend", "file"]
    front = [str(python), "-m", "dynamo.frontend", *files]
    address = ["--http-host", "{host}", "--http-port", "{port}"]
    mocker = [str(python), "-m", "dynamo.mocker", *files]
    mocker += ["--model-path", str(model), "--model-name", SERVED, "--max-model-len", "4096"]
    return ServerProgram(
        name="dynamo",
        version=version,
        notes=[*_DYNAMOS, *notes],
        command=[str(python), _BESIDE, *front, *address, "--", *mocker],
        topologies={
            "tensor-parallel": [],
            "data-parallel": ["--", *mocker],
            "apart": ["--disaggregation-mode", "decode", "--", *mocker, *_PREFILLS],
        },
        environment=dict.fromkeys((*_UNWANTED, *_DYNAMO_SETTINGS), "")
        | {"PYTHONPATH": str(site), "DYN_FILE_KV": "{folder}/kv"}
        | {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "HF_HOME": "{folder}/hf"},
        model=SERVED,
        metrics="/metrics",
        open_requests=["dynamo_frontend_inflight_requests"],
        titles={
            "prefill": _MOCKER + f".*{' '.join(_PREFILLS)}",
            "core": _MOCKER,
            "helper": r"beside\.py|" + _HELPER,
        },
        unjudged={"E2": _RANDOM, "E8": _KEPT, "E10": _RANDOM},
        start_within=60.0,
        answer_tokens=512,
        prompts=list(PROMPTS),
    )
