"""GCM: what it is sent, and what each of its answers means for the sender and the user."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from autopush.bridges import gcm
from autopush.bridges.provider import Provider
from autopush.delivery.bridge_contract import RouterError
from autopush.net.http_client import ClientLimits, HttpClient
from autopush.settings import Settings, StartupError
from keytables import Value
from support.bridged_device import BridgedDevice
from support.clocks import ManualClock
from support.endpoint_harness import headers_of
from support.gcm_server import result
from support.scripted_provider import (
    HTML,
    REDIRECT,
    SILENCE,
    TOO_LONG,
    Answer,
    ScriptedProvider,
)

SENDER, KEY = "33clienttoken33", "AIza-a-key-of-gcm"
TOKEN = "11-instance-id-11"
AESGCM = {
    "ttl": "60",
    "content-encoding": "aesgcm",
    "encryption": "keyid=p256dh;salt=c2FsdHNhbHRzYWx0c2FsdA==",
    "crypto-key": "keyid=p256dh;dh=BJGTv5Vv_WVh2YRMPrYcg",
}
LATER = "Please try request later."


@pytest.fixture
def settings(google: ScriptedProvider) -> Settings:
    return Settings(senderid_list={SENDER: {"auth": KEY}}, gcm_endpoint=f"{google.url}/gcm/send")


async def device_of(settings: Settings) -> BridgedDevice:
    return await BridgedDevice.open("gcm", gcm.create(settings, ManualClock()))


@pytest.fixture
async def device(settings: Settings) -> AsyncIterator[BridgedDevice]:
    device = await device_of(settings)
    yield device
    await device.close()


@pytest.fixture
async def registered(device: BridgedDevice, token: str) -> BridgedDevice:
    await device.register(SENDER, token)
    return device


# ── Registration ────────────────────────────────────────────────────────────────────────────────


async def test_only_the_sender_id_is_stored_and_never_its_key(device: BridgedDevice) -> None:
    stored = await device.register(SENDER, TOKEN, creds={"senderID": "other", "auth": "made-up"})
    assert stored == {"token": TOKEN, "creds": {"senderID": SENDER}}


@pytest.mark.parametrize("members", [{}, {"auth": ""}, {"auth": 5}, {"auth": "two words"}])
def test_a_sender_id_without_a_key_stops_the_start(members: dict[str, object]) -> None:
    with pytest.raises(StartupError, match="senderid_list: 7 needs a member 'auth'") as caught:
        gcm.create(Settings(senderid_list={"7": members}), ManualClock())
    assert "two words" not in str(caught.value)


def test_the_operator_is_warned_that_google_has_shut_it_down(settings: Settings) -> None:
    assert "shut down" in gcm.create(settings, ManualClock()).start_warning


# ── What is sent ────────────────────────────────────────────────────────────────────────────────


async def test_a_request_that_finds_no_free_connection_in_time_is_503(
    google: ScriptedProvider, token: str
) -> None:
    limits = ClientLimits(max_connections=1, busy_timeout=0.1)
    provider = Provider(client=HttpClient(None, limits))
    google.script(token, SILENCE)

    async def post() -> None:
        json = {
            "registration_ids": [token],
            "time_to_live": 0,
            "dry_run": False,
            "delay_while_idle": False,
            "data": {},
        }
        await provider.post(f"{google.url}/gcm/send", headers={}, json=json)

    first = asyncio.ensure_future(post())
    await asyncio.sleep(0)
    with pytest.raises(RouterError) as caught:
        await post()
    assert (caught.value.status, caught.value.errno) == (503, 201)
    assert ("Retry-After", "5") in caught.value.headers
    google.release(token)
    await first
    await provider.close()


async def test_2744_bytes_with_crypto_headers_fit(registered: BridgedDevice) -> None:
    assert (await registered.push(AESGCM, b"x" * 2744)).status == 201


@pytest.mark.parametrize(
    ("changes", "stored", "sent"),
    [
        ({}, {}, {"dry_run": False}),
        ({"gcm_dryrun": True}, {}, {"dry_run": True}),
        ({}, {"dryrun": True}, {"dry_run": True}),
        ({"gcm_collapsekey": "simplepush"}, {}, {"collapse_key": "simplepush"}),
        ({"gcm_ttl": 300}, {}, {"time_to_live": 300}),
    ],
)
async def test_options_and_the_record_change_what_is_sent(
    google: ScriptedProvider,
    settings: Settings,
    token: str,
    changes: dict[str, Any],
    stored: dict[str, Value],
    sent: dict[str, object],
) -> None:
    device = await device_of(replace(settings, **changes))
    await device.register(SENDER, token, **stored)
    assert (await device.push()).status == 201
    message = google.message(token)
    assert sent.items() <= message.items()
    assert ("collapse_key" in message) == ("collapse_key" in sent)
    await device.close()


# ── The record ──────────────────────────────────────────────────────────────────────────────────


async def test_a_record_of_the_original_with_the_key_in_it_is_served(
    google: ScriptedProvider, device: BridgedDevice, token: str
) -> None:
    await device.store({"token": token, "creds": {"senderID": SENDER, "auth": "key-of-the-record"}})
    assert (await device.push()).status == 201
    (asked,) = google.requests(token)
    assert asked["headers"]["authorization"] == f"key={KEY}"


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


# ── What GCM answers ────────────────────────────────────────────────────────────────────────────


async def test_a_canonical_id_replaces_the_token_and_nothing_else(
    google: ScriptedProvider, device: BridgedDevice, token: str
) -> None:
    await device.store(
        {"token": token, "dryrun": True, "creds": {"senderID": SENDER, "auth": "key-of-the-record"}}
    )
    google.script(token, result(message_id="0:1", registration_id=f"{token}-new"))
    assert await device.result() == (503, 202, "Please try request again.")
    stored = {"token": f"{token}-new", "dryrun": True, "creds": {"senderID": SENDER}}
    assert await device.router_data() == stored
    assert await device.result() == (201, None, "")
    assert len(google.requests(f"{token}-new")) == 1


async def test_the_same_token_as_canonical_id_is_201(
    google: ScriptedProvider, registered: BridgedDevice, token: str
) -> None:
    google.script(token, result(message_id="0:1", registration_id=token))
    assert await registered.result() == (201, None, "")


@pytest.mark.parametrize(
    "error",
    [
        "Unavailable",
        "InternalServerError",
        "DeviceMessageRateExceeded",
        "TopicsMessageRateExceeded",
    ],
)
async def test_an_error_that_passes_is_503_201_and_the_user_stays(
    google: ScriptedProvider, registered: BridgedDevice, token: str, error: str
) -> None:
    answer = result(error=error)
    google.script(token, answer, {**answer, "headers": {"Retry-After": "17"}})
    assert await registered.result() == (503, 201, LATER)
    response = await registered.push()
    assert (response.status, headers_of(response)["retry-after"]) == (503, "17")
    assert await registered.result() == (201, None, "")


@pytest.mark.parametrize("error", ["InvalidRegistration", "MismatchSenderId", "of-tomorrow"])
async def test_another_error_is_410_and_the_user_stays(
    google: ScriptedProvider, registered: BridgedDevice, token: str, error: str
) -> None:
    google.script(token, result(error=error))
    assert await registered.result() == (410, 105, "GCM recipient not available.")
    assert await registered.router_data() is not None


@pytest.mark.parametrize("status", [500, 502, 503, 429])
async def test_retry_after_is_handed_on_with_503_201(
    google: ScriptedProvider, registered: BridgedDevice, token: str, status: int
) -> None:
    google.script(token, {"status": status, "headers": {"Retry-After": "17"}})
    response = await registered.push()
    document = json.loads(response.body)
    assert (response.status, document["errno"]) == (503, 201)
    assert document["message"] == "Please try request in 17 seconds."
    assert headers_of(response)["retry-after"] == "17"


@pytest.mark.parametrize("status", [500, 503, 599])
async def test_a_5xx_without_retry_after_is_503_201_and_never_a_success(
    google: ScriptedProvider, registered: BridgedDevice, token: str, status: int
) -> None:
    google.script(token, {**result(message_id="0:1"), "status": status})
    assert await registered.result() == (503, 201, LATER)


@pytest.mark.parametrize("status", [400, 404, 418])
async def test_400_and_404_are_500_and_the_user_stays(
    google: ScriptedProvider, registered: BridgedDevice, token: str, status: int
) -> None:
    google.script(token, {"status": status, **HTML})
    assert (await registered.result())[:2] == (500, 999)
    assert await registered.router_data() is not None


@pytest.mark.parametrize(
    "answer",
    [
        HTML,
        TOO_LONG,
        REDIRECT,
        {"text": ""},
        {"document": [1]},
        {"document": {"results": []}},
        {"document": {"results": ["text"]}},
        {"document": {"results": [{}]}},
    ],
    ids=["html", "too-long", "redirect", "empty", "list", "no-result", "text", "says-nothing"],
)
async def test_an_answer_that_cannot_be_understood_is_500_and_no_success(
    google: ScriptedProvider, registered: BridgedDevice, token: str, answer: Answer
) -> None:
    google.script(token, answer)
    assert await registered.result() == (500, 999, LATER)
    assert len(google.requests(token)) == 1
    assert await registered.router_data() is not None
