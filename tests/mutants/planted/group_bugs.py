"""Bugs planted in the group, each after one that a real project has fixed."""

from __future__ import annotations

from mutant import Edit

from planted.bug import PlantedBug

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="group_full_inbox_drops_its_oldest",
        system="group",
        edits=(
            Edit(
                "group/member.py",
                "    bodies: deque[memoryview] = "
                "field(default_factory=lambda: deque[memoryview]())\n",
                "    bodies: deque[memoryview] = "
                "field(default_factory=lambda: deque[memoryview](maxlen=1024))\n",
            ),
        ),
        breaks=("G1",),
        seen="A rank is sent more than 1024 objects (or broadcasts) by one other before it takes "
        "the first: each one beyond that silently pushes out the oldest that was not taken yet. "
        "Up to 1024 at a time, and any number that is taken as it comes, arrive.",
        fixed="MonsterMQ's queue on disk did not notice that it was full where it wrapped around, "
        "so that new messages overwrote the oldest ones that nobody had read.",
        link="https://github.com/vogler75/monster-mq/issues/183",
    ),
    PlantedBug(
        name="group_who_asks_hears_of_no_later_change",
        system="group",
        edits=(Edit("group/barrier.py", "        self._curious.add(rank)\n", ""),),
        breaks=("G3",),
        seen="Of three ranks one never comes to a barrier or gather, and one comes after half of "
        "a waiting rank's time, but before its end: the error names both as absent, for the list "
        "of those that have come stays as it was at half time. Ranks that come earlier are right.",
        fixed="A load balancer's watch of its members was set once and lost in a reconnection, so "
        "that it worked with an old list of members and heard of no later change.",
        link="https://github.com/airbnb/synapse/pull/287",
    ),
    PlantedBug(
        name="group_return_of_a_rank_releases_nobody",
        system="group",
        edits=(
            Edit(
                "group/barrier.py",
                "        self._away.discard(rank)\n"
                "        return self._released() or self._news()\n",
                "        self._away.discard(rank)\n        return self._news()\n",
            ),
        ),
        breaks=("G3", "G4"),
        seen="A rank has come to a barrier, its connection breaks, the last of the others comes, "
        "and the rank connects again: all have come and live, but nobody is released. Each waits "
        "to the end of its time, for ever without one, and the first error names no rank.",
        fixed="A coordinator of dataflows took daemons that lost their connection off its lists "
        "without looking whether the barrier that all waited at was complete now.",
        link="https://github.com/dora-rs/dora/issues/2028",
    ),
    PlantedBug(
        name="group_news_wakes_one_sleeper",
        system="group",
        edits=(
            Edit(
                "group/wakers.py",
                "            while True:\n                self._waiting.popleft().wake()\n",
                "            self._waiting.popleft().wake()\n",
            ),
        ),
        breaks=("G1", "G4"),
        seen="Two threads of a rank wait at once, for objects from different ranks or one at a "
        "barrier: what comes for the second wakes the first, which sleeps on. The second gets its "
        "object with the next frame, at its deadline, or never. One thread a rank is served well.",
        fixed="Raising a semaphore of an operating system in an enclave woke one of the threads "
        "that slept on it, and the others slept on although there was something for them.",
        link="https://github.com/lsds/sgx-lkl/pull/385",
    ),
    PlantedBug(
        name="group_object_of_a_dead_rank_leaves_its_gather",
        system="group",
        edits=(
            Edit(
                "group/barrier.py",
                "        if self.channel is not Channel.GATHER:\n"
                "            self._came.pop(rank, None)\n"
                "        return []\n",
                "        self._came.pop(rank, None)\n        return []\n",
            ),
        ),
        breaks=("G3", "G4"),
        seen="A rank has given its object to a gather and dies before the last one "
        "comes: the others still count on the object, and so get no error of its end, but the "
        "host has dropped it. They wait to their deadlines, for ever without one.",
        fixed="When the connection of a participant was lost, an OpenPMIx server took its "
        "contribution out of the collective operation under way, though it had come in full.",
        link="https://github.com/openpmix/openpmix/pull/3934",
    ),
    PlantedBug(
        name="group_host_leaves_with_the_first_who_has_seen",
        system="group",
        edits=(
            Edit(
                "group/host.py",
                "        return not self._present - self._seen - self._gone\n",
                "        done = self._seen | self._gone\n"
                "        return not self._present or any(rank in done for rank in self._present)\n",
            ),
        ),
        breaks=("G4",),
        seen="Of three or more ranks, one has just sent something to another that is large or on "
        "a slow way, when the host closes: the host waits for the first rank that confirms this, "
        "perhaps an idle one, and the object may not be passed on: its receiver gets GroupClosed.",
        fixed="A server for workers shut down while messages to some of them were still under "
        "way; it now waits until these have gone and all clients have left.",
        link="https://github.com/cylondata/twister2/pull/237",
    ),
)
