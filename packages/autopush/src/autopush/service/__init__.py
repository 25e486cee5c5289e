"""How the service is started, watched and stopped."""

from autopush.service.startup import run

__all__ = ["run"]
