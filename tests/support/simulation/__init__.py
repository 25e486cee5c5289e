"""Several workers of one service in one process and in virtual time, with faults from a seed."""
