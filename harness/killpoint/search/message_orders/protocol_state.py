"""State of the wave protocol, its possible moves, and the state after each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import cast

from killpoint.search.message_orders.memory import InFlight, MemoizedParty, Numbers, Outcome
from killpoint.systems.coordinator.checks import waves as rules
from killpoint.systems.coordinator.orders import Orders
from killpoint.targets.waves import CoordinatorParty, EngineParty, HasWaves, Sent
from killpoint.verdict import Violation

State = tuple[int, ...]
"""Small numbers only: see :class:`ProtocolState`."""
Move = tuple[str, int]
Found = tuple[str, Violation]
"""An invariant, and how it is broken."""

_NOWHERE, _GAVE_NO, _GAVE_YES, _TOLD_NO, _TOLD_YES = range(5)
"""State of an engine in an all-reduce."""


class ProtocolState:
    """The parties, between them links that keep their order, and an all-reduce of those in a wave.

    A state is, in this order: the coordinator, engines, front ends; the links from engines, to
    engines, to front ends; each engine's place in the all-reduce, its steps in this wave; who
    listens, is held, is dead, and is to be missed (a bit each); requests, holds and deaths that
    are left.
    """

    def __init__(self, target: HasWaves, orders: Orders) -> None:
        self._orders = orders
        self._messages, self._links = Numbers[Hashable](), InFlight()
        parties = target.wave_parties(orders.engines, orders.front_ends)
        self._coordinator = MemoizedParty(parties.coordinator, self._messages)
        self._engines = [MemoizedParty(each, self._messages) for each in parties.engines]
        self._front_ends = [MemoizedParty(each, self._messages) for each in parties.front_ends]
        engines, fronts = orders.engines, orders.front_ends
        self._names = [f"engine-{rank}" for rank in range(engines)]
        self._names += [f"front-end-{number}" for number in range(fronts)]
        self._up = 1 + engines + fronts
        self._down = self._up + engines
        self._place = self._down + engines + fronts
        self._steps = self._place + engines
        self._listen = self._steps + engines
        self._left = self._listen + 1
        self._dead = len(self._names) + engines
        self._missing = self._dead + engines
        self._most = 2 * (orders.requests + orders.holds + orders.deaths) + 2
        """Waves that can be accounted for; each request may want one twice."""

    def begin(self) -> State:
        """Return the first state: no party has heard of another."""
        orders = self._orders
        parties = [self._coordinator, *self._engines, *self._front_ends]
        return (
            *(party.first for party in parties),
            *([0] * (self._left - len(parties))),
            orders.requests,
            orders.holds,
            orders.deaths,
        )

    # -- what can happen --------------------------------------------------------------------

    def moves(self, state: State) -> list[Move]:
        """Return every move that is possible now.

        A message to a front end is heard at once, and alone: it changes the front end only, and it
        can never be further ahead of the coordinator than now, whose wave does not decrease.
        """
        engines = self._orders.engines
        for number in range(self._orders.front_ends):
            if state[self._down + engines + number]:
                return [("hears", engines + number)]
        return [*self._due(state), *self._unasked(state)]

    def _due(self, state: State) -> Iterator[Move]:
        """Yield the moves on their way, or certain to be made: at rest there are none."""
        for rank, engine in enumerate(self._engines):
            if state[self._up + rank]:
                yield "is heard", rank
            if self._bit(state, self._missing + rank):
                yield "is missed", rank
            if self._bit(state, self._dead + rank):
                continue
            if state[self._down + rank]:
                yield "hears", rank
            place = state[self._place + rank]
            if place == _NOWHERE and engine.runs[state[1 + rank]]:
                yield "steps", rank
            if place in (_TOLD_NO, _TOLD_YES):
                yield "learns what was agreed", rank
            if place in (_GAVE_NO, _GAVE_YES) and self._lost(state, rank):
                yield "meets the dead", rank
            if self._is_held(state, rank):
                yield "is released", rank
        for party in range(len(self._names)):
            dead = party < self._orders.engines and self._bit(state, self._dead + party)
            if not dead and not self._bit(state, party):
                yield "begins to listen", party

    def _unasked(self, state: State) -> Iterator[Move]:
        requests, holds, deaths = state[self._left : self._left + 3]
        for rank in range(self._orders.engines):
            if self._bit(state, self._dead + rank):
                continue
            if deaths:
                yield "dies", rank
            if requests:
                yield "accepts a request", rank
            if holds and not self._is_held(state, rank):
                yield "is held", rank

    def _bit(self, state: Sequence[int], place: int) -> bool:
        return bool(state[self._listen] >> place & 1)

    def _is_held(self, state: State, rank: int) -> bool:
        return self._bit(state, len(self._names) + rank)

    def _members(self, state: Sequence[int], rank: int) -> tuple[int, ...]:
        """Return the engines that meet in an all-reduce with this one, itself included."""
        return self._engines[rank].members[state[1 + rank]] or tuple(range(self._orders.engines))

    def _lost(self, state: Sequence[int], rank: int) -> tuple[int, ...]:
        """Those of them who are dead."""
        if not state[self._listen] >> self._dead:
            return ()
        members = self._members(state, rank)
        return tuple(each for each in members if self._bit(state, self._dead + each))

    # -- what then is -----------------------------------------------------------------------

    def after(self, state: State, move: Move) -> State:
        """The state that a move leads to."""
        what, who = move
        new = list(state)
        match what:
            case "is heard":
                message, new[self._up + who] = self._links.pop(state[self._up + who])
                self._told(new, who, message)
            case "hears":
                message, new[self._down + who] = self._links.pop(state[self._down + who])
                self._heard(new, who, message)
            case "begins to listen":
                new[self._listen] |= 1 << who
                self._arrived(new, who)
            case "steps":
                self._stepped(new, who)
            case "learns what was agreed":
                self._agreed(new, who)
            case "accepts a request":
                new[self._left] -= 1
                self._engine(new, who, what, lambda engine: engine.accept())
            case "dies":
                self._died(new, who)
            case "is missed":
                new[self._listen] &= ~(1 << self._missing + who)
                party = cast("CoordinatorParty", self._coordinator.party)
                name = self._names[who]
                outcome = self._coordinator.ask(new[0], what, who, lambda: party.left(name))
                self._posted(new, 0, 0, outcome)
            case "meets the dead":
                lost = self._lost(state, who)
                new[self._place + who], new[self._steps + who] = _NOWHERE, 0
                self._engine(new, who, f"lost {lost}", lambda engine: engine.broken(lost))
            case "is held":
                new[self._left + 1] -= 1
                new[self._listen] |= 1 << (len(self._names) + who)
                self._engine(new, who, what, lambda engine: engine.hold())
            case _:
                new[self._listen] &= ~(1 << (len(self._names) + who))
                self._engine(new, who, what, lambda engine: engine.release())
        return tuple(new)

    def _told(self, new: list[int], rank: int, message: int) -> None:
        party, content = self._coordinator.party, self._messages.things[message]
        name = self._names[rank]
        outcome = self._coordinator.ask(new[0], name, message, lambda: party.hear(name, content))
        self._posted(new, 0, 0, outcome)

    def _arrived(self, new: list[int], who: int) -> None:
        name, party = self._names[who], cast("CoordinatorParty", self._coordinator.party)
        outcome = self._coordinator.ask(new[0], "arrived", who, lambda: party.arrived(name))
        self._posted(new, 0, 0, outcome)

    def _heard(self, new: list[int], who: int, message: int) -> None:
        party = [*self._engines, *self._front_ends][who]
        content = self._messages.things[message]
        outcome = party.ask(
            new[1 + who], "hears", message, lambda: party.party.hear("coordinator", content)
        )
        self._posted(new, 1 + who, who, outcome)

    def _stepped(self, new: list[int], rank: int) -> None:
        engine = self._engines[rank]
        party = cast("EngineParty", engine.party)
        new[1 + rank], _, gave = engine.ask(new[1 + rank], "steps", 0, party.step)
        new[self._place + rank] = _GAVE_YES if gave else _GAVE_NO
        new[self._steps + rank] += 1
        members = self._members(new, rank)
        places = [new[self._place + each] for each in members]
        one = all(self._members(new, each) == members for each in members)
        if one and all(place in (_GAVE_NO, _GAVE_YES) for place in places):
            said = _TOLD_YES if _GAVE_YES in places else _TOLD_NO
            for each in members:
                new[self._place + each] = said

    def _died(self, new: list[int], rank: int) -> None:
        """Apply a death: messages from the engine are still on their way, those to it are lost."""
        new[self._left + 2] -= 1
        listened = self._bit(new, rank)
        new[self._listen] &= ~(1 << rank | 1 << len(self._names) + rank)
        new[self._listen] |= 1 << self._dead + rank | listened << self._missing + rank
        new[self._down + rank] = new[self._steps + rank] = 0
        new[self._place + rank] = _NOWHERE

    def _agreed(self, new: list[int], rank: int) -> None:
        anyone = new[self._place + rank] == _TOLD_YES
        new[self._place + rank] = _NOWHERE
        self._engine(new, rank, f"agreed {anyone}", lambda engine: engine.agreed(anyone))
        if not anyone:
            new[self._steps + rank] = 0

    def _engine(
        self, new: list[int], rank: int, what: str, call: Callable[[EngineParty], Sent]
    ) -> None:
        engine = self._engines[rank]
        party = cast("EngineParty", engine.party)
        outcome = engine.ask(new[1 + rank], what, 0, lambda: call(party))
        self._posted(new, 1 + rank, rank, outcome)

    def _posted(self, new: list[int], place: int, sender: int, outcome: Outcome) -> None:
        new[place], sent, _ = outcome
        engines = self._orders.engines
        for audience, message in sent:
            if audience == "coordinator":
                new[self._up + sender] = self._links.push(new[self._up + sender], message)
                continue
            first, last = (0, engines) if audience == "engines" else (engines, len(self._names))
            for who in range(first, last):
                if new[self._listen] >> who & 1:
                    at = self._down + who
                    new[at] = self._links.push(new[at], message)

    # -- what is wrong with it --------------------------------------------------------------

    def judge(self, before: State, move: Move, state: State) -> Iterator[Found]:
        """Yield the violations of a move."""
        waves = self._coordinator.waves
        coordinator, engines = waves[state[0]], self._orders.engines
        if before[0] != state[0] and (wrong := rules.went_back(waves[before[0]], coordinator)):
            yield "C1", wrong
        mine = [self._engines[r].waves[state[1 + r]] for r in range(engines)]
        fronts = enumerate(self._front_ends)
        theirs = [front.waves[state[1 + engines + n]] for n, front in fronts]
        if max(mine) > coordinator + 1 or max(theirs, default=0) > coordinator:
            wrong = rules.leads(coordinator, mine, theirs)
            assert wrong is not None
            yield "C1", wrong
        if max(mine) > self._most:
            yield "C2", rules.endless(max(mine))
        if move[0] == "steps" and state[self._place + move[1]] >= _TOLD_NO:
            seen = self._seen(state)
            wrong = rules.met([seen[rank] for rank in self._members(state, move[1])])
            if wrong:
                yield "C3", wrong
        if next(self._due(state), None) is None and not any(state[self._down : self._place]):
            yield from rules.at_rest(self._seen(state))

    def ends(self, state: State) -> bool:
        """Return whether no later state is of interest: waves have run away."""
        return any(e.waves[state[1 + r]] > self._most for r, e in enumerate(self._engines))

    def _seen(self, state: State) -> list[rules.Engine]:
        out: list[rules.Engine] = []
        for rank, engine in enumerate(self._engines):
            number = state[1 + rank]
            if self._bit(state, self._dead + rank):
                out.append(rules.Engine(engine.waves[number], False, 0, False, 0))
                continue
            out.append(
                rules.Engine(
                    engine.waves[number],
                    engine.runs[number],
                    engine.unfinished[number],
                    state[self._place + rank] in (_GAVE_NO, _GAVE_YES),
                    state[self._steps + rank],
                )
            )
        return out

    # -- for people -------------------------------------------------------------------------

    def text(self, state: State, move: Move) -> str:
        """A move in words; together with the moves before, they say which move it is."""
        what, who = move
        name = self._names[who]
        if what == "is heard":
            message = self._links.pop(state[self._up + who])[0]
            return f"coordinator hears {name}: {self._messages.things[message]}"
        if what == "hears":
            message = self._links.pop(state[self._down + who])[0]
            return f"{name} hears: {self._messages.things[message]}"
        return f"{name} {what}"
