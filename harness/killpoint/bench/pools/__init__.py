"""What ``killpoint bench pool`` measures: worker pools, by the calls that a target's adapter has."""
