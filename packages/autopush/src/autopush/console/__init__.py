"""The console: pages for operators at `/console` on the internal port of the first worker."""
