"""Networks of a play: relays, network namespaces, rendezvous, and attackers."""
