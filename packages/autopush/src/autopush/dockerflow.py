"""Status pages: `/status`, `/health` and the three that Dockerflow asks for.

Rule: only `/health` and `/__heartbeat__` touch the store; a load balancer may ask for the others as
often as it likes.
"""

from collections.abc import Callable
from typing import Final

from autopush import answers
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
    """The status pages, the same on every port. `clients` counts the sockets of this worker."""

    def __init__(self, store: PushStore, clients: Callable[[], int]) -> None:
        self._store = store
        self._clients = clients

    async def answer(self, request: Request) -> Response | None:
        """The page of that path, None when it is none of these."""
        if request.method not in ("GET", "HEAD"):
            return None
        match request.path:
            case "/status":
                return answers.json(200, STATUS)
            case "/health" | "/__heartbeat__":
                return await self._health()
            case "/__version__":
                return answers.json(200, ABOUT)
            case "/__lbheartbeat__":
                return answers.text(200, "")
        return None

    async def _health(self) -> Response:
        tables = await self._store.health()
        ok = all(state["status"] == "OK" for state in tables.values())
        return answers.json(
            200 if ok else 503,
            {
                "status": "OK" if ok else "NOT OK",
                "version": VERSION,
                "clients": self._clients(),
                **tables,
            },
        )
