"""Bugs planted in the queue, each after one that a real project has fixed."""

from __future__ import annotations

from mutant import Edit

from planted.bug import PlantedBug

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="queue_progress_reported_in_whole_batches",
        system="queue",
        edits=(
            Edit(
                "queue/remote_reader.py",
                "        if len(self._inbox) <= 1 or taken - self._reported >= _REPORT_EVERY:\n"
                "            self._tell(taken)\n"
                "        else:\n"
                "            self._client.remind(_REPORT_WITHIN, self._report_late)\n",
                "        if taken - self._reported >= _REPORT_EVERY:\n"
                "            self._tell(taken)\n",
            ),
        ),
        breaks=("Q5", "Q9"),
        seen="With a remote reader and a queue of 1 to 3 slots, the writer may be 1 to 3 messages "
        "ahead, while the reader reports only every fourth: once the window is full nobody moves "
        "any more, although the reader has taken everything. Four slots and more work.",
        fixed="A RabbitMQ listener acknowledged every n messages but let the broker send fewer "
        "than n ahead, so that the broker waited for an acknowledgement that was never due.",
        link="https://github.com/spring-projects/spring-amqp/pull/613",
    ),
    PlantedBug(
        name="queue_only_the_last_flag_wakes_the_writer",
        system="queue",
        edits=(
            Edit(
                "ring/reader.py",
                "        self._own = 0  # the own flag of the slot claimed last\n",
                "        self._own = 0  # the own flag of the slot claimed last\n"
                '        self._all = b"\\1" * layout.n_reader\n',
            ),
            Edit(
                "ring/reader.py",
                "            if cells[WRITER_SLEEPS]:\n",
                "            first = self._slots[number % self._count][0] + 1\n"
                "            is_last = cells[first : first + len(self._all)] == self._all\n"
                "            if is_last and cells[WRITER_SLEEPS]:\n",
            ),
        ),
        breaks=("Q8", "Q7"),
        seen="One of several local readers has closed cleanly, which leaves its flags at zero for "
        "good, and the others are slow enough that the ring fills and the writer sleeps: no reader "
        "is the last one to set a flag, so none wakes it. A send without a deadline stands still "
        "for a minute, one with a deadline succeeds only when that is over.",
        fixed="A Node.js stream piped into two destinations went on waiting for one to drain that "
        "had failed and been removed, so the healthy one got nothing any more.",
        link="https://github.com/nodejs/node/pull/64310",
    ),
    PlantedBug(
        name="queue_failed_encoding_leaves_its_pickler",
        system="queue",
        edits=(
            Edit(
                "base/serialization.py",
                "        except Exception as error:\n            self._fresh()\n"
                "            raise Unencodable",
                "        except Exception as error:\n            raise Unencodable",
            ),
        ),
        breaks=("R7", "Q1"),
        seen="An object is refused as unpicklable after a part of it was pickled. The next message "
        "that is no plain bytes, str or number inherits the rest: an array of another type arrives "
        "with the bytes of the refused one's array, and a message in which something occurs twice "
        "(dicts with the same keys), or occurred in the refused one, is undecodable. Flat messages "
        "and all after the next one are right.",
        fixed="msgpack's Packer kept what it had written when an object could not be packed, and "
        "put it before the next message.",
        link="https://github.com/msgpack/msgpack-python/issues/210",
    ),
    PlantedBug(
        name="queue_timed_out_message_reaches_remote_readers",
        system="queue",
        edits=(
            Edit(
                "queue/writer.py",
                "            chunk = ring_writer.claim(left(), _distance(buffers, total))\n"
                "            if chunk is None:\n"
                '                raise DeadlinePassed("a free slot", timeout or 0)\n'
                "            self._unsent_remote = ring_writer.number, body\n",
                "            self._unsent_remote = ring_writer.number, body\n"
                "            chunk = ring_writer.claim(left(), _distance(buffers, total))\n"
                "            if chunk is None:\n"
                '                raise DeadlinePassed("a free slot", timeout or 0)\n',
            ),
            Edit(
                "queue/writer.py",
                "        if ring_writer is None or ring_writer.recover() > half[0]:\n",
                "        if ring_writer is None or ring_writer.number >= half[0]:\n",
            ),
        ),
        breaks=("R3", "Q2"),
        seen="With local and remote readers, an enqueue that ran into its deadline because a local "
        "reader left the ring full is handed to the remote readers by the next enqueue, or by "
        "close. They get the given-up object, and never the one sent in its place, which the local "
        "readers get. A retry of the same object hides it.",
        fixed="Tornado's HTTP client sent requests whose time had run out while they waited in its "
        "own queue.",
        link="https://github.com/tornadoweb/tornado/pull/885",
    ),
    PlantedBug(
        name="queue_each_wake_up_restarts_the_deadline",
        system="queue",
        edits=(
            Edit(
                "queue/writer.py",
                "            seconds = left()\n"
                "            late = seconds is not None and seconds <= 0\n"
                "            self._waiter.block(0 if late else seconds)\n",
                "            rest = Deadline(timeout, self._clock).remaining\n"
                "            self._waiter.block(rest())\n"
                "            seconds = rest()\n"
                "            late = seconds is not None and seconds <= 0\n",
            ),
        ),
        breaks=("Q9",),
        seen="Two remote readers, one stuck and one slow: the writer waits for the stuck one, and "
        "each report of the slow one, which wakes it, gives it its whole timeout again. With "
        "reports closer together than the timeout, enqueue overruns it several times over. With "
        "one stuck reader alone the deadline is exact.",
        fixed="pyzmq's poll, interrupted by a signal, began again with the timeout it was called "
        "with, so that regular signals kept it from ever ending.",
        link="https://github.com/zeromq/pyzmq/issues/996",
    ),
    PlantedBug(
        name="queue_memory_of_many_held_arrays_is_taken_again",
        system="queue",
        edits=(
            Edit(
                "base/buffer_pool.py",
                "        return memoryview(self._fresh(size))[:nbytes]\n",
                "        held = self._by_size.get(size, [])\n"
                "        if len(held) >= 32:  # the oldest has long been let go of\n"
                "            held.append(held.pop(0))\n"
                "            return memoryview(held[-1])[:nbytes]\n"
                "        return memoryview(self._fresh(size))[:nbytes]\n",
            ),
        ),
        breaks=("R6",),
        seen="A local reader that keeps 32 arrays of about one size, of 16 KiB to 4 MiB each, "
        "finds the oldest overwritten by the 33rd, and so on. Fewer held at once, smaller ones and "
        "plain bytes stay right.",
        fixed="A streamer of weights used its buffers again while vLLM still held tensors over "
        "them, so tensors that were kept changed.",
        link="https://github.com/vllm-project/vllm/pull/43464",
    ),
    PlantedBug(
        name="queue_grace_of_a_break_outlives_the_return",
        system="queue",
        edits=(
            Edit(
                "transport/client.py",
                "        self._broken_at = self._welcome_by = None\n",
                "        self._welcome_by = None\n",
            ),
        ),
        breaks=("Q18",),
        seen="A remote reader's connection is reset and comes back at once, with nothing lost; one "
        "and a half seconds after the reset the reader reports the living writer as dead all the "
        "same, and the writer then the reader.",
        fixed="SignalR's client started a timer when it began to reconnect and did not cancel it "
        "when it had, so it disconnected later in spite of its new connection.",
        link="https://github.com/SignalR/SignalR/issues/1107",
    ),
    PlantedBug(
        name="queue_close_takes_sent_for_received",
        system="queue",
        edits=(
            Edit(
                "transport/session.py",
                "        return self._first == self.posted\n",
                "        return self._cursor == self.posted\n",
            ),
            Edit(
                "transport/server.py",
                "        behind = self.broken_at is not None or not self.session.handed_over\n",
                "        behind = not self.session.handed_over\n",
            ),
            Edit(
                "transport/client.py",
                "        told = self._session.handed_over and self._broken_at is None\n",
                "        told = self._session.handed_over\n",
            ),
        ),
        breaks=("Q16",),
        seen="The writer closes just after the connection to a remote reader was reset, before the "
        "reader is back, or while more is under way than half a second carries: it does not wait "
        "for confirmations, and what was sent but not received is lost. The reader is told that "
        "the writer died, not how many messages it misses.",
        fixed="The Go client of RabbitMQ's streams closed a producer without waiting for messages "
        "in flight, of which many never arrived.",
        link="https://github.com/rabbitmq/rabbitmq-stream-go-client/pull/104",
    ),
    PlantedBug(
        name="queue_byte_order_of_arrays_is_dropped",
        system="queue",
        edits=(
            Edit(
                "base/serialization.py",
                '    codes = {numpy.dtype(c): c for c in "?bBhHiIlLqQefdFD"}\n',
                '    codes = frozenset("?bBhHiIlLqQefdFD")\n',
            ),
            Edit(
                "base/serialization.py",
                "        code = codes.get(array.dtype)\n        if code and array.flags.carray:\n",
                "        code = array.dtype.char\n"
                "        if code in codes and array.flags.carray:\n",
            ),
        ),
        breaks=("Q1",),
        seen="A contiguous array whose numbers are not in the machine's byte order, such as '>f4' "
        "from a file or the network, arrives with every value's bytes swapped and no error. Arrays "
        "in native order, and others that numpy itself pickles, are right.",
        fixed="orjson wrote a numpy array's numbers as if they were in native byte order, whatever "
        "the array's own was.",
        link="https://github.com/ijl/orjson/issues/472",
    ),
)
