"""Switch-offs of the pool, the process group and the coordinator."""

from __future__ import annotations

import ast

from killpoint.targets.edits import DoesNotFit, Edits, around, branch, calls, statement
from killpoint.targets.vllm.switch_offs.places import imported, only
from killpoint.targets.vllm.switch_offs.table import COORDINATOR, GROUP, POOL, edits_of


@edits_of("late-replies", POOL)
def _replies_are_numbered(edits: Edits) -> None:
    taking = edits.function("MultiprocExecutor.collective_rpc.get_response")
    for each in calls(taking, "dequeue"):
        edits.instead(each.func, "take_reply")
        edits.keyword(each, "mq", "mq")
    edits.before(
        taking,
        """
        due = {}
        for mq in response_mqs:
            due[mq] = mq.replies_due = getattr(mq, "replies_due", 0) + 1

        def take_reply(timeout, mq):
            while True:
                reply = mq.dequeue(timeout=timeout)
                mq.replies_taken = getattr(mq, "replies_taken", 0) + 1
                if mq.replies_taken == due[mq]:
                    return reply
        """,
    )


@edits_of("deaf-writer", POOL)
def _a_call_is_sent_by_its_deadline(edits: Edits) -> None:
    call = edits.function("MultiprocExecutor.collective_rpc")
    for each in calls(call, "enqueue"):
        left = "None if deadline is None else max(0.0, deadline - time.monotonic())"
        edits.keyword(each, "timeout", left)


@edits_of("late-death-watch", POOL)
def _the_parent_is_watched_from_the_first_line(edits: Edits) -> None:
    main = edits.function("WorkerProc.worker_main")
    making = statement(
        main,
        lambda each: isinstance(each, ast.Assign) and "WorkerProc(" in ast.unparse(each),
        "making of the worker",
    )
    edits.before(
        making,
        """
        def leave_with_the_parent():
            multiprocessing.connection.wait([death_pipe])
            if worker is None:
                os._exit(1)

        Thread(target=leave_with_the_parent, daemon=True).start()
        """,
    )


@edits_of("deaf-in-a-call", POOL)
def _a_worker_whose_parent_died_leaves_in_mid_call(edits: Edits) -> None:
    watching = edits.function("WorkerProc.monitor_death_pipe.death_pipe_monitor")
    ending = statement(watching, lambda each: isinstance(each, ast.For), "end of the queues")
    edits.after(
        ending,
        f"""
        time.sleep({_LEAVES_S})
        os._exit(1)
        """,
    )


_LEAVES_S = 3
"""Seconds that a worker has to leave by itself."""


@edits_of("dead-output-thread", POOL)
def _an_error_of_the_output_thread_is_a_reply(edits: Edits) -> None:
    answering = edits.function("WorkerProc.async_output_busy_loop")
    sent = around(answering, only(calls(answering, "enqueue_output")))
    edits.instead(
        sent,
        """
        try:
            self.enqueue_output(output)
        except Exception as error:
            self.enqueue_output(error)
        """,
    )


@edits_of("unsaid-exit", POOL)
def _an_exit_in_a_call_is_an_error_of_the_call(edits: Edits) -> None:
    calling = edits.first("WorkerProc._execute_worker_rpc", "WorkerProc.worker_busy_loop")
    caught = [each for each in ast.walk(calling) if isinstance(each, ast.ExceptHandler)]
    if len(caught) != 1:
        raise DoesNotFit(f"{len(caught)} handlers where one was expected")
    edits.before(
        caught[0],
        """
        except SystemExit as e:
            if e.code is None:  # the handler of SIGTERM's
                raise
            if output_rank is None or self.rank == output_rank:
                self.handle_output(RuntimeError(f"exit in a call: {e.code}"))
        """,
    )


@edits_of("told-after-grace", POOL)
def _who_waits_for_a_reply_is_woken_first(edits: Edits) -> None:
    ending = edits.function("MultiprocExecutor.shutdown")
    each = only(calls(ending, "_ensure_worker_termination"))
    edits.before(
        around(ending, each),
        """
        for mq in getattr(self, "response_mqs", []):
            mq.shutdown()
        """,
    )


@edits_of("elapsed-by-wall-clock", COORDINATOR)
@edits_of("expiry-by-wall-clock", GROUP)
def _intervals_are_monotonic(edits: Edits) -> None:
    places = ("DPCoordinatorProc", "StatelessProcessGroup")
    for each in calls(edits.first(*places), "time"):
        edits.instead(each.func, "time.monotonic")


@edits_of("confused-senders", GROUP)
def _keys_name_their_sender(edits: Edits) -> None:
    group = edits.klass("StatelessProcessGroup")
    own = ast.Attribute(ast.Name("self"), "rank")
    for method, sender in (("send_obj", own), ("recv_obj", ast.Name("src"))):
        for each in ast.walk(edits.function(f"{group.name}.{method}")):
            if isinstance(each, ast.JoinedStr) and "send_to" in ast.unparse(each):
                parts = [*each.values]
                name = ast.FormattedValue(sender, -1)
                parts[2:2] = [ast.Constant("/from/"), name]
                edits.instead(each, ast.unparse(ast.JoinedStr(parts)))


@edits_of("late-barrier", GROUP)
def _a_barrier_looks_and_does_not_wait_for_the_store(edits: Edits) -> None:
    meeting = edits.function("StatelessProcessGroup.barrier")
    if all(given.arg != "timeout" for given in meeting.args.args):
        raise DoesNotFit("a barrier has no timeout")
    for each in calls(meeting, "get"):
        edits.before(
            around(meeting, each),
            "if not answered(self.store.check, [key]):\n    raise KeyError(key)",
        )
    edits.top("import threading")
    edits.begin(
        meeting,
        """
        def answered(ask, keys):
            found = []
            asking = threading.Thread(target=lambda: found.append(ask(keys)), daemon=True)
            asking.start()
            asking.join(timeout)
            if not found:
                raise RuntimeError(f"no answer of rank 0's store within {timeout:.2f} seconds")
            return found[0]
        """,
    )
    taken = [each for each in calls(meeting, "broadcast_obj") if "None" in ast.unparse(each)]
    edits.before(
        around(meeting, only(taken)),
        """
        until = time.monotonic() + timeout
        awaited = f"broadcast_from/0/{self.broadcast_recv_src_counter[0]}"
        while not answered(self.store.check, [awaited]):
            if time.monotonic() > until:
                raise RuntimeError(f"rank 0 did not come within {timeout:.2f} seconds")
            sched_yield()
        """,
    )


@edits_of("unmended-connection", GROUP)
def _a_connection_that_broke_is_made_anew(edits: Edits) -> None:
    group = edits.klass("StatelessProcessGroup")
    for method in ("send_obj", "recv_obj", "broadcast_obj"):
        for each in ast.walk(edits.function(f"{group.name}.{method}")):
            if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
                asked = {"self.store.set": "self.stored", "self.store.get": "self.taken"}
                if (name := ast.unparse(each.func)) in asked:
                    edits.instead(each.func, asked[name])
    edits.top("from torch.distributed import DistNetworkError, TCPStore as _Client")
    edits.before(
        edits.function(f"{group.name}.send_obj"),
        """
        def stored(self, key, value):
            self.reached(lambda store: (store.set(key, value), store.check([key])))

        def taken(self, key):
            return self.reached(lambda store: store.get(key))

        def reached(self, ask):
            for _ in range(3):
                try:
                    return ask(self.store)
                except DistNetworkError:
                    old, soon = self.store, timedelta(seconds=0.2)
                    self.broken = [old, *getattr(self, "broken", [])]
                    self.store = _Client(old.host, old.port, is_master=False, timeout=soon)
                    self.store.set_timeout(old.timeout)
            return ask(self.store)
        """,
    )


@edits_of("host-leaves-first", GROUP)
def _the_host_leaves_last(edits: Edits) -> None:
    imported(edits, "time")
    edits.top(
        """
        import weakref

        def _left(store, rank, ranks):
            try:
                store.set(f"left/{rank}", b"1")
                until = time.monotonic() + 5
                others = [f"left/{each}" for each in range(ranks)]
                while rank == 0 and not store.check(others) and time.monotonic() < until:
                    time.sleep(0.01)
            except Exception:
                pass  # the host has gone already
        """
    )
    edits.begin(
        edits.function("StatelessProcessGroup.__post_init__"),
        "weakref.finalize(self, _left, self.store, self.rank, self.world_size)",
    )


@edits_of("one-family", GROUP)
def _the_host_listens_in_the_family_of_its_address(edits: Edits) -> None:
    making = edits.function("StatelessProcessGroup.create")
    listening = only(calls(making, "socket"))
    edits.instead(listening.args[0], 'socket.AF_INET6 if ":" in host else socket.AF_INET')


@edits_of("early-departure", GROUP)
def _a_barrier_ends_when_all_have_seen_all(edits: Edits) -> None:
    meeting = edits.function("StatelessProcessGroup.barrier")
    leaving = branch(meeting, "self.rank != 0", "way out of those who do not host the store")
    edits.before(
        leaving,
        """
        until = time.time() + timeout
        seen = [f"departure_{barrier_id}_{each}" for each in range(self.world_size)]
        while self.rank != 0 and not self.store.check(seen):
            if time.time() > until:
                raise RuntimeError(f"Barrier departure timed out after {timeout:.2f} seconds")
            sched_yield()
        if self.rank != 0:
            self.store.set(f"gone_{barrier_id}_{self.rank}", b"1")
        """,
    )
    cleaning = [each for each in ast.walk(meeting) if isinstance(each, ast.For)][-1]
    edits.before(
        cleaning,
        """
        gone = [f"gone_{barrier_id}_{each}" for each in range(1, self.world_size)]
        while gone and not self.store.check(gone) and time.time() - start_time < timeout:
            sched_yield()
        for key in gone:
            self.store.delete_key(key)
        """,
    )


@edits_of("undecoded-frame", COORDINATOR)
def _frames_that_make_no_sense_are_dropped(edits: Edits) -> None:
    loop = edits.function("DPCoordinatorProc.process_input_socket")
    decoding = [each for each in calls(loop, "decode") if each.args]
    if not decoding:
        raise DoesNotFit("nothing is decoded")
    for each in decoding:
        line = around(loop, each)
        edits.instead(
            line,
            f"""
            try:
                {ast.unparse(line)}
            except Exception:
                logger.warning("A frame that cannot be decoded was dropped.")
                continue
            """,
        )
    for each in ast.walk(loop):
        if isinstance(each, ast.Assert):
            edits.instead(each, f"if not ({ast.unparse(each.test)}):\n    continue")
        if isinstance(each, ast.Compare) and "SCALE_ELASTIC_EP" in ast.unparse(each):
            edits.instead(each, f"{ast.unparse(each)} and type(decoded[1]) is int")
        if isinstance(each, ast.Assign) and ast.unparse(each.value) == "decoded":
            fits = "isinstance(decoded, list) and len(decoded) == 2 and type(decoded[1]) is int"
            edits.before(each, f"if not ({fits}):\n    continue")


@edits_of("starved-publication", COORDINATOR)
def _a_publication_that_is_due_is_made(edits: Edits) -> None:
    loop = edits.function("DPCoordinatorProc.process_input_socket")
    idle = branch(loop, "not events", "publication when nothing came")
    edits.instead(idle.test, "not events or (stats_changed and elapsed >= wait_for)")


@edits_of("stranded-requests", COORDINATOR)
def _a_start_that_was_sent_is_no_start_that_was_made(edits: Edits) -> None:
    loop = edits.function("DPCoordinatorProc.process_input_socket")
    waking = branch(loop, "not engines_running", "wake of paused engines")
    believed = ("engines_running = True", "wave_state_changed = True")
    early = [each for each in waking.body if ast.unparse(each) in believed]
    if not early:
        raise DoesNotFit("a start is believed when engines tell it")
    for each in early:
        edits.instead(each, "")
