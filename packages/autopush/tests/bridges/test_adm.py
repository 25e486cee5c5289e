"""ADM: access tokens, what it is sent, and what each of its answers means."""

import json
from collections.abc import AsyncIterator, Iterator

import pytest

from autopush.bridges import adm
from autopush.bridges.adm import AdmRouter, Profile
from autopush.delivery.bridge_contract import RouterError
from autopush.settings import Settings, StartupError
from support import adm_server
from support.adm_server import refusal, secret_of
from support.bridged_device import BridgedDevice
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, UAID
from support.endpoint_harness import headers_of
from support.scripted_provider import HTML, REDIRECT, SILENCE, TOO_LONG, Answer, ScriptedProvider

PROFILE = "firefox"
TOKEN_START = "amzn1.adm-registration.v3."
TOKEN = TOKEN_START + "A/b+" * 64


@pytest.fixture(scope="module")
def amazon() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(adm_server.judge) as provider:
        yield provider


@pytest.fixture
def client_id(request: pytest.FixtureRequest) -> str:
    """A client ID at Amazon that no other test has."""
    return f"amzn1.application-oa2-client.{request.node.name}"


@pytest.fixture
def settings(amazon: ScriptedProvider, client_id: str) -> Settings:
    profile = {"client_id": client_id, "client_secret": secret_of(client_id)}
    return Settings(adm_creds={PROFILE: profile}, adm_endpoint=amazon.url)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def device(settings: Settings, clock: ManualClock) -> AsyncIterator[BridgedDevice]:
    device = await BridgedDevice.open("adm", adm.create(settings, clock))
    yield device
    await device.close()


@pytest.fixture
async def registered(device: BridgedDevice, token: str) -> BridgedDevice:
    await device.register(PROFILE, token)
    return device


# ── Configuration and registration ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("missing", ["client_id", "client_secret"])
def test_a_profile_without_a_member_stops_the_start(missing: str) -> None:
    members = {"client_id": "the-id", "client_secret": "the-secret"}
    for value in (None, "", 5):
        creds = {PROFILE: {**members, missing: value}}
        with pytest.raises(StartupError, match=f"adm_creds: firefox .* '{missing}'") as caught:
            adm.create(Settings(adm_creds=creds), ManualClock())
        assert "the-" not in str(caught.value)


@pytest.mark.parametrize(
    "token", [TOKEN_START + "x" * 255, TOKEN_START + "x " * 200, "x" * 400], ids=len
)
async def test_a_token_of_another_form_is_refused(device: BridgedDevice, token: str) -> None:
    with pytest.raises(RouterError) as caught:
        device.router.register(UAID, {"token": token}, PROFILE)
    assert (caught.value.status, caught.value.errno) == (400, 108)


# ── What is sent ────────────────────────────────────────────────────────────────────────────────


async def test_the_topic_is_the_consolidation_key(
    amazon: ScriptedProvider, registered: BridgedDevice, token: str
) -> None:
    assert (await registered.push({"ttl": "600", "topic": "news"})).status == 201
    assert amazon.message(token) == {
        "data": {"chid": CHANNEL},
        "expiresAfter": 600,
        "consolidationKey": "news",
    }


async def test_a_record_without_a_profile_fails_for_good(device: BridgedDevice) -> None:
    await device.store({"token": TOKEN})
    assert await device.result() == (410, 105, "Critical Failure: Missing profile")


# ── Access tokens ───────────────────────────────────────────────────────────────────────────────


async def test_credentials_are_tried_with_a_token_and_nothing_is_sent(
    amazon: ScriptedProvider, device: BridgedDevice, client_id: str
) -> None:
    assert PROFILE in await device.router.try_credentials()
    assert len(amazon.requests(client_id)) == 1


async def test_a_token_that_is_refused_early_is_replaced_and_the_message_arrives(
    amazon: ScriptedProvider, registered: BridgedDevice, client_id: str, token: str
) -> None:
    amazon.script(token, refusal(401, "AccessTokenExpired"))
    assert await registered.result() == (201, None, "")
    used = [asked["headers"]["authorization"] for asked in amazon.requests(token)]
    assert len(set(used)) == 2
    assert len(amazon.requests(client_id)) == 2


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 400, "document": {"error": "invalid_request"}},
        {"status": 500, **HTML},
        HTML,
        TOO_LONG,
        REDIRECT,
        {"document": {"access_token": "Atc|x"}},
        {"document": {"access_token": "Atc|x", "expires_in": 0}},
        {"document": {"access_token": "Atc|x\r\nX: y", "expires_in": 3600}},
        {"document": {"access_token": 5, "expires_in": 3600}},
    ],
    ids=["400", "500", "html", "too-long", "redirect", "forever", "never", "lines", "number"],
)
async def test_a_token_that_is_not_issued_is_502_901(
    amazon: ScriptedProvider, registered: BridgedDevice, client_id: str, token: str, answer: Answer
) -> None:
    amazon.script(client_id, answer)
    assert (await registered.result())[:2] == (502, 901)
    assert amazon.requests(token) == []
    assert await registered.result() == (201, None, "")


# ── What ADM answers ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "answer",
    [
        refusal(400, "InvalidData"),
        refusal(400, "InvalidRegistrationId"),
        {"status": 404, **HTML},
        REDIRECT,
    ],
    ids=["400", "400-id", "404", "redirect"],
)
async def test_an_error_of_a_message_is_500_and_the_user_stays(
    amazon: ScriptedProvider, registered: BridgedDevice, token: str, answer: Answer
) -> None:
    amazon.script(token, answer)
    assert (await registered.result())[:2] == (500, 999)
    assert await registered.result() == (201, None, "")


@pytest.mark.parametrize("what", ["token", "message"])
async def test_an_answer_that_does_not_come_is_502_902(
    amazon: ScriptedProvider, client_id: str, token: str, what: str
) -> None:
    profiles = {PROFILE: Profile(client_id, secret_of(client_id))}
    router = AdmRouter(amazon.url, profiles, ManualClock(), patience=0.2)
    device = await BridgedDevice.open("adm", router)
    await device.register(PROFILE, token)
    whom = client_id if what == "token" else token
    amazon.script(whom, SILENCE)
    assert (await device.result())[:2] == (502, 902)
    await device.close()
    amazon.release(whom)


async def test_a_message_that_amazon_finds_too_large_is_413_104(
    amazon: ScriptedProvider, registered: BridgedDevice, token: str
) -> None:
    amazon.script(token, refusal(413, "MessageTooLarge"))
    assert (await registered.result())[:2] == (413, 104)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 599])
async def test_overload_is_503_201_with_the_retry_after_of_amazon(
    amazon: ScriptedProvider, registered: BridgedDevice, token: str, status: int
) -> None:
    answer = refusal(status, "MaxRateExceeded")
    amazon.script(token, {**answer, "headers": {"Retry-After": "17"}}, answer)
    for seconds in ("17", "60"):
        response = await registered.push()
        assert (response.status, json.loads(response.body)["errno"]) == (503, 201)
        assert headers_of(response)["retry-after"] == seconds


async def test_another_registration_id_replaces_the_token_and_nothing_else(
    amazon: ScriptedProvider, registered: BridgedDevice, token: str
) -> None:
    amazon.script(token, {"document": {"registrationID": f"{token}-new"}})
    assert await registered.result() == (201, None, "")
    assert await registered.router_data() == {
        "token": f"{token}-new",
        "creds": {"profile": PROFILE},
    }


def test_a_profile_does_not_show_its_secret() -> None:
    assert "the-secret" not in repr(Profile("the-id", "the-secret"))
