"""Strikes a process of an engine before an exact source line; the engine's files stay as they are.

vLLM loads it in each of its processes, as a plugin. It does nothing unless ``KILLPOINT_LINE`` is
set: JSON as :class:`killpoint.systems.server.environments.line_fault.LineFault` writes it. The
function is replaced, where its class or module holds it, by one that traces its own lines and calls
it. Where no line is named, those that a process passes are noted until a file, the gate, is there;
from then on the one that lies so far along them is where it is struck, whichever process comes to
its own first. What is done, and where, is written to a file before it is done; so is that the
function is armed, and what went wrong while it was. Only the standard library is needed.
"""

import ctypes
import fcntl
import functools
import importlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

_ARMED = []
_LATELY = 2.0
"""Seconds before the last passage of a line within which the lines of its loop are passed again."""
_PATIENCE = 1.0
"""Seconds within which a line that is passed again and again is passed once more."""
_LOCK = threading.Lock()


def register():
    """Arm the function, once in this process."""
    text = os.environ.get("KILLPOINT_LINE")
    if not text or _ARMED:
        return
    fault = json.loads(text)
    _ARMED.append(fault)
    try:
        line = _arm(fault)
    except Exception as error:
        _note(fault, "failed", error=f"{type(error).__name__}: {error}")
    else:
        _note(fault, "armed", line=line)


def _arm(fault):
    owner = importlib.import_module(fault["module"])
    *classes, name = fault["function"].split(".")
    for each in classes:
        owner = getattr(owner, each)
    held = inspect.getattr_static(owner, name)
    function = held.__func__ if isinstance(held, (staticmethod, classmethod)) else held
    code = inspect.unwrap(function).__code__
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        raise TypeError(f"{fault['function']} is a coroutine or a generator: it runs in pieces")
    at = _line_number(code, fault["line"]) if fault["line"] else 0
    left = [fault["nth"]]
    passed = {}

    def in_function(frame, event, _argument):
        if event == "line" and not at:
            _pass(fault, code, passed, frame.f_lineno)
        elif event == "line" and frame.f_lineno == at and _is_due(fault, left):
            _strike(fault, code, at)
        return in_function

    def tracer(frame, _event, _argument):
        return in_function if frame.f_code is code else None

    @functools.wraps(function)
    def traced(*arguments, **named):
        if fault["act"] == "swallow" and _is_swallowed(fault, code):
            return None
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            return function(*arguments, **named)
        finally:
            sys.settrace(before)

    setattr(owner, name, type(held)(traced) if function is not held else traced)
    return at


def _pass(fault, code, passed, line):
    """Note a line until the gate is open; from then on, strike at the one that is so far along."""
    if not os.path.exists(fault["gate"]):
        passed[line] = (passed.get(line, (0,))[0] + 1, time.monotonic())
        return
    if "at" not in passed:
        passed["at"] = *_so_far_along(fault["along"], code, passed), time.monotonic()
    at, exactly, since = passed["at"]
    # Such a line may be passed no more: it was one of the last before a loop that never ends.
    exactly = exactly and time.monotonic() < since + _PATIENCE
    here = line == at if exactly else line >= at
    if here and re.search(fault["title"], _title()) and _is_first(fault):
        _strike(fault, code, line)


def _so_far_along(along, code, passed):
    """Return the line, and whether no other will do: of a function not passed yet, a later one."""
    last = max((when for _, when in passed.values()), default=0.0)
    # What was passed once, or before the last seconds, is behind a function that never returns.
    often = [each for each, (times, when) in passed.items() if times > 1 and when > last - _LATELY]
    every = {each for _, _, each in code.co_lines() if each and each > code.co_firstlineno}
    known = sorted(often or passed or every)
    return known[min(int(along * len(known)), len(known) - 1)], bool(passed)


def _is_first(fault):
    """Return whether no other process has struck itself."""
    try:
        os.close(os.open(fault["marks"] + ".first", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    return True


def _line_number(code, text):
    lines, first = inspect.getsourcelines(code)
    found = [first + index for index, line in enumerate(lines) if text in line]
    if len(found) != 1:
        raise LookupError(f"{len(found)} lines of {code.co_qualname} hold {text!r}; expected one")
    return found[0]


def _is_due(fault, left):
    if fault["gated"] and not os.path.exists(fault["gate"]):
        return False
    if not re.search(fault["title"], _title()):
        return False
    with _LOCK:
        left[0] -= 1
        return left[0] == 0


def _title():
    """Return the process's name and command line, as parts are known by."""
    with open("/proc/self/comm", "rb") as name, open("/proc/self/cmdline", "rb") as line:
        said = name.read().rstrip(b"\n") + b" " + line.read().replace(b"\0", b" ")
    return said.decode(errors="replace")


def _is_swallowed(fault, code):
    """Return whether this call is the one that is not made, once the gate is open."""
    if not os.path.exists(fault["gate"]) or not re.search(fault["title"], _title()):
        return False
    if not _is_first(fault):
        return False
    _note(fault, "swallow", line=0, file=code.co_filename, function=code.co_qualname)
    return True


def _strike(fault, code, at):
    act = fault["act"]
    if act == "swallow":
        return  # it is done to a call, not at a line
    _note(fault, act, line=at, file=code.co_filename, function=code.co_qualname)
    if act in _HANGS:
        _HANGS[act](fault)
    else:
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "terminate": signal.SIGTERM}
        os.kill(os.getpid(), number[act])


def _spin(_fault):
    while True:
        pass


def _sleep(_fault):
    time.sleep(_FOR_EVER)


def _hold_gil(_fault):
    ctypes.PyDLL(None).sleep(_FOR_EVER)


def _wait_for_a_lost_lock(_fault):
    lock = threading.Lock()
    holder = threading.Thread(target=lock.acquire)
    holder.start()
    holder.join()
    lock.acquire()


def _wait_for_a_file_lock(fault):
    path = fault["marks"] + ".lock"
    program = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
        f" print(flush=True); time.sleep({_FOR_EVER})"
    )
    holder = subprocess.Popen([sys.executable, "-S", "-c", program, path], stdout=subprocess.PIPE)
    holder.stdout.readline()
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def _write_to_a_full_pipe(_fault):
    _, into = os.pipe()
    while True:
        os.write(into, bytes(1 << 16))


_FOR_EVER = 1_000_000
_HANGS = {
    "spin": _spin,
    "sleep": _sleep,
    "hold-gil": _hold_gil,
    "lost-lock": _wait_for_a_lost_lock,
    "file-lock": _wait_for_a_file_lock,
    "full-pipe": _write_to_a_full_pipe,
}


def _note(fault, what, **more):
    said = {"what": what, "pid": os.getpid(), "title": _title(), "time": time.monotonic(), **more}
    file = os.open(fault["marks"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, json.dumps(said).encode() + b"\n")
    finally:
        os.close(file)
