"""Front ends: processes that answer HTTP for one engine, which is in the process that starts them.

They share one listening socket, so whichever is free accepts a connection. Each talks to the engine
over a socket pair of its own: there is no path, no other process can connect, and each side sees
the other's end at once.
"""
