"""GCM and FCM's legacy API: what each of their answers means for the sender and the user.

That they register, send and fail as every bridge does is in `test_contract`.
"""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from autopush.bridges import gcm
from autopush.bridges.discovery import load_routers
from autopush.bridges.gcm import FcmLegacyRouter
from autopush.settings import Settings, StartupError
from keytables import Value
from support.bridged_device import BridgedDevice
from support.cases import cases
from support.clocks import ManualClock
from support.connection_harness import UAID
from support.endpoint_harness import headers_of
from support.gcm_server import result
from support.scripted_provider import HTML, REDIRECT, TOO_LONG, Answer, ScriptedProvider

SENDER, KEY = "33clienttoken33", "AIza-a-key-of-google"
TOKEN = "11-instance-id-11"
LATER = "Please try request later."
BOTH = pytest.mark.parametrize("router_type", ["gcm", "fcm"])


def settings_of(google: ScriptedProvider, router_type: str) -> Settings:
    if router_type == "gcm":
        url = f"{google.url}/gcm/send"
        return Settings(senderid_list={SENDER: {"auth": KEY}}, gcm_endpoint=url)
    return Settings(fcm_auth=KEY, fcm_senderid=SENDER, fcm_endpoint=google.url)


async def device_of(settings: Settings) -> BridgedDevice:
    ((router_type, router),) = load_routers(settings, ManualClock()).items()
    return await BridgedDevice.open(router_type, router)


@pytest.fixture
def router_type() -> str:
    """Where a test is not about both."""
    return "gcm"


@pytest.fixture
async def device(google: ScriptedProvider, router_type: str) -> AsyncIterator[BridgedDevice]:
    device = await device_of(settings_of(google, router_type))
    yield device
    await device.close()


@pytest.fixture
async def registered(device: BridgedDevice, token: str) -> BridgedDevice:
    await device.register(SENDER, token)
    return device


# ── Configuration and registration ──────────────────────────────────────────────────────────────


@cases(
    ("settings", "message"),
    [
        (Settings(fcm_auth=KEY), "fcm_auth needs fcm_senderid"),
        (Settings(fcm_senderid=SENDER), "fcm_senderid needs fcm_auth"),
        (Settings(fcm_auth=f"{KEY} {KEY}", fcm_senderid=SENDER), "fcm_auth: .* 'auth'"),
        (Settings(fcm_creds={"7": {}}, fcm_version=0), "fcm_creds: 7 needs a member 'auth'"),
        *(
            (Settings(senderid_list={"7": members}), "senderid_list: 7 needs a member 'auth'")
            for members in ({}, {"auth": ""}, {"auth": 5}, {"auth": f"{KEY} {KEY}"})
        ),
    ],
)
def test_a_sender_without_its_key_stops_the_start(settings: Settings, message: str) -> None:
    with pytest.raises(StartupError, match=message) as caught:
        load_routers(settings, ManualClock())
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(fcm_auth=KEY, fcm_senderid="2"),
        Settings(fcm_creds={"2": {"auth": KEY}}, fcm_version=0),
    ],
    ids=["a key without fcm_creds", "version 0"],
)
def test_the_legacy_api_serves_the_type_fcm(settings: Settings) -> None:
    (router,) = load_routers(settings, ManualClock()).items()
    assert router[0] == "fcm"
    assert isinstance(router[1], FcmLegacyRouter)


def test_both_forms_of_configuration_of_the_legacy_api_count() -> None:
    settings = Settings(fcm_creds={"1": {"auth": KEY}}, fcm_auth=KEY, fcm_senderid="2")
    router = gcm.create_legacy_fcm(settings, ManualClock())
    for app_id in ("1", "2"):
        router.register(UAID, {"token": TOKEN}, app_id)


@BOTH
async def test_the_operator_is_warned_that_google_has_shut_it_down(device: BridgedDevice) -> None:
    assert "shut down" in device.router.start_warning


@pytest.mark.parametrize(
    ("router_type", "kept"),
    [("gcm", {"creds": {"senderID": SENDER}}), ("fcm", {"app_id": SENDER})],
)
async def test_what_a_client_makes_up_of_credentials_is_not_stored(
    device: BridgedDevice, kept: dict[str, Value]
) -> None:
    stored = await device.register(SENDER, TOKEN, creds={"senderID": "other", "auth": "made-up"})
    assert stored == {"token": TOKEN, **kept}


# ── What is sent ────────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize(
    ("option", "stored", "sent"),
    [
        ({}, {}, {"dry_run": False}),
        ({"dryrun": True}, {}, {"dry_run": True}),
        ({}, {"dryrun": True}, {"dry_run": True}),
        ({"collapsekey": "simplepush"}, {}, {"collapse_key": "simplepush"}),
        ({"ttl": 300}, {}, {"time_to_live": 300}),
    ],
)
async def test_options_and_the_record_change_what_is_sent(
    google: ScriptedProvider,
    router_type: str,
    token: str,
    option: dict[str, Any],
    stored: dict[str, Value],
    sent: dict[str, object],
) -> None:
    changes = {f"{router_type}_{name}": value for name, value in option.items()}
    device = await device_of(replace(settings_of(google, router_type), **changes))
    await device.register(SENDER, token, **stored)
    assert (await device.push()).status == 201
    message = google.message(token)
    assert sent.items() <= message.items()
    assert ("collapse_key" in message) == ("collapse_key" in sent)
    await device.close()


# ── The record ──────────────────────────────────────────────────────────────────────────────────


@BOTH
async def test_a_record_of_the_original_with_the_key_in_it_is_served(
    google: ScriptedProvider, device: BridgedDevice, token: str
) -> None:
    await device.store({"token": token, "creds": {"senderID": SENDER, "auth": "key-of-the-record"}})
    assert (await device.push()).status == 201
    (asked,) = google.requests(token)
    assert asked["headers"]["authorization"] == f"key={KEY}"


@BOTH
@pytest.mark.parametrize("creds", [{}, {"senderID": 5}, "text", None])
async def test_a_record_without_a_sender_id_fails_for_good(
    device: BridgedDevice, token: str, creds: Value
) -> None:
    await device.store({"token": token} | ({} if creds is None else {"creds": creds}))
    for _ in range(2):
        assert await device.result() == (410, 105, "Critical Failure: Missing SenderID")
    record = await device.record()
    assert record is not None
    assert record.critical_failure == "Missing SenderID"


@pytest.mark.parametrize(
    ("router_type", "before", "after"),
    [
        (
            "gcm",
            {"dryrun": True, "creds": {"senderID": SENDER, "auth": "key-of-the-record"}},
            {"dryrun": True, "creds": {"senderID": SENDER}},
        ),
        ("fcm", {"app_id": SENDER}, {"app_id": SENDER}),
    ],
)
async def test_a_canonical_id_replaces_the_token_and_takes_only_the_key_away(
    google: ScriptedProvider,
    device: BridgedDevice,
    token: str,
    before: dict[str, Value],
    after: dict[str, Value],
) -> None:
    await device.store({"token": token, **before})
    google.script(token, result(message_id="0:1", registration_id=f"{token}-new"))
    assert await device.result() == (503, 202, "Please try request again.")
    assert await device.router_data() == {"token": f"{token}-new", **after}
    assert await device.result() == (201, None, "")
    assert len(google.requests(f"{token}-new")) == 1


async def test_the_same_token_as_canonical_id_is_201(
    google: ScriptedProvider, registered: BridgedDevice, token: str
) -> None:
    google.script(token, result(message_id="0:1", registration_id=token))
    assert await registered.result() == (201, None, "")


# ── What they answer ────────────────────────────────────────────────────────────────────────────


class Outcome(NamedTuple):
    """What the sender gets; `logged`: the reason that the operator reads, at level critical."""

    status: int
    errno: int
    message: str = LATER
    drops_user: bool = False
    logged: str = ""


BUSY, UNKNOWN = Outcome(503, 201), Outcome(500, 999)
OTHER = Outcome(410, 105, "GCM recipient not available.")
UPDATE = "Endpoint requires client update"
GCM_ERRORS = {
    "NotRegistered": Outcome(410, 106, UPDATE, drops_user=True),
    "Unavailable": BUSY,
    "InternalServerError": BUSY,
    "DeviceMessageRateExceeded": BUSY,
    "TopicsMessageRateExceeded": BUSY,
    "InvalidRegistration": OTHER,
    "MismatchSenderId": OTHER,
    "of-tomorrow": OTHER,
}
FCM_ERRORS = {
    "InvalidRegistration": Outcome(
        410, 105, "The token of this device is invalid", drops_user=True
    ),
    "NotRegistered": Outcome(410, 103, UPDATE, drops_user=True),
    "MissingRegistration": Outcome(500, 1, "The bridge got no token of this device"),
    "MessageTooBig": Outcome(413, 104, "The bridge finds this too large"),
    "InvalidTtl": Outcome(400, 111, "The bridge does not accept this TTL"),
    "Unavailable": BUSY,
    "InternalServerError": UNKNOWN,
    "DeviceMessageRateExceeded": Outcome(503, 4, "Too many messages for this device"),
    "InvalidPackageName": Outcome(500, 2, logged="InvalidPackageName"),
    "MismatchSenderid": Outcome(410, 105, logged="MismatchSenderid"),
    "MismatchSenderId": Outcome(410, 105, logged="MismatchSenderid"),
    "InvalidDataKey": Outcome(500, 3, logged="InvalidDataKey"),
    "TopicsMessageRateExceeded": Outcome(503, 5, logged="TopicsMessageRateExceeded"),
    "Unreported": Outcome(500, 999, logged="Unreported"),
    "of-tomorrow": Outcome(500, 999, logged="Unreported"),
}
ANSWERS: dict[str, tuple[Answer, Outcome]] = {
    **{
        f"{status} with Retry-After": (
            {"status": status, "headers": {"Retry-After": "17"}},
            Outcome(503, 201, "Please try request in 17 seconds."),
        )
        for status in (429, 500, 503)
    },
    **{
        f"{status} with a message ID": ({**result(message_id="0:1"), "status": status}, BUSY)
        for status in (500, 599)
    },
    **{f"{status}": ({"status": status, **HTML}, UNKNOWN) for status in (400, 404, 418)},
    "html": (HTML, UNKNOWN),
    "too long": (TOO_LONG, UNKNOWN),
    "redirect": (REDIRECT, UNKNOWN),
    "empty": ({"text": ""}, UNKNOWN),
    "a list": ({"document": [1]}, UNKNOWN),
    "no result": ({"document": {"results": []}}, UNKNOWN),
    "a text": ({"document": {"results": ["text"]}}, UNKNOWN),
    "a result that says nothing": ({"document": {"results": [{}]}}, UNKNOWN),
}
"""What is no result, of either of them."""


@pytest.mark.parametrize(
    ("router_type", "answer", "outcome"),
    [
        *(
            pytest.param(router_type, result(error=error), outcome, id=f"{router_type}-{error}")
            for router_type, errors in (("gcm", GCM_ERRORS), ("fcm", FCM_ERRORS))
            for error, outcome in errors.items()
        ),
        *(pytest.param("gcm", *case, id=name) for name, case in ANSWERS.items()),
    ],
)
async def test_each_answer_has_its_outcome_and_only_an_invalid_token_drops_the_user(
    google: ScriptedProvider,
    registered: BridgedDevice,
    token: str,
    caplog: pytest.LogCaptureFixture,
    answer: Answer,
    outcome: Outcome,
) -> None:
    google.script(token, answer)
    assert await registered.result() == outcome[:3]
    assert len(google.requests(token)) == 1
    assert (await registered.router_data() is None) is outcome.drops_user
    logged = [vars(each)["fields"] for each in caplog.records if each.levelno == logging.CRITICAL]
    assert logged == [{"reason": outcome.logged, "application": SENDER}] * bool(outcome.logged)
    if not outcome.drops_user:
        assert await registered.result() == (201, None, "")


@pytest.mark.parametrize(
    "answer", [result(error="Unavailable"), {"status": 429}], ids=["an error", "a status"]
)
async def test_retry_after_is_handed_on(
    google: ScriptedProvider, registered: BridgedDevice, token: str, answer: Answer
) -> None:
    google.script(token, {**answer, "headers": {"Retry-After": "17"}})
    response = await registered.push()
    assert (response.status, headers_of(response)["retry-after"]) == (503, "17")
