"""All orders in which the messages of a protocol can come, up to a bound (model tier)."""
