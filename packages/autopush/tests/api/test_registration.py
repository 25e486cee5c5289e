"""The registration API: what each call writes and answers, who may make it, and what is refused."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopush.api.registration import MAX_BODY, MAX_CHANNELS
from autopush.bridges import RouterData, RouterError
from autopush.bridges.stub import StubRouter
from autopush.delivery.bridge_contract import Router
from autopush.net.http_messages import Response
from autopush.settings.value_types import Rate
from autopush.store import PushStore, TablePlan
from autopush.store.accounts import Account
from autopush.store.users import is_connect_key_of_month
from autopush.telemetry import logs
from autopush.telemetry.metric_table import LIMIT_REFUSED, UA_CONNECTION_CHECK
from autopush.webpush.errors import Errno
from autopush.webpush.identifiers import dashed, hash_secret
from autopush.webpush.tokens import RegistrationSecrets
from keytables import Throttled, Unavailable, Value
from support.cases import cases
from support.connection_harness import CHANNEL, ENDPOINT, OTHER, UAID, Harness
from support.endpoint_harness import Endpoint, headers_of
from support.endpoint_harness import refusal as refusal_of
from support.log_lines import LogFile
from support.recorded import recorded
from support.senders import Sender
from support.soak import examples

SENDER = Sender()
TOKEN = "11-instance-id-11"
NEW_TOKEN = "22-instance-id-22"
REGISTRATION = "/v1/stub/app/registration"
ANDROID = "Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0"
BODY = b"\xc3\x28\xa0\xa1"
PUSH = {"ttl": "60", "content-encoding": "aes128gcm"}


class ApnsLikeRouter(StubRouter):
    """Names its application as APNs does, and knows only some."""

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:
        super().register(uaid, router_data, app_id)
        if app_id != "firefox":
            raise RouterError(Errno.ENDPOINT_UNAVAILABLE, "Unknown release channel")
        router_data["rel_channel"] = router_data.pop("app_id")

    def amend_endpoint_response(self, response: dict[str, object], router_data: object) -> None:
        pass

    def application(self, router_data: Mapping[str, Value]) -> str:
        return str(router_data.get("rel_channel", ""))


class Client:
    """A device that keeps what its registration returned."""

    def __init__(self, endpoint: Endpoint, base: str = REGISTRATION) -> None:
        self.endpoint, self.harness = endpoint, endpoint.harness
        self.base = base
        self.uaid = self.secret = ""

    @property
    def path(self) -> str:
        return f"{self.base}/{self.uaid}"

    async def register(self, token: str = TOKEN, **members: object) -> dict[str, Any]:
        response = await self.ask("POST", self.base, {"token": token, **members})
        assert response.status == 200, response.body
        reply = json.loads(response.body)
        assert isinstance(reply, dict)
        self.uaid, self.secret = reply["uaid"], reply["secret"]
        return reply

    async def ask(
        self, method: str, path: str, body: object = None, *, authorization: str | None = None
    ) -> Response:
        """With the own secret, unless another header is given; "" sends none."""
        if authorization is None and self.secret:
            authorization = f"Bearer {self.secret}"
        headers = {"authorization": authorization} if authorization else {}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if body is None:
            data = b""
        return await self.endpoint.ask(method, path, headers, data)

    async def channels(self) -> list[str]:
        response = await self.ask("GET", f"{self.path}/")
        assert response.status == 200
        channels = json.loads(response.body)["channelIDs"]
        assert isinstance(channels, list)
        return channels

    async def subscribe(self, body: object = None) -> dict[str, Any]:
        response = await self.ask("POST", f"{self.path}/subscription", body)
        assert response.status == 200
        reply = json.loads(response.body)
        assert isinstance(reply, dict)
        return reply

    async def push(self, endpoint_url: str, body: bytes = BODY) -> Response:
        return await self.endpoint.ask("POST", endpoint_url.removeprefix(ENDPOINT), PUSH, body)


refusal = partial(refusal_of, scheme="webpush")


@pytest.fixture
def stub() -> StubRouter:
    return StubRouter()


@pytest.fixture
def endpoint(harness: Harness, stub: StubRouter) -> Endpoint:
    return Endpoint(harness, routers={"stub": stub, "apns": ApnsLikeRouter()})


@pytest.fixture
def client(endpoint: Endpoint) -> Client:
    return Client(endpoint)


# ── registration ────────────────────────────────────────────────────────────────────────────────


async def test_a_registration_returns_uaid_channel_endpoint_and_secret(client: Client) -> None:
    reply = await client.register()
    assert reply.keys() == {"uaid", "uuid", "channelID", "endpoint", "secret", "senderid"}
    assert reply["uuid"] == reply["uaid"] == UUID(reply["uaid"]).hex
    assert reply["channelID"] == str(UUID(reply["channelID"]))
    assert reply["endpoint"].startswith(f"{ENDPOINT}/wpush/v1/")
    assert reply["secret"] == RegistrationSecrets(["auth-key"]).secret(reply["uaid"])
    assert reply["senderid"] == "app"
    assert await client.channels() == [reply["channelID"]]


async def test_the_record_of_a_registration_never_expires(client: Client, harness: Harness) -> None:
    await client.register()
    item = harness.engine.tables["router"].items[(client.uaid,)]
    assert str(item.pop("last_connect")).startswith("2027")
    assert item == {
        "uaid": client.uaid,
        "router_type": "stub",
        "router_data": {"token": TOKEN, "app_id": "app"},
        "connected_at": int(harness.clock() * 1000),
        "record_version": 1,
        "current_month": "message",
    }


@pytest.mark.parametrize(
    "spelling", [OTHER, OTHER.upper(), OTHER.replace("-", ""), f"urn:uuid:{OTHER}"]
)
async def test_a_channel_id_of_the_client_is_taken_in_any_spelling_and_returned_dashed(
    client: Client, spelling: str
) -> None:
    reply = await client.register(channelID=spelling)
    assert reply["channelID"] == OTHER
    assert await client.channels() == [OTHER]


async def test_a_key_makes_a_v2_endpoint_that_only_its_owner_can_use(client: Client) -> None:
    reply = await client.register(key=SENDER.key_text)
    assert reply["endpoint"].startswith(f"{ENDPOINT}/wpush/v2/")
    assert (await client.push(reply["endpoint"])).status == 401
    claims = {"aud": ENDPOINT, "exp": client.harness.clock() + 60}
    for sender, status in ((Sender(), 401), (SENDER, 201)):
        headers = {**PUSH, "authorization": sender.vapid(claims)}
        path = reply["endpoint"].removeprefix(ENDPOINT)
        assert (await client.endpoint.ask("POST", path, headers, BODY)).status == status


async def test_the_payload_names_the_channel_as_the_registration_did(
    client: Client, stub: StubRouter
) -> None:
    reply = await client.register()
    response = await client.push(reply["endpoint"])
    assert response.status == 201
    assert headers_of(response)["location"].startswith(f"{ENDPOINT}/m/")
    assert headers_of(response)["ttl"] == "60"
    (delivery,) = stub.delivered
    assert delivery.token == TOKEN
    assert delivery.data == {"chid": reply["channelID"], "body": "wyigoQ", "con": "aes128gcm"}


async def test_what_a_client_says_of_the_routers_own_members_is_not_stored(client: Client) -> None:
    await client.register(app_id="x", creds={"auth": "x"}, rel_channel="x", aps={"alert": 1})
    record = await client.harness.record(client.uaid)
    assert record.router_data == {"token": TOKEN, "app_id": "app", "aps": {"alert": 1}}


@pytest.mark.parametrize("body", [None, {}, {"token": "any"}, {"channelID": CHANNEL}])
async def test_a_web_push_user_is_registered_without_a_token_and_can_connect(
    endpoint: Endpoint, harness: Harness, body: object
) -> None:
    client = Client(endpoint, "/v1/webpush/any/registration")
    reply = json.loads((await client.ask("POST", client.base, body)).body)
    assert reply.keys() == {"uaid", "uuid", "channelID", "endpoint", "secret"}
    agent = await harness.identified(reply["uaid"])
    assert agent.uaid == reply["uaid"]
    assert (await client.push(reply["endpoint"])).status == 201
    await harness.run_until_idle()
    assert agent.reply()["channelID"] == reply["channelID"]


async def test_an_update_of_a_connected_web_push_user_leaves_its_connection_on_record(
    endpoint: Endpoint, harness: Harness
) -> None:
    client = Client(endpoint, "/v1/webpush/any/registration")
    await client.register()
    await harness.identified(client.uaid)
    before = await harness.record(client.uaid)
    response = await client.ask("PUT", client.path, {"token": NEW_TOKEN})
    assert (response.status, json.loads(response.body)) == (200, {})
    assert await harness.record(client.uaid) == before


@pytest.mark.parametrize(
    ("method", "tail"),
    [("POST", "/subscription"), ("DELETE", f"/subscription/{CHANNEL}"), ("DELETE", "")],
)
async def test_a_connected_web_push_user_is_disconnected_when_its_subscriptions_change(
    endpoint: Endpoint, harness: Harness, method: str, tail: str
) -> None:
    client = Client(endpoint, "/v1/webpush/any/registration")
    await client.register(channelID=CHANNEL)
    agent = await harness.identified(client.uaid)
    record = await harness.record(client.uaid)
    assert (await client.ask(method, client.path + tail)).status == 200
    await harness.run_until_idle()
    assert agent.close_code() == 1000
    assert ("end", record.node_id, client.uaid, record.connected_at) in harness.nodes.calls


# ── the other calls ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_an_update_replaces_what_its_body_gives_and_keeps_the_rest(
    client: Client, harness: Harness, stub: StubRouter, method: str
) -> None:
    reply = await client.register(aps={"badge": 3})
    before = await harness.record(client.uaid)
    response = await client.ask(method, client.path, {"token": NEW_TOKEN, "app_id": "other"})
    assert (response.status, json.loads(response.body)) == (200, {})
    record = await harness.record(client.uaid)
    assert record.router_data == {"token": NEW_TOKEN, "app_id": "app", "aps": {"badge": 3}}
    assert record.connected_at > before.connected_at
    assert (await client.push(reply["endpoint"])).status == 201
    assert stub.delivered[-1].token == NEW_TOKEN


async def test_an_update_keeps_the_release_channel_of_an_apns_user(
    endpoint: Endpoint, harness: Harness
) -> None:
    client = Client(endpoint, "/v1/apns/firefox/registration")
    await client.register()
    assert (await client.ask("PUT", client.path, {"token": NEW_TOKEN})).status == 200
    record = await harness.record(client.uaid)
    assert record.router_data == {"token": NEW_TOKEN, "rel_channel": "firefox"}


async def test_an_update_that_meets_another_one_is_503_202(
    client: Client, harness: Harness
) -> None:
    await client.register()
    harness.engine.before(
        "update router",
        lambda: harness.engine.tables["router"].items[(client.uaid,)].update(connected_at=1),
    )
    assert refusal(await client.ask("PUT", client.path, {"token": NEW_TOKEN})) == (503, 202)
    assert (await harness.record(client.uaid)).router_data == {"token": TOKEN, "app_id": "app"}


@pytest.mark.parametrize("slash", ["", "/"])
async def test_the_subscriptions_are_listed_with_and_without_a_slash_at_the_end(
    client: Client, slash: str
) -> None:
    first = (await client.register())["channelID"]
    await client.subscribe({"channelID": OTHER})
    listed = json.loads((await client.ask("GET", f"{client.path}{slash}")).body)
    expected = sorted([first, OTHER])
    assert listed == {"uaid": client.uaid, "uid": client.uaid, "channelIDs": expected}


async def test_a_look_at_the_subscriptions_is_counted_by_the_kind_of_client(
    client: Client, endpoint: Endpoint, harness: Harness
) -> None:
    await client.register()
    headers = {"authorization": f"Bearer {client.secret}"}
    for secret in (headers, {"authorization": "Bearer x"}):
        await endpoint.ask("GET", client.path, secret | {"user-agent": ANDROID})
    assert recorded(harness.metrics, UA_CONNECTION_CHECK) == 1
    assert recorded(harness.metrics, UA_CONNECTION_CHECK, os="Other", browser="Firefox") == 1


@pytest.mark.parametrize("body", [None, {}, {"channelID": None}, {"key": ""}])
async def test_a_subscription_gets_a_channel_id_if_it_names_none(
    client: Client, stub: StubRouter, body: object
) -> None:
    await client.register()
    reply = await client.subscribe(body)
    assert reply.keys() == {"uaid", "channelID", "endpoint"}
    assert reply["uaid"] == client.uaid
    assert reply["channelID"] in await client.channels()
    assert (await client.push(reply["endpoint"])).status == 201
    assert stub.delivered[-1].data["chid"] == reply["channelID"]


async def test_a_subscription_with_its_own_channel_id_returns_it_and_a_new_endpoint(
    client: Client,
) -> None:
    endpoints = {(await client.register())["endpoint"]}
    for key, version in ((None, "v1"), (SENDER.key_text, "v2")):
        reply = await client.subscribe({"channelID": OTHER.replace("-", ""), "key": key})
        assert reply["channelID"] == OTHER
        assert reply["endpoint"].startswith(f"{ENDPOINT}/wpush/{version}/")
        endpoints.add(reply["endpoint"])
    assert len(endpoints) == 3
    assert len(await client.channels()) == 2


async def test_a_subscription_notes_once_a_month_that_the_device_was_heard_of(
    client: Client, harness: Harness
) -> None:
    await client.register()
    first = await harness.store.users.get(client.uaid)
    assert first is not None
    harness.clock.advance(200 * 86_400)
    seen = set()
    for _ in range(8):
        await client.subscribe({})
        record = await harness.store.users.get(client.uaid)
        assert record is not None
        seen.add(record.last_connect)
    [later] = seen
    assert is_connect_key_of_month(later, harness.clock())
    assert not is_connect_key_of_month(first.last_connect, harness.clock())


async def test_a_channel_that_was_deleted_is_410_106_until_it_is_subscribed_again(
    client: Client, stub: StubRouter
) -> None:
    first = await client.register()
    deleted = f"{client.path}/subscription/{first['channelID']}"
    assert (await client.ask("DELETE", deleted)).status == 200
    assert refusal(await client.ask("DELETE", deleted)) == (410, 106)
    other = await client.subscribe()
    refused = await client.push(first["endpoint"])
    assert (refused.status, json.loads(refused.body)["errno"]) == (410, 106)
    assert (await client.push(other["endpoint"])).status == 201
    # It is the channel that is subscribed, and all of its URLs with it.
    again = await client.subscribe({"channelID": first["channelID"]})
    assert again["endpoint"] != first["endpoint"]
    for endpoint in (first["endpoint"], again["endpoint"]):
        assert (await client.push(endpoint)).status == 201
    assert len(stub.delivered) == 3


async def test_a_user_has_a_limited_number_of_subscriptions(client: Client) -> None:
    await client.register()
    many = frozenset(dashed(f"{number:032x}") for number in range(MAX_CHANNELS - 1))
    await client.harness.store.current.add_channels(client.uaid, many)
    assert refusal(await client.ask("POST", f"{client.path}/subscription")) == (400, 108)
    await client.subscribe({"channelID": min(many)})


async def test_a_user_is_deleted_with_its_subscriptions(client: Client, harness: Harness) -> None:
    reply = await client.register()
    response = await client.ask("DELETE", client.path)
    assert (response.status, json.loads(response.body)) == (200, {})
    assert harness.users() == []
    assert await harness.store.current.channels(client.uaid) == frozenset()
    assert refusal(await client.ask("DELETE", client.path)) == (410, 103)
    assert json.loads((await client.push(reply["endpoint"])).body)["errno"] == 103


async def test_uaids_in_paths_may_be_dashed_or_upper_case(client: Client) -> None:
    await client.register()
    for uaid in (dashed(client.uaid), client.uaid.upper()):
        response = await client.ask("GET", f"{REGISTRATION}/{uaid}")
        assert json.loads(response.body)["uaid"] == client.uaid


async def test_deleting_a_message_that_a_bridge_has_is_204_and_takes_nothing_back(
    client: Client, stub: StubRouter
) -> None:
    pushed = await client.push((await client.register())["endpoint"])
    path = headers_of(pushed)["location"].removeprefix(ENDPOINT)
    assert (await client.endpoint.ask("DELETE", path)).status == 204
    assert len(stub.delivered) == 1


# ── who may ─────────────────────────────────────────────────────────────────────────────────────

CALLS = [
    ("PUT", ""),
    ("POST", ""),
    ("GET", ""),
    ("GET", "/"),
    ("DELETE", ""),
    ("POST", "/subscription"),
    ("DELETE", f"/subscription/{CHANNEL}"),
]


@cases("scheme", ["Bearer", "bearer", "BEARER", "WebPush", "webpush", "vapid"])
@cases("gap", [" ", "   ", "\t "])
async def test_the_scheme_may_be_written_in_several_ways(
    client: Client, scheme: str, gap: str
) -> None:
    await client.register()
    response = await client.ask("GET", client.path, authorization=f"{scheme}{gap}{client.secret}")
    assert response.status == 200


@cases(("method", "tail"), CALLS)
@cases(
    "authorization",
    [
        "",
        " ",
        "Bearer",
        "Bearer ",
        "{secret}",
        "Basic {secret}",
        "Bearer {secret}0",
        "Bearer {secret} {secret}",
        "Bearer x",
        "Bearer \xff",
        "Bearer {other}",
    ],
)
async def test_without_the_right_secret_nothing_is_read_or_written(
    client: Client, harness: Harness, method: str, tail: str, authorization: str
) -> None:
    await client.register()
    other = RegistrationSecrets(["auth-key"]).secret(UAID)
    header = authorization.format(secret=client.secret, other=other)
    harness.engine.calls.clear()
    path = f"{client.path}{tail}"
    response = await client.ask(method, path, b"not JSON", authorization=header)
    assert refusal(response) == (401, 109)
    expected = "Invalid Authentication" if header.strip() else "Unauthorized"
    assert json.loads(response.body)["message"] == expected
    assert harness.engine.calls == []


@pytest.mark.parametrize(("method", "tail"), CALLS)
async def test_the_right_secret_of_an_unknown_uaid_is_410_103(
    client: Client, method: str, tail: str
) -> None:
    client.uaid, client.secret = UAID, RegistrationSecrets(["auth-key"]).secret(UAID)
    assert refusal(await client.ask(method, f"{client.path}{tail}")) == (410, 103)


# ── another application, another type ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(("method", "tail"), CALLS)
async def test_the_url_of_another_application_is_308_with_the_right_one(
    client: Client, harness: Harness, method: str, tail: str
) -> None:
    client.base = "/v1/stub/an%20app%3F/registration"
    await client.register(channelID=CHANNEL)
    before = await harness.record(client.uaid)
    wrong = f"{REGISTRATION}/{client.uaid}{tail}"
    response = await client.ask(method, wrong, {"token": NEW_TOKEN})
    assert refusal(response) == (308, 108)
    location = headers_of(response)["location"]
    assert location == f"{ENDPOINT}{client.path}{tail.rstrip('/')}"
    assert await harness.record(client.uaid) == before
    again = await client.ask(method, location.removeprefix(ENDPOINT), {"token": NEW_TOKEN})
    assert again.status == 200


async def test_the_location_of_308_names_the_application_as_the_router_does(
    endpoint: Endpoint,
) -> None:
    client = Client(endpoint, "/v1/apns/firefox/registration")
    await client.register()
    response = await client.ask("GET", f"/v1/apns/beta/registration/{client.uaid}")
    assert response.status == 308
    assert headers_of(response)["location"] == f"{ENDPOINT}{client.path}"


@cases("router_type", ["apns", "webpush"])
@cases(("method", "tail"), CALLS)
async def test_the_url_of_another_router_type_is_400_108_and_changes_nothing(
    client: Client, harness: Harness, router_type: str, method: str, tail: str
) -> None:
    await client.register()
    before = await harness.record(client.uaid)
    path = f"/v1/{router_type}/app/registration/{client.uaid}{tail}"
    assert refusal(await client.ask(method, path, {"token": NEW_TOKEN})) == (400, 108)
    assert await harness.record(client.uaid) == before


async def test_a_record_of_a_type_without_a_router_here_stays(
    client: Client, harness: Harness, stub: StubRouter
) -> None:
    reply = await client.register()
    client.endpoint = Endpoint(harness)
    client.endpoint.tokens.open.cache_clear()  # type: ignore[attr-defined]
    response = await client.push(reply["endpoint"])
    assert (response.status, json.loads(response.body)["errno"]) == (400, 108)
    assert refusal(await client.ask("DELETE", client.path)) == (400, 108)
    assert harness.users() == [client.uaid]


# ── bad input ───────────────────────────────────────────────────────────────────────────────────

BAD_BODIES = [
    b"{",
    b"not JSON",
    b"[]",
    b"null",
    b'"text"',
    b"5",
    b"\xff\xfe",
    b'{"token": NaN}',
    b'{"token": "\\ud800aaaaaaaa"}',
    b"[" * 5000,
    b'{"a":' * 1500,
]


FIRST, UPDATES, SUBSCRIBE = ("POST", None), [("PUT", ""), ("POST", "")], ("POST", "/subscription")
REFUSED = [
    *(([FIRST, *UPDATES, SUBSCRIBE], body, (400, 108)) for body in BAD_BODIES),
    *(
        ([FIRST, *UPDATES], {"token": NEW_TOKEN, "aps": aps}, (400, 108))
        for aps in (
            json.loads('{"a":' * 40 + "1" + "}" * 40),
            json.loads("[" * 300 + "]" * 300),
            {"": 1},
            1e200,
        )
    ),
    ([FIRST, *UPDATES], {"token": "t" * MAX_BODY}, (413, 104)),
    *(
        ([FIRST, *UPDATES], {"token": token}, (400, 108))
        for token in ("", "short", "has a space", 12345678, ["12345678"], {"a": 1})
    ),
    *(([FIRST], body, (401, 109)) for body in ({}, {"token": None})),
    *((UPDATES, body, (400, 108)) for body in ({}, {"token": None}, {"unrelated": "member"})),
]


@cases(("calls", "body", "outcome"), REFUSED)
async def test_a_body_that_is_refused_changes_nothing(
    client: Client,
    harness: Harness,
    calls: list[tuple[str, str | None]],
    body: object,
    outcome: tuple[int, int],
) -> None:
    await client.register()
    users = harness.users()
    for method, tail in calls:
        path = REGISTRATION if tail is None else client.path + tail
        assert refusal(await client.ask(method, path, body)) == outcome
    assert harness.users() == users
    assert (await harness.record(client.uaid)).router_data == {"token": TOKEN, "app_id": "app"}


async def test_updates_cannot_add_up_to_more_than_the_limit(client: Client) -> None:
    await client.register()
    for number, status in enumerate([200, 200, 413, 413]):
        body = {"token": TOKEN, f"member {number}": "x" * 6000}
        assert (await client.ask("PUT", client.path, body)).status == status


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *(("channelID", value) for value in ("", "x", OTHER[:-1], 5, True, [OTHER])),
        *(("key", value) for value in ("abcd", 5)),
    ],
)
@pytest.mark.parametrize("is_new", [True, False])
async def test_a_channel_id_or_key_in_a_body_that_is_none_is_400_108(
    client: Client, harness: Harness, is_new: bool, member: str, value: object
) -> None:
    await client.register(channelID=CHANNEL)
    path = REGISTRATION if is_new else f"{client.path}/subscription"
    response = await client.ask("POST", path, {"token": TOKEN, member: value})
    assert refusal(response) == (400, 108)
    [said] = json.loads(response.body)["errors"].pop(member)
    if member == "channelID":
        assert said == f"expected a UUID, got {json.dumps(value)}"
    else:
        assert "65 bytes" in said
    assert harness.users() == [client.uaid]
    assert await client.channels() == [CHANNEL]


NO_PATHS = [
    *(
        (method, f"{REGISTRATION}/{uaid}{tail}", (410, 103))
        for uaid in ("x", UAID[:-1], UAID + "0", UAID.replace("0", "g"), "%00", "é")
        for method, tail in CALLS
    ),
    *(
        ("DELETE", f"{{own}}/subscription/{channel}", (404, 102))
        for channel in ("x", OTHER[:-1], OTHER + "0", OTHER.replace("9", "g"), "é")
    ),
    ("POST", "/v1//app/registration", (404, 102)),
    ("POST", "/v1/stub//registration", (404, 102)),
    ("POST", "/v1/stub/registration", (404, 102)),
    ("POST", "/v1/stub/app/registrations", (404, 102)),
    ("POST", f"/v1/stub/app/registration//{UAID}", (404, 102)),
    ("POST", f"/v1/stub/app/registration/{UAID}/subscriptions", (404, 102)),
    ("DELETE", f"/v1/stub/app/registration/{UAID}/subscription//", (404, 102)),
    ("DELETE", f"/v1/stub/app/registration/{UAID}/subscription/{CHANNEL}/more", (404, 102)),
    *(
        (method, f"/v1/{router_type}/app/registration{tail}", (400, 108))
        for router_type in ("gcm", "simplepush", "STUB", "none", "..%5Cstub")
        for method, tail in [("POST", ""), *((method, f"/{UAID}{tail}") for method, tail in CALLS)]
    ),
]


@cases(("method", "path", "outcome"), NO_PATHS)
async def test_a_path_of_another_form_or_of_a_type_without_a_router_names_nothing(
    client: Client, harness: Harness, method: str, path: str, outcome: tuple[int, int]
) -> None:
    await client.register()
    users = harness.users()
    response = await client.ask(method, path.format(own=client.path), {"token": TOKEN})
    assert refusal(response) == outcome
    assert harness.users() == users


@pytest.mark.parametrize(
    ("tail", "methods"),
    [
        ("", "POST"),
        (f"/{UAID}", "GET, POST, PUT, DELETE"),
        (f"/{UAID}/", "GET, POST, PUT, DELETE"),
        (f"/{UAID}/subscription", "POST"),
        (f"/{UAID}/subscription/{CHANNEL}", "DELETE"),
    ],
)
async def test_each_path_has_its_methods_which_it_tells_web_pages_and_405_for_others(
    client: Client, tail: str, methods: str
) -> None:
    others = {"OPTIONS", "HEAD", "GET", "POST", "PUT", "DELETE", "PATCH"} - {*methods.split(", ")}
    for method in others:
        response = await client.ask(method, REGISTRATION + tail)
        headers = headers_of(response)
        assert headers["access-control-allow-methods"] == methods.replace(" ", "")
        assert headers["access-control-allow-origin"] == "*"
        if method not in ("OPTIONS", "HEAD"):
            assert refusal(response) == (405, 102)
            assert headers["allow"] == f"{methods}, OPTIONS, HEAD"


# ── routers and the store ───────────────────────────────────────────────────────────────────────


async def test_what_a_router_refuses_is_not_stored(endpoint: Endpoint, harness: Harness) -> None:
    client = Client(endpoint, "/v1/apns/unknown/registration")
    response = await client.ask("POST", client.base, {"token": TOKEN})
    assert refusal(response) == (410, 105)
    assert harness.users() == []
    assert harness.engine.calls == []


@pytest.mark.parametrize(
    ("error", "outcome"), [(Throttled("t"), (503, 201)), (Unavailable("u"), (503, 202))]
)
@pytest.mark.parametrize("what", ["get router", "get message", "update router", "update message"])
async def test_errors_of_the_store_are_503_and_a_retry_succeeds(
    client: Client, harness: Harness, what: str, error: Exception, outcome: tuple[int, int]
) -> None:
    if what.startswith("update"):
        harness.engine.fail(what, error)
        assert refusal(await client.ask("POST", REGISTRATION, {"token": TOKEN})) == outcome
    await client.register()
    calls = {
        "get router": ("GET", "", None),
        "get message": ("GET", "", None),
        "update router": ("PUT", "", {"token": NEW_TOKEN}),
        "update message": ("POST", "/subscription", {"channelID": OTHER}),
    }
    method, tail, body = calls[what]
    harness.engine.fail(what, error)
    assert refusal(await client.ask(method, client.path + tail, body)) == outcome
    assert (await client.ask(method, client.path + tail, body)).status == 200


class DefectiveRouter(StubRouter):
    """Raises what no router should, at the method that the token names."""

    def register(self, uaid: str, router_data: dict[str, Value], app_id: str) -> None:
        super().register(uaid, router_data, app_id)
        if router_data["token"] == "register":
            raise KeyError(router_data["token"])

    def amend_endpoint_response(self, response: dict[str, object], router_data: RouterData) -> None:
        if router_data["token"] == "amendment":
            raise KeyError(router_data["token"])

    def application(self, router_data: RouterData) -> str:
        if router_data["token"] == "application":
            raise KeyError(router_data["token"])
        return super().application(router_data)


async def test_a_defect_of_a_router_is_500_999_and_its_text_is_not_logged(
    harness: Harness, tmp_path: Path
) -> None:
    lines = LogFile(tmp_path, level="info")
    client = Client(Endpoint(harness, routers={"stub": DefectiveRouter()}))
    for token in ("register", "amendment"):
        assert refusal(await client.ask("POST", REGISTRATION, {"token": token})) == (500, 999)
        assert harness.users() == []
    endpoint_url = (await client.register("application"))["endpoint"]
    assert refusal(await client.ask("GET", client.path)) == (500, 999)
    assert refusal(await client.push(endpoint_url)) == (500, 999)
    logs.shutdown()
    defects = [fields for fields in lines.all_fields if "defect" in fields["message"]]
    assert len(defects) == 4
    for fields in defects:
        assert fields.keys() == {"message", "level", "router", "error", "at"}
        assert (fields["router"], fields["error"]) == ("DefectiveRouter", "KeyError")


async def test_a_message_table_that_was_dropped_is_503_once(client: Client) -> None:
    await client.register()
    await client.harness.engine.drop_table("message")
    assert refusal(await client.ask("GET", client.path)) == (503, 202)
    assert await client.channels() == []


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
MEMBERS = st.sampled_from(["token", "channelID", "key", "aps", "app_id", "creds", "other"])


@settings(max_examples=examples(40, 1000))
@given(
    body=st.binary(max_size=40)
    | st.dictionaries(MEMBERS, JSON_VALUES).map(lambda value: json.dumps(value).encode())
)
def test_no_body_makes_an_answer_that_is_not_documented(body: bytes) -> None:
    async def ask() -> None:
        harness = await Harness.open()
        client = Client(Endpoint(harness, routers={"stub": StubRouter()}))
        response = await client.ask("POST", REGISTRATION, body)
        if response.status != 200:
            assert refusal(response) in {(400, 108), (401, 109)}
            assert harness.users() == []
        await client.register()
        for method, tail in (("PUT", ""), ("POST", "/subscription")):
            response = await client.ask(method, client.path + tail, body)
            if response.status != 200:
                assert refusal(response) in {(400, 108), (401, 109)}
        assert (await harness.record(client.uaid)).router_data

    asyncio.run(ask())


# ── months ──────────────────────────────────────────────────────────────────────────────────────


def month(number: int) -> float:
    return datetime(2027, number, 10, tzinfo=UTC).timestamp()


@pytest.fixture
async def rotating(harness: Harness, stub: StubRouter) -> Client:
    """A user that was registered in the month before the current one."""
    harness.clock.now = month(1)
    plan = TablePlan(rotating=True)
    harness.store = await PushStore.open(harness.engine, plan, key_hash="", clock=harness.clock)
    client = Client(Endpoint(harness, routers={"stub": stub}))
    await client.register(channelID=CHANNEL)
    assert (await harness.record(client.uaid)).current_month == "message_2027_01"
    harness.clock.now = month(2)
    await harness.store.rotate()
    return client


@pytest.mark.parametrize(
    ("method", "tail", "channels"),
    [
        ("PUT", "", [CHANNEL]),
        ("GET", "", [CHANNEL]),
        ("POST", "/subscription", [CHANNEL, OTHER]),
        ("DELETE", f"/subscription/{CHANNEL}", []),
    ],
)
async def test_every_call_takes_a_user_to_the_table_of_the_month_with_its_subscriptions(
    rotating: Client, harness: Harness, method: str, tail: str, channels: list[str]
) -> None:
    body = {"token": TOKEN, "channelID": OTHER}
    response = await rotating.ask(method, rotating.path + tail, body)
    assert response.status == 200
    assert (await harness.record(rotating.uaid)).current_month == "message_2027_02"
    await harness.engine.drop_table("message_2027_01")
    assert await rotating.channels() == channels


async def test_a_user_whose_table_is_gone_stays_and_starts_without_subscriptions(
    rotating: Client, harness: Harness, stub: StubRouter
) -> None:
    url = rotating.endpoint.tokens.url(rotating.uaid, CHANNEL, None)
    await harness.engine.drop_table("message_2027_01")
    assert (await rotating.push(url)).status == 201
    assert refusal(await rotating.ask("DELETE", f"{rotating.path}/subscription/{CHANNEL}")) == (
        410,
        106,
    )
    assert await rotating.channels() == []
    assert (await harness.record(rotating.uaid)).current_month == "message_2027_02"


@pytest.mark.parametrize("call", ["subscribe", "unsubscribe"])
async def test_a_change_while_another_node_moves_the_user_is_made_in_both_tables(
    rotating: Client, harness: Harness, call: str
) -> None:
    # The clock of this node is behind: for it the old table is the current one.
    behind = await PushStore.open(
        harness.engine, TablePlan(rotating=True), key_hash="", clock=lambda: month(1)
    )
    ahead, harness.store = harness.store, behind
    late = Client(Endpoint(harness, routers={"stub": StubRouter()}))
    late.uaid, late.secret = rotating.uaid, rotating.secret
    tables = harness.engine.tables

    def move() -> None:  # as the other node does it
        row = tables["message_2027_01"].items[rotating.uaid, " "]
        tables["message_2027_02"].items[rotating.uaid, " "] = dict(row)
        tables["router"].items[(rotating.uaid,)]["current_month"] = "message_2027_02"

    harness.engine.before("update message_2027_01", move)
    if call == "subscribe":
        path, method = f"{late.path}/subscription", "POST"
    else:
        path, method = f"{late.path}/subscription/{CHANNEL}", "DELETE"
    assert (await late.ask(method, path, {"channelID": OTHER})).status == 200
    harness.store = ahead
    expected = [CHANNEL, OTHER] if call == "subscribe" else []
    assert await rotating.channels() == expected


# ── limits ───────────────────────────────────────────────────────────────────────────────────────


async def test_an_address_registers_only_so_many_user_agents_in_a_time(
    harness: Harness, stub: StubRouter
) -> None:
    client = Client(Endpoint(harness, routers={"stub": stub}, new_user_agents_rate=Rate(2, "h")))
    assert (await client.ask("POST", REGISTRATION, {"no": "token"})).status == 401
    await client.register()
    await client.register()
    calls = list(harness.engine.calls)
    response = await client.ask("POST", REGISTRATION, {"token": TOKEN}, authorization="")
    assert refusal(response) == (429, 203)
    assert 0 < int(headers_of(response)["retry-after"]) <= 1800
    assert harness.engine.calls == calls
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="new_user_agents") == 1
    assert await client.channels(), "those that are registered are served"


async def test_more_changes_of_a_user_than_its_rate_are_429_203_before_the_store_is_read(
    harness: Harness, stub: StubRouter
) -> None:
    endpoint = Endpoint(harness, routers={"stub": stub}, registration_rate=Rate(1, "h"))
    client, other = Client(endpoint), Client(endpoint)
    await client.register()
    await other.register()
    subscription = f"{client.path}/subscription"
    wrong = await client.ask("POST", subscription, {}, authorization="Bearer wrong")
    assert refusal(wrong) == (401, 109), "it takes nothing of the rate"
    await client.subscribe({})
    harness.engine.calls.clear()
    assert refusal(await client.ask("POST", subscription, {})) == (429, 203)
    assert refusal(await client.ask("DELETE", client.path)) == (429, 203)
    assert harness.engine.calls == []
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="registration_rate") == 2
    assert len(await client.channels()) == 2
    await other.subscribe({})


@pytest.mark.parametrize(
    ("origin", "statuses"),
    [
        (None, [200, 200, 200]),
        (ENDPOINT, [200, 200, 200]),
        (ENDPOINT.upper() + "/", [200, 200, 200]),
        ("https://evil.example", [200, 429, 429]),
        ("null", [200, 429, 429]),
        (f"{ENDPOINT}.evil.example", [200, 429, 429]),
    ],
)
async def test_a_page_of_another_origin_is_no_trusted_proxy(
    harness: Harness, origin: str | None, statuses: list[int]
) -> None:
    endpoint = Endpoint(
        harness,
        routers={"stub": StubRouter()},
        new_user_agents_rate=Rate(1, "h"),
        trusted_proxies=["::1"],
    )
    headers = {"content-type": "text/plain"} | ({} if origin is None else {"origin": origin})
    body = json.dumps({"token": TOKEN}).encode()
    answers = [await endpoint.ask("POST", REGISTRATION, headers, body) for _ in range(3)]
    assert [each.status for each in answers] == statuses


# ── accounts ──────────────────────────────────────────────────────────────────────────────────────

ANN = Account("ann", hash_secret("a" * 43), 1)


async def for_accounts(harness: Harness, routers: Mapping[str, Router]) -> Endpoint:
    """An endpoint that requires accounts: there is one, `ANN`."""

    async def read() -> dict[str, Account]:
        return {"ann": ANN}

    harness.io.read_accounts = read
    endpoint = Endpoint(harness, routers=routers, accounts_required=True)
    assert endpoint.parts.accounts is not None
    await endpoint.parts.accounts.load()
    return endpoint


CHANGES = [
    ("PUT", "", {"token": NEW_TOKEN}),
    ("POST", "", {"token": NEW_TOKEN}),
    ("POST", "/subscription", {}),
    ("DELETE", f"/subscription/{CHANNEL}", None),
    ("GET", "", None),
    ("DELETE", "", None),
]


@pytest.mark.parametrize("base", [REGISTRATION, "/v1/webpush/app/registration"])
@pytest.mark.parametrize(("owner", "refused"), [("", (401, 123)), ("revoked", (403, 123))])
async def test_with_its_secret_a_user_does_nothing_if_its_record_is_of_no_account_now(
    harness: Harness, base: str, owner: str, refused: tuple[int, int]
) -> None:
    routers = {"stub": StubRouter()}
    before = Client(Endpoint(harness, routers=routers), base)
    await before.register(channelID=CHANNEL)
    if owner:
        harness.engine.tables["router"].items[(before.uaid,)]["account"] = hash_secret(owner)
    client = Client(await for_accounts(harness, routers), base)
    client.uaid, client.secret = before.uaid, before.secret
    for method, path, body in CHANGES:
        response = await client.ask(method, client.path + path, body)
        document = json.loads(response.body)
        assert (response.status, document["errno"]) == refused
    assert await before.channels() == [CHANNEL]


async def test_the_record_has_the_account_that_has_registered_it(harness: Harness) -> None:
    endpoint = await for_accounts(harness, {"stub": StubRouter()})
    client = Client(endpoint)
    response = await client.ask(
        "POST", REGISTRATION, {"token": TOKEN}, authorization=f"Bearer {'a' * 43}"
    )
    reply = json.loads(response.body)
    client.uaid, client.secret = reply["uaid"], reply["secret"]
    assert (await harness.record(client.uaid)).account == ANN.token_hash
    await client.subscribe({})
