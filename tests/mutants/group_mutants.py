"""Mutants of the reference's process group: G4, and an interrupted start."""

from __future__ import annotations

from mutant import Edit, Mutant, one
from planted.group_bugs import BUGS

_PLANTED = {bug.name: bug.edits for bug in BUGS}

GROUP: tuple[Mutant, ...] = (
    one(
        "g4_nothing_is_sent_again_after_a_break",
        "G4/reset-loses-nothing",
        "lost",
        "transport/session.py",
        "        self._cursor = max(had, self._first)\n",
        "        self._cursor = self.posted if self.received else max(had, self._first)\n",
    ),
    one(
        "g4_a_rank_is_given_up_before_the_silence",
        "G4/cut-3s-loses-nothing",
        "lost",
        "transport/server.py",
        "            elif peer.keepalive.quiet() >= self._peer_timeout:\n",
        "            elif peer.keepalive.quiet() >= self._peer_timeout / 5:\n",
    ),
    Mutant(
        "r9_a_struck_create_has_left_the_group",
        "R9/exception-in-join",
        ("lost",),
        (
            Edit(
                "transport/io_thread.py",
                "        self._unsays = True\n",
                "        self._unsays = False\n",
            ),
        ),
        samples=6,
    ),
    one(
        "g4_silence_of_a_rank_is_noticed_late",
        "G4/half-open-toward-host",
        "late",
        "transport/server.py",
        "            elif peer.keepalive.quiet() >= self._peer_timeout:\n",
        "            elif peer.keepalive.quiet() >= 4 * self._peer_timeout:\n",
    ),
    one(
        "g4_silence_of_the_host_is_noticed_late",
        "G4/half-open-toward-member",
        "late",
        "transport/client.py",
        "            elif quiet >= self._peer_timeout:\n",
        "            elif quiet >= 4 * self._peer_timeout:\n",
    ),
    one(
        "g4_who_is_silent_is_not_said",
        "G4/cut-past-silence-is-told",
        "no-error",
        "group/exit_reason.py",
        '            return PeerSilent(f"rank {self.rank}", self.how.seconds, waiting_for)\n',
        '            return PeerSilent("somebody", self.how.seconds, "something")\n',
    ),
    one(
        "h2_a_receive_that_ran_out_loses_what_comes_next",
        "H2/generated",
        "lost",
        "group/inbox.py",
        "        context.wait(inbox.any, lambda: context.member.without(src, what), "
        "timeout, what)\n",
        '        if getattr(inbox, "owed", 0) and inbox.bodies:\n'
        "            inbox.owed -= 1\n"
        "            inbox.drop()\n"
        "        try:\n"
        "            context.wait(inbox.any, lambda: context.member.without(src, what), "
        "timeout, what)\n"
        "        except TimeoutError:\n"
        '            inbox.owed = getattr(inbox, "owed", 0) + 1\n'
        "            raise\n",
    ),
    Mutant(
        "h2_who_comes_back_releases_nobody",
        "H2/generated-with-faults",
        ("lost",),
        _PLANTED["group_return_of_a_rank_releases_nobody"],
        samples=3,
    ),
    Mutant(
        "h2_the_object_of_a_dead_rank_is_dropped",
        "H2/generated-with-deaths",
        ("no-error",),
        _PLANTED["group_object_of_a_dead_rank_leaves_its_gather"],
    ),
    Mutant(
        "h2_news_wake_one_thread_alone",
        "H2/generated-with-threads",
        ("late",),
        _PLANTED["group_news_wakes_one_sleeper"],
    ),
)
