"""The report as one HTML file: verdicts side by side, and a page with the play of each."""
