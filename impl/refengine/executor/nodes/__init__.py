"""One pool on two nodes: the head starts ranks of its own, and has a follower start the others."""
