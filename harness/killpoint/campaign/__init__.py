"""Campaigns: cases played for hours, deeper each round, every finding kept once."""
