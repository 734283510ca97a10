"""Bugs planted in the coordinator, each after one that a real project has fixed."""

from __future__ import annotations

from mutant import Edit

from planted.bug import PlantedBug

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="coordinator_an_old_link_ends_the_new_one",
        system="coordinator",
        edits=(
            Edit(
                "coordinator/server.py",
                "        left = self._listening.get(rank, 0) - 1\n"
                "        if left > 0:\n"
                "            self._listening[rank] = left\n"
                "            return False\n"
                "        self._heard.pop(rank, None)\n",
                "        self._heard.pop(rank, None)\n",
            ),
        ),
        breaks=("C2", "C6"),
        seen="A replica's new link is there before the end of its old one was seen: that end makes "
        "the rank gone for good, whatever its new link says, and its requests are in no wave.",
        fixed="The cleanup of an old connection unregistered a stream that had come back over a "
        "new one before the old one was closed.",
        link="https://github.com/Netflix/atlas/pull/891",
    ),
    PlantedBug(
        name="coordinator_rank_0_alone_ends_waves",
        system="coordinator",
        edits=(
            Edit(
                "coordinator/waves.py",
                "done=self.wave if self.rank == self.members[0] else None)\n",
                "done=self.wave if self.rank == 0 else None)\n",
            ),
        ),
        breaks=("C2",),
        seen="Rank 0 is gone, and a wave of the others ends: nobody says so, front ends are told "
        "that it runs on, and a request at a replica that came back meanwhile (rank 0 itself) is "
        "in no wave until one of the others gets a request.",
        fixed="Which replica reports the end of a wave was decided by the wrong number, that on "
        "its own machine instead of its rank among all, so others than the one meant reported it.",
        link="https://github.com/vllm-project/vllm/pull/18502",
    ),
    PlantedBug(
        name="coordinator_loads_only_for_who_came_first",
        system="coordinator",
        edits=(
            Edit(
                "coordinator/server.py",
                "        self._schedule = PublishSchedule(clock(), settings.interval, "
                "settings.idle)\n",
                "        self._schedule = PublishSchedule(clock(), settings.interval, "
                "settings.idle)\n"
                "        self._front_ends = 0\n"
                "        self._told: Any = None  # what the front ends know\n",
            ),
            Edit(
                "coordinator/server.py",
                '        if frame[:1] == b"\\1":\n'
                "            self._schedule.changed(self._clock())\n"
                '        elif frame[:1] != b"\\0":\n',
                '        if frame[:1] == b"\\1":\n'
                "            self._told = self._told if self._front_ends else None\n"
                "            self._front_ends += 1\n"
                "            self._schedule.changed(self._clock())\n"
                '        elif frame[:1] == b"\\0":\n'
                "            self._front_ends -= 1\n"
                "        else:\n",
            ),
            Edit(
                "coordinator/server.py",
                "        self._send([state])\n",
                "        same, self._told = state.counts == self._told, state.counts\n"
                "        self._send([State(state.wave, state.running) if same else state])\n",
            ),
        ),
        breaks=("C7",),
        seen="A front end comes when another one is there and has been told the counts: it hears "
        "the wave at each publication, but no counts, until some replica's counts change or a "
        "replica goes or comes.",
        fixed="Of several listeners that share one stream only those were given its first "
        "snapshot who were there as it opened; one that came later began without any state.",
        link="https://github.com/assistant-ui/assistant-ui/pull/6321",
    ),
    PlantedBug(
        name="coordinator_only_totals_are_changes",
        system="coordinator",
        edits=(
            Edit(
                "coordinator/server.py",
                "        before = list(counts)\n",
                "        before = [sum(load) for load in counts]\n",
            ),
            Edit(
                "coordinator/server.py",
                "        if self.core.counts != before:\n",
                "        if [sum(load) for load in self.core.counts] != before:\n",
            ),
        ),
        breaks=("C7",),
        seen="A replica's counts change and their sum does not (a request that waited runs now, "
        "(1, 0) to (0, 1)): front ends are told as late as the next publication that is due "
        "anyway, after up to a second instead of a tenth.",
        fixed="A group of endpoints compared old and new by what did not include their weights, "
        "so an update of the weights alone was taken for none and told to nobody.",
        link="https://github.com/line/armeria/pull/2240",
    ),
    PlantedBug(
        name="coordinator_scaling_closes_the_ranks_of_the_gone",
        system="coordinator",
        edits=(
            Edit(
                "coordinator/waves.py",
                "        self.counts = [*self.counts, *[IDLE] * (engines - self.size)][:engines]\n",
                "        known = [load for rank, load in enumerate(self.counts) "
                "if rank not in self.gone]\n"
                "        self.counts = [*known, *[IDLE] * engines][:engines]\n",
            ),
        ),
        breaks=("C7",),
        seen="The number of replicas is set while one is gone that is not the last: the counts of "
        "each one behind it are told for the rank before it, until each tells new ones.",
        fixed="A balancer by least connections built its servers' loads anew whenever their "
        "number changed, so that what it took for a server's load was not what the server had.",
        link="https://github.com/apache/apisix/pull/13666",
    ),
    PlantedBug(
        name="coordinator_who_came_before_the_scaling_is_awaited",
        system="coordinator",
        edits=(
            Edit(
                "coordinator/waves.py",
                "        self.gone = frozenset(rank for rank in self.gone if rank < engines)\n",
                "        awaited = set(range(self.size, engines))  # gone until they listen\n"
                "        self.gone = frozenset(rank for rank in self.gone if rank < engines)\n"
                "        self.gone |= awaited\n",
            ),
        ),
        breaks=("C2", "C6"),
        seen="A replica listens already when the number of replicas is raised to include it: it "
        "counts as gone though it is heard of all the time, and its requests are in no wave. One "
        "that comes after the scaling is taken in.",
        fixed="A member that joined a cluster at the moment of a registration was covered neither "
        "by what the joiner is handed nor by what is sent to all who are there.",
        link="https://github.com/hazelcast/hazelcast/issues/11490",
    ),
)
