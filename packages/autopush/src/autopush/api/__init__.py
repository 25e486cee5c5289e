"""What HTTP callers see: application servers, browsers, operators and other nodes."""
