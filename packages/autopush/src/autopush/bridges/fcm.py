"""FCM, Firebase Cloud Messaging: the HTTP v1 API, for applications on Android.

Each application of `fcm_creds` has a Firebase project and a service account. The page Bridges lists
the outcome of each reply, whose code is `errorCode` in `error.details`, else `error.status`.

Rule: a user is dropped only by an error in FCM's own format that says the device is gone: not by a
404 page of another server, nor by SENDER_ID_MISMATCH, which a wrong project causes for every user.
A message is sent again only if FCM has certainly not processed it: the device would get it twice.

Source: firebase.google.com/docs/reference/fcm/rest/v1 (projects.messages.send, ErrorCode).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import orjson
from google.auth import jwt
from google.oauth2.service_account import Credentials
from msgspec import Struct

from autopush.bridges.gcm import create_legacy_fcm, sender_id
from autopush.bridges.oauth import Grant, TokenCache
from autopush.bridges.payload import bridge_ttl, check_token, device_token, limited_data
from autopush.bridges.provider import Provider, Reply, overloaded, refused, retry_headers
from autopush.clock import Clock
from autopush.delivery.bridge_contract import Router, RouterData, RouterError, RouterResponse
from autopush.net.http2_client import Http2Client
from autopush.net.http_client import ClientLimits, client_tls
from autopush.settings import Settings, StartupError
from autopush.settings.value_types import shown_path
from autopush.shown import shown
from autopush.store.users import UserRecord
from autopush.telemetry import logs
from autopush.webpush.errors import Errno
from autopush.webpush.notification import Notification
from keytables import Value

SCOPE: Final = "https://www.googleapis.com/auth/firebase.messaging"
MAX_DATA: Final = 4096
"""Bytes of the JSON of `data`."""
MAX_CONNECTIONS: Final = 10
"""Of all applications; one is added only when all are at FCM's limit of about 100 messages."""
MAX_RETRY: Final = 1
GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ASSERTION_LIFETIME: Final = 3600
"""Seconds; the longest that Google accepts."""

_PRIORITIES: Final = {"very-low": "NORMAL", "low": "NORMAL", "high": "HIGH"}
_KNOWN: Final = frozenset(
    {
        "INTERNAL",
        "INVALID_ARGUMENT",
        "PERMISSION_DENIED",
        "SENDER_ID_MISMATCH",
        "THIRD_PARTY_AUTH_ERROR",
        "UNAUTHENTICATED",
    }
)
"""Reasons logged verbatim; any other text could contain anything."""
_log = logs.get(__name__)


class ServiceAccount:
    """Gets access tokens for one scope. `members`: of the account's key file.

    :raises ValueError: the members are not those of a service account; the text holds no secret
    """

    def __init__(
        self, members: Mapping[str, object], scope: str, provider: Provider, clock: Clock
    ) -> None:
        try:
            credentials = Credentials.from_service_account_info(members)  # type: ignore[no-untyped-call]
            credentials.signer.sign(b"")  # only RSA keys can
        except (ValueError, TypeError, AttributeError):  # whose text may quote the key
            raise ValueError("not the key of a service account") from None
        self._token_url = str(members["token_uri"])
        if not self._token_url.startswith(("https://", "http://")):
            raise ValueError("its token_uri is not a URL")
        self._signer = credentials.signer
        self._email: str = credentials.service_account_email
        self._scope = scope
        self._provider = provider
        self._clock = clock

    async def fetch(self) -> Grant:
        """:raises RouterError: no access token was issued"""
        now = int(self._clock())
        claims = {
            "iss": self._email,
            "scope": self._scope,
            "aud": self._token_url,
            "iat": now,
            "exp": now + ASSERTION_LIFETIME,
        }
        # An RSA signature costs about a millisecond.
        assertion: bytes = await asyncio.to_thread(jwt.encode, self._signer, claims)
        form = {"grant_type": GRANT_TYPE, "assertion": assertion.decode()}
        reply = await self._provider.post(self._token_url, headers={}, form=form, idempotent=True)
        return self._read(reply)

    def _read(self, reply: Reply) -> Grant:
        if reply.status in (429, 503):
            raise overloaded(reply, self._clock())
        if 400 <= reply.status < 500:
            raise refused()
        text, seconds = reply.document.get("access_token"), reply.document.get("expires_in")
        if isinstance(seconds, str) and seconds.isascii() and seconds.isdecimal():
            seconds = int(seconds[:9])
        is_token = isinstance(text, str) and text.isascii() and text.isprintable()
        if reply.status != 200 or not is_token or not text or not isinstance(seconds, int):
            raise RouterError(
                Errno.BRIDGE_UNREACHABLE, "The bridge gave no access token", is_outage=True
            )
        return Grant(str(text), seconds)


def read_key(key: object) -> Mapping[str, object]:
    """The members of a key. `key`: the path of its file, its JSON text, or the object.

    :raises ValueError: what is wrong; the text quotes nothing of the key
    """
    if isinstance(key, Mapping):
        return key
    if not isinstance(key, str) or not key.strip():
        raise ValueError("no key file is named")
    is_json = key.lstrip().startswith("{")
    path = "" if is_json else shown_path(key)
    try:
        document = orjson.loads(key if is_json else Path(key).expanduser().read_bytes())
    except OSError as error:
        raise ValueError(f"its key file{path} cannot be read: {error.strerror}") from None
    except ValueError:  # from JSON, or from a path with a NUL
        raise ValueError(f"its key{path} is not JSON") from None
    if not isinstance(document, dict):
        raise ValueError(f"its key{path} is not a JSON object")  # noqa: TRY004 - one error for callers
    if "project_info" in document and "client" in document:
        raise ValueError(
            f"its key{path} is a google-services.json, which is a part of the app; needed is the "
            "key of a service account (Firebase console, Project settings, Service accounts)"
        )
    return document


class FcmApplication(Struct, frozen=True):
    url: str
    tokens: TokenCache


@dataclass(eq=False)
class FcmRouter(Router):
    """`shortest_ttl`: seconds; `priority`: HIGH or NORMAL, for messages of normal urgency;
    `dry_run`: FCM checks messages without delivering them.
    """

    applications: Mapping[str, FcmApplication]
    messages: Provider
    oauth: Provider
    clock: Clock
    _: KW_ONLY
    shortest_ttl: int
    priority: str
    dry_run: bool

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:  # noqa: ARG002
        """:raises RouterError: 401/109 or 400/108, the token; 410/105, the application"""
        check_token(router_data)
        if app_id not in self.applications:
            raise RouterError(Errno.ENDPOINT_UNAVAILABLE, f"Invalid SenderID: {shown(app_id)}")
        router_data["app_id"] = app_id

    def amend_endpoint_response(self, response: dict[str, object], router_data: RouterData) -> None:
        response["senderid"] = self.application(router_data)

    def application(self, router_data: RouterData) -> str:
        """`app_id`, or `creds.senderID` in records of 1.33."""
        app_id = router_data.get("app_id")
        if app_id is None:
            return sender_id(router_data)
        return app_id if isinstance(app_id, str) else ""

    async def route_notification(
        self, notification: Notification, record: UserRecord
    ) -> RouterResponse:
        """:raises RouterError: refused by FCM (table above), too large, or an incomplete record"""
        token = device_token(record)
        app_id = self.application(record.router_data or {})
        application = self.applications.get(app_id)
        if application is None:
            raise RouterError(
                Errno.INVALID_SUBSCRIPTION,
                "The application of this device is not configured here",
                status=400,
            )
        data = limited_data(notification, MAX_DATA)
        ttl = bridge_ttl(notification, self.shortest_ttl)
        priority = _PRIORITIES.get(notification.urgency, self.priority)
        android = {"ttl": f"{ttl}s", "priority": priority, "data": data}
        message: dict[str, object] = {"message": {"token": token, "android": android}}
        if self.dry_run:
            message["validate_only"] = True
        reply = await self._send(app_id, application, orjson.dumps(message))
        if reply.status == 200 and isinstance(reply.document.get("name"), str):
            return RouterResponse(headers=(("TTL", str(ttl)),))
        raise self._refusal(app_id, reply)

    async def _send(self, app_id: str, application: FcmApplication, body: bytes) -> Reply:
        async def send(token: str) -> Reply:
            headers = {"authorization": f"Bearer {token}"}
            return await self.messages.post(
                application.url, headers=headers, json=body, application=app_id
            )

        def is_refused(reply: Reply) -> bool:
            return reply.status == 401 and _reason(reply) != "THIRD_PARTY_AUTH_ERROR"

        return await application.tokens.use(send, is_refused)

    def _refusal(self, app_id: str, reply: Reply) -> RouterError:
        reason, status = _reason(reply), reply.status
        if (
            reason in ("UNREGISTERED", "NOT_FOUND")
            or (status == 404 and reason)
            or (reason == "INVALID_ARGUMENT" and _is_about_token(reply))
        ):
            return RouterError.unregistered()
        if status in (429, 503) or reason in ("QUOTA_EXCEEDED", "UNAVAILABLE"):
            return overloaded(reply, self.clock())
        _log.warning(
            "FCM did not take a message",
            application=app_id,
            status=status,
            reason=reason if reason in _KNOWN else "unknown",
        )
        if status in (401, 403):
            # These two concern one device and must not stop messages to others.
            return refused(is_outage=reason not in ("SENDER_ID_MISMATCH", "THIRD_PARTY_AUTH_ERROR"))
        if 400 <= status < 500 and reason:
            return RouterError(Errno.UNKNOWN, "The bridge did not take the message", status=502)
        return RouterError(
            Errno.BRIDGE_UNREACHABLE,
            "The bridge of this device does not work",
            headers=retry_headers(reply.headers, self.clock()),
            is_outage=True,
        )

    async def try_credentials(self) -> Sequence[str]:
        for application in self.applications.values():
            await application.tokens.get()
        return tuple(self.applications)

    async def close(self) -> None:
        for application in self.applications.values():
            await application.tokens.close()
        await self.oauth.close()
        await self.messages.close()


def create(settings: Settings, clock: Clock) -> Router:
    """For the configured API: HTTP v1, or the legacy one.

    :raises StartupError: an application's credentials are wrong
    """
    has_server_key = settings.fcm_auth or settings.fcm_senderid
    if settings.fcm_version == 0 or (has_server_key and not settings.fcm_creds):
        return create_legacy_fcm(settings, clock)
    if not settings.fcm_creds:
        raise StartupError("fcm_creds: HTTP v1, the API of fcm_version 1, needs a service account")
    if not settings.fcm_endpoint.startswith("https://"):
        raise StartupError("fcm_endpoint: HTTP v1 needs a URL that starts with https://")
    limits = ClientLimits(max_connections=MAX_CONNECTIONS, max_retry=MAX_RETRY)
    messages = Provider(
        "FCM", client=Http2Client(settings.fcm_endpoint, client_tls(http2=True), limits)
    )
    oauth = Provider(max_connections=4)
    applications = {}
    for app_id, members in settings.fcm_creds.items():
        try:
            key = read_key(members.get("auth") or members.get("credential"))
            project = members.get("projectid") or members.get("project_id") or key.get("project_id")
            if not isinstance(project, str) or not project:
                raise ValueError("no projectid is named")
            account = ServiceAccount(key, SCOPE, oauth, clock)
        except ValueError as error:
            raise StartupError(f"fcm_creds: {app_id}: {error}") from None
        url = f"{settings.fcm_endpoint}/v1/projects/{quote(project, safe='')}/messages:send"
        applications[app_id] = FcmApplication(url, TokenCache(project, account.fetch, clock))
    return FcmRouter(
        applications,
        messages,
        oauth,
        clock,
        shortest_ttl=settings.fcm_ttl,
        priority=settings.fcm_priority.upper(),
        dry_run=settings.fcm_dryrun,
    )


def _error(reply: Reply) -> Mapping[str, object]:
    error = reply.document.get("error")
    return error if isinstance(error, dict) else {}


def _details(reply: Reply) -> list[Mapping[str, object]]:
    details = _error(reply).get("details")
    return [each for each in details if isinstance(each, dict)] if isinstance(details, list) else []


def _reason(reply: Reply) -> str:
    """FCM's code, else that of all Google APIs; empty if the reply has neither."""
    codes = [each.get("errorCode") for each in _details(reply)]
    for code in (*codes, _error(reply).get("status")):
        if isinstance(code, str) and code:
            return code
    return ""


def _is_about_token(reply: Reply) -> bool:
    """Whether the invalid argument is the device token. FCM names the field or describes it."""
    violations = [each.get("fieldViolations") for each in _details(reply)]
    fields = [
        field.get("field")
        for listed in violations
        if isinstance(listed, list)
        for field in listed
        if isinstance(field, dict)
    ]
    if fields:
        return "message.token" in fields
    message = _error(reply).get("message")
    return isinstance(message, str) and "registration token" in message
