"""The real stage: processes in roles, and a director that gives the orders."""
