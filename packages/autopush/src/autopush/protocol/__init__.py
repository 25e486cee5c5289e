"""The session of one user agent: its states, its messages and its rules, without any I/O."""
