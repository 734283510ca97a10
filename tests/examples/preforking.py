"""The reference as a target that tells, in the play's folder, of each zygote made before a play."""

from __future__ import annotations

import os
from pathlib import Path

from killpoint.targets.engine_protocol import EngineShape
from killpoint.targets.refengine.adapter import RefengineTarget
from refengine.engine import Engine
from refengine.executor import fork_server


def _tell(what: str, pid: object) -> None:
    Path(os.environ["TMPDIR"]).parent.joinpath(what).write_text(str(pid))


class Told(RefengineTarget):
    """It writes down the pid of each."""

    def prefork(self, system: str) -> None:
        """Make it, and tell."""
        super().prefork(system)
        (zygote,) = fork_server._shared.values()
        _tell("preforked", zygote.pid)

    def engine_start(self, shape: EngineShape, timeout: float | None) -> Engine:
        """Start it, and tell the parent of its first core."""
        engine = super().engine_start(shape, timeout)
        stat = Path(f"/proc/{engine.parts()['core-0']}/stat").read_text()
        _tell("parent", stat.rpartition(")")[2].split()[1])
        return engine
