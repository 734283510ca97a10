"""Bugs planted in the pipe, each after one that a real project has fixed."""

from __future__ import annotations

from mutant import Edit

from planted.bug import PlantedBug

BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        name="pipe_each_side_counts_its_transfers",
        system="pipe",
        edits=(
            Edit("pipe/blocks.py", "import secrets\n", "import itertools\n"),
            Edit(
                "pipe/blocks.py",
                "        self._offers: dict[bytes, _Offer] = {}\n",
                "        self._offers: dict[bytes, _Offer] = {}\n"
                "        self._numbers = itertools.count(1)\n",
            ),
            Edit(
                "pipe/blocks.py",
                "        transfer, request = secrets.token_bytes(TRANSFER_ID_BYTES), "
                "request_digest(request_id)\n",
                '        transfer = next(self._numbers).to_bytes(TRANSFER_ID_BYTES, "big")\n'
                "        request = request_digest(request_id)\n",
            ),
        ),
        breaks=("K8",),
        seen="Both ranks send blocks to each other at once, and nobody asks for the n-th transfer "
        "of one: when its lease ends, the n-th transfer of the other, whose own lease is long, "
        "fails too: BlocksFailed at its sender, and at whoever asks for it.",
        fixed="Both ends of a WebRTC connection numbered their data channels from the same start, "
        "so two that were opened at once got one number.",
        link="https://github.com/pion/webrtc/issues/908",
    ),
    PlantedBug(
        name="pipe_ids_are_told_apart_by_their_beginning",
        system="pipe",
        edits=(
            Edit(
                "pipe/protocol.py",
                "    return hashlib.blake2b(request_id.encode(), digest_size=16).digest()\n",
                "    whole = request_id.encode()[:36]  # as long as a UUID\n"
                "    return hashlib.blake2b(whole, digest_size=16).digest()\n",
            ),
        ),
        breaks=("K8",),
        seen="Two requests are under way whose ids are longer than 36 bytes and alike in the "
        "first 36 (a UUID with -0 and -1 behind it): the first one's receiver is served the "
        "second one's blocks; the first send and the second receive run out.",
        fixed="Deployments were named after what was left of a workflow's name once it had been "
        "cut to length, so that workflows with a long common beginning met in one.",
        link="https://github.com/kubeflow/pipelines/pull/704",
    ),
    PlantedBug(
        name="pipe_blocks_are_asked_for_once_an_id",
        system="pipe",
        edits=(
            Edit(
                "pipe/blocks.py",
                "        self._waiting: dict[SimpleQueue[None], None] = {}\n",
                "        self._waiting: dict[SimpleQueue[None], None] = {}\n"
                "        self._asked: set[bytes] = set()\n",
            ),
            Edit(
                "pipe/blocks.py",
                '                if found is not None and found.state == "whole" '
                "and not found.asked:\n",
                "                asked = request in self._asked\n"
                '                if found is not None and found.state == "whole" '
                "and not asked:\n",
            ),
            Edit(
                "pipe/blocks.py",
                "                    found.asked = True\n",
                "                    found.asked = True\n"
                "                    self._asked.add(request)\n",
            ),
            Edit(
                "pipe/blocks.py",
                "            self._give_up(found.transfer)\n",
                "            self._give_up(found.transfer)\n"
                "            self._asked.discard(found.request)\n",
            ),
        ),
        breaks=("K8",),
        seen="A request's blocks were asked for and served, and later blocks are sent under the "
        "same id: although a receiver waits for them its wish is never told, the sender gets "
        "LeaseEnded, and the receiver an error or nothing. After a failure that was told, the id "
        "works again.",
        fixed="A client gave a resource up and wanted it again; the control plane remembered that "
        "it had been sent once, and never sent it a second time.",
        link="https://github.com/envoyproxy/go-control-plane/issues/431",
    ),
    PlantedBug(
        name="pipe_a_call_without_time_asks_for_nothing",
        system="pipe",
        edits=(
            Edit(
                "pipe/blocks.py",
                '                if found is not None and found.state == "whole" '
                "and not found.asked:\n",
                "                looks = timeout is not None and timeout <= 0\n"
                '                whole = found is not None and found.state == "whole"\n'
                "                if found and whole and not (found.asked or looks):\n",
            ),
        ),
        breaks=("K8",),
        seen="A receiver looks for its blocks now and then by recv_kv with a timeout of 0, and "
        "never waits: all blocks have come and it gets DeadlinePassed every time, until the "
        "lease ends and both sides are told of a failure.",
        fixed="A wait without time for an object on another node answered from a cache that its "
        "own question had yet to fill, so whoever only polled was told that nothing was ready.",
        link="https://github.com/ray-project/ray/pull/4242",
    ),
    PlantedBug(
        name="pipe_one_sender_is_told_of_the_end",
        system="pipe",
        edits=(
            Edit(
                "pipe/blocks.py",
                '            self._end = end or PipeClosed("this rank")\n'
                "        self._ring()\n"
                "        for offer in list(self._offers.values()):\n"
                "            offer.heard.put(None)\n",
                '            self._end = end or PipeClosed("this rank")\n'
                "            for offer in list(self._offers.values())[:1]:\n"
                "                offer.heard.put(None)\n"
                "        self._ring()\n",
            ),
        ),
        breaks=("K4",),
        seen="Several send_kv wait for their receivers when the other rank dies, or closes: the "
        "one that began first raises at once, each other one only as its own lease ends.",
        fixed="A channel that was closed told only some of those who waited at it for an item; "
        "the rest waited for ever.",
        link="https://github.com/tudborg/aiochannel/pull/19",
    ),
    PlantedBug(
        name="pipe_who_gives_up_lets_nobody_past",
        system="pipe",
        edits=(
            Edit(
                "pipe/sender.py",
                "                self.send_queue.withdraw(transfer)\n"
                "            self._wakeup.wake()\n",
                "                self.send_queue.withdraw(transfer)\n"
                "            else:\n"
                "                self._wakeup.wake()\n",
            ),
        ),
        breaks=("K2",),
        seen="Two threads wait for room while the receiver takes nothing: the first, whose tensor "
        "does not fit, gets DeadlinePassed, and the second, whose tensor fits, waits on behind "
        "nobody: to its own deadline, or until the receiver takes something.",
        fixed="In a fair semaphore, when the waiter at the head that wanted much gave up, those "
        "behind it were not woken although there was enough for them.",
        link="https://github.com/embassy-rs/embassy/pull/6964",
    ),
    PlantedBug(
        name="pipe_addresses_in_the_order_of_coming",
        system="pipe",
        edits=(
            Edit(
                "pipe/rendezvous.py",
                "            for rank in range(2, info.size):\n"
                "                _tell(server.connected[rank, CONTROL], addresses[rank - 1])\n",
                "            addresses.pop(last)  # this rank follows it, and listens itself\n"
                "            for rank, address in enumerate(addresses.values(), 2):\n"
                "                _tell(server.connected[rank, CONTROL], address)\n",
            ),
        ),
        breaks=("K1",),
        seen="In a ring of four or more, rank 2 reaches rank 0 before rank 1 (or any two of the "
        "ranks between the first and the last in the wrong order): ranks are told addresses of "
        "others than their predecessors, and the ring never comes up, by a hang to the deadline "
        "or RankRefused.",
        fixed="Workers were given ranks by their places in a list whose order nothing guaranteed, "
        "so neighbours by rank were not the neighbours that were meant.",
        link="https://github.com/vllm-project/vllm/pull/6235",
    ),
)
