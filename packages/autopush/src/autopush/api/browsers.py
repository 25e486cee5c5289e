"""Requests of web pages: a browser sends them from inside, on behalf of whoever wrote the page.

a foreign page asks the public ports    `Origin` names it: it is no trusted proxy
a foreign name leads to an inside port  `Host` has it (DNS rebinding): it gets no page
"""

from collections.abc import Coroutine, Iterable
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final

from autopush.api import responses
from autopush.hosts import origin_of
from autopush.net.http_messages import Answer, Handler, Request

MAX_ORIGIN: Final = 300
MAX_HOSTS: Final = 64
LOCAL_DOMAINS: Final = (".local", ".localhost", ".internal", ".home.arpa", ".svc")
"""Nobody can register a name in one of them."""
FOREIGN_NAME: Final = (
    "This port answers to addresses, to local names, and to the names of the options hostname and "
    "router_hostname.\n"
)


class OwnOrigins:
    """The origins of these URLs, whatever their schemes."""

    def __init__(self, *urls: str) -> None:
        self._hosts = frozenset(map(_host_and_port, urls))

    def is_foreign(self, request: Request) -> bool:
        """Whether a page of another origin has sent it."""
        origin = request.headers.get("origin")
        return origin is not None and _host_and_port(origin) not in self._hosts


def _host_and_port(url: str) -> str:
    if len(url) > MAX_ORIGIN or not url.isascii():
        return ""
    try:
        return origin_of(url).partition("://")[2]
    except ValueError:  # such as `null`
        return ""


def for_own_names(names: Iterable[str], handler: Handler) -> Handler:
    """Refuses requests for other hosts. `names`: of this machine; addresses and local names are
    always its own.
    """
    own = frozenset(name.lower().rstrip(".") for name in names)

    @lru_cache(MAX_HOSTS)
    def is_own(host: str) -> bool:
        name = host.strip().lower().partition(":")[0].rstrip(".")
        if host.startswith("[") or "." not in name or name in own:
            return True
        if name.endswith(LOCAL_DOMAINS):
            return True
        try:
            return bool(ip_address(name))
        except ValueError:
            return False

    def respond(request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        if is_own(request.headers.get("host", "")):
            return handler(request)
        return responses.text(421, FOREIGN_NAME)

    return respond
