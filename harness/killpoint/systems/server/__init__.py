"""A whole engine judged from outside: an OpenAI-compatible HTTP server as a process tree."""
