"""Mutants of a queue's life: deaths, wake-ups, deadlines, handshake and end."""

from __future__ import annotations

from mutant import Edit, Mutant, one

QUEUE: tuple[Mutant, ...] = (
    one(
        "q6_death_is_not_told",
        "Q6/writer-dies-while-readers-wait",
        "hang",
        "queue/reader.py",
        "        self._waiter.set_error(lambda waiting_for: PeerDied(role, pid, waiting_for, "
        "signal))\n",
        "        del role, pid, signal\n",
    ),
    one(
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
    one(
        "q8_sleeping_readers_are_not_rung",
        "Q8/idle-reader-wakes",
        "late hang",
        "ring/writer.py",
        "        self.wake_readers()\n\n    def all_read",
        "\n    def all_read",
    ),
    one(
        "q8_looks_before_it_says_that_it_sleeps",
        "Q8/every-schedule",
        "late",
        "ring/waiting.py",
        "            point.announce_sleep()\n            if look():\n                return True\n",
        "            if look():\n                return True\n            point.announce_sleep()\n",
    ),
    one(
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
    one(
        "q8_sleeper_flag_without_a_fence",
        "Q8/every-schedule",
        "late",
        "ring/waiting.py",
        "        self._cells[self._sleeper_at] = 1\n        self._fence_in(False)\n"
        "        self._fence_out()\n",
        "        self._cells[self._sleeper_at] = 1\n",
    ),
    one(
        "q8_rings_then_clears",
        "Q8/every-schedule",
        "late",
        "ring/writer.py",
        "        self._cells[READERS_SLEEP] = 0  # clear, then ring: a later sleeper sets it"
        " again\n        self.wake_readers()\n",
        "        self.wake_readers()\n        self._cells[READERS_SLEEP] = 0\n",
    ),
    one(
        "q13_two_may_enter",
        "Q13/two-senders-every-schedule",
        "lost wrong-data duplicate",
        "base/reentrancy.py",
        "        self._lock = threading.RLock()\n",
        "        self._lock = threading.BoundedSemaphore(2)\n",
    ),
    one(
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
    one(
        "q9_deadline_is_late",
        "Q9/send-to-full-ring",
        "late",
        "ring/waiting.py",
        "        end = None if timeout is None else now + timeout\n        calm = now",
        "        end = None if timeout is None else now + timeout + 0.6\n        calm = now",
    ),
    one(
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
    one(
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
    one(
        "r2_a_message_is_whole_when_half_of_it_came",
        "R2/large-arrays",
        "wrong-data lost",
        "queue/chunking.py",
        "        return self._whole if start + count == nbytes else None\n",
        "        return self._whole if 2 * (start + count) >= nbytes else None\n",
    ),
    one(
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
    one(
        "q14_nine_readers_share_eight_flags",
        "Q14/64-local-readers",
        "starved hang lost duplicate wrong-data",
        "ring/layout.py",
        "        return self.number_at(slot) + 9 + rank\n",
        "        return self.number_at(slot) + 9 + rank % 8\n",
    ),
    one(
        "q12_eight_bytes_stay_of_each_message",
        "Q12/paced-stream",
        "growth",
        "queue/writer.py",
        "            main = encode_short(obj) if type(obj) is bytes else None\n",
        "            main = encode_short(obj) if type(obj) is bytes else None\n"
        '            globals().setdefault("_stays", bytearray()).extend(bytes(8))\n',
    ),
    one(
        "q15_pages_are_not_reserved",
        "Q15/full-under-load",
        "crash",
        "ring/memory.py",
        "            os.posix_fallocate(fd, 0, nbytes)\n",
        "            os.ftruncate(fd, nbytes)\n",
    ),
    one(
        "q17_any_rank_is_the_first",
        "Q17/unknown-rank",
        "no-error",
        "queue/message_queue.py",
        '    raise RankRefused(rank, f"unknown; the ranks are {known}")\n',
        "    return _open_reader(handle, known[0], settings, undo)\n",
    ),
)
