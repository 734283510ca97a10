"""Steps of a server's play: what is done to the server, and what its clients do (SPEC 8)."""

from __future__ import annotations

from collections.abc import Sequence
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
"""Parts that may be struck. A tree that lacks one leaves the case unsupported."""


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
    """Stage at which the next step follows. ``ready``: health says so, and a request was answered;
    ``begun``: a first part has been started beside the front, and none is ready; ``late``: three
    fifths have passed of the time that a start takes, which is measured by one before the play, and
    it is not ready."""
    part: str = ""
    """Part that must have been started too, for ``begun`` and ``late``."""
    ordinary: bool = False
    """True to start it as its users do, though it could be forked from a process that has it
    imported: its response to a signal depends on how its parts were started."""
    drains: bool = False
    """True to ask it for a drain, if it has one only where its command line asks."""


class ServerControl(Step, tag="server-control"):
    """Every client asks what it will ask under load, undisturbed: the control of the tokens."""

    clients: _Clients = 12
    within: Seconds = 120.0


class ServerLoad(Step, tag="server-load"):
    """From now on clients ask, each again and again, every second one for a stream."""

    clients: _Clients = 12
    deadline: Seconds = 60.0
    """Seconds after which a client gives up a request, beside twice what the control took in this
    play, and the start of a server that starts its parts again: what had begun on a part that died
    is begun anew. Where there was no control, the start is the measure for every server."""


class ServerPhase(Step, tag="server-phase"):
    """The load goes on until every client is in this phase of its request.

    ``prefill``: asked, and no client has a token yet; ``decode``: every client that streams is in
    the middle of its answer, or one is if the server answers one request after another;
    ``utility``: that, and a utility call is under way
    (:attr:`.program.ServerProgram.utility`).
    """

    phase: Literal["prefill", "decode", "utility"]
    within: Seconds = 30.0


class ServerCall(Step, tag="server-call"):
    """A utility call is made, beside the load; its end is not waited for."""

    call: str
    """Name of the call in the program (:attr:`.program.ServerProgram.calls`)."""
    within: Seconds = 60.0


def is_utility(step: Step) -> bool:
    """Return whether a step needs a server that names a utility call."""
    return isinstance(step, ServerPhase) and step.phase == "utility"


class ServerContinueLoad(Step, tag="server-continue-load"):
    """The load goes on for so many seconds."""

    seconds: Seconds


class ServerHangUp(Step, tag="server-hang-up"):
    """Further clients ask, and hang up in the middle of the answer, or before it."""

    clients: _Clients = 6
    never_read: bool = False
    """True if they stay, and read nothing."""
    whole: bool = False
    """True if none of them streams: they hang up when about half of their answer must have been
    made."""


class ServerOpenLoop(Step, tag="server-open-loop"):
    """From now on requests begin at a rate, whatever the answers do, beside those of the load."""

    rate: Annotated[float, msgspec.Meta(gt=0, le=1000)] = 4.0
    """Requests a second; the gaps are drawn by the seed."""
    most: _Clients = 24
    """Largest number of them at a time; a request beyond it is left out."""
    deadline: Seconds = 60.0
    """Seconds after which a client gives up, as for ``server-load``."""


class ServerSlowReaders(Step, tag="server-slow-readers"):
    """Further clients ask for streams, again and again, and read a piece every so often.

    The pieces are as large, and as far apart, as it takes to be slower than undisturbed.
    """

    clients: _Clients = 4
    times: Annotated[float, msgspec.Meta(gt=1, le=100)] = 3.0
    """Factor by which it takes longer than when every client asked once."""
    pieces: Annotated[int, msgspec.Meta(ge=2, le=10_000)] = 40
    """Number of pieces in which an answer is read."""
    deadline: Seconds = 60.0
    """Seconds after which a client gives up, as for ``server-load``."""


LineFaultName = Literal[
    "kill", "stop", "sigterm",
    "spin", "sleep", "hold-gil", "lost-lock", "file-lock", "full-pipe", "swallow",
]  # fmt: skip
"""Fault at a line: the process is killed, stopped or told to end, or it hangs there: its thread
computes without an end, sleeps, sleeps with the interpreter's lock held, waits for a lock whose
holder has ended, waits for a file lock that another process holds, or writes to a pipe that no
process reads. ``swallow``: the next call of the function is not made."""


class ServerLine(Step, tag="server-line"):
    """The first process that comes to a certain line of a path of its code is struck there.

    ``along`` places the line among those that such a process has passed by now, in their order.
    """

    path: str
    """Name of the path in the program (:attr:`.program.ServerProgram.lines`)."""
    along: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    fault: LineFaultName = "kill"
    first: str = ""
    """Signal or call that the front gets meanwhile, for lines that are passed only then:
    ``sigterm``, or a call that the program names (:attr:`.program.ServerProgram.calls`)."""
    within: Seconds = 20.0


class ServerInspect(Step, tag="server-inspect"):
    """``killpoint inspect`` looks at the tree; the process that it blames is recorded."""

    root: str = "front"
    """Part from which on the tree is inspected."""
    times: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    silence: Seconds = 0.0
    """Seconds for which no client must have got a piece, so that there is a hang to be seen."""
    within: Seconds = 30.0
    """Seconds in which the silence must come."""


Leaves = Literal["", "head", "body", "asked", "piece", "choice"]
"""Moment at which a client hangs up: in the middle of its request's head or body, once it has
asked, with the first piece of its stream, with the end of one of several completions."""
Wrong = Literal["", "json", "model", "prompt", "last-prompt"]
"""Fault of a request that no server can grant: no JSON, another model, no prompt at all, more than
there can be in the last of its prompts."""
Pace = Literal["", "reads-slowly", "sends-slowly", "half-closes"]
"""Manner of a client that is none of the usual; empty: as usual."""


class StopAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Stop string of an exchange: a part of the text that one of its prompts is answered with."""

    prompt: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Prompt whose answer it is taken from, by its place in the request."""
    end: Annotated[int, msgspec.Meta(ge=0, le=100)] = 100
    """Place of its end in that text, in percent."""
    length: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    beside: bool = False
    """True to have another stop string beside it that begins in its midst, and never comes."""


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Request of one client in a dialogue, and the way in which it asks and leaves."""

    prompts: Annotated[list[Annotated[int, msgspec.Meta(ge=0)]], msgspec.Meta(min_length=1)] = (
        msgspec.field(default_factory=lambda: [0])
    )
    """Numbers of the program's prompts, asked in one request."""
    tokens: Annotated[int, msgspec.Meta(ge=0, le=1 << 16)] = 16
    """Most tokens of each completion; 0: as many as the program's answers have."""
    times: Annotated[int, msgspec.Meta(ge=1, le=128)] = 1
    """Number of times that its list of prompts is repeated."""
    at: Seconds = 0.0
    """Seconds after the dialogue's begin at which the client asks."""
    stream: bool = False
    usage: bool = False
    """True to ask for the usage at the end of a stream."""
    stops: list[StopAt] = []
    leaves: Leaves = ""
    wrong: Wrong = ""
    pace: Pace = ""
    repeat: Annotated[int, msgspec.Meta(ge=1, le=8)] = 1
    """Number of times that it asks, on one connection as long as the server keeps it open."""


class ServerDialogue(Step, tag="server-dialogue"):
    """Clients ask as these exchanges say, all at once; the step ends when all have ended.

    Every combination of prompt and length is asked once before, undisturbed: the control.
    """

    exchanges: Annotated[list[Exchange], msgspec.Meta(min_length=1, max_length=256)]
    deadline: Seconds = 10.0
    """Seconds after which a client gives up, beside twice what the start of the server and the
    control took in this play."""


Deserts = Literal["choice", "last-prompt"]
"""Manner in which a client is done with a request of which much is left: it hangs up at the end of
its first completion, or is refused for its last prompt."""


class ServerDesertion(Step, tag="server-desertion"):
    """Clients, one after another, ask for far more than is computed while they wait, and are gone.

    After each the play waits until the server holds no request, by its own metrics; without them,
    and where it does not take several prompts, the step does nothing.
    """

    clients: Annotated[list[Deserts], msgspec.Meta(min_length=1, max_length=16)]
    prompts: Annotated[int, msgspec.Meta(ge=2, le=127)] = 100
    """Number of prompts that each of them leaves."""
    seconds: Seconds = 30.0
    """Seconds that the server would take for them, by its speed in this play: their length is
    chosen so. Several times the 5 s of E9, for a server that was slowed while it was measured."""
    deadline: Seconds = 10.0
    """Seconds after which a client leaves at the latest, as for ``server-dialogue``."""


class ServerSendInvalid(Step, tag="server-send-invalid"):
    """Requests come that no server can grant: no JSON, another model, more than there can be."""


class ServerWaitRestored(Step, tag="server-wait-restored"):
    """The load goes on until as much text comes as undisturbed, from all parts that there were.

    At most ``within`` seconds, and twice what the start of the server and the control took in this
    play.
    """

    within: Seconds = 15.0


class ServerWaitIdle(Step, tag="server-wait-idle"):
    """Clients stop asking; the step ends once every request has ended, or was given up."""


class ServerStop(Step, tag="server-stop"):
    """The front is sent SIGTERM, as a supervisor ends what it does not need, if it still lives."""


class ServerWaitAlive(Step, tag="server-wait-alive"):
    """The play waits until the server answers a request again, or is gone; at most so long.

    At most 25 s for a server that starts no part again.
    """

    within: Seconds = 60.0


class ServerWaitRestarted(Step, tag="server-wait-restarted"):
    """The load goes on until this part has been started again after it was struck."""

    part: str
    within: Seconds = 60.0


class ServerWaitGone(Step, tag="server-wait-gone"):
    """The play waits until no process of the server is left; at most so long.

    None: as long as the server's drain, and the grace after it, and a little.
    """

    within: Seconds | None = None


ServerStep = (
    ServerStart
    | ServerControl
    | ServerLoad
    | ServerPhase
    | ServerContinueLoad
    | ServerCall
    | ServerDesertion
    | ServerDialogue
    | ServerHangUp
    | ServerInspect
    | ServerLine
    | ServerOpenLoop
    | ServerSlowReaders
    | ServerSendInvalid
    | ServerWaitRestored
    | ServerWaitIdle
    | ServerStop
    | ServerWaitAlive
    | ServerWaitRestarted
    | ServerWaitGone
)


def calls_of(steps: Sequence[Step]) -> list[str]:
    """Return the utility calls that these steps make, by their names in the program."""
    made = [step.call for step in steps if isinstance(step, ServerCall)]
    first = [step.first for step in steps if isinstance(step, ServerLine)]
    return [*made, *(name for name in first if name not in ("", "sigterm"))]


__all__ = [
    "SERVER_PARTS",
    "Deserts",
    "Exchange",
    "LineFaultName",
    "PartKind",
    "ServerCall",
    "ServerContinueLoad",
    "ServerControl",
    "ServerDesertion",
    "ServerDialogue",
    "ServerHangUp",
    "ServerInspect",
    "ServerLine",
    "ServerLoad",
    "ServerOpenLoop",
    "ServerPhase",
    "ServerSendInvalid",
    "ServerShape",
    "ServerSlowReaders",
    "ServerStart",
    "ServerStep",
    "ServerStop",
    "ServerWaitAlive",
    "ServerWaitGone",
    "ServerWaitIdle",
    "ServerWaitRestarted",
    "ServerWaitRestored",
    "StopAt",
    "calls_of",
]
