"""Findings: the root causes behind a target's violations, and which violation is whose."""
