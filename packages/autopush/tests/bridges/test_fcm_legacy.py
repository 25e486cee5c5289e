"""FCM's legacy API: its table of errors, and what differs from GCM."""

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from autopush.bridges.discovery import load_routers
from autopush.bridges.gcm import FcmLegacyRouter, create_legacy_fcm
from autopush.settings import Settings, StartupError
from support.bridged_device import BridgedDevice
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, UAID
from support.endpoint_harness import headers_of
from support.gcm_server import result
from support.scripted_provider import ScriptedProvider

APP, KEY = "33clienttoken33", "AIza-a-key-of-fcm"
TOKEN = "11-instance-id-11"
LATER = "Please try request later."


@pytest.fixture
def settings(google: ScriptedProvider) -> Settings:
    return Settings(fcm_auth=KEY, fcm_senderid=APP, fcm_endpoint=google.url)


@pytest.fixture
async def device(settings: Settings) -> AsyncIterator[BridgedDevice]:
    device = await BridgedDevice.open("fcm", create_legacy_fcm(settings, ManualClock()))
    yield device
    await device.close()


@pytest.fixture
async def registered(device: BridgedDevice, token: str) -> BridgedDevice:
    await device.register(APP, token)
    return device


# ── Configuration and registration ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(fcm_auth=KEY), "fcm_auth needs fcm_senderid"),
        (Settings(fcm_senderid=APP), "fcm_senderid needs fcm_auth"),
        (Settings(fcm_auth=f"{KEY} {KEY}", fcm_senderid=APP), "fcm_auth: .* 'auth'"),
        (Settings(fcm_creds={APP: {}}, fcm_version=0), f"fcm_creds: {APP} needs a member 'auth'"),
    ],
)
def test_half_a_configuration_stops_the_start(settings: Settings, message: str) -> None:
    with pytest.raises(StartupError, match=message) as caught:
        load_routers(settings, ManualClock())
    assert KEY not in str(caught.value)


def test_both_forms_of_configuration_count() -> None:
    settings = Settings(fcm_creds={"1": {"auth": KEY}}, fcm_auth=KEY, fcm_senderid="2")
    router = create_legacy_fcm(settings, ManualClock())
    for app_id in ("1", "2"):
        router.register(UAID, {"token": TOKEN}, app_id)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(fcm_auth=KEY, fcm_senderid=APP),
        Settings(fcm_creds={APP: {"auth": KEY}}, fcm_version=0),
    ],
    ids=["a key without fcm_creds", "version 0"],
)
def test_it_serves_the_type_fcm(settings: Settings) -> None:
    (router,) = load_routers(settings, ManualClock()).items()
    assert router[0] == "fcm"
    assert isinstance(router[1], FcmLegacyRouter)


def test_the_operator_is_warned_that_google_has_shut_it_down(settings: Settings) -> None:
    assert "shut down" in create_legacy_fcm(settings, ManualClock()).start_warning


async def test_the_app_id_is_stored_and_in_the_reply(device: BridgedDevice) -> None:
    stored = await device.register(APP, TOKEN, creds={"senderID": "other", "auth": "made-up"})
    assert stored == {"token": TOKEN, "app_id": APP}
    reply: dict[str, object] = {}
    device.router.amend_endpoint_response(reply, stored)
    assert reply == {"senderid": APP}


# ── What is sent ────────────────────────────────────────────────────────────────────────────────


async def test_a_push_arrives_at_the_path_of_the_legacy_api(
    google: ScriptedProvider, registered: BridgedDevice, token: str
) -> None:
    response = await registered.push(body=b"encrypted")
    assert (response.status, headers_of(response)["ttl"]) == (201, "60")
    (asked,) = google.requests(token)
    assert (asked["path"], asked["headers"]["authorization"]) == ("/fcm/send", f"key={KEY}")
    assert json.loads(asked["body"]) == {
        "registration_ids": [token],
        "time_to_live": 60,
        "delay_while_idle": False,
        "dry_run": False,
        "data": {"chid": CHANNEL, "con": "aes128gcm", "body": "ZW5jcnlwdGVk"},
    }


async def test_its_own_options_change_what_is_sent(
    google: ScriptedProvider, settings: Settings, token: str
) -> None:
    settings = replace(settings, fcm_ttl=300, fcm_dryrun=True, fcm_collapsekey="simplepush")
    device = await BridgedDevice.open("fcm", create_legacy_fcm(settings, ManualClock()))
    await device.register(APP, token)
    assert (await device.push()).status == 201
    sent = {"time_to_live": 300, "dry_run": True, "collapse_key": "simplepush"}
    assert sent.items() <= google.message(token).items()
    await device.close()


async def test_a_record_of_the_original_1_33_is_served(device: BridgedDevice, token: str) -> None:
    await device.store({"token": token, "creds": {"senderID": APP, "auth": "key-of-the-record"}})
    assert await device.result() == (201, None, "")


async def test_a_record_without_an_app_id_fails_for_good(device: BridgedDevice, token: str) -> None:
    await device.store({"token": token})
    assert await device.result() == (410, 105, "Critical Failure: Missing SenderID")


# ── What FCM answers ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("error", "status", "errno", "effect"),
    [
        ("InvalidRegistration", 410, 105, "user dropped"),
        ("NotRegistered", 410, 103, "user dropped"),
        ("MissingRegistration", 500, 1, "none"),
        ("MessageTooBig", 413, 104, "none"),
        ("InvalidTtl", 400, 111, "none"),
        ("Unavailable", 503, 201, "none"),
        ("InternalServerError", 500, 999, "none"),
        ("DeviceMessageRateExceeded", 503, 4, "none"),
        ("InvalidPackageName", 500, 2, "logged"),
        ("MismatchSenderid", 410, 105, "logged"),
        ("MismatchSenderId", 410, 105, "logged"),
        ("InvalidDataKey", 500, 3, "logged"),
        ("TopicsMessageRateExceeded", 503, 5, "logged"),
        ("Unreported", 500, 999, "logged"),
        ("of-tomorrow", 500, 999, "logged"),
    ],
)
async def test_each_error_has_its_errno_and_only_an_invalid_token_drops_the_user(
    google: ScriptedProvider,
    registered: BridgedDevice,
    token: str,
    caplog: pytest.LogCaptureFixture,
    error: str,
    status: int,
    errno: int,
    effect: str,
) -> None:
    google.script(token, result(error=error))
    got = await registered.result()
    assert got[:2] == (status, errno)
    assert (await registered.router_data() is None) is (effect == "user dropped")
    logged = [vars(each)["fields"] for each in caplog.records if each.levelno == logging.CRITICAL]
    reason = {"MismatchSenderId": "MismatchSenderid", "of-tomorrow": "Unreported"}.get(error, error)
    assert logged == [{"reason": reason, "application": APP}] * (effect == "logged")
    if effect == "logged":
        assert got[2] == LATER
    if effect != "user dropped":
        assert await registered.result() == (201, None, "")


async def test_a_canonical_id_replaces_the_token_and_keeps_the_app_id(
    google: ScriptedProvider, registered: BridgedDevice, token: str
) -> None:
    google.script(token, result(message_id="0:1", registration_id=f"{token}-new"))
    assert await registered.result() == (503, 202, "Please try request again.")
    assert await registered.router_data() == {"token": f"{token}-new", "app_id": APP}
