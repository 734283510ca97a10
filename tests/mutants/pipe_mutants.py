"""The mutants of the reference's pipe: one or more for each clause of SPEC 6."""

from __future__ import annotations

from mutant import Edit, Mutant, one

PIPE: tuple[Mutant, ...] = (
    one(
        "k1_views_go_out_as_they_lie",
        "K1/every-dtype-and-layout",
        "wrong-data",
        "pipe/tensors.py",
        '    if plain.device.type == "cpu" and plain.is_contiguous():\n',
        '    if plain.device.type == "cpu":\n',
    ),
    one(
        "k1_conjugation_is_forgotten",
        "K1/every-dtype-and-layout",
        "wrong-data",
        "pipe/tensors.py",
        "    return tensor.detach().resolve_conj().resolve_neg()\n",
        "    import torch\n\n    found = tensor.detach()\n"
        "    return torch.conj(found) if found.is_conj() else found\n",
    ),
    one(
        "k1_none_does_not_leave",
        "K1/large-and-none",
        "lost hang",
        "pipe/pipe.py",
        "        self._check_owner()\n        ends = self._ends\n",
        "        self._check_owner()\n        if tensor is None:\n            return\n"
        "        ends = self._ends\n",
    ),
    one(
        "k2_room_is_never_free_again",
        "K2/empty-after-every-tensor",
        "leak",
        "pipe/outgoing.py",
        "            self._let_go(current)\n            self.current = None\n",
        "            self.current = None\n",
    ),
    one(
        "k2_what_is_large_never_fits",
        "K2/larger-than-the-limit",
        "hang",
        "pipe/outgoing.py",
        "        return used == 0 or used + transfer.nbytes <= self._limit\n",
        "        return used + transfer.nbytes <= self._limit\n",
    ),
    one(
        "k2_everything_fits",
        "K2/memory-is-bounded",
        "growth",
        "pipe/outgoing.py",
        "        return used == 0 or used + transfer.nbytes <= self._limit\n",
        "        return used >= 0\n",
    ),
    Mutant(
        "k2_a_failed_send_keeps_its_room",
        "K2/send-fails-once",
        ("leak", "hang"),
        (
            Edit(
                "pipe/tensors.py",
                "    try:\n        return describe(tensor).nbytes\n"
                "    except TensorRefused:\n        return 0\n",
                "    return tensor.numel() * tensor.element_size()\n",
            ),
            Edit(
                "pipe/outgoing.py",
                "            self._let_go(current)\n            self.current = None\n",
                "            if not isinstance(current.parcel, Failure):\n"
                "                self._let_go(current)\n            self.current = None\n",
            ),
        ),
    ),
    one(
        "k3_the_sender_is_not_told",
        "K3/send-fails-once",
        "no-error",
        "pipe/sending.py",
        "            self.outgoing.hand_in(transfer, Failure(_told(error)))\n            raise\n",
        "            return Failure(_told(error))\n",
    ),
    one(
        "k4_an_end_of_file_is_waited_for",
        "K4/first-killed-while-the-other-waits",
        "hang",
        "pipe/receiving.py",
        "        if not filling.came[-1]:\n"
        "            raise self._ended(self._broken(None))\n        return True\n",
        "        if not filling.came[-1]:\n"
        "            self._bell.quiet()\n            ready(self._bell, select.POLLIN, 60.0)\n"
        "        return True\n",
    ),
    one(
        "k4_a_death_is_told_late",
        "K4/killed-while-the-other-sends",
        "late",
        "pipe/sending.py",
        "        across = self._link.across\n        if isinstance(error, TimeoutError):\n",
        "        across = self._link.across\n        threading.Event().wait(2.6)\n"
        "        if isinstance(error, TimeoutError):\n",
    ),
    one(
        "k5_what_leaves_is_the_callers",
        "K5/overwritten-before-it-is-taken",
        "wrong-data",
        "pipe/transports/group.py",
        "        if len(snapshot.memory):\n            copy_into(tensor, snapshot.memory)\n",
        "        if len(snapshot.memory) and tensor.is_contiguous():\n"
        "            raw = tensor.detach().reshape(-1).view(torch.uint8).numpy()\n"
        "            snapshot._memory = memoryview(raw)\n"
        "        elif len(snapshot.memory):\n            copy_into(tensor, snapshot.memory)\n",
    ),
    Mutant(
        "k6_fewer_bytes_are_made_up_for",
        "K6/fewer-bytes-than-told",
        ("wrong-data",),
        (
            Edit(
                "pipe/frames.py",
                "        fits = follows == nbytes\n",
                "        fits = follows <= nbytes\n",
            ),
            Edit(
                "pipe/tensors.py",
                "    return torch.frombuffer(memory, dtype=dtype).view(metadata.shape)\n",
                "    whole = bytearray(bytes(memory).ljust(metadata.nbytes, b'x'))\n"
                "    return torch.frombuffer(whole, dtype=dtype).view(metadata.shape)\n",
            ),
        ),
    ),
    Mutant(
        "k7_one_call_at_a_time",
        "K7/both-receive-first",
        ("hang",),
        (
            Edit(
                "pipe/pipe.py",
                "        ends.sender.send(nbytes, lambda: ends.outlet.snapshot(tensor, label), "
                "timeout)\n",
                "        with _ONE:\n            ends.sender.send(\n"
                "                nbytes, lambda: ends.outlet.snapshot(tensor, label), timeout\n"
                "            )\n",
            ),
            Edit(
                "pipe/pipe.py",
                "        return self._ends.receiver.receive(timeout)\n",
                "        with _ONE:\n            return self._ends.receiver.receive(timeout)\n",
            ),
            Edit(
                "pipe/pipe.py",
                "class Pipe:\n",
                "import threading\n\n_ONE = threading.RLock()\n\n\nclass Pipe:\n",
            ),
        ),
    ),
    one(
        "k8_whoever_asks_gets_what_there_is",
        "K8/taken-in-another-order",
        "wrong-data",
        "pipe/block_arrivals.py",
        "        return self._by_request.get(request)\n",
        "        return next(iter(list(self._by_request.values())), None)\n",
    ),
    one(
        "k8_served_without_leave",
        "K8/one-after-the-other",
        "lost",
        "pipe/blocks.py",
        'found.state in ("failed", "granted"):',
        'found.state in ("whole", "failed", "granted"):',
    ),
    one(
        "k8_blocks_are_served_twice",
        "K8/asked-for-twice",
        "duplicate",
        "pipe/block_arrivals.py",
        "            keep(taken, self._by_request.pop, found.request)\n",
        "            keep(taken, self._by_request.get, found.request)\n",
    ),
    one(
        "k8_a_lease_has_no_end",
        "K8/never-asked-for",
        "late hang",
        "pipe/blocks.py",
        "            return offer.heard.get(timeout=min(self._left(until), _LONGEST))\n",
        "            return offer.heard.get(timeout=_LONGEST)\n",
    ),
)
