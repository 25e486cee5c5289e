"""The same worker in the versions before and after this one, while an upgrade is under way.

They share the node ID, so each answers for the user agents of all: it asks the others for those
that it has not itself. As connections and answers come in one order, a user agent that moves is
found by the one that asks, or by the one that is asked.
"""

from typing import Final

from autopush.net.http_messages import Request, Response
from autopush.net.siblings import (
    PREDECESSOR,
    SUCCESSOR,
    SiblingError,
    SiblingNotStarted,
    SiblingRestarted,
    Siblings,
)

OLDER: Final = "older"
NEWER: Final = "newer"
"""The ports on which the worker in that version is asked; it asks on in the same direction."""

_PORTS: Final = {PREDECESSOR: OLDER, SUCCESSOR: NEWER}
_UNRESPONSIVE: Final = Response(500)
_ABSENT: Final = 404


class OtherVersions:
    """`directions`: which of the two are asked."""

    def __init__(
        self, siblings: Siblings | None, directions: tuple[int, ...] = (PREDECESSOR, SUCCESSOR)
    ) -> None:
        self._siblings = siblings
        self._directions = directions

    @property
    def exist(self) -> bool:
        """Whether there are any at the moment."""
        siblings = self._siblings
        return siblings is not None and any(map(siblings.has_started, self._directions))

    async def ask(self, method: str, path: str, body: bytes = b"") -> Response | None:
        """The answer to a call of a node (`NodeApi`); None if no other version has the user agent.
        500 from one that does not answer, and may have it.
        """
        siblings = self._siblings
        for index in self._directions:
            if siblings is None or not siblings.has_started(index):
                continue
            request = Request(method, path, "", {}, "", body=body)
            try:
                response = await siblings.call(index, _PORTS[index], request)
            except (SiblingRestarted, SiblingNotStarted):
                continue  # it has no user agents any more
            except SiblingError:
                return _UNRESPONSIVE
            if response.status != _ABSENT:
                return response
        return None
