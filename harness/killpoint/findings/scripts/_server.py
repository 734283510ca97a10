"""A server of the installed vllm, with a model without a meaning that is made here."""

import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile

from _bounded import within

SIZES = {"hidden_size": 128, "intermediate_size": 128, "vocab_size": 512}
COUNTS = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32"}
CONFIG = LLAMA | SIZES | COUNTS | {"max_position_embeddings": 4096}
OPTIONS = ["--load-format", "dummy", "--skip-tokenizer-init", "--enforce-eager"]
ASKED = {"prompt": [1, 2, 3], "max_tokens": 4000, "ignore_eos": True, "detokenize": False}
CPU = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "TORCHDYNAMO_DISABLE": "1"}


def served():
    """A server that is ready, its port, and the name of its model."""
    server, port, folder = started()
    if not within(300, lambda: server.poll() is not None or healthy(port)) or server.poll():
        raise RuntimeError(f"the server was not ready (status {server.poll()})")
    return server, port, folder


def started():
    """A server that has only just been started."""
    folder = tempfile.mkdtemp(dir=os.environ.pop("VLLM_RPC_BASE_PATH", None))
    os.environ.pop("VLLM_WORKER_MULTIPROC_METHOD", None)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(CONFIG, file)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = ["--host", "127.0.0.1", "--port", str(port)]
    program = "from vllm.entrypoints.cli.main import main; main()"
    server = subprocess.Popen(
        [sys.executable, "-c", program, "serve", folder, *OPTIONS, *where],
        env={**CPU, **os.environ, "TMPDIR": folder},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return server, port, folder


def healthy(port):
    try:
        return answered(port, "GET", "/health", timeout=5) == 200
    except OSError:
        return False


def answered(port, method, path, body=None, timeout=60):
    """The status of a request's whole answer."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    line.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    reply = line.getresponse()
    reply.read()
    return reply.status


def below(pid):
    """The processes that a process has started, and theirs."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        mine = [int(each) for each in file.read().split()]
    return mine + [each for child in mine for each in below(child)]


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def cores(pids):
    """Those of these processes that are engine cores."""
    found = []
    for pid in pids:
        with open(f"/proc/{pid}/cmdline") as file:
            found += [pid] * ("EngineCor" in file.read())
    return found
