"""What the node logs about sessions, one line for each event.

Rule: no line holds a UAID, a message ID, an endpoint or free text of the user agent, except its
User-Agent and Host headers, shortened.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from autopush.net.client_limits import TOO_MUCH
from autopush.net.frames import CloseCode
from autopush.protocol.effects import DropReason, ReportNack, Unsubscribe
from autopush.protocol.session import Session
from autopush.telemetry import logs
from autopush.telemetry.metric_table import UA_EXPIRATION
from autopush.telemetry.metrics import Metrics
from autopush.telemetry.user_agent_names import MAX_HEADER, UserAgentNames, parse_user_agent
from autopush.webpush.identifiers import message_id_hash

NO_CLOSE_FRAME: Final = 1006
"""RFC 6455, section 7.1.5."""

BY_CLIENT: Final = "closed by the client"
LOST: Final = "connection lost"
NO_PONG: Final = "no pong"
PROTOCOL_ERROR: Final = "protocol error"

_PROTOCOL_ERRORS: Final = frozenset({1002, 1003, 1007, 1008, 1009})
_DROP_CODES: Final = {
    DropReason.ROUTER_TYPE_CHANGED: 102,
    DropReason.INCOMPLETE_RECORD: 104,
    DropReason.NO_MESSAGE_TABLE: 105,
}
"""The codes of the original, where it has one."""

CLIENTS_KEPT: Final = 2048
MAX_HOST: Final = 255

_log: Final = logs.get(__name__)


class Client:
    """`user_agent`, `host`: these headers. `account`: the identity of the account that the upgrade
    named, "" for none.
    `kind`: `Session.kind` of a Web Push session.
    """

    __slots__ = ("account", "host", "kind", "names", "user_agent")

    def __init__(self, names: UserAgentNames, user_agent: str, host: str, account: str) -> None:
        self.names = names
        self.user_agent = user_agent
        self.host = host
        self.account = account
        self.kind = (names.metric_os, names.metric_browser, "True")


class Clients:
    """Connections with the same headers and account share one object."""

    def __init__(self) -> None:
        self._find = lru_cache(CLIENTS_KEPT)(self._new)

    def find(self, user_agent: str, host: str, account: str = "") -> Client:
        """A header that was not sent is "" here."""
        return self._find(user_agent[:MAX_HEADER], host[:MAX_HOST], account)

    def _new(self, user_agent: str, host: str, account: str) -> Client:
        return Client(parse_user_agent(user_agent), user_agent, host, account)


class SessionLog:
    """`uaid_hash`: what is logged in place of a UAID."""

    def __init__(self, uaid_hash: Callable[[str], str], metrics: Metrics) -> None:
        self._hash = uaid_hash
        self._drops = {
            reason: metrics.counter(UA_EXPIRATION, reason=reason.value) for reason in DropReason
        }

    def registered(self, uaid: str, channel_id: str) -> None:
        self._write("Register", uaid, {"channel_id": channel_id})

    def unregistered(self, uaid: str, request: Unsubscribe) -> None:
        fields: dict[str, object] = {"channel_id": request.channel_id}
        if request.code is not None:
            fields["code"] = request.code
        self._write("Unregister", uaid, fields)

    def nacked(self, uaid: str, nack: ReportNack) -> None:
        fields: dict[str, object] = {"message_id_hash": message_id_hash(nack.version)}
        if nack.channel_id is not None:
            fields["channel_id"] = nack.channel_id
        if nack.code is not None:
            fields["code"] = nack.code
        self._write("Nack", uaid, fields)

    def dropped(self, uaid: str, reason: DropReason) -> None:
        """Log and count a deleted user."""
        self._drops[reason].add()
        fields = {"code": _DROP_CODES[reason]} if reason in _DROP_CODES else {}
        self._write("Dropping User", uaid, {"reason": reason.value, **fields})

    def ended(
        self,
        session: Session,
        client: Client,
        *,
        seconds: float,
        direct_storage: int,
        reason: str,
        code: int,
    ) -> None:
        """For connections past their hello. `code`: of the close frame, 1006 if there was none."""

        def fields() -> dict[str, object]:
            names, counts = client.names, session.counts
            return {
                "uaid_hash": self._hash(session.uaid or ""),
                "uaid_reset": session.is_reset,
                "existing_uaid": bool(session.is_existing),
                "connection_type": "webpush" if session.simplepush is None else "simplepush",
                "host": client.host,
                "ua_name": names.name,
                "ua_category": names.category,
                "ua_os_family": names.os_family,
                "ua_os_ver": names.os_version,
                "ua_browser_family": names.browser_family,
                "ua_browser_ver": names.browser_version,
                "connection_time": round(seconds, 3),
                "direct_acked": counts.direct_acked,
                "direct_storage": direct_storage,
                "stored_retrieved": counts.stored_retrieved,
                "stored_acked": counts.stored_acked,
                "nacks": counts.nacks,
                "registers": counts.registers,
                "unregisters": counts.unregisters,
                "disconnect_reason": reason,
                "close_code": code,
            }

        _log.info_with("Session", fields)

    def _write(self, event: str, uaid: str, fields: Mapping[str, object]) -> None:
        _log.info_with(event, lambda: {"uaid_hash": self._hash(uaid), **fields})


def reason_of_client(code: int) -> str:
    """Why a connection ended, if its session did not end it; the client's text is not logged."""
    if code == NO_CLOSE_FRAME:
        return LOST
    if code == CloseCode.TRY_AGAIN_LATER:
        return TOO_MUCH
    return PROTOCOL_ERROR if code in _PROTOCOL_ERRORS else BY_CLIENT
