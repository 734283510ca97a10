"""A deadline around what a script does, and an end for every process that it started."""

import multiprocessing.resource_tracker
import os
import select
import signal
import sys
import tempfile
import time

HELD, SHOWN, NOT_TRIED = 0, 1, 2


def bounded(shows, seconds=90.0):
    """The status, and in a line why: ``shows()`` says what it saw of the bug, or nothing."""
    multiprocessing.resource_tracker.ensure_running()
    with tempfile.TemporaryDirectory() as folder:
        reading, writing = os.pipe()
        group = os.fork()
        if not group:
            os.setpgid(0, 0)
            os.environ.update(VLLM_RPC_BASE_PATH=folder, VLLM_WORKER_MULTIPROC_METHOD="fork")
            try:
                seen = shows()
                told = f"{SHOWN if seen else HELD}{seen or 'not shown'}"
            except BaseException as error:
                told = f"{NOT_TRIED}could not try: {type(error).__name__}: {error}"
            os.write(writing, told.encode())
            os._exit(0)
        os.close(writing)
        ended = os.pidfd_open(group)
        ready = select.select([reading, ended], [], [], seconds)[0]
        told = os.read(reading, 65536).decode() if reading in ready else ""
        for each in (reading, ended):
            os.close(each)
        os.killpg(group, signal.SIGKILL)
        os.waitpid(group, 0)
    why = "it ended without a word" if ready else f"{seconds:g} s were not enough"
    return (int(told[0]), told[1:]) if told else (NOT_TRIED, f"could not try: {why}")


def within(seconds, happened):
    """Whether ``happened()`` comes true in so many seconds."""
    until = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def main(shows, seconds=90.0):
    sys.warnoptions.append("ignore:resource_tracker")  # it clears what killed processes left
    status, told = bounded(shows, seconds)
    print(told)
    sys.exit(status)
