"""The mutants of the reference's pipe: one or more for each clause of SPEC 6."""

from __future__ import annotations

from mutant import Edit, Mutant, one
from planted.pipe_bugs import BUGS

_PLANTED = {bug.name: bug.edits for bug in BUGS}

PIPE: tuple[Mutant, ...] = (
    Mutant(
        "s3_whoever_knocks_at_a_pipe_is_decoded",
        "S3/pipe-speaking-stranger",
        ("exposure",),
        (
            Edit(
                "pipe/handshake.py",
                "            append_atomically("
                "connection.received, connection.sock.recv, wanted - have)\n",
                "            _looked_into(connection.sock.recv(1 << 16, socket.MSG_PEEK))\n"
                "            append_atomically("
                "connection.received, connection.sock.recv, wanted - have)\n",
            ),
            Edit(
                "pipe/handshake.py",
                "def _send_whole(",
                "def _looked_into(body: bytes) -> None:\n    import contextlib\n"
                "    import pickle\n\n    with contextlib.suppress(Exception):\n"
                "        pickle.loads(body)\n\n\ndef _send_whole(",
            ),
        ),
    ),
    one(
        "s3_a_pipes_key_stands_in_its_environment",
        "S3/pipe-keys-unseen",
        "exposure",
        "pipe/pipe.py",
        "        info = RankInfo(\n",
        '        os.environ["PIPE_KEY"] = key.hex()\n        info = RankInfo(\n',
    ),
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
        "pipe/send_queue.py",
        "            self._let_go(current)\n            self.current = None\n",
        "            self.current = None\n",
    ),
    one(
        "k2_what_is_large_never_fits",
        "K2/larger-than-the-limit",
        "hang",
        "pipe/send_queue.py",
        "        return used == 0 or used + transfer.nbytes <= self._limit\n",
        "        return used + transfer.nbytes <= self._limit\n",
    ),
    one(
        "k2_everything_fits",
        "K2/memory-is-bounded",
        "growth",
        "pipe/send_queue.py",
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
                "pipe/send_queue.py",
                "            self._let_go(current)\n            self.current = None\n",
                "            if not isinstance(current.snapshot, Failure):\n"
                "                self._let_go(current)\n            self.current = None\n",
            ),
        ),
    ),
    one(
        "k3_the_sender_is_not_told",
        "K3/send-fails-once",
        "no-error",
        "pipe/sender.py",
        "            self.send_queue.hand_in(transfer, Failure(_describe(error)))\n"
        "            raise\n",
        "            return Failure(_describe(error))\n",
    ),
    one(
        "k3_a_reset_is_waited_out",
        "K3/links-reset",
        "hang late",
        "pipe/receiver.py",
        "        except OSError as error:\n"
        "            raise self._ended(self._broken(error)) from None\n",
        "        except OSError:\n"
        "            ready(self._wakeup, select.POLLIN, 60.0)\n            return False\n",
    ),
    one(
        "k3_a_deadline_forgets_what_had_come",
        "K3/links-cut-and-healed",
        "lost wrong-data hang",
        "pipe/receiver.py",
        "            raise DeadlinePassed(f",
        "            at, key = self._partial.number, self._link.session\n"
        "            self._partial = PartialTransfer(at, key, self._most)\n"
        "            raise DeadlinePassed(f",
    ),
    one(
        "k3_half_a_tensor_is_served_at_the_deadline",
        "K3/links-half-open",
        "wrong-data",
        "pipe/receiver.py",
        "            if not self._take(pending, missing):\n",
        "            if header is not None and timeout is not None and (left() or 0) <= 0:\n"
        "                return header, pending.memory\n"
        "            if not self._take(pending, missing):\n",
    ),
    Mutant(
        "k3_a_close_takes_the_time_it_takes",
        "K3/links-cut",
        ("late", "hang"),
        (
            Edit(
                "pipe/sender.py",
                "        if seconds is not None and seconds <= 0:\n            lost",
                "        if seconds is not None and seconds <= -60:\n            lost",
            ),
            Edit(
                "pipe/sender.py",
                "            self._thread.join(seconds + _POLL_INTERVAL)\n",
                "            self._thread.join()\n",
            ),
        ),
    ),
    one(
        "k4_an_end_of_file_is_waited_for",
        "K4/first-killed-while-the-other-waits",
        "hang",
        "pipe/receiver.py",
        "        if not pending.received[-1]:\n"
        "            raise self._ended(self._broken(None))\n        return True\n",
        "        if not pending.received[-1]:\n"
        "            self._wakeup.clear()\n            ready(self._wakeup, select.POLLIN, 60.0)\n"
        "        return True\n",
    ),
    one(
        "k4_a_death_is_told_late",
        "K4/killed-while-the-other-sends",
        "late",
        "pipe/sender.py",
        "        peer = self._link.peer\n        if isinstance(error, TimeoutError):\n",
        "        peer = self._link.peer\n        threading.Event().wait(2.6)\n"
        "        if isinstance(error, TimeoutError):\n",
    ),
    one(
        "k5_what_leaves_is_the_callers",
        "K5/overwritten-before-it-is-taken",
        "wrong-data",
        "pipe/transports/inline.py",
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
                "pipe/protocol.py",
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
                "        ends.sender.send(nbytes, lambda: ends.send_transport.snapshot(tensor, "
                "label), timeout)\n",
                "        with _ONE:\n            ends.sender.send(\n"
                "                nbytes,\n"
                "                lambda: ends.send_transport.snapshot(tensor, label),\n"
                "                timeout,\n"
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
        "pipe/block_receiver.py",
        "        known = self._of(request)\n",
        "        known = list(self._incoming.values())[:1]\n",
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
        "pipe/block_receiver.py",
        "            append_atomically(taken, self._incoming.pop, found.transfer)\n",
        "            append_atomically(taken, self._incoming.get, found.transfer)\n",
    ),
    one(
        "k8_blocks_are_served_as_they_come",
        "K8/blocks-harmed-on-their-way",
        "wrong-data",
        "pipe/block_receiver.py",
        "        due = len(found.blocks)\n",
        "        due = label.index\n",
    ),
    one(
        "k8_any_shape_will_do",
        "K8/blocks-harmed-on-their-way",
        "wrong-data",
        "pipe/block_receiver.py",
        "        if label.checksum != self._shape_checksum(block):\n",
        "        if not self._shape_checksum(block):\n",
    ),
    one(
        "k8_what_has_ended_is_forgotten",
        "K8/blocks-too-late",
        "lost",
        "pipe/block_receiver.py",
        "        if label.transfer in self._past:\n",
        "        if not self._past:\n",
    ),
    one(
        "k8_a_lease_has_no_end",
        "K8/never-asked-for",
        "late hang",
        "pipe/blocks.py",
        "            left = self._left(until)\n            try:\n",
        "            left = 3600.0\n            try:\n",
    ),
    one(
        "h4_one_lease_ends_all",
        "H4/generated",
        "lost starved",
        "pipe/block_receiver.py",
        "        for each in list(self._incoming.values()):\n            if now >= each.until:\n",
        "        over = any(now >= each.until for each in list(self._incoming.values()))\n"
        "        for each in list(self._incoming.values()):\n"
        "            if over:\n",
    ),
    Mutant(
        "h4_an_id_that_failed_is_of_no_use_again",
        "H4/generated-with-harm",
        ("lost", "starved"),
        (
            Edit(
                "pipe/block_receiver.py",
                "        if label.transfer in self._past:\n",
                "        if label.transfer in self._past or label.request in self._past:\n",
            ),
            Edit(
                "pipe/block_receiver.py",
                "        self._remember(found.transfer)\n        failed = ",
                "        self._remember(found.transfer)\n        self._remember(found.request)\n"
                "        failed = ",
            ),
        ),
    ),
    Mutant(
        "h4_who_gives_up_lets_nobody_past",
        "H4/generated-tensors",
        ("starved",),
        _PLANTED["pipe_who_gives_up_lets_nobody_past"],
        samples=3,
    ),
    Mutant(
        "h4_one_sender_is_told_of_the_end",
        "H4/generated-with-ends",
        ("late",),
        _PLANTED["pipe_one_sender_is_told_of_the_end"],
        samples=3,
    ),
)
