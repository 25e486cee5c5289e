"""How the service is started, watched and stopped."""
