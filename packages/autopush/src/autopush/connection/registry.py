"""Which user agent is on which socket of this worker.

Rule: an entry is removed only by the connection it points to, so that a late close never removes
its successor.
"""

from autopush.connection.user_agent import UserAgentConnection


class Registry:
    """The greeted user agents by UAID, and all open sockets."""

    def __init__(self) -> None:
        self._users: dict[str, UserAgentConnection] = {}
        # The keys of a dict take half the memory of a set.
        self.sockets: dict[UserAgentConnection, None] = {}

    def find(self, uaid: str) -> UserAgentConnection | None:
        """The connection of that user agent."""
        return self._users.get(uaid)

    def claim(self, uaid: str, connection: UserAgentConnection) -> UserAgentConnection | None:
        """Put the connection in this user agent's place; returns the one that stood there."""
        previous = self._users.get(uaid)
        self._users[uaid] = connection
        return previous if previous is not connection else None

    def release(self, connection: UserAgentConnection) -> None:
        """Take the connection out, wherever it still stands."""
        uaid = connection.session.uaid
        if uaid is not None and self._users.get(uaid) is connection:
            del self._users[uaid]
