"""The mutants of the reference's engine: one or more for each clause of SPEC 8."""

from __future__ import annotations

from mutant import Edit, Mutant, one
from planted.engine_bugs import BUGS

_PLANTED = {bug.name: bug.edits for bug in BUGS}

ENGINE: tuple[Mutant, ...] = (
    one(
        "e1_lost_with_its_replica",
        "E1/last-replica-dies",
        "lost",
        "engine/front_end/request_tracker.py",
        "                self.retries += 1\n        for entry in list(self._open.values()):\n"
        "            if not entry.replica:\n                out += self._place(entry, now)\n",
        "                self.retries += 1\n",
    ),
    one(
        "e1_why_is_not_said",
        "E1/last-replica-dies",
        "no-error",
        "engine/front_end/request_tracker.py",
        '        return self._fail(entry, f"{cause}, and none will come")\n',
        '        return self._fail(entry, "it could not be served")\n',
    ),
    one(
        "e2_blocks_known_by_what_is_in_them",
        "E2/data-parallel",
        "wrong-data duplicate lost",
        "engine/core/blocks.py",
        "hashlib.sha256(before + array(",
        "hashlib.sha256(array(",
    ),
    one(
        "e2_what_was_given_is_given_again",
        "E2/tensor-parallel",
        "wrong-data duplicate",
        "engine/front_end/request_tracker.py",
        "            (*entry.prompt, *entry.tokens),\n"
        "            entry.max_tokens - len(entry.tokens),\n",
        "            entry.prompt,\n            entry.max_tokens,\n",
    ),
    one(
        "e3_nobody_comes_back",
        "E3/one-of-two",
        "starved lost late",
        "engine/supervisor/restart_policy.py",
        "        again = self._restart and part.failures < _GIVE_UP\n",
        '        again = self._restart and name == "coordinator"\n',
    ),
    Mutant(
        "e4_ready_before_it_is_loaded",
        "E4/stopped-then-killed",
        ("wrong-data",),
        (
            Edit(
                "engine/front_end/request_tracker.py",
                'any(replica.state == "ready" for replica in decodes)',
                'any(replica.state in ("ready", "starting") for replica in decodes)',
            ),
            Edit(  # as long as a large model takes: a small one's is lost in what machines owe
                "engine/core/process.py",
                "                self._link.send(Ready(*self._addresses, pids))\n",
                '                __import__("time").sleep(5.0)\n'
                "                self._link.send(Ready(*self._addresses, pids))\n",
            ),
        ),
    ),
    Mutant(
        "e4_it_always_makes_progress",
        "E4/stopped-worker",
        ("wrong-data",),
        (
            Edit(
                "engine/front_end/request_tracker.py",
                "        return Health(alive, ready, moving, replicas)\n",
                "        return Health(alive, ready, True, replicas)\n",
            ),
        ),
    ),
    Mutant(
        "h6_attempts_at_a_reused_id_have_one_name",
        "H6/generated",
        ("lost", "wrong-data"),
        _PLANTED["engine_attempt_at_a_reused_id_has_the_old_name"],
    ),
    Mutant(
        "h6_nothing_is_left_to_be_handed_on",
        "H6/generated",
        ("lost",),
        _PLANTED["engine_first_token_is_handed_on_though_it_is_the_last"],
    ),
)
