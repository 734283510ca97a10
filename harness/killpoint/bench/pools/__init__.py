"""``killpoint bench pool``: worker pools, by the calls that a target's adapter has."""
