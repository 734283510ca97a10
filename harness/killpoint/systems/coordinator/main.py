"""The main module of a process that a target starts afresh as its coordinator.

It is imported there before any module of the target's, so that a target whose modules are changed
while they are imported is the same there, and the harness can move that process's clock.
"""

from __future__ import annotations

import os
from pathlib import Path

from killpoint.runner.processes.target_agent import PLAY, TARGET

NAME = "coordinator"
"""Role of such a process."""


def take() -> None:
    """Make this process the play's coordinator, if there is a play."""
    folder, spec = os.environ.get(PLAY), os.environ.get(TARGET, "")
    if folder is None:
        return
    if ":" in spec:
        from killpoint.targets.registry import build

        build(spec)
    from killpoint.runner.environment import remote_clock
    from killpoint.runner.points import line_recorder

    line_recorder.begin(Path(folder))
    remote_clock.listen(Path(folder), NAME)


if __name__ == "__mp_main__":  # multiprocessing's name for it there
    take()
