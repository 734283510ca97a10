"""Peers of a target besides other targets, each as a black box of the same shape."""
