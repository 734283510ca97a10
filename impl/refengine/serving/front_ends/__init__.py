"""Front ends: processes that answer HTTP for one engine, which is in the process that starts them.

They share one listening socket, so a connection waits for no certain one of them, and is accepted
by whichever is free. Each talks to the engine over a socket pair of its own: no path leads there,
nobody else can connect, and each side sees the other's end at once.
"""
