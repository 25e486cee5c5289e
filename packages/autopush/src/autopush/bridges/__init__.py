"""Routers for users who are reached through another vendor's service, one module each.

`discovery` says which of them a node has, `payload` and `provider` hold what they share. A router
of another distribution needs only these names.
"""

from autopush.delivery.bridge_contract import Router, RouterData, RouterError, RouterResponse
from autopush.settings import StartupError
from autopush.store.users import UserRecord
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

__all__ = [
    "Errno",
    "Notification",
    "Router",
    "RouterData",
    "RouterError",
    "RouterResponse",
    "StartupError",
    "UserRecord",
    "Value",
]
