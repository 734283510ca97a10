"""``killpoint bench inspect``: how often a look names the process that is to blame."""
