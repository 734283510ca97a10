"""The load on a server: its clients, their requests, and how each request ends."""
