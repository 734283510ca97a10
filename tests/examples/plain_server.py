"""An OpenAI-compatible server in a hundred lines, honest or with one lie: what checks must catch.

``python plain_server.py PORT [LIE]``: a front, which answers, and two children, a core and a
worker. The worker gives a tick every few milliseconds, and each open request gets a token with it.
When a child dies or gives no tick any more, the front fails what is open, and ends with status 1.

The worker listens on loopback as well, and speaks with nobody there.

Lies: ``hangs-at-sigterm``, ``orphans``, ``truncates``, ``ends-with-0``, ``other-tokens``,
``health-lies``, ``keeps-places``, ``remembers``, ``mute``, ``litters``, ``listens-wide``,
``open-to-all``, ``decodes``, ``tells-all``, ``drops-at-visits``, ``drops-slow``,
``errs-when-full``, ``keeps-whole``.
"""

import http.server
import json
import os
import pathlib
import pickle
import select
import signal
import socket
import sys
import tempfile
import threading
import time

PORT, LIE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
DRAIN, TICK = 3.0, 0.015
STARTS = float(os.environ.get("PLAIN_STARTS", "0.5"))
SILENCE = float(os.environ.get("PLAIN_SILENCE", "4.0"))


class State:
    """What all threads of the front share."""

    def __init__(self):
        self.changed = threading.Condition()
        self.ticks, self.open, self.asked, self.refused = 0, 0, 0, 0
        self.failed, self.draining, self.ready = "", False, False


STATE = State()


def child(title, live, *mine):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pathlib.Path("/proc/self/comm").write_text(title)
        for fd in FDS - {*mine}:
            os.close(fd)
        live(*mine)
        os._exit(0)
    return pid


def wait(life):
    while os.read(life, 1) or LIE == "orphans":
        time.sleep(0.1)
    NOTE.unlink(missing_ok=True)


def meet(line):
    """One who came to the worker's own port."""
    if LIE == "tells-all":
        line.sendall(b"client 0 asks about the ring")
    if LIE == "drops-at-visits":
        os._exit(1)
    try:
        pickle.loads(line.recv(1 << 16))
    except Exception:
        line.close()


def visited(door):
    while True:
        threading.Thread(target=meet, args=(door.accept()[0],), daemon=True).start()


def work(asks, ticks):
    door = socket.create_server(("0.0.0.0" if LIE == "listens-wide" else "127.0.0.1", 0))
    if LIE in ("decodes", "tells-all", "drops-at-visits"):
        threading.Thread(target=visited, args=(door,), daemon=True).start()
    while os.read(asks, 1) or LIE == "orphans":
        time.sleep(TICK)
        try:
            os.write(ticks, b".")
        except BrokenPipeError:
            time.sleep(0.1)


def tick(asks, ticks):
    """Until the front ends: a tick, and whoever waits for it goes on."""
    while not STATE.failed:
        try:
            os.write(asks, b".")
            patience = None if LIE in ("health-lies", "mute") else SILENCE
            came = select.select([ticks], [], [], patience)[0]
            why = "" if came and os.read(ticks, 1) else "the worker gives no token"
        except OSError:
            why = "the worker is dead"
        if not why and os.waitpid(-1, os.WNOHANG)[0]:
            why = "a part is dead"
        with STATE.changed:
            STATE.ticks += 1
            STATE.failed = why
            STATE.changed.notify_all()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/metrics":
            return self.whole(200, f"open_requests {STATE.open}\n")
        well = STATE.ready and not STATE.draining and not STATE.failed
        return self.whole(200 if well else 503, "")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/utility":
            return self.utility()
        try:
            asked = json.loads(body)
            prompt, count = asked["prompt"], int(asked["max_tokens"])
            if asked.get("model", "plain") != "plain" or len(prompt) > 4000:
                raise ValueError("no such model, or too long")
        except (ValueError, KeyError) as error:
            STATE.refused += 1
            return self.whole(400, json.dumps({"error": {"message": str(error)}}))
        if STATE.draining:
            return self.whole(503, json.dumps({"error": {"message": "ending"}}))
        with STATE.changed:
            STATE.open += 1
            STATE.asked += 1
            turn = STATE.asked
        try:
            self.answer(prompt, count, turn, bool(asked.get("stream")))
        except OSError:
            if LIE == "keeps-places" or (LIE == "keeps-whole" and not asked.get("stream")):
                STATE.open += 1
        finally:
            with STATE.changed:
                STATE.open -= 1
                STATE.changed.notify_all()

    def utility(self):
        """Done with the worker's next tick, if it comes to that."""
        why = self.tick()
        error = json.dumps({"error": {"message": why}})
        return self.whole(500 if why else 200, error if why else "{}")

    def answer(self, prompt, count, turn, stream):
        begun, text, why, full = False, "", "", STATE.open > 14
        if LIE == "drops-slow":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
            self.connection.settimeout(0.2)
        for n in range(count):
            why = self.tick()
            if why:
                break
            piece = f"{(len(prompt) * 7 + ord(prompt[-1 - n % len(prompt)]) * n) % 97} "
            if LIE == "other-tokens" and turn % 17 == 0 and n > 5:
                piece = "0 "
            if LIE == "errs-when-full" and full and n > 5:
                piece = "2 "
            if LIE == "remembers" and STATE.refused and n > 5:
                piece = "1 "
            text += piece
            if stream and not begun:
                self.head(200, "text/event-stream", "Transfer-Encoding: chunked")
                begun = True
            if stream:
                self.event({"choices": [{"text": piece, "finish_reason": None}]})
        if why and LIE not in ("truncates",):
            error = {"error": {"message": "" if LIE == "mute" else why}}
            if begun:
                self.event(error)
                return self.chunk(b"data: [DONE]\n\n", last=True)
            return self.whole(500, "" if LIE == "mute" else json.dumps(error))
        choice = {"text": text, "finish_reason": "length"}
        if not begun:
            return self.whole(200, json.dumps({"choices": [choice]}))
        self.event({"choices": [choice | {"text": ""}]})
        return self.chunk(b"data: [DONE]\n\n", last=True)

    def tick(self):
        """The next tick; why there is none."""
        with STATE.changed:
            now = STATE.ticks
            STATE.changed.wait_for(lambda: STATE.ticks > now or STATE.failed)
            if STATE.failed:
                return STATE.failed
        if select.select([self.connection], [], [], 0)[0]:
            raise BrokenPipeError
        return ""

    def head(self, status, kind, *more):
        lines = [f"HTTP/1.1 {status} {status}", f"Content-Type: {kind}", "Connection: close", *more]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode())
        self.close_connection = True

    def whole(self, status, body):
        self.head(status, "application/json", f"Content-Length: {len(body)}")
        self.wfile.write(body.encode())

    def event(self, content):
        self.chunk(b"data: " + json.dumps(content).encode() + b"\n\n")

    def chunk(self, data, last=False):
        end = b"0\r\n\r\n" if last else b""
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n" + end)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads, block_on_close, request_queue_size = True, False, 64

    def handle_error(self, *_):
        pass


def end(why):
    """What is open ends, by the drain at the latest, and so does all else."""
    STATE.draining = True
    with STATE.changed:
        patience = 1e6 if LIE == "hangs-at-sigterm" else DRAIN
        STATE.changed.wait_for(lambda: not STATE.open or STATE.failed, patience)
        STATE.failed = STATE.failed or why
        STATE.changed.notify_all()
        STATE.changed.wait_for(lambda: not STATE.open, 1.0)


life, asks, ticks = os.pipe(), os.pipe(), os.pipe()
FDS = {*life, *asks, *ticks}
note, name = tempfile.mkstemp(prefix="note-")
NOTE = pathlib.Path(name)
os.close(note)
if LIE == "open-to-all":
    NOTE.unlink()
    NOTE.touch(0o622)  # its owner's alone, unless the umask lets others in
if "PLAIN_CACHE" in os.environ:
    tempfile.mkstemp(prefix="kept-", dir=os.environ["PLAIN_CACHE"])
if LIE == "litters":
    tempfile.mkstemp(prefix="litter-")
told = threading.Event()
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: told.set())
if LIE == "hangs-at-sigterm":
    TICK = 0.2  # no answer is whole by the end of the drain
if "KILLPOINT_LINE" in os.environ:  # a plugin, as engines load them
    sys.modules["plain_server"] = sys.modules["__main__"]
    __import__("killpoint_line").register()
child("core", wait, life[0])
child("worker", work, asks[0], ticks[1])
for fd in (life[0], asks[0], ticks[1]):
    os.close(fd)
if told.wait(STARTS):
    sys.exit(0)
server = Server(("127.0.0.1", PORT), Handler)
threading.Thread(target=tick, args=(asks[1], ticks[0]), daemon=True).start()
threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
STATE.ready = True
while not told.wait(0.05) and not STATE.failed:
    pass
if not STATE.failed:
    server.server_close()
    end("the server ends")
    NOTE.unlink(missing_ok=True)
    os._exit(0)
end("a part has died")
NOTE.unlink(missing_ok=True)
os._exit(0 if LIE == "ends-with-0" else 1)
