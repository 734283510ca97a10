"""A change under review: a working tree judged against a revision of it."""
