"""Mutants that expose something to strangers, or leave something behind: S1 to S4, L1."""

from __future__ import annotations

from mutant import Edit, Mutant, one

EXPOSURE: tuple[Mutant, ...] = (
    one(
        "s1_listens_everywhere",
        "S1/remote-queue-listeners",
        "exposure",
        "base/security.py",
        "            socket.bind(f\"tcp://{name}:{port or '*'}\")\n",
        "            socket.bind(f\"tcp://{'*' if name else ''}:{port or '*'}\")\n",
    ),
    one(
        "s2_segment_is_made_for_all",
        "S2/umask-000",
        "exposure",
        "ring/memory.py",
        "        fd = own.open(os.open, path, flags, 0o600)\n",
        "        fd = own.open(os.open, path, flags, 0o666)\n",
    ),
    one(
        "s2_a_pools_segment_is_made_for_all",
        "S2/pool-paths",
        "exposure",
        "ring/memory.py",
        "        fd = own.open(os.open, path, flags, 0o600)\n",
        "        fd = own.open(os.open, path, flags, 0o666)\n",
    ),
    Mutant(
        "s2_a_cores_sockets_are_for_all",
        "S2/engine-paths",
        ("exposure",),
        (
            Edit("engine/core/process.py", "        path.chmod(0o600)\n", ""),
            Edit(
                "base/ownership.py",
                "        path.chmod(0o700)  # whatever the umask took away\n",
                "        path.chmod(0o777)\n",
            ),
        ),
    ),
    one(
        "s3_the_key_shows_in_the_repr",
        "S3/keys-unseen",
        "exposure",
        "base/security.py",
        "    secret: bytes = field(repr=False)\n",
        "    secret: bytes = field()\n",
    ),
    one(
        "s4_a_handshake_may_declare_anything",
        "S4/coordinator-flood",
        "exposure",
        "base/security.py",
        "    socket.setsockopt(zmq.MAXMSGSIZE, MOST_FRAME_BYTES)\n",
        "    pass\n",
    ),
    one(
        "s4_who_says_nothing_stays_for_half_a_minute",
        "S4/queue-flood",
        "exposure",
        "base/security.py",
        "    socket.setsockopt(zmq.HANDSHAKE_IVL, int(_HANDSHAKE_WITHIN * 1000))\n",
        "",
    ),
    one(
        "s4_each_caller_is_worth_a_line",
        "S4/pipe-flood",
        "exposure",
        "pipe/handshake.py",
        "            sock, _ = self._accepted[0]\n",
        "            sock, _ = self._accepted[0]\n"
        '            os.write(2, b"a caller came to the pipe that has proved nothing so far\\n")\n',
    ),
    Mutant(
        "l1_sockets_outlive_the_writer",
        "L1/writer-killed",
        ("leak",),
        (
            Edit("queue/local_fanout.py", "        remove_directory(self._directory)\n", ""),
            Edit(
                "queue/reader.py",
                "        remove_if_orphan(Path(self.handle.door).parent)\n",
                "",
            ),
        ),
    ),
)
