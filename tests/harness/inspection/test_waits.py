"""What a stack says of what its thread waits for."""

import pytest

from killpoint.inspection.waits import waits

_VLLM = "/x/site-packages/vllm/distributed/device_communicators/shm_broadcast.py"
_TORCH = "/x/site-packages/torch/distributed/distributed_c10d.py"


_CONDITION = ("Condition.wait", "/lib/python3.11/threading.py")
_FUTURE = ("Future.result", "/lib/python3.11/concurrent/futures/_base.py")
_BLOCK = ("EpollWaiter.block", "/i/refengine/base/event_waiter.py")
_YIELD = ("sched_yield", "/x/vllm/distributed/utils.py")


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ([_BLOCK, ("RingReader.claim", "/i/refengine/ring/reader.py")], "message"),
        ([_BLOCK, ("RingWriter.send", "/i/refengine/ring/writer.py")], "slot"),
        ([_YIELD, ("acquire_read", _VLLM)], "message"),
        ([("MessageQueue.acquire_write", _VLLM), ("enqueue", _VLLM)], "slot"),
        ([_CONDITION, ("barrier", _TORCH)], "collective barrier"),
        ([_CONDITION, _FUTURE], "lock"),
        ([("recv", "/x/zmq/backend/cython/_zmq.py")], "socket"),
        ([("barrier", "/home/me/zoo.py")], ""),
        ([("claim", "/home/me/ring/reader.py")], ""),
        ([], ""),
    ],
)
def test_the_frame_that_tells_most_is_believed(frames, told):
    assert waits(frames) == told
