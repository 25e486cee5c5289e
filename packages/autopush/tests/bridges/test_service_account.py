"""Access tokens of a service account, from a fake of Google."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from autopush.bridges.fcm import ServiceAccount, read_key
from autopush.bridges.oauth import TokenCache
from autopush.bridges.provider import Provider
from autopush.delivery.bridge_contract import RouterError
from support.cases import cases
from support.clocks import ManualClock
from support.event_loops import until
from support.fcm_server import SCOPE, TOKEN_ENDPOINT, FakeGoogle

HOUR = 3600
EC_KEY = (
    ec.generate_private_key(ec.SECP256R1())
    .private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    .decode()
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeGoogle]:
    with FakeGoogle(tmp_path_factory.mktemp("google")) as google:
        yield google


@pytest.fixture(scope="module")
def key(shared: FakeGoogle) -> dict[str, Any]:
    return shared.add_account("project-1")


@pytest.fixture
def google(shared: FakeGoogle, monkeypatch: pytest.MonkeyPatch) -> FakeGoogle:
    """As it is at its start."""
    monkeypatch.setenv("SSL_CERT_FILE", str(shared.certificate))
    shared.script(TOKEN_ENDPOINT)
    shared.requests()
    return shared


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(time.time())


@pytest.fixture
async def tokens(
    google: FakeGoogle, key: dict[str, Any], clock: ManualClock
) -> AsyncIterator[TokenCache]:
    """Those of the account whose key it is."""
    provider = Provider(timeout=10)
    account = ServiceAccount(key, SCOPE, provider, clock)
    tokens = TokenCache("project-1", account.fetch, clock)
    yield tokens
    await tokens.close()
    await provider.close()


# ── Fetching ──────────────────────────────────────────────────────────────────────────────────────


async def test_an_assertion_is_signed_for_the_token_endpoint_and_valid_for_an_hour(
    google: FakeGoogle, tokens: TokenCache, key: dict[str, Any], clock: ManualClock
) -> None:
    assert (await tokens.get()).startswith("ya29.")
    [request] = google.requests(TOKEN_ENDPOINT)
    now = int(clock())
    assert request["claims"] == {
        "iss": key["client_email"],
        "scope": "https://www.googleapis.com/auth/firebase.messaging",
        "aud": key["token_uri"],
        "iat": now,
        "exp": now + HOUR,
    }


async def test_a_lifetime_may_be_a_text(google: FakeGoogle, tokens: TokenCache) -> None:
    google.script(TOKEN_ENDPOINT, "TOKEN_OF_TEN_MINUTES")
    assert await tokens.get() == "ya29.ten"


# ── A token endpoint that fails ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "status", "errno"),
    [
        ("INVALID_GRANT", 502, 901),
        ("INVALID_CLIENT", 502, 901),
        ("PERMISSION_DENIED", 502, 901),
        ("QUOTA_EXCEEDED", 503, 201),
        ("UNAVAILABLE", 503, 201),
        ("INTERNAL", 502, 902),
        ("EMPTY_500", 502, 902),
        ("EMPTY_200", 502, 902),
        ("HTML_200", 502, 902),
        ("HTML_502", 502, 902),
        ("LIST_200", 502, 902),
        ("OBJECT_200", 502, 902),
        ("TOKEN_WITHOUT_TEXT", 502, 902),
        ("TOKEN_WITHOUT_LIFETIME", 502, 902),
        ("TOKEN_OF_LINES", 502, 902),
        ("REDIRECT", 502, 902),
    ],
)
async def test_what_the_token_endpoint_answers_decides_the_error(
    google: FakeGoogle, tokens: TokenCache, answer: str, status: int, errno: int
) -> None:
    google.script(TOKEN_ENDPOINT, answer)
    with pytest.raises(RouterError) as caught:
        await tokens.get()
    assert (caught.value.status, caught.value.errno) == (status, errno)
    assert caught.value.is_outage == (status == 502)
    assert caught.value.router_data is None
    assert await tokens.get()


@pytest.mark.parametrize("answer", ["NOTHING", "HALF", "RESET", "GARBAGE"])
async def test_a_token_is_asked_for_again_once_when_the_connection_ends(
    google: FakeGoogle, tokens: TokenCache, answer: str
) -> None:
    google.script(TOKEN_ENDPOINT, answer, answer)
    with pytest.raises(RouterError) as caught:
        await tokens.get()
    assert (caught.value.status, caught.value.errno) == (502, 902)
    google.script(TOKEN_ENDPOINT, answer)
    assert await tokens.get()


@pytest.mark.parametrize("answer", ["SILENT", "STALLED"])
async def test_a_token_endpoint_that_takes_too_long_is_a_timeout(
    google: FakeGoogle, key: dict[str, Any], clock: ManualClock, answer: str
) -> None:
    provider = Provider(timeout=2)
    account = ServiceAccount(key, SCOPE, provider, clock)
    google.script(TOKEN_ENDPOINT, answer)
    with pytest.raises(RouterError) as caught:
        await account.fetch()
    assert (caught.value.status, caught.value.errno) == (502, 903)
    await provider.close()
    await until(lambda: not google.open)  # it takes both sides to end TLS


# ── The key ───────────────────────────────────────────────────────────────────────────────────────


def test_a_key_is_a_file_or_json_or_an_object(tmp_path: Path) -> None:
    file = tmp_path / "key.json"
    file.write_text('{"type": "service_account"}')
    for key in (str(file), '\n {"type": "service_account"}', {"type": "service_account"}):
        assert read_key(key) == {"type": "service_account"}


@cases(
    ("key", "problem"),
    [
        (None, "no key file is named"),
        (" ", "no key file is named"),
        (7, "no key file is named"),
        ("/secret-in-the-wrong-place", "its key file cannot be read: No such file or directory"),
        ("secret\0", "its key is not JSON"),
        ('{"secret": ', "its key is not JSON"),
        ("{folder}/list.json", "its key {folder}/list.json is not a JSON object"),
        ("{folder}/words.json", "its key {folder}/words.json is not JSON"),
        ("{folder}", "its key file {folder} cannot be read: Is a directory"),
        ("/no such.json", "its key file /no such.json cannot be read: No such file or directory"),
    ],
)
def test_a_key_that_cannot_be_read_is_described_without_what_was_given(
    tmp_path: Path, key: object, problem: str
) -> None:
    (tmp_path / "list.json").write_text('["secret"]')
    (tmp_path / "words.json").write_text("secret")
    if isinstance(key, str):
        key = key.replace("{folder}", str(tmp_path))
    with pytest.raises(ValueError) as caught:
        read_key(key)
    assert str(caught.value) == problem.replace("{folder}", str(tmp_path))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"client_email": None}, "not the key of a service account"),
        ({"private_key": None}, "not the key of a service account"),
        ({"private_key": "secret"}, "not the key of a service account"),
        ({"private_key": {"a": 1}}, "not the key of a service account"),
        ({"private_key": EC_KEY}, "not the key of a service account"),
        ({"token_uri": None}, "not the key of a service account"),
        ({"token_uri": "secret"}, "its token_uri is not a URL"),
        ({"token_uri": 5}, "its token_uri is not a URL"),
    ],
)
def test_an_incomplete_key_is_refused(
    key: dict[str, Any], clock: ManualClock, changed: dict[str, object], problem: str
) -> None:
    members = {name: value for name, value in {**key, **changed}.items() if value is not None}
    with pytest.raises(ValueError) as caught:
        ServiceAccount(json.loads(json.dumps(members)), SCOPE, Provider(), clock)
    assert str(caught.value) == problem


def test_a_google_services_json_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "google-services.json"
    path.write_text('{"project_info": {"project_id": "p"}, "client": [{"api_key": "secret"}]}')
    with pytest.raises(ValueError, match="needed is the key of a service account") as caught:
        read_key(str(path))
    assert f"{path} is a google-services.json" in str(caught.value)
    assert "secret" not in str(caught.value)
