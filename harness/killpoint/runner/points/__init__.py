"""The role's and the runner's halves of points: lines, pages, stores, calls and times."""
