"""The numbers that the dashboard shows."""
