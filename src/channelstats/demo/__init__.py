"""A workspace that nobody works in, to look at."""
