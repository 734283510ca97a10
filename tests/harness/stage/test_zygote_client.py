"""A zygote ends with its director, however that ends, and takes the plays' folder with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

_DIRECTOR = """
import signal
from killpoint.stage.stage import Stage
stage = Stage("refengine")
print(stage.root, stage.zygote.pid, flush=True)
signal.pause()
"""


def test_nothing_is_left_when_the_director_is_killed() -> None:
    director = subprocess.Popen(
        [sys.executable, "-c", _DIRECTOR],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert director.stdout is not None
    with director.stdout as said:
        root, zygote = said.readline().split()
    assert Path(root).is_dir()
    watched = os.pidfd_open(int(zygote))
    try:
        director.send_signal(signal.SIGKILL)
        director.wait(10)
        assert select.select([watched], [], [], 20)[0], "the zygote outlived its director by 20 s"
    finally:
        os.close(watched)
    assert not Path(root).exists()
