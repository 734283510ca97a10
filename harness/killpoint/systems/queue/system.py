"""A broadcast message queue, and the ring below it, as a system."""

from __future__ import annotations

from collections.abc import Iterator

from killpoint import scenario as script
from killpoint.scenario import AnyStep, Scenario
from killpoint.scenario_errors import Place, few
from killpoint.systems.base import System


class QueueSystem(System):
    """The roles are the writer and its readers."""

    name = "queue"
    opens = (script.Make,)
    attaches = (script.Attach,)
    next_start = (
        script.Make(),
        script.Attach(),
        script.Ready(timeout=5.0),
        script.Send([script.Message()]),
        script.Receive(1, timeout=5.0),
        script.Wait(),
    )

    def unplayable_link_fault(
        self, scenario: Scenario, step: script.Fault
    ) -> Iterator[tuple[Place, str]]:
        """See the base class."""
        if step.role not in scenario.roles():
            return
        remote = scenario.remote()
        if not remote or step.role not in ("writer", *remote):
            expected = ", ".join(few(["writer", *remote])) if remote else "remote readers"
            what = f"{step.fault} of {step.role!r}, which has no TCP connection"
            yield ["role"], f"{what}; expected {'one of: ' if remote else ''}{expected}"

    def ends(self, roles: tuple[str, ...]) -> tuple[AnyStep, ...]:
        """See the base class: what is held is looked at once more, then each end is closed."""
        return script.VerifyHeld(roles), script.Close(roles)

    def rank(self, scenario: Scenario, role: str, step: AnyStep) -> int:
        """See the base class: the reader's, unless the step names one."""
        if isinstance(step, script.Attach) and step.rank is not None:
            return step.rank
        readers = scenario.readers()
        return readers.index(role) if role in readers else 0

    def numbers_taken(self, step: AnyStep, role: str) -> int:
        """See the base class."""
        del role
        if isinstance(step, script.Send):
            return sum(message.repeat for message in step.messages)
        return int(isinstance(step, script.RingWrite))

    def order_data(self, scenario: Scenario, step: AnyStep) -> bytes:
        """See the base class."""
        if isinstance(step, script.Make | script.RingAttach):
            return script.dump_shape(scenario.shape)
        return b""


SYSTEM = QueueSystem()
