"""Mutants of the reference's ring, and of what an exception leaves of a queue: R1 to R9."""

from __future__ import annotations

from mutant import Edit, Mutant, one

_NUMBERED = (
    "        self._numbers[index] = self._chunk << CHUNK_SHIFT | number\n",
    "        self._numbers[index] = chunk_index << CHUNK_SHIFT | number\n",
)
"""What stands before the same lines twice in ring/writer.py: in `publish` and in `send`."""

RING: tuple[Mutant, ...] = (
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
    one(
        "r2_published_before_filled",
        "R2/stopped-inside-send",
        "wrong-data duplicate",  # what is in a slot that is not filled yet may be a whole message
        "queue/local_fanout.py",
        "            write_message(buffers, chunk, self._max_chunk_bytes - total - 1)\n"
        "        self.ring_writer.publish()\n",
        "        self.ring_writer.publish()\n        write_message(buffers, chunk)\n",
    ),
    one(
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
    one(
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
    one(
        "r5_no_fence_between_flags_and_copy",
        "R5/slot-reuse",
        "wrong-data duplicate lost",
        "ring/reader.py",
        "            return None\n        self._fence_out()\n        return self._chunks",
        "            return None\n        return self._chunks",
    ),
    one(
        "r6_array_points_into_the_slot",
        "R6/held-array-after-lap",
        "wrong-data",
        "base/serialization.py",
        "    return [buffers[0], *(_copied(buffer, memory) for buffer in buffers[1:])]\n",
        "    return buffers\n",
    ),
    one(
        "r7_undecodable_stays",
        "R7/undecodable-message",
        "duplicate",
        "queue/reader.py",
        "            self._undelivered = None\n",
        "            pass\n",
    ),
    one(
        "r7_unencodable_goes_out_empty",
        "R7/unencodable-message",
        "no-error wrong-data",
        "base/serialization.py",
        "            raise Unencodable(type(obj).__name__) from error\n",
        "            return [pickle.dumps(None, 5)]\n",
    ),
    one(
        "r7_failed_fill_is_published",
        "R7/fill-raises",
        "wrong-data",
        "ring/ring.py",
        "        yield chunk\n        self.writer.publish()\n",
        "        try:\n            yield chunk\n"
        "        finally:\n            self.writer.publish()\n",
    ),
    one(
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
    one(
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
    one(
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
    one(
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
    one(
        "r9_a_half_made_queue_stays",
        "R9/exception-in-make",
        "leak",
        "queue/message_queue.py",
        "            self._adopt(Writer(n_reader, ranks, *sizes, host, settings, undo))\n"
        "        except BaseException:\n",
        "            self._adopt(Writer(n_reader, ranks, *sizes, host, settings, undo))\n"
        "        except ValueError:\n",
    ),
    one(
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
    one(
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
)
