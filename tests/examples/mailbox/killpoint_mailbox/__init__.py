"""A mailbox: one owner takes the letters of several posters, in the order of each."""
