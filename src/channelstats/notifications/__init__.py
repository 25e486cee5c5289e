"""Web Push notifications that a report is ready."""
