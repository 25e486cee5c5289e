"""Makes parts of the documentation from the code while it is built."""
