"""What the documentation reads off the code while it is built."""
