"""The dashboard, over HTTP."""
