"""Processes of a play: the zygote that they are forked from, and their kinds."""
