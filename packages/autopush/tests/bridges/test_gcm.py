"""GCM and FCM's legacy API: what each of their answers means for the sender and the user.

That they register, send and fail as every bridge does is in `test_contract`.
"""

import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from autopush.bridges.discovery import load_routers
from autopush.settings import Settings
from keytables import Value
from support.bridged_device import BridgedDevice
from support.clocks import ManualClock
from support.gcm_server import result
from support.scripted_provider import HTML, REDIRECT, TOO_LONG, Answer, ScriptedProvider

SENDER, KEY = "33clienttoken33", "AIza-a-key-of-google"
TOKEN = "11-instance-id-11"
LATER = "Please try request later."


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


# ── The record ──────────────────────────────────────────────────────────────────────────────────


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
