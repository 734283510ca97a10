"""What is put on trial, one folder a system: so far whole servers; the rest is to follow."""
