"""Mutants of the delivery of messages, near and through a cut connection: Q1 to Q5, Q18."""

from __future__ import annotations

from mutant import Edit, Mutant, one

_GIVEN_TWICE = (
    Edit(
        "queue/reader.py",
        "            given, self._undelivered = self._undelivered, None\n",
        '            late, self._late = getattr(self, "_late", False), False\n'
        "            given, self._undelivered = self._undelivered, self._undelivered if "
        "late else None\n",
    ),
    Edit(
        "queue/reader.py",
        "                self._undelivered = given  # nobody got it: the next call gives it\n",
        "                self._undelivered = given\n            self._late = True\n",
    ),
)
"""A message is given again by the receive after one that ran out of time."""

DELIVERY: tuple[Mutant, ...] = (
    one(
        "q1_boundary_off_by_one",
        "Q1/every-size-at-the-boundary",
        "lost hang wrong-data",
        "base/serialization.py",
        "return total >= max_chunk_bytes",
        "return total > max_chunk_bytes",
    ),
    one(
        "q1_value_taken_for_a_length",
        "Q1/every-shape-of-array",
        "wrong-data",
        "base/serialization.py",
        "bytearray(array.tobytes())",
        "bytearray(array)",
    ),
    Mutant(
        "q2_twice_after_a_timeout",
        "Q2/receive-timed-out",
        ("duplicate",),
        _GIVEN_TWICE,
    ),
    Mutant(
        "h1_again_after_a_timeout",
        "H1/generated",
        ("duplicate",),
        _GIVEN_TWICE,
    ),
    Mutant(
        "q2_timeout_consumes_the_marker",
        "Q2/late-overflow-payload",
        ("lost", "reordered"),
        (
            Edit(
                "queue/reader.py",
                '                raise DeadlinePassed("an overflow payload", timeout or 0)\n',
                "                self._ring_reader.release_slot()\n"
                '                raise DeadlinePassed("an overflow payload", timeout or 0)\n',
            ),
        ),
        samples=5,
    ),
    one(
        "q3_sends_from_the_callers_memory",
        "Q3/overwritten-after-enqueue-overflow",
        "wrong-data",
        "queue/overflow.py",
        "        write_message(buffers, frame[_ID.size :])\n"
        "        self.socket.send(frame, copy=False)  # refers to the frame until it has left\n",
        "        import threading\n\n        def later() -> None:\n"
        "            write_message(buffers, frame[_ID.size :])\n"
        "            self.socket.send(frame, copy=True)\n\n"
        "        threading.Timer(0.2, later).start()\n",
    ),
    Mutant(
        "q4_limit_judged_after_publication",
        "Q4/buffer-count",
        ("wrong-data",),
        (
            Edit(
                "base/serialization.py",
                "            check_limits([len(b) for b in buffers], self._limits)\n",
                "            pass\n",
            ),
            Edit(
                "queue/writer.py",
                "        if chooses:\n",
                "        from ..base.serialization import check_limits\n\n"
                "        check_limits([len(b) for b in buffers], self._settings.limits)\n"
                "        if chooses:\n",
            ),
        ),
    ),
    Mutant(
        "q5_a_high_water_mark_drops",
        "Q5/slow-remote-reader",
        ("lost",),
        (
            Edit(
                "queue/remote_fanout.py",
                "        return not self._taken or self.posted - min(self._taken.values())"
                " < self._window\n",
                "        return True\n",
            ),
            Edit(
                "queue/remote_reader.py",
                "            self._go = True\n        else:\n",
                "            self._go = True\n        elif len(self._inbox) < 500:\n",
            ),
        ),
    ),
    one(
        "q18_nothing_is_sent_again_after_a_break",
        "Q18/reset-loses-nothing",
        "lost",
        "transport/session.py",
        "        self._cursor = max(had, self._first)\n",
        "        self._cursor = self.posted\n",
    ),
    one(
        "q18_a_quiet_connection_is_trusted",
        "Q18/link-down-4s-through-back-off",
        "lost",
        "transport/client.py",
        "            elif quiet >= self._peer_timeout / 2 and self._attempt is None:\n",
        "            elif quiet >= self._peer_timeout and self._attempt is None:\n",
    ),
    one(
        "q18_silence_is_noticed_late",
        "Q18/half-open-toward-writer",
        "late",
        "transport/server.py",
        "            elif peer.keepalive.quiet() >= self._peer_timeout:\n",
        "            elif peer.keepalive.quiet() >= 2 * self._peer_timeout:\n",
    ),
)
