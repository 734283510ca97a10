"""Entry of a process into a role, by any start method."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from killpoint.runner.protocol import ForkRole
from killpoint.runner.role import Role
from killpoint.targets.protocol import Target


def enter_play(folder: Path, role: str, temporary: str = "t") -> None:
    """Make a play's folder the place for this process's temporary files and its output.

    Files that multiprocessing keeps for a launcher go to another folder than the one that the
    ledger checks: they are the harness's, not the target's.
    """
    (folder / temporary).mkdir(mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / temporary)
    complaints = os.open(folder / f"{role}.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(complaints, 1)
    os.dup2(complaints, 2)
    os.close(complaints)


def live_as_role(order: ForkRole, target: Target) -> None:
    """Serve one play as this role; return when the interpreter is to end normally."""
    role = Role(
        order.role,
        target,
        Path(order.folder),
        system=order.system,
        seed=order.seed,
        observe=order.observe,
        stores=order.stores,
    )
    role.come()
    if order.cancels:
        role.listen_for_cancel()
    try:
        role.run()
    except KeyboardInterrupt:
        if order.terminal:
            role.interrupted()
        raise
