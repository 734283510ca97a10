"""The runner: it plays a scenario with real processes, places its faults, and keeps the record."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from killpoint import scenario as script
from killpoint.errors import BadUsage
from killpoint.faults import FAULTS
from killpoint.history.log import Log
from killpoint.runner.hang_detection import HangDetector, Stalled, look_at_maps
from killpoint.runner.network.attackers import Attackers
from killpoint.runner.network.group_rendezvous import GroupRendezvous
from killpoint.runner.network.netns import Hosts
from killpoint.runner.network.netns_network import NetnsNetwork
from killpoint.runner.network.relay_network import RelayNetwork
from killpoint.runner.observe import diagnosis, exposure_probe, memory_usage, open_fds
from killpoint.runner.observe.processor_time import ProcessorTime
from killpoint.runner.points.call_watch import CallWatch
from killpoint.runner.points.page_watch import PageWatch
from killpoint.runner.processes.process_watch import ProcessWatch
from killpoint.runner.processes.terminal import Terminal, TerminalSession
from killpoint.runner.processes.zygote_client import Zygote
from killpoint.runner.protocol import (
    Arm,
    Begun,
    Channel,
    Closed,
    Done,
    Exited,
    ForkRole,
    Guarded,
    Hello,
    Loaded,
    Order,
    Packet,
    Parts,
    Reached,
    Release,
    Unguarded,
)
from killpoint.runner.role_process import RoleProcess
from killpoint.runner.target_processes import TargetProcesses, ending
from killpoint.runner.timed_faults import TimedFaults
from killpoint.scenario import Scenario
from killpoint.systems.registry import system_of

EventSource = Channel | socket.socket | PageWatch | ProcessWatch | Terminal
"""Source of events that the runner polls."""
_LATE = 0.005


def prefork_modules(scenario: Scenario, loaded: Loaded) -> list[str]:
    """Return the modules of the process from which parts are forked, if it is made before."""
    system = system_of(scenario)
    return loaded.prefork_modules.get(system.name, []) if system.preforks(scenario) else []


class ScenarioRunner:
    """Runner of one play. Use once."""

    def __init__(
        self,
        zygote: Zygote,
        scenario: Scenario,
        folder: Path,
        *,
        shm_of: int = 0,
        hosts: Hosts | None = None,
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        """Take a started zygote and an empty folder whose path is short (sockets live in it).

        ``shm_of``: the process that keeps the play's own /dev/shm, if it has one; ``hosts``:
        those that its roles live in, if they do; ``go_on``: called all the time, it raises where
        the play is to end at once.
        """
        self.scenario = scenario
        self._system = system_of(scenario)
        self._hosted = scenario.at_host(hosts.address) if hosts else scenario
        self.folder = folder
        self.zygote = zygote
        self.log = Log(folder / "director.jsonl", "director")
        self._target_processes = TargetProcesses(scenario.target_roles(), self.log)
        self.actors: dict[str, RoleProcess] = dict(self._target_processes.actors)
        self.unreached: list[str] = []
        self._strangers = Attackers(zygote, scenario, folder, self.log)
        self._shm_of = shm_of
        self._go_on = go_on
        self._calls = CallWatch(self.log, folder)
        self._timed = TimedFaults(self.log)
        for actor in self.actors.values():
            actor.folder = folder
        self._next = 0
        self._sequence = 0
        self._handle = b""
        self._handshake_failed = False
        self._hosts = hosts
        self._network = (
            NetnsNetwork(scenario, self.log, hosts) if hosts else RelayNetwork(scenario, self.log)
        )
        elsewhere = hosts.address if hosts else ""
        self.meeting = GroupRendezvous(scenario, elsewhere) if self._system.joins else None
        self._processor = ProcessorTime(self.log)
        self._waiting = HangDetector(
            scenario,
            self.log,
            self.actors,
            self._target_processes,
            self._serve,
            self._processor,
            folder,
        )
        self._until, self._granted = self._waiting.until, self._waiting.granted
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (folder / "d").unlink(missing_ok=True)
        self._listener.bind(str(folder / "d"))
        self._listener.listen(128)
        self._listener.setblocking(False)
        self._poll = select.poll()
        self._sources: dict[int, EventSource] = {}
        self._sitting: TerminalSession | None = None
        if scenario.terminal:
            self._sitting = TerminalSession(
                folder, self.log, self.actors, partial(self._until, paced=True)
            )
            self._register(self._sitting.terminal)
        self._register(self._listener)
        self._register(zygote.channel)

    # -- the play ---------------------------------------------------------------------------

    def play(self) -> None:
        """Play all steps, then the epilogue: recheck and close, or leave; exit."""
        if self.meeting and self.meeting.trouble:
            raise Stalled(self.meeting.trouble)
        cancelled = {
            role
            for step in self.scenario.steps
            if isinstance(step, script.Cancel)
            for role in self.scenario.named(step.roles)
        }
        for role in self.scenario.roles():
            if role not in self.actors:
                self._start(role, role in cancelled)
        self._until(self._all_present, 60.0, "the roles did not start")
        for step in self.scenario.steps:
            self._do(step)
            opens = isinstance(step, self._system.opens)
            if opens and not self._handle and not self._yet_to_come():
                break  # there is nothing to attach to: what follows would say nothing
            if self._handshake_failed:
                break
        self._epilogue()

    def _yet_to_come(self) -> bool:
        """Return whether it is still to be opened: its role stands at a point, or tries again."""
        again = any(isinstance(step, script.Retry) for step in self.scenario.steps)
        return again or self.actors[self.scenario.roles()[0]].held_up

    def _epilogue(self) -> None:
        self._strangers.recall()
        self._until(self._strangers.gone, 10.0, "a stranger did not leave")
        if self._target_processes.actors and not self.actors[self.scenario.roles()[0]].alive:
            # A worker that is held, or in native code, must go all the same (SPEC W4).
            self._granted(
                self._target_processes.all_gone,
                self._target_processes.within,
                self._target_processes.actors,
            )
        roles = [name for name, actor in self.actors.items() if actor.alive]
        for name in roles:
            self._wake_stopped(self.actors[name])
        ours = [name for name in roles if name not in self._target_processes.actors]
        told = [name for name in ours if not self.actors[name].told_to_exit]
        if told:
            names = tuple(told)
            leave = script.Exit(names, brief=self._system.brief_exit)
            for step in (*self._system.ends(names), leave):
                self._do(step)
        within = self._system.leaves_within(self.scenario)
        self._do(script.Wait(tuple(ours), within=within))
        self._granted(lambda: not any(self.actors[name].alive for name in ours), 8.0, ours)
        for name in ours:
            if self.actors[name].alive:
                self._waiting.hang(self.actors[name], "interpreter exit")
        everybody = self._target_processes.actors
        if not self._granted(
            self._target_processes.all_gone, self._target_processes.within, everybody
        ):
            self._target_processes.dump("hang", op="leaving")
            if "W4" in self.scenario.judges:
                self._target_processes.ask_to_leave(
                    lambda done: self._granted(done, 2.0, everybody)
                )
        for arm in [f for a in self.actors.values() for f in a.armed.values()]:
            self.unreached.append(f"{arm.fault} of {arm.role} at {arm.at}")
            self.log.write("not-reached", target=arm.role, fault=arm.fault)
        self.unreached += self._network.missed()

    def _wake_stopped(self, actor: RoleProcess) -> None:
        if actor.held_up:
            self.log.write("intent", fault="continue", target=actor.name, teardown=True)
            FAULTS["continue"].act(actor)

    def close(self) -> None:
        """Release sockets; roles are gone by then."""
        self._network.close()
        self._calls.close()
        self._strangers.close()
        for source in self._sources.values():
            if not isinstance(source, socket.socket) and source is not self.zygote.channel:
                source.close()
        if self._sitting:
            self._sitting.terminal.close()
        self._listener.close()
        self.log.close()

    # -- steps ------------------------------------------------------------------------------

    def _do(self, step: script.AnyStep) -> None:
        if isinstance(step, script.Wait):
            self._waiting.wait(step)
        elif isinstance(step, script.WaitBlocked):
            self._waiting.settle(step)
        elif isinstance(step, script.Pause):
            self._until(lambda: False, step.seconds, None)
        elif isinstance(step, script.Fault):
            self._declare(step)
        elif isinstance(step, script.Count):
            if step.of == "calls":
                self._calls.begin(self.actors[step.role], step.at)
                return
            self.actors[step.role].arm(Arm(self._number(), step.at, of=step.of))
        elif isinstance(step, script.Press):
            self._press(step.key)
        elif isinstance(step, script.Cancel):
            for role in self.scenario.named(step.roles):
                self._cancel(role)
        elif isinstance(step, (script.ProbeExposure, script.MeasureMemory)):
            self._look(step)
        elif isinstance(step, script.Attack):
            self._strangers.intrude(step, self.actors[step.role].pid, self._until)
        elif isinstance(step, script.Retry):
            actor = self.actors[step.role]
            again, actor.struck = actor.struck, None
            if isinstance(again, self._system.opens):
                self._do(again)
            elif again is not None:
                self._post(step.role, again)
        elif isinstance(step, self._system.opens):
            self._open(step)
        else:
            roles = getattr(step, "roles", None)
            first = self.scenario.roles()[0]
            for role in self.scenario.named(roles or (getattr(step, "role", first),)):
                self._post(role, step)

    def _open(self, step: script.AnyStep) -> None:
        """Have the first role make what the others attach to, and wait for its handle."""
        self._handle = b""
        first = self.scenario.roles()[0]
        self._post(first, step)
        actor = self.actors[first]
        self._until(
            lambda: bool(self._handle) or not actor.outstanding or actor.held_up,
            60.0,
            f"no {self._system.name}",
        )

    def _press(self, key: script.Key) -> None:
        assert self._sitting is not None  # scenarios with keys and without a terminal are refused
        if key == "hang-up" and self._sitting.terminal.fileno() in self._sources:
            self._unregister(self._sitting.terminal.fileno())
        self._sitting.press(key)

    def _look(self, step: script.ProbeExposure | script.MeasureMemory) -> None:
        for name in self.scenario.named(step.roles):
            actor = self.actors[name]
            if not actor.alive:
                continue
            if isinstance(step, script.MeasureMemory):
                memory_usage.record(self.log, name, actor.pid)
                continue
            exposure_probe.look(self.log, name, actor.pid, self.folder / "t")
            if self._system.counts_descriptors:
                open_fds.record(self.log, name, actor.pid)
                continue
            looks = self._system.looks_in_roles
            if "wire" in self.zygote.loaded.capabilities if looks is None else looks:
                self._post(name, step)
        if isinstance(step, script.ProbeExposure):
            exposure_probe.look_at_files(self.log, self.folder / "t")

    def _cancel(self, role: str) -> None:
        self.log.write("intent", fault="cancel", target=role)
        flags = os.O_WRONLY | os.O_NONBLOCK
        with contextlib.suppress(OSError):  # no reader: it is dead, or was cancelled before
            wake = os.open(self.folder / f"{role}.wake", flags)
            os.write(wake, b"!")
            os.close(wake)

    def _post(self, role: str, step: script.AnyStep) -> None:
        actor = self.actors[role]
        if not actor.alive or actor.told_to_exit:
            return
        rank, routes = self._system.rank(self.scenario, role, step), None
        data = self._system.order_data(self._hosted, step)
        if isinstance(step, self._system.attaches):
            data, routes = self._handle, self._network.routes(role)
        elif isinstance(step, self._system.joins) and self.meeting:
            places = self.meeting.addresses
            places[role] = self._network.place(role, places[self.scenario.roles()[0]])
            data = self.meeting.invitation(role)
        actor.told_to_exit = isinstance(step, script.Exit)
        actor.post(Order(self._number(), step, self._sequence, data, rank, routes))
        self._sequence += self._system.numbers_taken(step, role)

    def _declare(self, step: script.Fault) -> None:
        actor = self.actors.get(step.role)
        if actor is None:
            raise BadUsage(f"no single role is named {step.role!r}")
        if step.at is None:
            if step.fault == "continue":
                self._waiting.await_stop(actor)
            self._act(actor, step)
            return
        # A role cannot stop itself inside native code: the runner stops it.
        stops = step.fault == "stop" and step.at.name != "native"
        throws = step.fault in ("raise", "interrupt")
        arm = Arm(self._number(), step.at, stops, throws=throws)
        actor.armed[arm.id] = step
        if step.at.kind() == "times":
            self._timed.begin(actor, step)
        if step.at.kind() == "calls":
            self._calls.begin(actor, step.at)
            return
        actor.arm(arm)

    def _act(self, actor: RoleProcess, step: script.Fault, where: str = "") -> None:
        kind = FAULTS[step.fault]
        if not actor.alive:
            return
        look_at_maps(self.log, actor)
        actor.by_itself = Order(self._number(), step)
        actor.hours = step.hours
        self._network.aim(actor, step)
        toward = {"toward": step.toward} if step.fault in script.NETWORK_FAULTS else {}
        self.log.write("intent", fault=step.fault, target=actor.name, where=where, **toward)
        struck = actor.pid
        kind.act(actor)
        self.log.write(
            "fault", fault=step.fault, target=actor.name, where=where, pid=struck, **toward
        )

        def dead() -> bool:
            return not actor.alive or actor.pid != struck  # the next one may be there already

        if kind.ends:
            self._until(dead, 10.0, f"{actor.name} did not die")

    # -- what comes in ----------------------------------------------------------------------

    def _serve(self, seconds: float) -> None:
        self._go_on()
        before = time.monotonic()
        events = self._poll.poll(seconds * 1000)
        if not events:
            late = time.monotonic() - before - seconds
            if late > _LATE:
                self.log.write("late-tick", ns=int(late * 1e9))
        self._processor.sample(self.actors.values())
        for exited in self.zygote.exits():
            self._ended(exited)
        for fd, _ in events:
            self._take(fd)
        self._timed.look(self.actors.values())

    def _take(self, fd: int) -> None:
        source = self._sources.get(fd)
        if source is None:
            return
        if isinstance(source, socket.socket):
            with contextlib.suppress(BlockingIOError):
                self._register(Channel(source.accept()[0]))
            return
        if isinstance(source, PageWatch):
            self._at_page(source, source.serve())
            return
        if isinstance(source, ProcessWatch):
            self._unregister(fd)
            self._gone(source)
            return
        if isinstance(source, Terminal):
            if not source.read():
                self._unregister(fd)
            return
        try:
            packet = source.take()  # acting on another packet may have served this one already
        except Closed:
            self._unregister(fd)
            if source is self.zygote.channel:
                raise Stalled("the zygote ended") from None
            for actor in self.actors.values():
                actor.hung_up(source)
            source.close()
            return
        if isinstance(packet, Exited):
            self._ended(packet)
        elif packet is not None:
            self._answer(source, packet)

    def _answer(self, channel: Channel, packet: Packet) -> None:
        if isinstance(packet, Hello):
            self._welcome(channel, packet)
            return
        actor = next((a for a in self.actors.values() if channel in (a.channel, a.side)), None)
        if actor is None:
            return  # from a worker whose place another one has taken
        if isinstance(packet, Begun):
            actor.begun, actor.begun_at = packet.id, time.monotonic()
        elif isinstance(packet, Done):
            step = actor.outstanding.pop(packet.id, None)
            if packet.outcome == "injected":
                actor.struck = step
            if isinstance(step, self._system.opens):
                self._handle, self._network.addresses = packet.handle, packet.addresses
                self._look_for_started(packet)
            elif isinstance(step, self._system.needed) and packet.outcome != "ok":
                self._handshake_failed = True
            if isinstance(step, (*self._system.opens, *self._system.attaches)):
                look_at_maps(self.log, actor)
        elif isinstance(packet, Parts):
            for watch in self._target_processes.appear(packet.parts):
                self._register(watch)
        elif isinstance(packet, Guarded):
            self._guard(actor, packet)
        elif isinstance(packet, Unguarded):
            self._unguard(actor, packet)
        elif isinstance(packet, Reached):
            step = actor.armed.pop(packet.id, None)
            late = step is None and any(a.stop for a in actor.arms if a.id == packet.id)
            actor.arms = [arm for arm in actor.arms if arm.id != packet.id]
            native = step is not None and step.at is not None and step.at.name == "native"
            actor.stand(channel, self.folder / f"{actor.name}.native" if native else None)
            self.log.write("reached", target=actor.name, where=packet.where)
            if late:  # its stop is not awaited any more
                actor.has_stopped()
                FAULTS["continue"].act(actor)
            elif step is None:
                actor.release("go")
            else:
                self._act(actor, step, packet.where)

    def _look_for_started(self, packet: Done) -> None:
        """Watch the process that the target started as it was opened, if it is a role."""
        if packet.pid and packet.handle:
            watch = self._target_processes.found(self.scenario.target_roles()[0], packet.pid)
            if watch is not None:
                self._register(watch)

    def _welcome(self, channel: Channel, hello: Hello) -> None:
        if hello.role not in self.actors:  # a target started more workers than it was to
            self._unregister(channel.fileno())
            channel.close()
        elif hello.role in self._target_processes.actors:
            watch = self._target_processes.welcome(channel, hello)
            if watch is not None:
                self._register(watch)
        elif hello.side:
            self.actors[hello.role].side = channel
            self.actors[hello.role].put(Release(), channel)
        else:
            actor = self.actors[hello.role]
            actor.channel, actor.pid = channel, hello.pid
            if self._sitting:
                self._sitting.terminal.taken()
                self._register(ProcessWatch(hello.pid, hello.role))

    def _ended(self, packet: Exited) -> None:
        self._strangers.ended(packet)
        for name in set(self.actors) - set(self._target_processes.actors):
            actor = self.actors[name]
            if packet.pid == (actor.pid if self._sitting else actor.child):
                self._end(actor, packet.status)

    def _end(self, actor: RoleProcess, status: int) -> None:
        if not actor.alive:
            return
        actor.status = status
        self._calls.ended(actor)
        self._timed.ended(actor)
        how = ending(status)
        said = self.folder / f"{actor.name}.err"
        words = {"said": diagnosis.last_line(said)} if how.get("signal") == signal.SIGABRT else {}
        self.log.write("exit", target=actor.name, pid=actor.pid, **how, **words)
        actor.outstanding.clear()

    def _gone(self, watch: ProcessWatch) -> None:
        """Handle the end of a process that is not the zygote's child: a worker or shell's job."""
        if watch.role in self._target_processes.actors:
            self._target_processes.gone(watch)
            return
        status = watch.status()
        watch.close()
        if status is not None:  # else it was the zygote's in the end, which reports it
            self._end(self.actors[watch.role], status)

    # -- pages ------------------------------------------------------------------------------

    def _guard(self, actor: RoleProcess, packet: Guarded) -> None:
        """Watch the stores of an operation, and let it begin."""
        assert actor.channel is not None
        step = actor.armed.get(packet.id)
        until = step.at.page if step is not None and step.at is not None else None
        fd = actor.channel.fds.pop()
        self._register(PageWatch(fd, actor.name, actor.pid, packet, until))
        actor.put(Release())

    def _at_page(self, watch: PageWatch, where: str) -> None:
        """Strike a role that is held at its page."""
        if not where:
            return
        actor = self.actors[watch.role]
        self.log.write("reached", target=actor.name, where=where, **watch.inspect())
        step = actor.armed.pop(watch.id, None)
        if step is not None:
            self._act(actor, step, where)
            if actor.stopped:
                actor.has_stopped()
        watch.let_go()

    def _unguard(self, actor: RoleProcess, packet: Unguarded) -> None:
        for fd, source in list(self._sources.items()):
            if isinstance(source, PageWatch) and source.id == packet.id:
                self.log.write("pages", target=actor.name, arm=source.id, count=len(source.order))
                self._unregister(fd)
                source.close()
        actor.put(Release())

    def _register(self, source: EventSource) -> None:
        self._sources[source.fileno()] = source
        self._poll.register(source.fileno(), select.POLLIN)

    def _unregister(self, fd: int) -> None:
        self._poll.unregister(fd)
        del self._sources[fd]

    # -- roles ------------------------------------------------------------------------------

    def _start(self, role: str, cancels: bool) -> None:
        order = ForkRole(
            role,
            str(self.folder),
            self.scenario.start,
            observe=self.scenario.observe,
            stores=self.scenario.at_stores(),
            cancels=cancels,
            system=self._system.name,
            terminal=self._sitting.terminal.path if self._sitting else "",
            seed=self.scenario.seed,
            umask=self.scenario.umask,
            flooded=any(
                isinstance(step, script.Attack) and step.how == "flood"
                for step in self.scenario.steps
            ),
            shm_of=self._shm_of,
            net_of=self._hosts.pid if self._hosts else 0,
            netns_fd=self._hosts.netns_fd(role) if self._hosts else 0,
            preforks=bool(prefork_modules(self.scenario, self.zygote.loaded)),
        )
        child = self.zygote.fork(order)
        self.actors[role] = RoleProcess(role, child, child)

    def _all_present(self) -> bool:
        return all(actor.channel or not actor.alive for actor in self.actors.values())

    def _number(self) -> int:
        self._next += 1
        return self._next
