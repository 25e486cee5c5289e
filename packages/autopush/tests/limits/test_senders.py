"""Who may send, and how often: the options of an operator, through the handlers of the endpoint."""

import json
from typing import Any

import pytest

from autopush.limits import LimitRefusals, PushLimits
from autopush.net.http_messages import Response
from autopush.settings.value_types import Rate
from autopush.telemetry.metric_table import LIMIT_REFUSED, NOTIFICATION_ERROR
from autopush.webpush.errors import PushError
from autopush.webpush.syntax import encode_base64url
from autopush.webpush.tokens import Endpoint as OpenedEndpoint
from autopush.webpush.vapid import AllowedSenders, Credentials, parse_credentials
from support.connection_harness import CHANNEL, ENDPOINT, OTHER, UAID, Harness
from support.endpoint_harness import AES128GCM, Endpoint, headers_of, refusal
from support.recorded import new_metrics, recorded
from support.senders import Sender

LISTED, STRANGER = Sender(), Sender()
SUBJECT = "mailto:push@example.org"
OPENED = OpenedEndpoint(UAID, CHANNEL, None, bytes(32))


def signed(sender: Sender, harness: Harness, **claims: object) -> dict[str, str]:
    """Headers of a push, signed by that sender."""
    claims = {"aud": ENDPOINT, "exp": harness.clock() + 3600} | claims
    return AES128GCM | {"authorization": sender.vapid(claims)}


def limited(harness: Harness, **limits: Any) -> Endpoint:
    return Endpoint(harness, **limits)


def message(response: Response) -> str:
    return str(json.loads(response.body)["message"])


def refused(harness: Harness, limit: str) -> float:
    return recorded(harness.metrics, LIMIT_REFUSED, limit=limit)


# ── the rate of an endpoint ─────────────────────────────────────────────────────────────────────


async def test_more_pushes_to_an_endpoint_than_its_rate_are_429_203(harness: Harness) -> None:
    endpoint = limited(harness, endpoint_rate=Rate(2, "h"))
    await harness.known_user()
    assert [(await endpoint.push()).status for _ in range(2)] == [201, 201]
    response = await endpoint.push()
    assert refusal(response) == (429, 203)
    assert 1700 < int(headers_of(response)["retry-after"]) <= 1800
    assert "2/h (endpoint_rate)" in message(response)
    assert len(harness.stored_versions()) == 2
    assert refused(harness, "endpoint_rate") == 1
    assert recorded(harness.metrics, NOTIFICATION_ERROR, code="429") == 1


async def test_the_rate_is_that_of_one_channel_whichever_token_it_is_addressed_by(
    harness: Harness,
) -> None:
    endpoint = limited(harness, endpoint_rate=Rate(1, "h"))
    await harness.known_user()
    await harness.store.current.add_channel(UAID, OTHER)
    assert endpoint.path() != endpoint.path(), "each one is a token of its own"
    assert (await endpoint.push()).status == 201
    assert (await endpoint.push()).status == 429
    assert (await endpoint.push(channel=OTHER)).status == 201


async def test_too_many_pushes_are_refused_before_the_store_is_read_and_a_signature_verified(
    harness: Harness,
) -> None:
    endpoint = limited(harness, endpoint_rate=Rate(1, "h"))
    await harness.known_user()
    await endpoint.push()
    harness.engine.calls.clear()
    forged = signed(LISTED, harness)["authorization"][:-3] + "AAA"
    response = await endpoint.push(AES128GCM | {"authorization": forged})
    assert refusal(response) == (429, 203)
    assert harness.engine.calls == []


async def test_pushes_to_an_endpoint_that_another_key_is_for_take_none_of_its_rate(
    harness: Harness,
) -> None:
    endpoint = limited(harness, endpoint_rate=Rate(1, "h"))
    await harness.known_user()
    for _ in range(3):
        response = await endpoint.push(signed(STRANGER, harness), key=LISTED.point)
        assert refusal(response) == (401, 109)
    assert (await endpoint.push(signed(LISTED, harness), key=LISTED.point)).status == 201


async def test_versions_of_simplepush_have_the_rate_of_their_endpoint(harness: Harness) -> None:
    endpoint = limited(harness, endpoint_rate=Rate(1, "h"))
    await harness.store.users.create_simplepush(UAID, "", 5, None)
    path = endpoint.tokens.simplepush_url(UAID, CHANNEL).removeprefix(ENDPOINT)
    assert (await endpoint.ask("PUT", path, body=b"version=3")).status == 202
    assert refusal(await endpoint.ask("PUT", path, body=b"version=4")) == (429, 203)
    assert harness.stored_updates() == {CHANNEL: 3}


async def test_as_many_messages_of_an_endpoint_may_be_deleted_as_sent(harness: Harness) -> None:
    endpoint = limited(harness, endpoint_rate=Rate(1, "h"))
    await harness.known_user()
    location = headers_of(await endpoint.push())["location"].removeprefix(ENDPOINT)
    assert (await endpoint.ask("DELETE", location)).status == 204
    harness.engine.calls.clear()
    response = await endpoint.ask("DELETE", location)
    assert refusal(response) == (429, 203)
    assert "(endpoint_rate)" in message(response)
    assert harness.engine.calls == []


# ── the rate of a sender ────────────────────────────────────────────────────────────────────────


async def test_more_pushes_of_a_sender_than_its_rate_are_429_203(harness: Harness) -> None:
    endpoint = limited(harness, sender_rate=Rate(2, "h"))
    await harness.known_user()
    await harness.store.current.add_channel(UAID, OTHER)
    for channel in (CHANNEL, OTHER):
        assert (await endpoint.push(signed(LISTED, harness), channel=channel)).status == 201
    response = await endpoint.push(signed(LISTED, harness))
    assert refusal(response) == (429, 203)
    assert 1700 < int(headers_of(response)["retry-after"]) <= 1800
    assert "2/h (sender_rate)" in message(response)
    assert len(harness.stored_versions()) == 2
    assert refused(harness, "sender_rate") == 1
    assert (await endpoint.push(signed(STRANGER, harness))).status == 201
    assert (await endpoint.push()).status == 201, "an anonymous push has no sender"


async def test_a_sender_is_its_key_in_whatever_form(harness: Harness) -> None:
    endpoint = limited(harness, sender_rate=Rate(1, "h"))
    await harness.known_user()
    token = signed(LISTED, harness)["authorization"].partition(",")[0]
    forms = (LISTED.point, LISTED.point[1:], LISTED.der)
    keys = [encode_base64url(form) for form in forms] + [LISTED.key_text + "="]
    pushed = [await endpoint.push(AES128GCM | {"authorization": f"{token},k={k}"}) for k in keys]
    assert [response.status for response in pushed] == [201, 429, 429, 429]


async def test_a_forged_signature_takes_nothing_of_the_rate_of_the_key_it_names(
    harness: Harness,
) -> None:
    endpoint = limited(harness, sender_rate=Rate(1, "h"))
    await harness.known_user()
    token = signed(STRANGER, harness)["authorization"].partition(",")[0]
    forged = AES128GCM | {"authorization": f"{token},k={LISTED.key_text}"}
    assert [(await endpoint.push(forged)).status for _ in range(3)] == [401] * 3
    expired = signed(LISTED, harness, exp=harness.clock() - 1)
    assert (await endpoint.push(expired)).status == 401
    assert (await endpoint.push(signed(LISTED, harness))).status == 201


# ── who may send ────────────────────────────────────────────────────────────────────────────────


async def test_where_vapid_is_required_an_anonymous_push_is_401_120(harness: Harness) -> None:
    endpoint = limited(harness, vapid_required=True)
    await harness.known_user()
    harness.engine.calls.clear()
    response = await endpoint.push()
    assert refusal(response) == (401, 120)
    assert headers_of(response)["www-authenticate"] == "vapid"
    assert harness.engine.calls == []
    assert refused(harness, "vapid_required") == 1
    assert (await endpoint.push(signed(STRANGER, harness))).status == 201


async def test_where_vapid_is_required_there_are_no_versions_of_simplepush(
    harness: Harness,
) -> None:
    endpoint = limited(harness, vapid_required=True)
    await harness.store.users.create_simplepush(UAID, "", 5, None)
    harness.engine.calls.clear()
    path = endpoint.tokens.simplepush_url(UAID, CHANNEL).removeprefix(ENDPOINT)
    response = await endpoint.ask("PUT", path, body=b"version=3")
    assert refusal(response) == (401, 120)
    assert headers_of(response)["www-authenticate"] == "vapid"
    assert harness.engine.calls == []


async def test_a_sender_that_is_not_listed_is_403_121_before_anything_is_read(
    harness: Harness,
) -> None:
    endpoint = limited(harness, allowed_senders=[LISTED.key_text])
    await harness.known_user()
    harness.engine.calls.clear()
    assert refusal(await endpoint.push(signed(STRANGER, harness))) == (403, 121)
    assert harness.engine.calls == []
    assert refused(harness, "allowed_senders") == 1
    assert recorded(harness.metrics, NOTIFICATION_ERROR, code="403") == 1
    assert (await endpoint.push(signed(LISTED, harness))).status == 201


async def test_a_list_of_senders_requires_vapid(harness: Harness) -> None:
    endpoint = limited(harness, allowed_senders=[LISTED.key_text])
    await harness.known_user()
    assert refusal(await endpoint.push()) == (401, 120)


async def test_a_listed_sub_may_send_with_any_key_and_must_be_signed(harness: Harness) -> None:
    endpoint = limited(harness, allowed_senders=[LISTED.key_text, SUBJECT])
    await harness.known_user()
    other = signed(STRANGER, harness, sub="mailto:other@example.org")
    assert refusal(await endpoint.push(other)) == (403, 121)
    good = signed(STRANGER, harness, sub=SUBJECT)
    for _ in range(2):  # also when it is known already
        assert (await endpoint.push(good)).status == 201
    header, key = good["authorization"].split(",")
    forged = AES128GCM | {"authorization": f"{header[:-4]}AAAA,{key}"}
    assert refusal(await endpoint.push(forged)) == (401, 109)


@pytest.mark.parametrize("listed", [LISTED.key_text, LISTED.key_text + "="])
def test_a_listed_key_is_the_same_in_every_form_of_it(listed: str) -> None:
    allowed = AllowedSenders([listed])
    token = LISTED.token({"aud": ENDPOINT})
    for form in (LISTED.point, LISTED.point[1:], LISTED.der):
        assert allowed.has(Credentials("", 2, token, encode_base64url(form)))
    assert not allowed.has(Credentials("", 2, token, STRANGER.key_text))


@pytest.mark.parametrize(
    ("token", "key"), [("a.b.c", STRANGER.key_text), ("a.b.c", "AAAA"), ("a.b.c", "!")]
)
def test_what_cannot_be_read_is_401_109_as_without_a_list(token: str, key: str) -> None:
    with pytest.raises(PushError) as caught:
        AllowedSenders([SUBJECT]).has(parse_credentials(f"vapid t={token},k={key}", {}))
    assert (caught.value.status, caught.value.errno) == (401, 109)


@pytest.mark.parametrize("subject", [None, 7, ["mailto:push@example.org"], ""])
def test_a_sub_that_is_not_the_listed_text_is_not_allowed(subject: object) -> None:
    token = STRANGER.token({} if subject is None else {"sub": subject})
    assert not AllowedSenders([SUBJECT]).has(Credentials("", 2, token, STRANGER.key_text))


# ── none ────────────────────────────────────────────────────────────────────────────────────────


def test_without_options_nothing_is_limited() -> None:
    limits = PushLimits(LimitRefusals(new_metrics()))
    credentials = parse_credentials(f"vapid t=a.b.c,k={LISTED.key_text}", {})
    for _ in range(10_000):
        limits.check_push(OPENED, None, 0.0)
        limits.check_sender_rate(credentials, 0.0)
        limits.check_deletion(UAID)
