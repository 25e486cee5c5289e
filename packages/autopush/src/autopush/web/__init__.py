"""The HTTP API for application servers, and the start page."""
