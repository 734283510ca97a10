"""The files of a release as an installed vllm: those under test as they are, stand-ins for others.

``TARGET_TREE`` names the folder that holds ``vllm/``. Without it an installed vllm is imported.
"""

import importlib.machinery
import importlib.util
import multiprocessing
import os
import pathlib
import socket
import sys
import traceback
import types
import uuid


class StandIn(type):
    """A class that takes part in whatever is only named, called, entered or decorated with."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(name, (cls,), {}) if cls.__bases__ == (object,) else Nothing


class Nothing(metaclass=StandIn):
    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return getattr(Nothing, name)

    def __call__(self, function=None, *args, **kwargs):
        return function

    def __bool__(self):
        return False

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class Log(Nothing):
    def exception(self, *told, **options):
        traceback.print_exc()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def bound_socket(path, ctx, socket_type, **options):
    import zmq

    made = ctx.socket(socket_type)
    made.linger = 0
    if socket_type == zmq.XPUB:
        made.xpub_verbose = True  # as vllm has it: it counts each subscription
    made.bind(path)
    return made


def untyped_decoder(kind=None):
    import msgspec

    return msgspec.msgpack.Decoder()


class Loader:
    as_they_are = (
        "vllm.envs",
        "vllm.distributed.utils",
        "vllm.distributed.device_communicators.shm_broadcast",
        "vllm.v1.engine.coordinator",
        "vllm.v1.executor.abstract",
        "vllm.v1.executor.multiproc_executor",
    )
    stand_ins = {
        "EngineCoreRequestType": types.SimpleNamespace(
            START_DP_WAVE=types.SimpleNamespace(value=b"\2")
        ),
        "MsgpackDecoder": untyped_decoder,
        "get_ip": lambda: "127.0.0.1",
        "get_mp_context": lambda: multiprocessing.get_context("fork"),
        "get_open_port": free_port,
        "get_open_zmq_inproc_path": lambda: f"inproc://{uuid.uuid4()}",
        "get_open_zmq_ipc_path": lambda: f"ipc://{os.environ['VLLM_RPC_BASE_PATH']}/{uuid.uuid4()}",
        "init_logger": Log,
        "is_valid_ipv6_address": lambda address: ":" in address,
        "make_zmq_socket": bound_socket,
        "sched_yield": os.sched_yield,
    }

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "vllm":
            return None
        file = pathlib.Path(os.environ["TARGET_TREE"], *name.split(".")).with_suffix(".py")
        if name in self.as_they_are and file.is_file():
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return types.ModuleType(spec.name)

    def exec_module(self, module):
        def stand_in(name):
            if f"{module.__name__}.{name}" in self.as_they_are:
                return importlib.import_module(f"{module.__name__}.{name}")
            return self.stand_ins.get(name) or getattr(Nothing, name)

        module.__getattr__ = stand_in


if "TARGET_TREE" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Loader())
