"""Status pages: `/status`, `/health` and the three of Dockerflow.

Rule: only `/health` and `/__heartbeat__` touch the store; a load balancer may request the others at
any rate.
"""

from collections.abc import Callable
from typing import Final

from autopush import responses
from autopush.net.http_messages import Request, Response
from autopush.store import PushStore
from autopush.version import VERSION

STATUS: Final = {"status": "OK", "version": VERSION}
ABOUT: Final = {
    "source": "autopush",
    "version": VERSION,
    "commit": "",
    "build": "",
}


class Dockerflow:
    """The status pages, the same on every port. `clients` counts this worker's open WebSockets."""

    def __init__(self, store: PushStore, clients: Callable[[], int]) -> None:
        self._store = store
        self._clients = clients

    async def respond(self, request: Request) -> Response | None:
        """The page of that path, None for any other path or method."""
        if request.method not in ("GET", "HEAD"):
            return None
        match request.path:
            case "/status":
                return responses.json(200, STATUS)
            case "/health" | "/__heartbeat__":
                return await self._health()
            case "/__version__":
                return responses.json(200, ABOUT)
            case "/__lbheartbeat__":
                return responses.text(200, "")
        return None

    async def _health(self) -> Response:
        tables = await self._store.health()
        ok = all(state["status"] == "OK" for state in tables.values())
        return responses.json(
            200 if ok else 503,
            {
                "status": "OK" if ok else "NOT OK",
                "version": VERSION,
                "clients": self._clients(),
                **tables,
            },
        )
