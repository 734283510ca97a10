"""``killpoint bench pipe``: pipes of tensors, by the calls that a target's adapter has."""
