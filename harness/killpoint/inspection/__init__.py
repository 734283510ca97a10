"""Looking at an engine that hangs right now, from outside: nothing in it is stopped or changed."""
