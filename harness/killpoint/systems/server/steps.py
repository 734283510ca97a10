"""What is done to a whole server in a play, and what its clients do (SPEC 8)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec

from killpoint.systems.server.program import PartKind, Topology
from killpoint.systems.step import Seconds, Step

_Clients = Annotated[int, msgspec.Meta(ge=1, le=256)]
SERVER_PARTS: tuple[str, ...] = (
    "front",
    "follower",
    "coordinator",
    *(f"{kind}-{n}" for kind in ("api-server", "core", "prefill", "worker") for n in range(4)),
)
"""What may be struck. A tree that lacks one leaves the case unsupported."""


class ServerShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A server to be started."""

    topology: Topology = "tensor-parallel"

    system: ClassVar[str] = "server"

    def roles(self) -> list[str]:
        """Return every part that a server may have."""
        return list(SERVER_PARTS)

    def collective(self) -> dict[str, list[str]]:
        """Return no name for several parts."""
        return {}

    def started_by_target(self) -> list[str]:
        """Return no role: servers have a driver of their own."""
        return []

    def connecting(self) -> list[str]:
        """Return no role: the server makes its connections itself."""
        return []


class ServerStart(Step, tag="server-start"):
    """The server is started, in a session of its own."""

    until: Literal["ready", "begun", "late"] = "ready"
    """When the next step follows. ``ready``: health says so, and a request was answered;
    ``begun``: a first part has been started beside the front, and none is ready; ``late``: three
    fifths have passed of the time that a start takes, which is measured by one before the play, and
    it is not ready."""
    part: str = ""
    """For ``begun`` and ``late``: and this part has been started."""
    ordinary: bool = False
    """It is started as its users start it, though it could be forked from a process that has it
    imported: what it makes of a signal hangs together with how its parts were started."""


class ServerControl(Step, tag="server-control"):
    """Every client asks what it will ask under load, undisturbed: what the tokens are."""

    clients: _Clients = 12
    within: Seconds = 120.0


class ServerLoad(Step, tag="server-load"):
    """From now on clients ask, each again and again, every second one for a stream."""

    clients: _Clients = 12
    deadline: Seconds = 60.0
    """When a client gives up a request: so many seconds, and twice what the start of the server and
    the control took in this play, since what had begun on a part that died is begun anew."""


class ServerPhase(Step, tag="server-phase"):
    """The load goes on until every client is in this phase of its request.

    ``prefill``: asked, and no client has a token yet; ``decode``: every client that streams is in
    the middle of its answer; ``utility``: that, and a utility call is under way
    (:attr:`.program.ServerProgram.utility`).
    """

    phase: Literal["prefill", "decode", "utility"]
    within: Seconds = 30.0


class ServerCall(Step, tag="server-call"):
    """A utility call is made, beside the load; its end is not waited for."""

    call: str
    """As the program names it (:attr:`.program.ServerProgram.calls`)."""
    within: Seconds = 60.0


def is_utility(step: Step) -> bool:
    """Whether a step needs a server that names a utility call."""
    return isinstance(step, ServerPhase) and step.phase == "utility"


class ServerServe(Step, tag="server-serve"):
    """The load goes on for so long."""

    seconds: Seconds


class ServerHangUp(Step, tag="server-hang-up"):
    """So many clients more ask, and hang up in the middle of the answer, or before it."""

    clients: _Clients = 6
    never_read: bool = False
    """They stay, and read nothing."""
    whole: bool = False
    """None of them streams: they hang up when about half of their answer must have been made."""


class ServerOpenLoop(Step, tag="server-open-loop"):
    """From now on requests begin at a rate, whatever the answers do, beside those of the load."""

    rate: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 4.0
    """A second; the gaps are drawn by the seed."""
    most: _Clients = 24
    """So many at a time; what would begin beyond them is left out."""
    deadline: Seconds = 60.0
    """As for ``server-load``."""


class ServerSlowReaders(Step, tag="server-slow-readers"):
    """So many clients more ask for streams, again and again, and take a piece every so often.

    As long pieces, and as often, as it takes to be slower than undisturbed.
    """

    clients: _Clients = 4
    times: Annotated[float, msgspec.Meta(gt=1, le=100)] = 3.0
    """By how much slower than as every client asked once."""
    pieces: Annotated[int, msgspec.Meta(ge=2, le=10_000)] = 40
    """In so many pieces."""
    deadline: Seconds = 60.0
    """As for ``server-load``."""


LineFaultName = Literal[
    "kill", "stop", "sigterm",
    "spin", "sleep", "hold-gil", "lost-lock", "file-lock", "full-pipe", "swallow",
]  # fmt: skip
"""What is done at a line: the process is killed, stopped or told to end, or it hangs there: its
thread computes without an end, sleeps, sleeps with the interpreter's lock held, waits for a lock
whose holder has ended, or for one of a file that another process holds, or writes to a pipe that
nobody reads. ``swallow``: the next call of the function is not made."""


class ServerLine(Step, tag="server-line"):
    """The first process that comes to a certain line of a path of its code is struck there.

    Which line: so far along those that such a process has passed by now, in their order.
    """

    path: str
    """As the program names it (:attr:`.program.ServerProgram.lines`)."""
    along: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    fault: LineFaultName = "kill"
    first: str = ""
    """What the front gets meanwhile, for lines that are passed only then: ``sigterm``, or a call
    that the program names (:attr:`.program.ServerProgram.calls`)."""
    within: Seconds = 20.0


class ServerInspect(Step, tag="server-inspect"):
    """The tree is looked at from outside by ``killpoint inspect``: whom it blames is recorded."""

    root: str = "front"
    """The part from which on it is looked at."""
    times: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    silence: Seconds = 0.0
    """Not before no client has got a piece for so long, so that there is a hang to be seen."""
    within: Seconds = 30.0
    """For the silence to come."""


class ServerRefuse(Step, tag="server-refuse"):
    """Requests come that no server can grant: no JSON, another model, more than there can be."""


class ServerRestored(Step, tag="server-restored"):
    """The load goes on until as much text comes as undisturbed, from all parts that there were.

    At most so long, and twice what the start of the server and the control took in this play.
    """

    within: Seconds = 15.0


class ServerCalm(Step, tag="server-calm"):
    """Nobody asks any more; it goes on until every request has ended, or its client gave up."""


class ServerStop(Step, tag="server-stop"):
    """The front is sent SIGTERM, as a supervisor ends what it does not need, if it still lives."""


class ServerAlive(Step, tag="server-alive"):
    """It goes on until the server answers a request again, or is gone; at most so long."""

    within: Seconds = 60.0


class ServerAgain(Step, tag="server-again"):
    """The load goes on until this part has been started again after it was struck."""

    part: str
    within: Seconds = 60.0


class ServerGone(Step, tag="server-gone"):
    """It goes on until no process of the server is left; at most so long.

    None: as long as the server's drain, and the grace after it, and a little.
    """

    within: Seconds | None = None


ServerStep = (
    ServerStart
    | ServerControl
    | ServerLoad
    | ServerPhase
    | ServerServe
    | ServerCall
    | ServerHangUp
    | ServerInspect
    | ServerLine
    | ServerOpenLoop
    | ServerSlowReaders
    | ServerRefuse
    | ServerRestored
    | ServerCalm
    | ServerStop
    | ServerAlive
    | ServerAgain
    | ServerGone
)

__all__ = [
    "SERVER_PARTS",
    "LineFaultName",
    "PartKind",
    "ServerAgain",
    "ServerAlive",
    "ServerCall",
    "ServerCalm",
    "ServerControl",
    "ServerGone",
    "ServerHangUp",
    "ServerInspect",
    "ServerLine",
    "ServerLoad",
    "ServerOpenLoop",
    "ServerPhase",
    "ServerRefuse",
    "ServerRestored",
    "ServerServe",
    "ServerShape",
    "ServerSlowReaders",
    "ServerStart",
    "ServerStep",
    "ServerStop",
]
