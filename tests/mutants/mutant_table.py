"""The mutants of the reference: what is broken, and the case that must catch it."""

from __future__ import annotations

from coordinator_mutants import COORDINATOR
from engine_mutants import ENGINE
from mutant import Edit, Mutant
from mutant import one as _one
from pipe_mutants import PIPE
from pool_mutants import POOL

__all__ = ["CANARY", "MUTANTS", "Edit", "Mutant"]

_NUMBERED = (
    "        self._numbers[index] = self._chunk << CHUNK_SHIFT | number\n",
    "        self._numbers[index] = chunk_index << CHUNK_SHIFT | number\n",
)
"""What stands before the same lines twice in ring/writer.py: in `publish` and in `send`."""

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "r1_flags_reset_after_publication",
        "R1/two-readers",
        ("bad-transition",),
        tuple(
            Edit(
                "ring/writer.py",
                f"{number}        cells[readers] = self._zeros\n        fence_out()\n        try:\n"
                "            cells[written] = 1\n",
                f"{number}        fence_out()\n        try:\n            cells[written] = 1\n"
                "            cells[readers] = self._zeros\n",
            )
            for number in _NUMBERED
        ),
    ),
    _one(
        "r2_published_before_filled",
        "R2/stopped-inside-send",
        "wrong-data duplicate",  # what is in a slot that is not filled yet may be a whole message
        "queue/local_fanout.py",
        "            write_message(buffers, chunk, self._max_chunk_bytes - total - 1)\n"
        "        self.ring_writer.publish()\n",
        "        self.ring_writer.publish()\n        write_message(buffers, chunk)\n",
    ),
    _one(
        "r3_some_messages_twice",
        "R3/stream",
        "duplicate reordered",
        "queue/reader.py",
        "            given, self._undelivered = self._undelivered, None\n",
        "            again = self._ring_reader.number == 7\n"
        "            given, self._undelivered = self._undelivered, self._undelivered if again "
        "else None\n",
    ),
    Mutant(
        "r4_never_waits_for_readers",
        "R4/full-ring",
        ("bad-transition",),
        (
            Edit(
                "ring/writer.py",
                "            and cells[slot[1]] != self._ones\n",
                "            and False\n",
            ),
            Edit("ring/writer.py", "            and cells[readers] != self._ones\n", "and False\n"),
        ),
    ),
    _one(
        "r5_no_fence_before_the_fill",
        "R5/slot-reuse",
        "wrong-data duplicate lost",
        "ring/writer.py",
        "        cells[written] = 0\n        self._opened = number\n"
        "        if not fence_in(False):\n            restart_fence(self._fence)\n",
        "        cells[written] = 0\n        self._opened = number\n",
    ),
    Mutant(
        "r5_no_fence_between_data_and_flag",
        "R5/data-before-flag",
        ("wrong-data", "duplicate", "lost"),
        tuple(
            Edit(
                "ring/writer.py",
                f"{number}        cells[readers] = self._zeros\n"
                "        fence_out()\n        try:\n",
                f"{number}        cells[readers] = self._zeros\n        try:\n",
            )
            for number in _NUMBERED
        ),
    ),
    Mutant(
        "r5_no_fence_between_own_flag_and_written",
        "R5/slot-reuse",
        ("wrong-data", "duplicate", "lost"),
        (
            Edit(
                "ring/reader.py",
                "            return False\n        if not self._fence_in(False):\n"
                "            restart_fence(self._fence)\n",
                "            return False\n",
            ),
            Edit(
                "ring/reader.py",
                "            if not self._fence_in(False):\n"
                "                restart_fence(self._fence)\n"
                "            there",
                "            there",
            ),
        ),
    ),
    _one(
        "r5_no_fence_between_flags_and_copy",
        "R5/slot-reuse",
        "wrong-data duplicate lost",
        "ring/reader.py",
        "            return None\n        self._fence_out()\n        return self._chunks",
        "            return None\n        return self._chunks",
    ),
    _one(
        "r6_array_points_into_the_slot",
        "R6/held-array-after-lap",
        "wrong-data",
        "base/serialization.py",
        "    return [buffers[0], *(_copied(buffer, memory) for buffer in buffers[1:])]\n",
        "    return buffers\n",
    ),
    _one(
        "r7_undecodable_stays",
        "R7/undecodable-message",
        "duplicate",
        "queue/reader.py",
        "            self._undelivered = None\n",
        "            pass\n",
    ),
    _one(
        "r7_unencodable_goes_out_empty",
        "R7/unencodable-message",
        "no-error wrong-data",
        "base/serialization.py",
        "            raise Unencodable(type(obj).__name__) from error\n",
        "            return [pickle.dumps(None, 5)]\n",
    ),
    _one(
        "r7_failed_fill_is_published",
        "R7/fill-raises",
        "wrong-data",
        "ring/ring.py",
        "        yield chunk\n        self.writer.publish()\n",
        "        try:\n            yield chunk\n"
        "        finally:\n            self.writer.publish()\n",
    ),
    _one(
        "r8_a_copy_unlinks",
        "R8/fork-copy-before-attach",
        "bad-transition no-error lost",
        "ring/memory.py",
        '    def close(self) -> None:\n        """Drop the mapping; views',
        "    def __del__(self) -> None:\n        (SHM / self.name).unlink(missing_ok=True)\n\n"
        '    def close(self) -> None:\n        """Drop the mapping; views',
    ),
    Mutant(
        "r8_small_segment_is_taken",
        "R8/small-segment",
        ("no-error", "crash"),
        (
            Edit("ring/memory.py", "        if found.st_size < nbytes:\n", "        if False:\n"),
            Edit("ring/memory.py", "mmap.mmap(fd, nbytes), None)", "mmap.mmap(fd, 0), None)"),
            Edit(
                "ring/ring.py",
                "            layout.verify(segment.buf, handle.name)\n",
                "            pass\n",
            ),
            Edit("ring/ring.py", "        self.wait_with(PollingWaiter(self.left))\n", ""),
        ),
    ),
    Mutant(
        "r9_counted_before_it_is_published",
        "R9/exception-in-send",
        ("lost", "hang", "duplicate", "reordered"),
        (
            Edit(
                "ring/writer.py",
                "        cells[written] = 0\n        self._opened = number\n"
                "        if not fence_in(False):\n            restart_fence(self._fence)\n"
                "        write_single(",
                "        cells[written] = 0\n        self.number = number + 1\n"
                "        if not fence_in(False):\n            restart_fence(self._fence)\n"
                "        write_single(",
            ),
        ),
        samples=6,
    ),
    _one(
        "r9_marker_before_its_payload",
        "R9/exception-in-send",
        "lost hang",
        "queue/local_fanout.py",
        "            payload_id, nbytes = self._payloads.send(buffers)"
        "  # first: a marker promises a payload\n"
        "            self.ring_writer.begin_write()\n"
        "            write_overflow_marker(chunk, payload_id, nbytes)\n",
        "            self.ring_writer.begin_write()\n"
        "            write_overflow_marker(chunk, self._payloads._last_id + 1, total + 1)\n"
        "            self.ring_writer.publish()\n"
        "            self._payloads.send(buffers)\n"
        "            return\n",
    ),
    Mutant(
        "r9_the_lock_stays_held",
        "R9/exception-in-send",
        ("lost",),
        (
            Edit(
                "queue/writer.py",
                "        except BaseException:\n            guard.exit()\n            raise\n",
                "        except ValueError:\n            guard.exit()\n            raise\n",
            ),
            Edit("base/reentrancy.py", "        if self._is_on_stack():\n", "        if True:\n"),
        ),
    ),
    _one(
        "r9_given_back_before_it_is_kept",
        "R9/exception-in-receive",
        "lost",
        "queue/reader.py",
        "            self._undelivered = undelivered = ring_reader.number, raw\n"
        "            ring_reader.release_slot()\n"
        "            if self._has_side_data:\n                self._release_buffers()\n"
        "        number, raw = undelivered\n"
        "        return self._decode(number, raw)\n",
        "            undelivered = ring_reader.number, raw\n"
        "            ring_reader.release_slot()\n"
        "            if self._has_side_data:\n                self._release_buffers()\n"
        "        obj = self._decode(*undelivered)\n        self._undelivered = undelivered\n"
        "        return obj\n",
    ),
    _one(
        "r9_remote_readers_get_it_first",
        "R9/exception-in-send-remote",
        "lost wrong-data",
        "queue/writer.py",
        "            self._unsent_remote = ring_writer.number, body\n"
        "            self._publish_local",
        "            self._unsent_remote = ring_writer.number, body\n"
        "            remote.post(*self._unsent_remote)\n"
        "            self._publish_local",
    ),
    _one(
        "r9_a_half_made_queue_stays",
        "R9/exception-in-make",
        "leak",
        "queue/message_queue.py",
        "            self._adopt(Writer(n_reader, ranks, *sizes, host, settings, undo))\n"
        "        except BaseException:\n",
        "            self._adopt(Writer(n_reader, ranks, *sizes, host, settings, undo))\n"
        "        except ValueError:\n",
    ),
    _one(
        "r9_hello_before_the_end_is_whole",
        "R9/exception-in-attach",
        "lost hang",
        "queue/handshake.py",
        '        self.peer = Peer("writer", sockets.connect(path))\n',
        '        self.peer = Peer("writer", sockets.connect(path))\n        self.say_hello()\n',
    ),
    Mutant(
        "r9_a_round_of_arrivals_is_not_repeatable",
        "R9/exception-in-ready",
        ("lost", "hang"),
        (
            Edit(
                "queue/handshake.py",
                "hello(caller.said[0], fd)\n",
                "hello(caller.said.pop(), fd)\n",
            ),
            Edit(
                "base/event_waiter.py",
                "        except FileExistsError:",
                "        except FloatingPointError:",
            ),
        ),
        samples=6,
    ),
    _one(
        "r9_a_struck_handshake_is_over",
        "R9/exception-in-remote-ready",
        "lost",
        "base/endpoint.py",
        "                    raise DeadlinePassed(self._missing(), timeout or 0)\n"
        "        finally:\n",
        "                    raise DeadlinePassed(self._missing(), timeout or 0)\n"
        "        except BaseException:\n            self.refusal_error = _closed_here\n"
        "            raise\n        finally:\n",
    ),
    Mutant(
        "r9_only_errors_give_the_lock_back",
        "R9/signal-handler-raises",
        ("lost",),
        (
            Edit(
                "queue/writer.py",
                "        except BaseException:\n            guard.exit()\n            raise\n",
                "        except Exception:\n            guard.exit()\n            raise\n",
            ),
            Edit("base/reentrancy.py", "        if self._is_on_stack():\n", "        if True:\n"),
        ),
    ),
    _one(
        "q1_boundary_off_by_one",
        "Q1/every-size-at-the-boundary",
        "lost hang wrong-data",
        "base/serialization.py",
        "return total >= max_chunk_bytes",
        "return total > max_chunk_bytes",
    ),
    _one(
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
        (
            Edit(
                "queue/reader.py",
                "            given, self._undelivered = self._undelivered, None\n",
                '            late, self._late = getattr(self, "_late", False), False\n'
                "            given, self._undelivered = self._undelivered, self._undelivered if "
                "late else None\n",
            ),
            Edit(
                "queue/reader.py",
                "                self._undelivered = given  # nobody got it: the next call gives "
                "it\n",
                "                self._undelivered = given\n            self._late = True\n",
            ),
        ),
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
    _one(
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
    _one(
        "q18_nothing_is_sent_again_after_a_break",
        "Q18/reset-loses-nothing",
        "lost",
        "transport/session.py",
        "        self._cursor = had\n",
        "        self._cursor = self.posted\n",
    ),
    _one(
        "q18_a_quiet_connection_is_trusted",
        "Q18/link-down-4s-through-back-off",
        "lost",
        "transport/client.py",
        "            elif quiet >= self._peer_timeout / 2 and self._attempt is None:\n",
        "            elif quiet >= self._peer_timeout and self._attempt is None:\n",
    ),
    _one(
        "q18_silence_is_noticed_late",
        "Q18/half-open-toward-writer",
        "late",
        "transport/server.py",
        "            elif peer.keepalive.quiet() >= self._peer_timeout:\n",
        "            elif peer.keepalive.quiet() >= 2 * self._peer_timeout:\n",
    ),
    _one(
        "g4_nothing_is_sent_again_after_a_break",
        "G4/reset-loses-nothing",
        "lost",
        "transport/session.py",
        "        self._cursor = had\n",
        "        self._cursor = self.posted if self.received else had\n",
    ),
    _one(
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
    _one(
        "g4_silence_of_a_rank_is_noticed_late",
        "G4/half-open-toward-host",
        "late",
        "transport/server.py",
        "            elif peer.keepalive.quiet() >= self._peer_timeout:\n",
        "            elif peer.keepalive.quiet() >= 4 * self._peer_timeout:\n",
    ),
    _one(
        "g4_silence_of_the_host_is_noticed_late",
        "G4/half-open-toward-member",
        "late",
        "transport/client.py",
        "            elif quiet >= self._peer_timeout:\n",
        "            elif quiet >= 4 * self._peer_timeout:\n",
    ),
    _one(
        "g4_who_is_silent_is_not_said",
        "G4/cut-past-silence-is-told",
        "no-error",
        "group/exit_reason.py",
        '            return PeerSilent(f"rank {self.rank}", self.how.seconds, waiting_for)\n',
        '            return PeerSilent("somebody", self.how.seconds, "something")\n',
    ),
    _one(
        "q6_death_is_not_told",
        "Q6/writer-dies-while-readers-wait",
        "hang",
        "queue/reader.py",
        "        self._waiter.set_error(lambda waiting_for: PeerDied(role, pid, waiting_for, "
        "signal))\n",
        "        del role, pid, signal\n",
    ),
    _one(
        "q6_death_hides_what_was_published",
        "Q6/published-before-death",
        "lost",
        "queue/reader.py",
        '            if self._waiter.stopped:\n                raise self._refusal("a message")\n',
        "            self._waiter.block(0)\n            if self._waiter.fault():\n"
        '                raise self._refusal("a message")\n',
    ),
    Mutant(
        "q7_dead_reader_is_waited_for",
        "Q7/reader-dies-while-writer-waits",
        ("hang",),
        (
            Edit(
                "queue/writer.py",
                '        if not clean and self._settings.reader_policy == "raise":\n',
                "        if False:\n",
            ),
        ),
    ),
    _one(
        "q8_sleeping_readers_are_not_rung",
        "Q8/idle-reader-wakes",
        "late hang",
        "ring/writer.py",
        "        self.wake_readers()\n\n    def all_read",
        "\n    def all_read",
    ),
    _one(
        "q8_looks_before_it_says_that_it_sleeps",
        "Q8/every-schedule",
        "late",
        "ring/waiting.py",
        "            point.announce_sleep()\n            if look():\n                return True\n",
        "            if look():\n                return True\n            point.announce_sleep()\n",
    ),
    _one(
        "q8_rings_before_it_publishes",
        "Q8/every-schedule",
        "late",
        "ring/writer.py",
        "            cells[written] = 1\n            fence_in(False)\n            fence_out()\n"
        "            self.number = number + 1\n            if cells[READERS_SLEEP]:\n"
        "                self._wake()\n        except BaseException:\n"
        "            self.wake_readers()  # as in",
        "            if cells[READERS_SLEEP]:\n                self._wake()\n"
        "            cells[written] = 1\n            fence_in(False)\n            fence_out()\n"
        "            self.number = number + 1\n        except BaseException:\n"
        "            self.wake_readers()  # as in",
    ),
    _one(
        "q8_sleeper_flag_without_a_fence",
        "Q8/every-schedule",
        "late",
        "ring/waiting.py",
        "        self._cells[self._sleeper_at] = 1\n        self._fence_in(False)\n"
        "        self._fence_out()\n",
        "        self._cells[self._sleeper_at] = 1\n",
    ),
    _one(
        "q8_rings_then_clears",
        "Q8/every-schedule",
        "late",
        "ring/writer.py",
        "        self._cells[READERS_SLEEP] = 0  # clear, then ring: a later sleeper sets it"
        " again\n        self.wake_readers()\n",
        "        self.wake_readers()\n        self._cells[READERS_SLEEP] = 0\n",
    ),
    _one(
        "q13_two_may_enter",
        "Q13/two-senders-every-schedule",
        "lost wrong-data duplicate",
        "base/reentrancy.py",
        "        self._lock = threading.RLock()\n",
        "        self._lock = threading.BoundedSemaphore(2)\n",
    ),
    _one(
        "q13_receivers_are_not_guarded",
        "Q13/two-receivers-every-schedule",
        "lost wrong-data duplicate",
        "queue/reader.py",
        "        guard = self._guard\n",
        "        guard = type(self._guard)()\n",
    ),
    Mutant(
        "q9_gives_up_early",
        "Q9/receive-from-empty-ring",
        ("late",),
        (
            Edit(
                "ring/waiting.py",
                "            if end is not None and now >= end:\n"
                "                return last_look(look, point)\n            if now < calm:\n",
                "            if end is not None and now >= end - 0.05:\n"
                "                return last_look(look, point)\n            if now < calm:\n",
            ),
            Edit(
                "ring/waiting.py",
                "            point.block(None if end is None else end - now)\n",
                "            point.block(None if end is None else max(0.0, end - now - 0.05))\n",
            ),
        ),
    ),
    _one(
        "q9_deadline_is_late",
        "Q9/send-to-full-ring",
        "late",
        "ring/waiting.py",
        "        end = None if timeout is None else now + timeout\n        calm = now",
        "        end = None if timeout is None else now + timeout + 0.6\n        calm = now",
    ),
    _one(
        "q9_cancel_does_not_wake",
        "Q9/cancel-receive",
        "hang",
        "base/event_waiter.py",
        "            os.eventfd_write(self._stop, 1)\n",
        "            pass\n",
    ),
    Mutant(
        "q10_departure_is_an_arrival",
        "Q10/departure-is-no-arrival",
        ("no-error",),
        (
            Edit(
                "queue/handshake.py",
                "        return sorted(self._ranks - self._subscribed)\n",
                "        return [] if self._subscribed else sorted(self._ranks)\n",
            ),
            Edit("queue/handshake.py", "        self._check_peers()\n", ""),
            Edit(
                "queue/handshake.py",
                "                    peer.link.send(GO)\n"
                "                except OSError:\n"
                "                    raise self._death(peer) from None\n",
                "                    peer.link.send(GO)\n"
                "                except OSError:\n"
                "                    pass\n",
            ),
            Edit(
                "queue/writer.py",
                "        if complete:\n",
                "        if complete:\n            return True\n        if False:\n",
            ),
        ),
    ),
    _one(
        "q11_close_waits_for_the_slow",
        "Q11/close-with-unread-overflow",
        "late hang",
        "queue/local_fanout.py",
        "        self._payloads.close(linger=seconds)\n",
        "        self._payloads.close(linger=4.0)\n",
    ),
    Mutant(
        "q16_drops_at_close_in_silence",
        "Q16/closed-after-60MB",
        ("lost",),
        (
            Edit(
                "queue/local_fanout.py",
                "        self._payloads.close(linger=seconds)\n",
                "        self._payloads.close(linger=0.0)\n",
            ),
            Edit("queue/reader.py", "        if not told:\n", "        if False:\n"),
        ),
        samples=3,
    ),
    _one(
        "r2_a_message_is_whole_when_half_of_it_came",
        "R2/large-arrays",
        "wrong-data lost",
        "queue/chunking.py",
        "        return self._whole if start + count == nbytes else None\n",
        "        return self._whole if 2 * (start + count) >= nbytes else None\n",
    ),
    _one(
        "q6_what_a_dead_writer_began_is_handed_out",
        "Q6/writer-killed-inside-large-message",
        "wrong-data",
        "queue/reader.py",
        "            chunk = self._ring_reader.claim(seconds)\n",
        "            try:\n"
        "                chunk = self._ring_reader.claim(seconds)\n"
        "            except Exception:\n"
        "                if self._assembly._whole is None:\n"
        "                    raise\n"
        "                return split_message(self._assembly._whole)\n",
    ),
    _one(
        "q14_nine_readers_share_eight_flags",
        "Q14/64-local-readers",
        "starved hang lost duplicate wrong-data",
        "ring/layout.py",
        "        return self.number_at(slot) + 9 + rank\n",
        "        return self.number_at(slot) + 9 + rank % 8\n",
    ),
    _one(
        "q12_eight_bytes_stay_of_each_message",
        "Q12/paced-stream",
        "growth",
        "queue/writer.py",
        "            main = encode_short(obj) if type(obj) is bytes else None\n",
        "            main = encode_short(obj) if type(obj) is bytes else None\n"
        '            globals().setdefault("_stays", bytearray()).extend(bytes(8))\n',
    ),
    _one(
        "q15_pages_are_not_reserved",
        "Q15/full-under-load",
        "crash",
        "ring/memory.py",
        "            os.posix_fallocate(fd, 0, nbytes)\n",
        "            os.ftruncate(fd, nbytes)\n",
    ),
    _one(
        "q17_any_rank_is_the_first",
        "Q17/unknown-rank",
        "no-error",
        "queue/message_queue.py",
        '    raise RankRefused(rank, f"unknown; the ranks are {known}")\n',
        "    return _open_reader(handle, known[0], settings, undo)\n",
    ),
    _one(
        "s1_listens_everywhere",
        "S1/remote-queue-listeners",
        "exposure",
        "base/security.py",
        "            socket.bind(f\"tcp://{name}:{port or '*'}\")\n",
        "            socket.bind(f\"tcp://{'*' if name else ''}:{port or '*'}\")\n",
    ),
    _one(
        "s2_segment_is_made_for_all",
        "S2/umask-000",
        "exposure",
        "ring/memory.py",
        "        fd = own.open(os.open, path, flags, 0o600)\n",
        "        fd = own.open(os.open, path, flags, 0o666)\n",
    ),
    _one(
        "s2_a_pools_segment_is_made_for_all",
        "S2/pool-paths",
        "exposure",
        "ring/memory.py",
        "        fd = own.open(os.open, path, flags, 0o600)\n",
        "        fd = own.open(os.open, path, flags, 0o666)\n",
    ),
    Mutant(
        "s2_a_cores_sockets_are_for_all",
        "S2/engine-paths",
        ("exposure",),
        (
            Edit("engine/core/process.py", "        path.chmod(0o600)\n", ""),
            Edit(
                "base/ownership.py",
                "        path.chmod(0o700)  # whatever the umask took away\n",
                "        path.chmod(0o777)\n",
            ),
        ),
    ),
    _one(
        "s3_the_key_shows_in_the_repr",
        "S3/keys-unseen",
        "exposure",
        "base/security.py",
        "    secret: bytes = field(repr=False)\n",
        "    secret: bytes = field()\n",
    ),
    _one(
        "s4_a_handshake_may_declare_anything",
        "S4/coordinator-flood",
        "exposure",
        "base/security.py",
        "    socket.setsockopt(zmq.MAXMSGSIZE, MOST_FRAME_BYTES)\n",
        "    pass\n",
    ),
    _one(
        "s4_who_says_nothing_stays_for_half_a_minute",
        "S4/queue-flood",
        "exposure",
        "base/security.py",
        "    socket.setsockopt(zmq.HANDSHAKE_IVL, int(_HANDSHAKE_WITHIN * 1000))\n",
        "",
    ),
    _one(
        "s4_each_caller_is_worth_a_line",
        "S4/pipe-flood",
        "exposure",
        "pipe/handshake.py",
        "            sock, _ = self._accepted[0]\n",
        "            sock, _ = self._accepted[0]\n"
        '            os.write(2, b"a caller came to the pipe that has proved nothing so far\\n")\n',
    ),
    Mutant(
        "l1_sockets_outlive_the_writer",
        "L1/writer-killed",
        ("leak",),
        (
            Edit("queue/local_fanout.py", "        remove_directory(self._directory)\n", ""),
            Edit(
                "queue/reader.py",
                "        remove_if_orphan(Path(self.handle.door).parent)\n",
                "",
            ),
        ),
    ),
)

CANARY = Mutant(
    "canary",
    "R3/stream",
    ("lost",),
    (
        Edit(
            "queue/reader.py",
            "    def dequeue(\n        self,\n        timeout",
            "    def dequeue(self, *args: Any, **named: Any) -> Any:\n"
            "        if self._ring_reader.number == 5:\n"
            "            self._take_one(*args, **named)\n"
            "        return self._take_one(*args, **named)\n\n"
            "    def _take_one(\n        self,\n        timeout",
        ),
    ),
)
"""Loses one message in silence. If a check of it passes, nothing that passes can be believed."""

MUTANTS += (*POOL, *PIPE, *COORDINATOR, *ENGINE, CANARY)
