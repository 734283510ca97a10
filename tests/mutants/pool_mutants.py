"""The mutants of the reference's executor: one or more for each clause of SPEC 5."""

from __future__ import annotations

from mutant import Edit, Mutant, one

_ANY_REPLY = (
    Edit(
        "executor/rpc.py",
        "            while got != number:\n"
        "                got, well, value = self._read(rank, left())\n",
        "",
    ),
    Edit(
        "executor/rpc.py",
        "        if in_turn and self._last_call != self._last_reply:\n",
        "        if False:\n",
    ),
)
"""A call takes the next reply that comes, whichever call it answers."""

POOL: tuple[Mutant, ...] = (
    one(
        "w1_never_stopped",
        "W1/plain-life",
        "bad-transition",
        "executor/monitor.py",
        "            self._lifecycle.advance(PoolState.STOPPED)\n",
        "",
    ),
    Mutant(
        "w2_whatever_reply_comes",
        "W2/late-reply-after-timeout",
        ("wrong-data", "duplicate"),
        _ANY_REPLY,
    ),
    Mutant(
        "h3_whatever_reply_comes",
        "H3/generated",
        ("wrong-data", "duplicate", "lost"),
        _ANY_REPLY,
    ),
    one(
        "w3_a_worker_may_end_unseen",
        "W3/callback-without-a-call",
        "no-error hang late bad-transition",
        "executor/monitor.py",
        "    def _worker_lost(self, worker: WorkerHandle, end: Outcome) -> None:\n",
        "    def _worker_lost(self, worker: WorkerHandle, end: Outcome) -> None:\n        return\n",
    ),
    one(
        "w3_told_after_the_grace",
        "W3/told-before-the-grace-is-over",
        "late hang no-error",
        "executor/monitor.py",
        "        self.failure = failure  # before the state that makes others ask for it\n",
        "        threading.Event().wait(self._settings.grace)\n        self.failure = failure\n",
    ),
    one(
        "w4_native_code_outlives_the_parent",
        "W4/parent-killed-in-native-code-fork",
        "leak",
        "executor/process.py",
        "fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC",
        "fcntl.fcntl(fd, fcntl.F_GETFL)",
    ),
    Mutant(
        "w4_who_waits_hears_of_no_end",
        "W4/parent-killed-while-one-waits",
        ("leak",),
        (
            Edit(
                "executor/process.py",
                "fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC",
                "fcntl.fcntl(fd, fcntl.F_GETFL)",
            ),
            Edit(
                "executor/parent_monitor.py",
                "            if self._death_pipe in ready:\n                self._orphaned()\n",
                "            if self._death_pipe in ready:\n                return\n",
            ),
        ),
    ),
    one(
        "w5_a_deadline_is_forgotten",
        "W5/stopped-worker",
        "hang late",
        "executor/rpc.py",
        "                return channel.collect(number, name, ranks, left)\n",
        "                return channel.collect(number, name, ranks, lambda: None)\n",
    ),
    one(
        "w5_nobody_is_killed",
        "W5/stopped-at-shutdown",
        "late hang leak",
        "executor/monitor.py",
        "            (now + grace + term_grace, EscalationStep.KILL),\n"
        "            (now + grace + term_grace + kill_grace, EscalationStep.GIVE_UP),\n",
        "            (now + 60.0, EscalationStep.KILL),\n"
        "            (now + 61.0, EscalationStep.GIVE_UP),\n",
    ),
    one(
        "w6_sys_exit_ends_the_worker",
        "W6/sys-exit",
        "lost no-error",
        "executor/worker.py",
        "        if isinstance(error, ShutdownRequested):\n            raise error\n",
        "        if isinstance(error, SystemExit):\n            raise error\n",
    ),
    one(
        "w7_why_is_not_said",
        "W7/raises-forked",
        "no-error",
        "executor/worker.py",
        "            text = format_error(error)[1]\n",
        '            text = "it failed"\n',
    ),
    one(
        "w8_the_latest_first",
        "W8/first-one-slow",
        "reordered no-error hang",
        "executor/rpc.py",
        "self._resolve_call(self.pending[0])",
        "self._resolve_call(self.pending[-1])",
    ),
    Mutant(
        "w9_forks_keep_what_they_inherit",
        "W9/fork",
        ("leak",),
        (
            Edit("executor/start_methods.py", "    close_inherited({link.fileno()})\n", ""),
            Edit("base/fds.py", "os.register_at_fork(after_in_child=_after_fork)\n", ""),
        ),
    ),
    Mutant(
        "w10_the_zygote_is_gone_unseen",
        "W10/matrix-at-start",
        ("starved",),
        (
            Edit(
                "executor/fork_server.py",
                "        if found is None or has_ended(found._process):\n",
                "        if found is None:\n",
            ),
            Edit(
                "executor/workers.py",
                "            worker.close()\n        for fd in (",
                "            worker.close()\n"
                "        from .fork_server import _shared\n\n"
                "        for zygote in _shared.values():\n"
                "            os.kill(zygote.pid, 9)\n"
                "        for fd in (",
            ),
        ),
    ),
)
