"""Routers for users who are reached through another vendor's service, one module each.

`discovery` says which of them a node has. A router of another distribution needs only these names.
"""

from autopush.routing.router import Router, RouterData, RouterError, RouterResponse

__all__ = ["Router", "RouterData", "RouterError", "RouterResponse"]
