"""Driver of a server's play: starts the server, runs its clients, carries out steps and faults.

Its log records, beside the events of clients (:mod:`.load.clients`): ``server-start`` with the
topology, ``ready`` with the seconds, ``not-ready``; ``health`` of each look, ``sample`` with the
pieces that streams have got and the requests that are open, ``gauge`` with the open requests by the
server's own metrics, ``tree`` with the live parts whenever they change, ``part-ended``,
``front-ended`` with its code or signal, ``gone`` once no process is left; of a fault ``intent``,
``fault`` and ``struck``; ``load-ended`` when clients stop asking, ``restored`` with whether the
service then was as before a fault; ``seen`` with the stack of each kind of part that outlived its
time; ``inspected`` of each look with ``killpoint inspect``: the part that it blames first, and its
words; the findings of a look from outside (:mod:`killpoint.runner.observe.exposure_probe`), and
``intrude`` of each stranger that is sent.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from killpoint.errors import CannotWork
from killpoint.history.log import Log
from killpoint.ledger import paths_below
from killpoint.runner.observe.diagnosis import last_line, seen
from killpoint.runner.processes.priority import to_thread_ahead
from killpoint.scenario import AnyStep, Attack, Fault, ProbeExposure, Scenario
from killpoint.systems.server.load.clients import Address, Load, fetch
from killpoint.systems.server.load.desertion import Desertion
from killpoint.systems.server.load.dialogue import Dialogue
from killpoint.systems.server.load.http_reply import ClientRequest, requests_for
from killpoint.systems.server.load.measures import summed
from killpoint.systems.server.load.other_clients import abort_whole, keep_coming, read_slowly
from killpoint.systems.server.machine import (
    bytes_of,
    free_port,
    numeric_address,
    slowed_by_load,
)
from killpoint.systems.server.processes import exhaustion, onlooker
from killpoint.systems.server.processes.lateness import Lateness
from killpoint.systems.server.processes.line_strikes import LineStrikes
from killpoint.systems.server.processes.nodes import FOLLOWER, HEAD, LINK, Nodes
from killpoint.systems.server.processes.process_tree import FRONT, HELPER, ProcessTree, signalled
from killpoint.systems.server.processes.strangers import Known, Strangers
from killpoint.systems.server.processes.supervisor import Supervisor
from killpoint.systems.server.program import (
    GONE_WITHIN,
    TWO_NODES,
    UNSTATED_DRAIN,
    ServerProgram,
    Topology,
)
from killpoint.systems.server.record import kind_of
from killpoint.systems.server.steps import (
    ServerCall,
    ServerContinueLoad,
    ServerControl,
    ServerDesertion,
    ServerDialogue,
    ServerHangUp,
    ServerInspect,
    ServerLine,
    ServerLoad,
    ServerOpenLoop,
    ServerPhase,
    ServerSendInvalid,
    ServerSlowReaders,
    ServerStart,
    ServerStop,
    ServerWaitAlive,
    ServerWaitGone,
    ServerWaitIdle,
    ServerWaitRestarted,
    ServerWaitRestored,
    calls_of,
    is_utility,
)
from killpoint.systems.server.strikes import Stalled, Strikes
from killpoint.systems.server.watch import ServerWatch, since

_SHORT = 15.0
"""Seconds within which a server that serves answers one short request, asked alone."""
_ABOVE = 5.0
"""Seconds beyond the bound for which the tree is still watched, so that a late end is seen as
late."""
_RENEWED = 1.0
"""Seconds within which metrics that are renewed again and again show what a server holds."""
_COMES_BACK = 25.0
"""Seconds for which a server that starts no part again is waited for after a fault."""
_CLIENTS = 12
_LATE_IN_A_START = 0.6
_UNDER_WAY = 0.003
"""Seconds that sending a utility call takes; most are answered a step of the engine later."""
_HALFWAY = 0.5


class Driver:
    """One play of one scenario."""

    def __init__(
        self, program: ServerProgram, scenario: Scenario, folder: Path, supervisor: Supervisor
    ) -> None:
        assert scenario.server is not None
        self._program, self._scenario = program, scenario
        self._topology: Topology = scenario.server.topology
        self._folder, self._supervisor = folder, supervisor
        self.log = Log(folder / "driver.jsonl", "driver")
        self.tree = ProcessTree(supervisor.pid, program.titles)
        self._output = folder / "server.err"
        self._address = Address(program.host, free_port(program.host), program.model)
        self._load = Load(
            self._address, self.log, requests_for(program.prompts, program.answer_tokens, _CLIENTS)
        )
        self._strangers = Strangers(folder, self.log, scenario.seed)
        self._lines = LineStrikes(program, scenario, folder, self.log)
        self._watch = ServerWatch(
            program, self.log, self.tree, self._load, self._address, supervisor, self._output
        )
        self.strikes = Strikes(
            folder, self.log, self.tree, self._watch, self._load, self._lines, supervisor.pid
        )
        self.start_takes = 0.0
        """Seconds that an undisturbed start takes now, for a play that strikes late in one."""
        self._drain: float | None = None
        """Seconds of the drain of the server that was started; None: it states none."""
        self._took = 0.0
        """Seconds that the start and the control took: a measure of this machine's speed now."""
        self._answered_in = 0.0
        """Seconds that the control took."""
        self._watching: list[asyncio.Task[None]] = []

    @property
    def took(self) -> float:
        """Seconds that the start, and the control if there was one, took."""
        return self._took

    async def play(self) -> None:
        """Carry out every step, in order.

        Raises:
            Stalled: the server does not become ready, and nothing was done to it.
        """
        lateness = Lateness()
        self._watching.append(asyncio.ensure_future(self._watch.clock(lateness)))
        try:
            for step in self._scenario.steps:
                if not self.strikes.unreached:
                    await self._do(step)
            await self._strangers.recall()
            await self._load.close()
        finally:
            lateness.stop()
            self._strangers.close()
            for task in self._watching:
                task.cancel()
            await asyncio.gather(*self._watching, return_exceptions=True)
            await self._load.close()
            self.tree.close()
            if self.strikes.nodes is not None:
                await asyncio.to_thread(self.strikes.nodes.close)

    async def _do(self, step: AnyStep) -> None:
        match step:
            case ServerStart():
                await self._start(step)
            case ServerControl():
                await self._control(step)
            case ServerLoad():
                self._load.begin(step.clients, self._patience(step.deadline))
            case ServerPhase():
                await self._phase(step)
            case ServerContinueLoad():
                await asyncio.sleep(step.seconds)
            case ServerHangUp():
                if step.whole:
                    after = _HALFWAY * self._load.undisturbed
                    for client in range(step.clients):
                        self._load.run(abort_whole(self._load, client, after))
                else:
                    self._load.leave(step.clients, never_read=step.never_read)
            case ServerOpenLoop() | ServerSlowReaders():
                self._begin_beside(step)
            case ServerDialogue():
                await self._converse(step)
            case ServerDesertion():
                await self._desert(step)
            case ServerSendInvalid():
                await self._refuse()
            case ServerWaitRestored():
                await self._restored(step.within + self._allowed())
            case ProbeExposure():
                self._watch.look()
                await to_thread_ahead(self._watch.look_from_outside, self._folder / "t")
            case Attack():
                await self._intrude(step)
            case ServerWaitIdle():
                self.log.write("load-ended")
                await self._load.calm()
                self.log.write("calm")
                await self._strangers.recall()
            case ServerStop():
                self._watch.look()
                if signalled(self.tree.front, signal.SIGTERM) and FRONT in self._watch.parts:
                    self.log.write("told-to-end")
            case ServerWaitAlive():
                within = step.within if self._program.survives else min(step.within, _COMES_BACK)
                await self._alive(within + self._allowed())
            case ServerWaitRestarted():
                await self._again(step)
            case ServerWaitGone():
                await self._gone_within(self._leaves_within(step))
            case ServerCall():
                self._watch.look()
                self._call(step.call, self._patience(step.within))
            case ServerLine():
                within = step.within + self._allowed()
                await self.strikes.strike_at_a_line(
                    step, lambda: self._call(step.first, self._patience(step.within)), within
                )
            case ServerInspect():
                await self._inspect(step)
            case Fault():
                await self.strikes.strike(step)
            case _:
                raise Stalled(f"a server is not asked for {type(step).__name__}")

    # -- the start ----------------------------------------------------------------------------

    async def _start(self, step: ServerStart) -> None:
        began = time.monotonic()
        folder, own = self._folder / "t", self._folder / "own"
        own.mkdir(exist_ok=True, mode=0o700)
        if self._topology == TWO_NODES:
            await self._make_nodes()
        argv = self._argv(step, own, follows=False)
        variables = self._program.variables(self._address.port, own) | {"TMPDIR": str(folder)}
        variables |= self._lines.variables()
        if self._program.utility is not None and any(map(is_utility, self._scenario.steps)):
            variables |= self._program.utility.environment
        for name in calls_of(self._scenario.steps):
            variables |= self._program.calls[name].environment
        self._watch.gone = False
        self._drain = self._program.drain_of(drains=step.drains)
        how: dict[str, object] = {
            "drain": self._drain,
            "host": numeric_address(self._program.host),
        }
        how |= {"usual": self._program.usual_start, "restarts": self._program.survives}
        how |= {"unjudged": self._program.unjudged} if self._program.unjudged else {}
        self.log.write("server-start", topology=self._topology, **how)
        if any(isinstance(s, Fault) and s.fault == "fill-tmp" for s in self._scenario.steps):
            await self.strikes.exhaust(
                lambda: exhaustion.own_temporary(self._supervisor.pid, folder)
            )
        umask = self._scenario.umask
        first = variables | self._of_node(HEAD)
        self.tree.begin(self._supervisor.start(argv, first, folder, self._output, umask))
        if self.strikes.nodes is not None:
            second, log = variables | self._of_node(FOLLOWER), self._folder / "follower.err"
            argv = self._argv(step, own, follows=True)
            self.tree.add(self._supervisor.start(argv, second, folder, log, umask), FOLLOWER)
        self._watch.look()
        if len(self._watching) == 1:
            for watch in (self._watch.sample(), self._watch.health(), self._watch.gauge()):
                self._watching.append(asyncio.ensure_future(watch))
        ready = self._is_ready if step.until == "ready" else self._in_its_start(step, began)
        within = self._program.start_within
        if not await self._watch.until(ready, within * slowed_by_load()):
            said = last_line(self._output)
            after = f"within {within:g} s" if not self._watch.gone else "before it ended"
            self.log.write("not-ready", said=said)
            raise Stalled(f"the server was not {step.until} {after}: {said}")
        self.strikes.segments |= self.tree.segments()
        self._took = time.monotonic() - began
        self.log.write("ready" if step.until == "ready" else "begun", s=since(began))
        if step.part and step.part not in self._watch.known:
            self.strikes.tell_lacking(step.part)
        elif step.until != "ready" and not (step.part or self._has_parts()):
            self.strikes.tell_lacking("part that is started before it serves")
        elif step.until == "late" and (await self._watch.fetch_health()).status == 200:
            self.strikes.miss("the server was ready before the fault", phase="late")

    async def _make_nodes(self) -> None:
        try:
            self.strikes.nodes = await asyncio.to_thread(Nodes, self._folder)
        except CannotWork as error:
            self.log.write("unable", error=str(error))
            raise Stalled(str(error)) from error
        self._address.connection = self.strikes.nodes.connection

    def _argv(self, step: ServerStart, own: Path, *, follows: bool) -> list[str]:
        """Return the command line of a node; on one machine, of the only one."""
        nodes = self.strikes.nodes
        head = "" if nodes is None else nodes.head
        argv = self._program.argv(
            self._topology, self._address.port, own, head, follows=follows, drains=step.drains
        )
        if nodes is None:
            return argv
        return nodes.argv(FOLLOWER if follows else HEAD, argv)

    def _of_node(self, node: str) -> dict[str, str]:
        if self.strikes.nodes is None:
            return {}
        own = self.strikes.nodes.head if node == HEAD else self.strikes.nodes.follower
        given = self._program.node_environment
        return {k: v.replace("{own}", own).replace("{link}", LINK) for k, v in given.items()}

    async def _control(self, step: ServerControl) -> None:
        began = time.monotonic()
        if not await self._load.control(step.clients, step.within * slowed_by_load()):
            raise Stalled("not every client was answered before anything was done")
        took = time.monotonic() - began
        self._took += took
        self._answered_in = took
        self._watch.pace.undisturbed = self._load.chars / took

    async def _converse(self, step: ServerDialogue) -> None:
        """Have clients ask as the exchanges say; then wait until the server holds no request."""
        began, program = time.monotonic(), self._program
        within = step.deadline + self._allowed()
        talk = self._dialogue()
        if not await talk.control(step.exchanges, 2 * within):
            raise Stalled("not every prompt was answered before anything was done")
        self._took += time.monotonic() - began
        await talk.hold(step.exchanges, step.deadline + self._allowed())
        if program.metrics and program.open_requests:
            await self._settled(talk)

    def _dialogue(self) -> Dialogue:
        program = self._program
        return Dialogue(self._address, self.log, program.prompts, program.answer_tokens)

    async def _desert(self, step: ServerDesertion) -> None:
        """Have clients leave one after another, as long as the server is rid of each."""
        talk, within = self._dialogue(), step.deadline + self._allowed()
        desertion = Desertion(talk, self.log, step.prompts)
        if not (self._program.metrics and self._program.open_requests):
            return
        if not await desertion.fit(step.seconds, within):
            return
        for how in step.clients:
            await desertion.leave(how, self._address.open, within)
            if not await self._settled(talk):
                return

    async def _settled(self, talk: Dialogue) -> bool:
        """Record how long the server's own metrics count requests that nobody waits for.

        Returns whether they do not any more. Some servers renew their counts only while they
        compute: a look is preceded by a short request, so that it sees what is held now. Others
        renew them a few times a second: no requests count once that time has passed, too.
        """
        began, number = time.monotonic(), -1.0

        async def settled() -> bool:
            nonlocal number
            if number != 0:
                await talk.ask_briefly(_SHORT)
            found = await fetch(self._address, "GET", self._program.metrics, _SHORT)
            if found.status == 200:
                number = summed(found.body, self._program.open_requests)
            return number == 0 and time.monotonic() - began >= _RENEWED

        is_settled = await self._watch.until(settled, 3 * _ABOVE)
        self.log.write("settled", open=number, s=since(began))
        return is_settled

    def _allowed(self) -> float:
        """Return the seconds beyond our bounds: twice what start and answers took undisturbed.

        A part that is started again needs a start, and the requests that it had begun are begun
        anew.
        """
        return 2 * self._took

    def _patience(self, seconds: float) -> float:
        """Return the seconds after which a client gives up.

        A server that starts no part again owes no client the time of a start, which is most of what
        its play takes if it is started as its users start it.
        """
        waits_for_a_start = self._program.survives or not self._answered_in
        return seconds + (self._allowed() if waits_for_a_start else 2 * self._answered_in)

    async def _is_ready(self) -> bool:
        if (await self._watch.fetch_health()).status != 200:
            return False
        return await self._serves()

    def _in_its_start(self, step: ServerStart, began: float) -> Callable[[], Awaitable[bool]]:
        """Return a check that the start has reached this stage, or passed it without the part."""
        due = began + (_LATE_IN_A_START * self.start_takes if step.until == "late" else 0.0)

        async def reached() -> bool:
            if time.monotonic() < due:
                return False
            begun = step.part in self._watch.parts if step.part else self._has_parts()
            return begun or (await self._watch.fetch_health()).status == 200

        return reached

    def _has_parts(self) -> bool:
        return any(not name.startswith((FRONT, HELPER)) for name in self._watch.parts)

    async def _serves(self) -> bool:
        """Return whether a short request is answered with status 200."""
        body = ClientRequest("ready?", 2, stream=False).body(self._program.model)
        found = await fetch(self._address, "POST", "/v1/completions", _SHORT, body)
        return found.status == 200

    # -- what goes on -------------------------------------------------------------------------

    async def _phase(self, step: ServerPhase) -> None:
        async def reached() -> bool:
            if step.phase == "prefill":
                return self._load.in_prefill()
            return self._load.in_decode() and (step.phase == "decode" or await self._calls(step))

        if not await self._watch.until(reached, step.within, each=0.005):
            ended = ": the server had ended" if self._watch.gone else f" within {step.within:g} s"
            self.strikes.miss(f"the clients were not in {step.phase}{ended}", phase=step.phase)

    async def _calls(self, step: ServerPhase) -> bool:
        """Begin a utility call; return whether it is still under way a moment later."""
        call = self._program.utility
        if call is None:
            return False
        calling = self._load.call(call.path, call.content(), self._patience(step.within))
        self.strikes.calling = asyncio.ensure_future(calling)
        self._load.run(self.strikes.calling)
        await asyncio.sleep(_UNDER_WAY)
        return not self.strikes.calling.done()

    def _call(self, name: str, within: float) -> None:
        call = self._program.calls[name]
        self._load.run(self._load.call(call.path, call.content(), within))
        self.log.write("intent", fault="call", target=FRONT, where=name)
        self.log.write("fault", fault="call", target=FRONT, where=name, open=len(self._load.open))
        self.log.write("struck", fault="call", target=FRONT)

    def _begin_beside(self, step: ServerOpenLoop | ServerSlowReaders) -> None:
        deadline = self._patience(step.deadline)
        if isinstance(step, ServerOpenLoop):
            chance = random.Random(f"{self._scenario.seed}/open-loop")
            coming = keep_coming(self._load, step.rate, step.most, deadline, chance)
            self._load.run(coming)
            return
        for client in range(step.clients):
            slowly = read_slowly(self._load, client, deadline, step.times, step.pieces)
            self._load.run(slowly)

    async def _again(self, step: ServerWaitRestarted) -> None:
        before = self.strikes.struck.get(step.part)

        async def again() -> bool:
            return self._watch.parts.get(step.part) not in (None, before)

        if not await self._watch.until(again, step.within + self._allowed()):
            self.strikes.miss(f"{step.part} was not started again", target=step.part)

    async def _refuse(self) -> None:
        """Send three requests that no server can grant, and record their answers."""
        long = ClientRequest("x " * 40_000, 16, stream=False).body(self._program.model)
        other = ClientRequest("x", 4, stream=False).body("no-such-model")
        for what, body in (("no JSON", b"{not json"), ("another model", other), ("too long", long)):
            found = await fetch(self._address, "POST", "/v1/completions", _SHORT, body)
            self.log.write("refusal", what=what, status=found.status, error=found.error)

    async def _alive(self, within: float) -> None:
        async def alive() -> bool:
            return self._watch.gone or await self._is_ready()

        began = time.monotonic()
        back = await self._watch.until(alive, within) and not self._watch.gone
        self.log.write("alive", yes=back, s=since(began))

    async def _restored(self, within: float) -> None:
        """Wait for undisturbed goodput from all parts, and record whether it came in time."""
        had, began = self._watch.pace.parts, time.monotonic()

        async def whole() -> bool:
            return self._watch.gone or (
                had <= set(self._watch.parts) and self._watch.pace.is_whole(began)
            )

        yes = await self._watch.until(whole, within) and not self._watch.gone
        self.log.write("restored", yes=yes, s=since(began))

    async def _gone_within(self, within: float) -> None:
        async def gone() -> bool:
            return self._watch.gone

        if not await self._watch.until(gone, within):
            kinds: set[str] = set()
            for part, pid in sorted(self._watch.parts.items()):
                if (kind := kind_of(part)) in kinds:
                    continue  # each look takes seconds on a machine that spins
                kinds.add(kind)
                told = await to_thread_ahead(seen, pid)
                self.log.write("seen", part=part, pid=pid, **told)
        ports = await to_thread_ahead(self.tree.ports)
        said = last_line(self._output)
        kept = await to_thread_ahead(self._kept)
        self.log.write(
            "looked-on",
            s=within,
            left=sorted(self._watch.parts),
            ports=len(ports),
            said=said,
            **kept,
        )

    def _kept(self) -> dict[str, int]:
        """Return the bytes of shared memory and the number of files in its TMPDIR that are left."""
        shm, temporary = Path(f"/proc/{self._supervisor.pid}/root/dev/shm"), self._folder / "t"
        kept = [shm / name for name in self.strikes.segments]
        if not self._supervisor.shared_shm:
            kept = [path for path in shm.iterdir() if path.name != exhaustion.BALLAST]
        return {
            "shm": sum(bytes_of(path) for path in kept),
            "files": sum(not path.is_dir() for path in paths_below(temporary)),
        }

    def _leaves_within(self, step: ServerWaitGone) -> float:
        if step.within is not None:
            return step.within
        drain = UNSTATED_DRAIN if self._drain is None else self._drain
        return drain + GONE_WITHIN + _ABOVE

    # -- what others see ----------------------------------------------------------------------

    async def _intrude(self, step: Attack) -> None:
        words = [each.prompt for each in self._load.asked]
        known = Known(self._address.port, words)
        tree = self.tree.pids()
        late = await self._strangers.send(step, tree, self._supervisor.pid, known)
        if late:
            raise Stalled(late)

    async def _inspect(self, step: ServerInspect) -> None:
        began = time.monotonic()

        async def silent() -> bool:
            silent_for = min(self._load.silent_for(), time.monotonic() - began)
            return not step.silence or (
                silent_for >= step.silence and self._load.waits(step.silence)
            )

        if not await self._watch.until(silent, step.within + self._allowed()):
            self.strikes.miss(
                f"no client waited for {step.silence:g} s while none got a piece", target=step.root
            )
            return
        self._watch.look()
        parts = dict(self._watch.parts)
        if step.root not in parts:
            self.strikes.miss(f"{step.root} was gone before it was looked at", target=step.root)
            return
        try:
            async for look in onlooker.looks(parts[step.root], step.times):
                told: dict[str, object] = {"says": look.says, "unsure": look.unsure[:1]}
                part = onlooker.part_of(look.blamed, parts)
                told |= {"pid": look.blamed, "ms": round(look.seconds * 1000)}
                self.log.write("inspected", part=part, **told)
        except onlooker.NoAnswer as late:
            raise Stalled(str(late)) from late
