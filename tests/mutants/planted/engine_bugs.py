"""Bugs planted in the engine, each after one that a real project has fixed."""

from __future__ import annotations

from mutant import Edit

from planted.bug import PlantedBug

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="engine_blocks_of_a_prompt_cancelled_between_chunks_stay",
        system="engine",
        edits=(
            Edit(
                "engine/core/scheduler.py",
                "            if sequence.cancelled:\n"
                "                self._blocks.release(sequence.table)\n"
                "            elif token is not None:\n"
                "                outputs.append(self._take_token(sequence, token))\n",
                "            if token is None:\n"
                "                continue  # its prompt is not through yet\n"
                "            if sequence.cancelled:\n"
                "                self._blocks.release(sequence.table)\n"
                "            else:\n"
                "                outputs.append(self._take_token(sequence, token))\n",
            ),
        ),
        breaks=("E1", "E9"),
        seen="A prompt that goes in chunks (it is longer than a step, 256 tokens, or shares the"
        " step with others) is cancelled while a chunk that is not its last is computed: its"
        " blocks are never given back, and after some such cancels a request that needs most of"
        " the cache waits without end.",
        fixed="sglang-jax lost sight of a request between two chunks of its prompt, so that an"
        " abort that came there could not give back its KV cache and its slot.",
        link="https://github.com/sgl-project/sglang-jax/pull/1471",
    ),
    PlantedBug(
        name="engine_gap_in_a_cached_chain_is_stepped_over",
        system="engine",
        edits=(
            Edit(
                "engine/core/blocks.py",
                "            if block is None:\n                break\n",
                "            if block is None:\n                continue\n",
            ),
        ),
        breaks=("E2",),
        seen="Two requests whose prompts share their first block, one of them longer by a block or"
        " more, are computed at the same time; later a full cache drops that first block and keeps"
        " the one after it. The longer prompt, asked again, takes the kept block for its first"
        " one, and gets wrong tokens.",
        fixed="LMCache counted chunks of a later tier as part of a prompt's cached beginning though"
        " a chunk before them had been evicted from the tier in the middle.",
        link="https://github.com/LMCache/LMCache/pull/1956",
    ),
    PlantedBug(
        name="engine_first_token_is_handed_on_though_it_is_the_last",
        system="engine",
        edits=(
            Edit(
                "engine/core/scheduler.py",
                "        if sequence.generated == request.max_tokens:\n"
                '            return self._finished(sequence, (token,), "length")\n'
                "        if request.export is None:\n"
                "            return Output(request.id, (token,))\n",
                "        if request.export is None:\n"
                "            if sequence.generated == request.max_tokens:\n"
                '                return self._finished(sequence, (token,), "length")\n'
                "            return Output(request.id, (token,))\n",
            ),
        ),
        breaks=("E1", "E2"),
        seen="Prefill and decode are apart, and a request may have one token more (max_tokens is 1,"
        " or it is begun anew with one token left): it gets that token and then, in place of the"
        " finish `length`, an error, since the decode replica is asked for 0 tokens.",
        fixed="SGLang, with prefill and decode apart, did not look at max_new_tokens when the"
        " decode side took over the first token, so that a request for one token got two.",
        link="https://github.com/sgl-project/sglang/pull/7598",
    ),
    PlantedBug(
        name="engine_attempt_at_a_reused_id_has_the_old_name",
        system="engine",
        edits=(
            Edit(
                "engine/front_end/request_tracker.py",
                'entry.replica, entry.attempt = name, f"{entry.id}#{self._begun}"\n',
                'entry.replica, entry.attempt = name, f"{entry.id}#{entry.restarts}"\n',
            ),
        ),
        breaks=("E1",),
        seen="A request is cancelled, and its id is used again as soon as its stream has ended:"
        " what the replica still says of the first one (a token, its end) is taken for the second,"
        " which ends as `cancelled` though nobody cancelled it. Ids that the engine makes itself"
        " never meet this.",
        fixed="vLLM's engine knew requests by the ids that clients chose, so that one whose id was"
        " used again, while the aborted one before it was not through, was mixed up with it; now"
        " each gets a random ending.",
        link="https://github.com/vllm-project/vllm/pull/27987",
    ),
    PlantedBug(
        name="engine_idle_time_counts_as_standstill",
        system="engine",
        edits=(
            Edit(
                "engine/front_end/replica_state.py",
                "        if not self.open:\n"
                "            self._progressed_at = now  # it was idle until now\n",
                "",
            ),
        ),
        breaks=("E4", "E3"),
        seen="A replica has had no request for more than three step timeouts (30 s by default): the"
        " next request has it ended as stuck, at once, and is begun anew once it is back; after 2"
        " s of idleness health calls it stuck until its first step. A prefill replica meets this"
        " while the others are busy.",
        fixed="Jetty's client let the idle timeout of a connection, which had run while there was"
        " nothing to do, end the request that had just been sent over it.",
        link="https://github.com/jetty/jetty.project/issues/347",
    ),
    PlantedBug(
        name="engine_deaths_are_counted_over_a_whole_life",
        system="engine",
        edits=(
            Edit(
                "engine/supervisor/restart_policy.py",
                "        part.serves, part.late, part.failures = True, None, 0\n",
                "        part.serves, part.late = True, None\n",
            ),
            Edit(
                "engine/supervisor/restart_policy.py",
                "        part.failures += not part.serves\n",
                "        part.failures += 1\n",
            ),
        ),
        breaks=("E3",),
        seen="A replica, or the coordinator, dies for the fifth time since the engine began, having"
        " come back and served well after each of the four before: it stays away for good, as if"
        " five starts in a row had failed. A single replica takes the engine with it.",
        fixed="pboss compared all restarts since a process was first started with the limit meant"
        " for a crash loop, so that a healthy service that exits now and then was given up.",
        link="https://github.com/Procboss/pboss/issues/23",
    ),
    PlantedBug(
        name="engine_votes_of_ended_waves_take_the_room",
        system="engine",
        edits=(
            Edit(
                "engine/core/wave_allreduce.py",
                "        for rank, votes in self._votes.items():\n"
                "            self._votes[rank] = {step: vote for step, vote in votes.items()"
                " if step >= self._step}\n"
                "            for vote in self._votes[rank].values():\n"
                "                self._recognise(vote)\n",
                "        for votes in self._votes.values():\n"
                "            for vote in votes.values():\n"
                "                self._recognise(vote)\n",
            ),
        ),
        breaks=("C3", "C2", "E3"),
        seen="A wave that breaks (its coordinator is replaced, or one of three replicas dies) can"
        " leave a vote that nobody takes. Once four of one rank are kept, each new vote of it is"
        " dropped: every wave with it breaks after 5 s, and its requests crawl or starve from"
        " then on.",
        fixed="Stegos kept consensus messages of the epoch before in the queue for early ones, and"
        " met them again in the next epoch; now the state is made anew for each epoch.",
        link="https://github.com/stegos/stegos/issues/822",
    ),
)
