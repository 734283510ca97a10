"""Places in a role's execution where a fault may be put."""
