"""What clients ask of a server, and how each of their requests ends."""
