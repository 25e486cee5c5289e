"""The registration API, for user agents that have no WebSocket: devices behind a bridge.

    POST   /v1/{type}/{app_id}/registration                             a new user, one subscription
    PUT    /v1/{type}/{app_id}/registration/{uaid}                      a new device token
    GET    /v1/{type}/{app_id}/registration/{uaid}                      its subscriptions
    DELETE /v1/{type}/{app_id}/registration/{uaid}                      the user, with all of them
    POST   /v1/{type}/{app_id}/registration/{uaid}/subscription         adds a subscription
    DELETE /v1/{type}/{app_id}/registration/{uaid}/subscription/{chid}  removes it

Anyone may register users, unless accounts are required; rate limits apply to new users per address
and to changes per user.

Rule: the secret is checked before anything that depends on whether the UAID exists, and nothing of
a request is stored before the router has accepted it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import orjson
from msgspec import Struct

from autopush.admission import AccountLimits, account_of
from autopush.api import responses
from autopush.api.browsers import OwnOrigins
from autopush.delivery.bridge_contract import Router, RouterData, RouterError
from autopush.delivery.bridged import report_defects
from autopush.delivery.peers import Nodes
from autopush.delivery.placement import Placement
from autopush.limits import LimitRefusals, TokenBuckets
from autopush.net.client_limits import TrustedProxies
from autopush.net.http_messages import Request, Response
from autopush.protocol.effects import NORMAL_CLOSURE, REPLACED
from autopush.protocol.session import SessionSettings
from autopush.shown import shown
from autopush.store import PushStore, UserRecord
from autopush.store.messages import Messages
from autopush.store.rotation import table_of_bridged_user
from autopush.store.users import WEBPUSH
from autopush.telemetry.metric_table import DROP_USER, UA_CONNECTION_CHECK
from autopush.telemetry.metrics import Metrics
from autopush.telemetry.user_agent_names import parse_user_agent
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.identifiers import canonical_uaid, canonical_uuid, dashed, new_uaid
from autopush.webpush.tokens import CHALLENGE, EndpointTokens, RegistrationSecrets, decode_key
from keytables import KeytablesError, SchemaError, TableNotFound, Value

MAX_BODY: Final = 16 * 1024
"""Bytes of a request body, and of the stored router data as JSON."""

_LATEST: Final = 2**62
"""Milliseconds: whatever connection there is, it is older."""
_NO_ROUTER_DATA: Final = frozenset({"app_id", "channelID", "creds", "key", "rel_channel"})
"""Members that are not router data, or that only the router may set."""
MAX_CHANNELS: Final = SessionSettings().max_channels

METHODS: Final = ("POST", "GET, POST, PUT, DELETE", "POST", "DELETE")
"""Allowed methods by the number of path segments after `registration`."""


class RegistrationBody:
    """A request body: empty, or a JSON object whose members are all optional.

    channelID  a UUID, in any spelling
    key        the application server's public key, base64url, which the endpoint is restricted to
    any other  router data: what the router needs to reach the user, such as its token

    :raises PushError: 400/108, not a JSON object; 413/104
    """

    def __init__(self, body: bytes) -> None:
        if len(body) > MAX_BODY:
            raise too_large(len(body))
        try:
            members = orjson.loads(body) if body else {}
        except orjson.JSONDecodeError:
            members = None
        if not isinstance(members, dict):
            got = "no JSON" if members is None and body != b"null" else shown(members)
            raise PushError.invalid(
                Errno.INVALID_ROUTER_TYPE, f"the body: expected a JSON object, got {got}"
            )
        self._members: Mapping[str, Value] = members

    def router_data(self) -> dict[str, Value]:
        return {name: self._members[name] for name in self._members.keys() - _NO_ROUTER_DATA}

    def channel_id(self) -> str:
        """Dashed; a new one if the body has none.

        :raises PushError: 400/108, not a UUID
        """
        given = self._members.get("channelID")
        if given is None:
            return dashed(new_uaid())
        channel_id = canonical_uuid(given)
        if channel_id is None:
            got = shown(given, is_public=True)
            raise invalid_member("channelID", f"expected a UUID, got {got}")
        return channel_id

    def key(self) -> bytes | None:
        """:raises PushError: 400/108, not base64url"""
        try:
            return decode_key(self._members.get("key"))
        except ValueError as error:
            raise invalid_member("key", str(error).removeprefix("key: ")) from None


class RegisteredUser(Struct, frozen=True):
    """An authenticated user. `router`: None for the type `webpush`."""

    record: UserRecord
    router: Router | None
    messages: Messages


@dataclass(eq=False, kw_only=True)
class RegistrationHandler:
    """`routers`: by router type. Users of type `webpush` need none: they connect later.
    `accounts`: None registers users without one.
    """

    routers: Mapping[str, Router]
    store: PushStore
    nodes: Nodes
    placement: Placement
    tokens: EndpointTokens
    secrets: RegistrationSecrets
    metrics: Metrics
    proxies: TrustedProxies
    new_user_agents: TokenBuckets
    refusals: LimitRefusals
    accounts: AccountLimits | None = None

    def __post_init__(self) -> None:
        self._origins = OwnOrigins(self.tokens.endpoint_url)
        self.changes = TokenBuckets()
        self._dropped = self.metrics.counter(DROP_USER, errno="101")
        self._checks = self.metrics.counters(UA_CONNECTION_CHECK)

    async def __call__(
        self, request: Request, router_type: str, app_id: str, rest: Sequence[str]
    ) -> Response:
        """`rest`: the path segments after `registration`.

        :raises PushError: the request is refused
        """
        parts = rest[:-1] if len(rest) > 1 and not rest[-1] else rest
        if len(parts) >= len(METHODS) or not all(parts) or parts[1:2] not in ([], ["subscription"]):
            raise responses.not_found()
        if request.method not in METHODS[len(parts)].split(", "):
            raise responses.method_not_allowed(METHODS[len(parts)])
        if router_type != WEBPUSH and router_type not in self.routers:
            known = ", ".join((WEBPUSH, *self.routers))
            raise PushError(
                Errno.INVALID_ROUTER_TYPE,
                f"Invalid router: expected one of {known}, got {shown(router_type)}",
            )
        router = None if router_type == WEBPUSH else self.routers[router_type]
        try:
            if not parts:
                return await self._register(request, router_type, router, app_id)
            user = await self._authorized(request, router_type, router, app_id, parts)
            match request.method, *parts[1:]:
                case ("GET",):
                    names = parse_user_agent(request.headers.get("user-agent", ""))
                    self._checks[names.metric_os, names.metric_browser].add()
                    return await self._list(user)
                case ("DELETE",):
                    return await self._drop(user)
                case ("PUT" | "POST",):
                    return await self._update(user, app_id, request)
                case "POST", _:
                    return await self._subscribe(user, request)
                case _, _, text:
                    if (channel_id := canonical_uuid(text)) is None:
                        got = shown(text, is_public=True)
                        raise PushError(
                            Errno.INVALID_ENDPOINT,
                            f"Invalid Path: expected the channel ID, a UUID, got {got}",
                        )
                    return await self._unsubscribe(user, channel_id)
            raise responses.not_found()
        except KeytablesError as error:
            if isinstance(error, TableNotFound):  # so that the next request looks for another
                with suppress(KeytablesError):
                    await self.store.is_gone(error.table)
            raise responses.storage_refusal(error) from error

    def _admit_user(self, request: Request) -> None:
        is_foreign = self._origins.is_foreign(request)
        key = (self.proxies.page_key if is_foreign else self.proxies.limit_key)(
            request.client_address
        )
        if wait := self.new_user_agents.wait_for_token(key):
            raise self._too_many(request, "new_user_agents", "new user agents of one address", wait)

    def _admit_change(self, request: Request, uaid: str) -> None:
        if wait := self.changes.wait_for_token(uaid):
            raise self._too_many(request, "registration_rate", "changes of this user", wait)

    def _too_many(self, request: Request, limit: str, what: str, wait: float) -> PushError:
        self.refusals.add(limit, request.client_address)
        return PushError(Errno.RATE_EXCEEDED, f"Too many {what}", retry_after=wait)

    # ── users ────────────────────────────────────────────────────────────────────────────────────

    async def _register(
        self, request: Request, router_type: str, router: Router | None, app_id: str
    ) -> Response:
        account = ""
        if self.accounts is not None:
            account = account_of(request)
            self.accounts.admit(account, request.client_address)
        body = RegistrationBody(request.body)
        channel_id, key = body.channel_id(), body.key()
        uaid = self.placement.new_uaid()
        router_data = _accepted(router, uaid, body.router_data(), app_id)
        self._admit_user(request)
        reply: dict[str, object] = {
            "uaid": uaid,
            "uuid": uaid,
            "channelID": channel_id,
            "endpoint": self.tokens.url(uaid, channel_id, key),
            "secret": self.secrets.secret(uaid),
        }
        if router is not None:
            with report_defects(router):
                router.amend_endpoint_response(reply, router_data)
        messages = self.store.current
        await _stored(
            self.store.users.register(uaid, router_type, router_data, messages.name, account)
        )
        await messages.add_channel(uaid, channel_id)
        return responses.json(200, reply)

    async def _authorized(
        self,
        request: Request,
        router_type: str,
        router: Router | None,
        app_id: str,
        parts: Sequence[str],
    ) -> RegisteredUser:
        """:raises PushError: 401/109; 429/203, too many changes; 410/103, no such user;
        401/123 or 403/123, it is of no account, or of one that was revoked;
        400/108, the user has another type; 308, another application
        """
        uaid = canonical_uaid(parts[0])
        if uaid is None:  # applications take only 410 for a lost registration
            raise _gone()
        self.secrets.check(request.headers.get("authorization"), uaid)
        if request.method != "GET":
            self._admit_change(request, uaid)
        record = await self.store.users.get(uaid)
        if record is None:
            raise _gone()
        if self.accounts is not None:
            self.accounts.admit(record.account, request.client_address)
        if record.router_type != router_type:
            raise PushError(
                Errno.INVALID_ROUTER_TYPE,
                f"Wrong URL for user: registered as {record.router_type}, not {router_type}",
            )
        if router is None:
            messages = await self.store.table(record.current_month)  # it is moved when it connects
        else:
            with report_defects(router):
                application = router.application(record.router_data or {})
            if application not in ("", app_id):
                raise self._moved(router_type, application, parts)
            messages = await table_of_bridged_user(self.store, record)
        if messages is None:
            raise _gone()
        if record.current_month != messages.name:
            record = await self.store.users.get(uaid) or record
        return RegisteredUser(record, router, messages)

    def _moved(self, router_type: str, application: str, parts: Sequence[str]) -> PushError:
        """308 to the user's application. After 301 many clients send GET, or PUT without a body."""
        path = "/".join(quote(part, safe="") for part in (router_type, application))
        rest = "/".join(quote(part, safe="") for part in parts)
        location = f"{self.tokens.endpoint_url}/v1/{path}/registration/{rest}"
        return PushError(
            Errno.INVALID_ROUTER_TYPE,
            f"The user is registered for the application {shown(application)}, see Location",
            status=308,
            headers=(("Location", location),),
        )

    async def _update(self, user: RegisteredUser, app_id: str, request: Request) -> Response:
        body = RegistrationBody(request.body)
        if user.router is not None:
            record, given = user.record, body.router_data()
            if given.get("token") is None:  # it may be lost in transit: never a success
                got = "got null" if "token" in given else "it is missing"
                raise invalid_member("token", f"expected the token of the device, {got}")
            merged = {**(record.router_data or {}), **given}
            router_data = _accepted(user.router, record.uaid, merged, app_id)
            await _stored(self.store.users.update_registration(record, router_data))
        return responses.json(200, {})

    async def _drop(self, user: RegisteredUser) -> Response:
        if not await self.store.drop_user(user.record):
            raise _changed()
        self._dropped.add()
        await self._end_session(user)
        return responses.json(200, {})

    async def _end_session(self, user: RegisteredUser) -> None:
        """Disconnect the user's WebSocket, whose session does not know of the change."""
        record = user.record
        node_id = self.placement.node_of(record)
        if user.router is not None or node_id is None:
            return
        connected = self.nodes.here.registry.find(record.uaid)
        if connected is not None:
            connected.disconnect(NORMAL_CLOSURE, REPLACED)
        # The owner may have a connection that is newer than the record.
        is_exact = node_id != self.placement.owner_node(record.uaid)
        connected_at = record.connected_at if is_exact else _LATEST
        await self.nodes.end_duplicate(node_id, record.uaid, connected_at, or_older=not is_exact)

    # ── subscriptions ────────────────────────────────────────────────────────────────────────────

    async def _list(self, user: RegisteredUser) -> Response:
        uaid = user.record.uaid
        channels = sorted(await user.messages.channels(uaid))
        return responses.json(200, {"uaid": uaid, "uid": uaid, "channelIDs": channels})

    async def _subscribe(self, user: RegisteredUser, request: Request) -> Response:
        body = RegistrationBody(request.body)
        channel_id, key = body.channel_id(), body.key()
        uaid = user.record.uaid
        channels = await user.messages.channels(uaid)
        if len(channels) >= MAX_CHANNELS and channel_id not in channels:
            raise invalid_member("channelID", f"the user has {MAX_CHANNELS} subscriptions already")
        if user.router is not None:  # first: a user without subscriptions may be dropped
            await _stored(self.store.users.refresh_registration(user.record))
        await self._in_its_table(user, lambda table: table.add_channel(uaid, channel_id))
        await self._end_session(user)
        endpoint = self.tokens.url(uaid, channel_id, key)
        return responses.json(200, {"uaid": uaid, "channelID": channel_id, "endpoint": endpoint})

    async def _unsubscribe(self, user: RegisteredUser, channel_id: str) -> Response:
        uaid = user.record.uaid
        removed = await self._in_its_table(user, lambda t: t.remove_channel(uaid, channel_id))
        if not removed:
            raise PushError(Errno.INVALID_SUBSCRIPTION, "Invalid endpoint.")
        await self._end_session(user)
        return responses.json(200, {})

    async def _in_its_table(
        self, user: RegisteredUser, write: Callable[[Messages], Awaitable[object]]
    ) -> object:
        """Write to the user's message table, and to one the user is moved to meanwhile."""
        result = await write(user.messages)
        record = await self.store.users.get(user.record.uaid)
        if record is None:
            raise _gone()
        if record.current_month != user.messages.name:
            table = await self.store.table(record.current_month)
            if table is not None and table is not user.messages:
                # The subscriptions may have been copied before the first write.
                result = await write(table) or result
        return result


# ── refusals ─────────────────────────────────────────────────────────────────────────────────────


def _accepted(
    router: Router | None, uaid: str, router_data: dict[str, Value], app_id: str
) -> RouterData:
    """The router data to store.

    :raises PushError: the router's refusal; 413/104
    """
    if router is None:
        return {}
    try:
        with report_defects(router):
            router.register(uaid, router_data, app_id)
    except RouterError as error:
        if error.status != 401:
            raise
        headers = [header for header in error.headers if header[0].lower() != CHALLENGE[0].lower()]
        headers.append(CHALLENGE)
        raise PushError(error.errno, error.message, status=401, headers=headers) from error
    try:
        size = len(orjson.dumps(router_data, default=str))
    except orjson.JSONEncodeError as error:
        raise _cannot_be_stored() from error
    if size > MAX_BODY:
        raise too_large(size)
    return router_data


async def _stored(written: Awaitable[bool]) -> None:
    """:raises PushError: 400/108, the data cannot be stored; 503/202, the record has changed"""
    try:
        was_written = await written
    except TableNotFound:
        raise
    except SchemaError as error:  # nested too deeply, numbers out of range, empty names
        raise _cannot_be_stored() from error
    if not was_written:
        raise _changed()


def _cannot_be_stored() -> PushError:
    what = "the body: it has values that cannot be stored"
    return PushError.invalid(Errno.INVALID_ROUTER_TYPE, what)


def _gone() -> PushError:
    return PushError(
        Errno.EXPIRED_ENDPOINT, "Endpoint has expired. Do not send messages to this endpoint."
    )


def _changed() -> PushError:
    return PushError(Errno.RETRY, "The registration has changed meanwhile, please retry")


def invalid_member(name: str, complaint: str) -> PushError:
    """400/108."""
    errors = {name: [complaint]}
    return PushError.invalid(Errno.INVALID_ROUTER_TYPE, f"{name}: {complaint}", errors=errors)


def too_large(size: int) -> PushError:
    """413/104."""
    return PushError.invalid(
        Errno.PAYLOAD_TOO_LARGE,
        f"the body: it may have {MAX_BODY} bytes, stored data included, got {size}",
    )
