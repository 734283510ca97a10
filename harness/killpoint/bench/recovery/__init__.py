"""``killpoint bench recovery``: what faults do to whole servers, measured side by side."""
