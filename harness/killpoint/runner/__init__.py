"""The runner: it plays a scenario with processes of its own, and keeps the record of it."""
