"""FCM HTTP v1: what is sent, and what each answer becomes, against a fake of Google."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from autopush.bridges import fcm
from autopush.delivery.bridge_contract import Router, RouterError, RouterResponse
from autopush.settings import Settings, StartupError
from autopush.store.users import UserRecord
from autopush.webpush.notification import Notification
from keytables import Value
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, UAID
from support.fcm_server import TOKEN_ENDPOINT, FakeGoogle

DEVICE = "device-token-1"
AESGCM = {"encoding": "aesgcm", "encryption": "salt=c2FsdA", "crypto_key": "dh=ZGg"}
BODY = base64.urlsafe_b64encode(b"encrypted \xfb\xff").rstrip(b"=").decode()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGoogle]:
    with FakeGoogle(tmp_path_factory.mktemp("google")) as google:
        yield google


@pytest.fixture(scope="module")
def keys(shared: FakeGoogle) -> dict[str, dict[str, Any]]:
    """Of two applications."""
    return {app_id: shared.add_account(f"{app_id}-project") for app_id in ("app-1", "app-2")}


@pytest.fixture
def google(shared: FakeGoogle, monkeypatch: pytest.MonkeyPatch) -> FakeGoogle:
    """As it is at its start."""
    monkeypatch.setenv("SSL_CERT_FILE", str(shared.certificate))
    shared.script(TOKEN_ENDPOINT)
    shared.requests()
    return shared


@pytest.fixture
def settings(google: FakeGoogle, keys: dict[str, dict[str, Any]]) -> Settings:
    creds = {
        app_id: {"projectid": f"{app_id}-project", "auth": key} for app_id, key in keys.items()
    }
    return Settings(fcm_creds=creds, fcm_endpoint=google.url)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(time.time())


MakeRouter = Callable[[Settings], Router]


@pytest.fixture
async def make_router(clock: ManualClock) -> AsyncIterator[MakeRouter]:
    """Creates routers and closes them in the end."""
    async with AsyncExitStack() as stack:

        def make(settings: Settings) -> Router:
            router = fcm.create(settings, clock)
            stack.push_async_callback(router.close)
            return router

        yield make


@dataclass
class Sender:
    """Sends to devices through a router."""

    router: Router

    async def push(
        self,
        device: str = DEVICE,
        *,
        data: str | None = BODY,
        headers: Mapping[str, str] | None = None,
        ttl: int = 600,
        urgency: str = "normal",
        app_id: str = "app-1",
        **router_data: Value,
    ) -> RouterResponse:
        notification = Notification(
            uaid=UAID,
            channel_id=CHANNEL,
            version="gAAA",
            ttl=ttl,
            urgency=urgency,
            data=data,
            headers=dict(headers or {"encoding": "aes128gcm"}) if data else None,
        )
        return await self.router.route_notification(
            notification, record({"token": device, "app_id": app_id, **router_data})
        )

    async def refusal(self, device: str = DEVICE, **given: Any) -> RouterError:
        """The error of a push that is not delivered."""
        with pytest.raises(RouterError) as caught:
            await self.push(device, **given)
        return caught.value


def record(router_data: Mapping[str, Value] | None) -> UserRecord:
    return UserRecord(UAID, "fcm", 1, router_data=router_data)


@pytest.fixture
def sender(make_router: MakeRouter, settings: Settings) -> Sender:
    return Sender(make_router(settings))


async def test_credentials_are_tried_with_a_token_and_nothing_is_sent(
    google: FakeGoogle, sender: Sender
) -> None:
    assert await sender.router.try_credentials() == ("app-1", "app-2")
    assert {request["path"] for request in google.requests()} == {TOKEN_ENDPOINT}


# ── What is sent ──────────────────────────────────────────────────────────────────────────────────


async def test_an_aesgcm_push_carries_channel_encoding_keys_and_body(
    google: FakeGoogle, sender: Sender
) -> None:
    response = await sender.push(headers=AESGCM)
    assert (response.status_code, response.headers) == (201, (("TTL", "600"),))
    assert response.router_data is None
    [sent] = google.sent()
    assert sent.keys() == {"message"}
    android = sent["message"].pop("android")
    assert sent["message"] == {"token": DEVICE}
    data = {"chid": CHANNEL, "body": BODY, **con(AESGCM)}
    assert android == {"ttl": "600s", "priority": "HIGH", "data": data}


@pytest.mark.parametrize(
    ("urgency", "option", "priority"),
    [
        ("very-low", "high", "NORMAL"),
        ("low", "high", "NORMAL"),
        ("normal", "high", "HIGH"),
        ("high", "high", "HIGH"),
        ("low", "normal", "NORMAL"),
        ("normal", "normal", "NORMAL"),
        ("high", "normal", "HIGH"),
    ],
)
async def test_the_priority_follows_from_the_urgency(
    google: FakeGoogle,
    make_router: MakeRouter,
    settings: Settings,
    urgency: str,
    option: str,
    priority: str,
) -> None:
    await Sender(make_router(replace(settings, fcm_priority=option))).push(urgency=urgency)
    [sent] = google.sent()
    assert sent["message"]["android"]["priority"] == priority


@pytest.mark.parametrize("ttl", [0, 30])
async def test_the_shortest_ttl_may_be_changed(
    google: FakeGoogle, make_router: MakeRouter, settings: Settings, ttl: int
) -> None:
    response = await Sender(make_router(replace(settings, fcm_ttl=ttl))).push(ttl=0)
    [sent] = google.sent()
    assert sent["message"]["android"]["ttl"] == f"{ttl}s"
    assert response.headers == (("TTL", str(ttl)),)


async def test_the_size_is_checked_on_the_whole_data(google: FakeGoogle, sender: Sender) -> None:
    around = len(json.dumps({"chid": CHANNEL, "body": "", **con(AESGCM)}, separators=(",", ":")))
    await sender.push(data="A" * (4096 - around), headers=AESGCM)
    error = await sender.refusal(data="A" * (4097 - around), headers=AESGCM)
    assert (error.status, error.errno) == (413, 104)
    assert "limited to 4096 bytes" in error.message
    assert "too long by 1 bytes" in error.message
    assert error.router_data is None
    assert len(google.requests(":send")) == 1


def con(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        "con": headers["encoding"],
        "enc": headers["encryption"],
        "cryptokey": headers["crypto_key"],
    }


async def test_a_dry_run_has_messages_checked_only(
    google: FakeGoogle, make_router: MakeRouter, settings: Settings
) -> None:
    await Sender(make_router(replace(settings, fcm_dryrun=True))).push()
    [sent] = google.sent()
    assert sent["validate_only"] is True


async def test_each_application_sends_with_its_own_account_to_its_own_project(
    google: FakeGoogle, sender: Sender, keys: dict[str, dict[str, Any]]
) -> None:
    await sender.push(app_id="app-1")
    await sender.push(app_id="app-2")
    requests = google.requests()
    assert [each["claims"]["iss"] for each in requests if "claims" in each] == [
        keys[app_id]["client_email"] for app_id in ("app-1", "app-2")
    ]
    assert [each["path"] for each in requests if "body" in each] == [
        f"/v1/projects/{app_id}-project/messages:send" for app_id in ("app-1", "app-2")
    ]


async def test_many_pushes_at_once_share_one_access_token_and_one_http2_connection(
    google: FakeGoogle, sender: Sender
) -> None:
    await sender.push()
    responses = await asyncio.gather(*(sender.push(f"device-{n:04}") for n in range(90)))
    assert {response.status_code for response in responses} == {201}
    requests = google.requests()
    sends = [each for each in requests if each["path"].endswith(":send")]
    assert len(requests) - len(sends) == 1
    assert {each["version"] for each in sends} == {"2"}
    assert len({each["connection"] for each in sends}) == 1
    assert {each["body"]["message"]["token"] for each in sends} == {
        DEVICE,
        *(f"device-{n:04}" for n in range(90)),
    }


async def test_the_application_of_a_record_of_1_33_is_its_sender_id(
    google: FakeGoogle, sender: Sender
) -> None:
    old: dict[str, Value] = {"token": DEVICE, "creds": {"senderID": "app-2", "auth": "x"}}
    assert sender.router.application(old) == "app-2"
    notification = Notification(uaid=UAID, channel_id=CHANNEL, version="v")
    await sender.router.route_notification(notification, record(old))
    [request] = google.requests(":send")
    assert request["path"] == "/v1/projects/app-2-project/messages:send"


# ── Records that cannot be served ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "router_data",
    [
        {"token": DEVICE, "app_id": "app-3"},
        {"token": DEVICE},
        {"token": DEVICE, "app_id": 7, "creds": "x"},
    ],
)
async def test_an_application_that_is_not_configured_leaves_the_user_alone(
    google: FakeGoogle, sender: Sender, router_data: dict[str, Value]
) -> None:
    notification = Notification(uaid=UAID, channel_id=CHANNEL, version="v")
    with pytest.raises(RouterError) as caught:
        await sender.router.route_notification(notification, record(router_data))
    error = caught.value
    assert (error.status, error.errno, error.router_data) == (400, 106, None)
    assert not error.is_outage
    assert google.requests() == []


# ── What FCM answers ──────────────────────────────────────────────────────────────────────────────

GONE = dict.fromkeys(["UNREGISTERED", "NOT_FOUND", "BAD_TOKEN", "BAD_TOKEN_TEXT"], (410, 106))
REFUSED = {
    "SENDER_ID_MISMATCH": (502, 901),
    "QUOTA_EXCEEDED": (503, 201),
    "UNAVAILABLE": (503, 201),
    "THIRD_PARTY_AUTH_ERROR": (502, 901),
    "INVALID_ARGUMENT": (502, 999),
}
OUTAGES = {
    "PERMISSION_DENIED": (502, 901),
    **dict.fromkeys(["INTERNAL", "EMPTY_500", "ODD_ERROR", "HTML_502", "HTML_404"], (502, 902)),
    **dict.fromkeys(["HTML_200", "EMPTY_200", "OBJECT_200", "LIST_200"], (502, 902)),
    **dict.fromkeys(["ENDLESS_200", "REDIRECT", "NOTHING", "HALF"], (502, 902)),
    **dict.fromkeys(["RESET", "GARBAGE"], (502, 902)),
}


@pytest.mark.parametrize("answer", [*GONE, *REFUSED, *OUTAGES])
async def test_each_answer_has_its_outcome_and_only_an_unknown_device_drops_its_user(
    google: FakeGoogle, sender: Sender, answer: str
) -> None:
    error = await sender.refusal(f"{answer}.device")
    assert len(google.requests(":send")) == 1
    assert (error.status, error.errno) == (GONE | REFUSED | OUTAGES)[answer]
    assert error.is_outage is (answer in OUTAGES)
    assert error.router_data == ({} if answer in GONE else None)
    assert error.critical_failure is None
    assert (await sender.push()).status_code == 201


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [("QUOTA_EXCEEDED", "17"), ("UNAVAILABLE", "60"), ("UNAVAILABLE_DATE", "3600")],
)
async def test_an_overloaded_fcm_says_when_to_try_again(
    sender: Sender, answer: str, seconds: str
) -> None:
    error = await sender.refusal(f"{answer}.device")
    assert (error.status, error.errno) == (503, 201)
    assert error.headers == (("Retry-After", seconds),)


@pytest.mark.parametrize("answer", ["REFUSED", "GONE_AWAY"])
async def test_a_push_that_was_certainly_not_processed_is_sent_again_once(
    google: FakeGoogle, sender: Sender, answer: str
) -> None:
    google.script(DEVICE, answer, "", answer, answer)
    assert (await sender.push()).status_code == 201
    error = await sender.refusal()
    assert (error.status, error.errno) == (502, 902)
    assert len(google.requests(":send")) == 4


# ── The access token ──────────────────────────────────────────────────────────────────────────────


async def test_an_access_token_that_was_revoked_is_replaced_and_the_push_delivered(
    google: FakeGoogle, sender: Sender
) -> None:
    await sender.push()
    google.revoke()
    assert (await sender.push()).status_code == 201
    requests = google.requests()
    assert [each["path"].rpartition("/")[2] for each in requests] == [
        "token",
        "messages:send",
        "messages:send",
        "token",
        "messages:send",
    ]


async def test_a_push_whose_new_access_token_is_refused_too_fails(
    google: FakeGoogle, sender: Sender
) -> None:
    error = await sender.refusal("UNAUTHENTICATED.device")
    assert (error.status, error.errno, error.is_outage) == (502, 901, True)
    assert len(google.requests(":send")) == 2


async def test_credentials_of_another_provider_that_fail_cost_no_new_access_token(
    google: FakeGoogle, sender: Sender
) -> None:
    await sender.refusal("THIRD_PARTY_AUTH_ERROR.device")
    assert len(google.requests()) == 2


async def test_an_account_of_another_project_is_refused(
    make_router: MakeRouter, settings: Settings, keys: dict[str, dict[str, Any]]
) -> None:
    wrong = {"app-1": {"projectid": "app-1-project", "auth": keys["app-2"]}}
    error = await Sender(make_router(replace(settings, fcm_creds=wrong))).refusal()
    assert (error.status, error.errno, error.router_data) == (502, 901, None)


# ── Configuration ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("names", [("projectid", "auth"), ("project_id", "credential")])
async def test_credentials_may_be_named_as_by_the_original_and_by_its_successor(
    google: FakeGoogle,
    make_router: MakeRouter,
    settings: Settings,
    keys: dict[str, dict[str, Any]],
    names: tuple[str, str],
) -> None:
    creds = {"app-1": {names[0]: "app-1-project", names[1]: keys["app-1"]}}
    router = make_router(replace(settings, fcm_creds=creds))
    assert (await Sender(router).push()).status_code == 201


async def test_the_project_is_that_of_the_key_where_none_is_named(
    google: FakeGoogle, make_router: MakeRouter, settings: Settings, keys: dict[str, dict[str, Any]]
) -> None:
    creds = {"app-1": {"auth": keys["app-1"]}}
    await Sender(make_router(replace(settings, fcm_creds=creds))).push()
    [request] = google.requests(":send")
    assert request["path"] == "/v1/projects/app-1-project/messages:send"


def test_http_v1_does_not_start_without_https(settings: Settings, clock: ManualClock) -> None:
    with pytest.raises(StartupError, match="fcm_endpoint: HTTP v1 needs"):
        fcm.create(replace(settings, fcm_endpoint="http://127.0.0.1:1"), clock)


def test_http_v1_does_not_start_without_a_service_account(clock: ManualClock) -> None:
    with pytest.raises(StartupError, match="fcm_creds: HTTP v1"):
        fcm.create(Settings(), clock)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({}, "no key file is named"),
        ({"projectid": "p", "auth": {"private_key": "secret"}}, "not the key of a service account"),
        ({"projectid": "", "auth": {"private_key": "secret"}}, "no projectid is named"),
        ({"projectid": 7, "auth": {"private_key": "secret"}}, "no projectid is named"),
    ],
)
def test_wrong_credentials_stop_the_start_with_a_line_that_holds_no_secret(
    clock: ManualClock, members: dict[str, object], problem: str
) -> None:
    with pytest.raises(StartupError) as caught:
        fcm.create(Settings(fcm_creds={"app-9": members}), clock)
    assert str(caught.value).startswith(f"fcm_creds: app-9: {problem}")
    assert "secret" not in str(caught.value)
