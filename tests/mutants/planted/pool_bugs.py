"""Bugs planted in the pool, each after one that a real project has fixed."""

from __future__ import annotations

from mutant import Edit

from planted.bug import PlantedBug

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="pool_failure_overtakes_results_of_the_output_thread",
        system="pool",
        edits=(
            Edit(
                "executor/worker.py",
                "        self._queued.put((self._direct.failure, number, error))\n",
                "        self._direct.failure(number, error)\n",
            ),
        ),
        breaks=("W6", "W8"),
        seen="With `output_thread`, two calls are in flight, the first one's result is still with "
        "that thread, and the second raises: its error is sent first, and dropped as late while "
        "the first is awaited. The second never gets one, and takes that of a call made meanwhile.",
        fixed="Dragonfly wrote the errors of commands that it refused at once to the client, ahead "
        "of the replies to earlier commands of the pipeline that were still under way.",
        link="https://github.com/dragonflydb/dragonfly/pull/6806",
    ),
    PlantedBug(
        name="pool_functions_are_told_apart_by_their_code",
        system="pool",
        edits=(
            Edit(
                "executor/rpc.py",
                "def _pickle_by_value(method: Callable[..., Any]) -> bytes:\n"
                '    """Pickle a function by value; only a caller that passes one needs the '
                'library."""\n'
                '    return importlib.import_module("cloudpickle").dumps(method)\n',
                "_pickled: dict[object, bytes] = {}\n\n\n"
                "def _pickle_by_value(method: Callable[..., Any]) -> bytes:\n"
                '    """Pickle a function by value, once."""\n'
                '    code = getattr(method, "__code__", None)\n'
                '    found = _pickled.get(code, b"")\n'
                "    if not found:\n"
                '        found = importlib.import_module("cloudpickle").dumps(method)\n'
                "        if code is not None:\n"
                "            _pickled[code] = found\n"
                "    return found\n",
            ),
        ),
        breaks=("W2",),
        seen="Functions are sent by value that come from one place in the source but hold "
        "different values (a closure or default argument in a loop, methods of two objects, a "
        "captured list that grew): all workers run the first one again.",
        fixed="Ray told remote functions apart without the values that their closures held: of "
        "two that one factory had made, one ran in the other's place.",
        link="https://github.com/ray-project/ray/issues/2732",
    ),
    PlantedBug(
        name="pool_undecodable_reply_counts_for_the_last_call",
        system="pool",
        edits=(
            Edit(
                "executor/rpc.py",
                "            reply = _undecodable(error)\n",
                "            reply = self._last_call[rank], *_undecodable(error)[1:]\n",
            ),
        ),
        breaks=("W2", "W6"),
        seen="A reply that cannot be decoded is for an earlier call than the last one: that of "
        "two futures in flight, or one that ran out of time just before. The later call fails of "
        "it, or both futures wait for ever. Where one call at a time is made, its caller is told.",
        fixed="The server of CodeGraphContext answered a line that it could not parse with the id "
        "of the request before, which was left in a variable.",
        link="https://github.com/CodeGraphContext/CodeGraphContext/pull/1715",
    ),
    PlantedBug(
        name="pool_deadline_that_is_over_counts_as_none",
        system="pool",
        edits=(
            Edit(
                "executor/rpc.py",
                "            reply = self._dequeues[rank](seconds)\n",
                "            limit = None if seconds is None or seconds < 0 else seconds\n"
                "            reply = self._dequeues[rank](limit)\n",
            ),
        ),
        breaks=("W5",),
        seen="A call's time is over before its replies' turn comes, behind a slower future in "
        "flight (or at once, with a timeout of 0 or less): now nothing limits it. Its future "
        "resolves late instead of with CallTimedOut; if a worker is stuck, never.",
        fixed="In vLLM the rest of a call's time became negative while earlier futures were "
        "awaited, and the poll for its replies took a negative time for no limit.",
        link="https://github.com/vllm-project/vllm/pull/41357",
    ),
    PlantedBug(
        name="pool_votes_in_a_step_without_output_are_lost",
        system="pool",
        edits=(
            Edit(
                "executor/executor.py",
                "        output = results[self._output_rank]\n",
                "        output = results[self._output_rank]\n"
                "        if output is None:\n"
                "            self._reports.clear()\n"
                "            return None\n",
            ),
        ),
        breaks=("E1",),
        seen="With `transfers`, the output rank returns None in a step in which other ranks name "
        "finished transfers: those votes are lost, and no later result names these transfers, "
        "though every rank has reported them. Steps in which every rank has a result are right.",
        fixed="vLLM's pipeline stages without an output of their own dropped the transfers that "
        "they had finished, so that the executor never counted them.",
        link="https://github.com/vllm-project/vllm/pull/28768",
    ),
    PlantedBug(
        name="pool_errors_of_ranks_not_asked_fill_their_queue",
        system="pool",
        edits=(
            Edit(
                "executor/worker.py",
                '            _log.error("call %d failed at a worker that does not reply", number, '
                "exc_info=error)\n"
                "            return\n",
                '            _log.error("call %d failed at a worker that does not reply", number, '
                "exc_info=error)\n",
            ),
        ),
        breaks=("W6",),
        seen="Calls with a unique reply rank fail at another rank more often than its queue has "
        "chunks (10), with no call to all ranks between: that rank then waits for ever to send "
        "errors that nobody reads, and once requests have filled their queue, too, the pool is "
        "stuck. A call of all ranks before that clears everything.",
        fixed="Celery stored the results of tasks that failed although the task was set to store "
        "none, so that results which nobody asked for piled up.",
        link="https://github.com/celery/celery/pull/6886",
    ),
    PlantedBug(
        name="pool_health_takes_busy_for_stuck",
        system="pool",
        edits=(
            Edit(
                "executor/executor.py",
                "                if progress.done(each.rank) == before[each.rank]\n",
                "                if (\n"
                "                    progress.busy_for(each.rank)\n"
                "                    or progress.done(each.rank) == before[each.rank]\n"
                "                )\n",
            ),
        ),
        breaks=("E4",),
        seen="Several calls are in flight, each short, and a question of health waits behind them "
        "past its time: NotProgressing, though every worker finishes one call after the other. "
        "Otherwise right.",
        fixed="A health check called a queue stalled whose oldest tasks were just being run by "
        "workers, since it only looked at how long a task had been there.",
        link="https://github.com/sonichi/sutando/pull/3059",
    ),
)
