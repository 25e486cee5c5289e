"""A sender that ignores that endpoints are gone, or none, gets slower, then 429; others never."""

from uuid import UUID

import pytest

from autopush.limits import DELAY, GoneCounts
from autopush.settings.value_types import Rate
from autopush.telemetry.metric_table import LIMIT_REFUSED
from autopush.webpush.syntax import decode_base64url
from autopush.webpush.tokens import KeyRing, new_key
from support.connection_harness import ENDPOINT, Harness
from support.endpoint_harness import AES128GCM, Endpoint, headers_of, refusal
from support.recorded import recorded
from support.senders import Sender

SENDER, OTHER = Sender(), Sender()


def channel(number: int) -> str:
    return str(UUID(int=number, version=4))


class Limited:
    """An endpoint with a `gone_rate` of two in an hour; `delays`: the seconds it has waited."""

    def __init__(self, harness: Harness) -> None:
        self.delays: list[float] = []
        self.harness = harness
        self.endpoint = Endpoint(harness, gone_rate=Rate(2, "h"))
        self.gone = self.endpoint.parts.gone
        self.gone._sleep = self._wait

    async def _wait(self, seconds: float) -> None:
        self.delays.append(seconds)

    async def push(self, number: int, sender: Sender | None = None) -> tuple[int, int]:
        """To an endpoint of a subscription that is gone."""
        headers = dict(AES128GCM)
        if sender is not None:
            claims = {"aud": ENDPOINT, "exp": self.harness.clock() + 3600}
            headers["authorization"] = sender.vapid(claims)
        return refusal(await self.endpoint.push(headers, channel=channel(number)))


async def test_one_who_sends_on_gets_slower_and_then_429(harness: Harness) -> None:
    await harness.known_user()
    limited = Limited(harness)
    assert await limited.push(1, SENDER) == (410, 106)
    assert [await limited.push(1, SENDER) for _ in range(2)] == [(410, 106)] * 2
    assert limited.delays == []
    assert [await limited.push(1, SENDER) for _ in range(2)] == [(410, 106)] * 2
    assert limited.delays == [DELAY] * 2
    assert await limited.push(1, SENDER) == (429, 203)
    assert recorded(harness.metrics, LIMIT_REFUSED, limit="gone_rate") == 1
    harness.clock.advance(3600)
    assert await limited.push(1, SENDER) == (410, 106)


async def test_one_who_is_told_of_each_endpoint_once_is_not_limited(harness: Harness) -> None:
    await harness.known_user()
    limited = Limited(harness)
    for number in range(50):
        assert await limited.push(number, SENDER) == (410, 106)
    assert limited.delays == []


async def test_all_endpoints_of_a_sender_count_together_and_others_not(harness: Harness) -> None:
    await harness.known_user()
    limited = Limited(harness)
    for number in range(5):
        await limited.push(number, SENDER)
    for number in range(4):
        assert await limited.push(number, SENDER) == (410, 106)
    assert await limited.push(4, SENDER) == (429, 203)
    assert await limited.push(4, OTHER) == (410, 106)


async def test_messages_are_counted_by_verified_key_and_without_one_together(
    harness: Harness,
) -> None:
    await harness.known_user()
    limited = Limited(harness)
    for _ in range(7):
        await limited.push(1, SENDER)
    for number in (2, 2, 3, 3, 3):
        await limited.push(number)
    token = OTHER.token({"aud": ENDPOINT, "exp": harness.clock() + 3600})
    forged = AES128GCM | {"authorization": f"vapid t={token},k={SENDER.key_text}"}
    await limited.endpoint.push(forged, channel=channel(2))
    assert dict(limited.gone.senders()) == {
        decode_base64url(SENDER.key_text): GoneCounts(sent=6, delayed=2, refused=2),
        b"": GoneCounts(sent=4, delayed=0, refused=0),
    }


async def test_anonymous_messages_count_for_each_endpoint(harness: Harness) -> None:
    await harness.known_user()
    limited = Limited(harness)
    for _ in range(5):
        assert await limited.push(1) == (410, 106)
    assert await limited.push(1) == (429, 203)
    response = await limited.endpoint.push(channel=channel(1))
    assert int(headers_of(response)["retry-after"]) > 0
    await limited.push(2)
    assert await limited.push(2) == (410, 106)


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("token", ["of-another-service", "malformed", "long"])
async def test_an_endpoint_that_never_existed_counts_as_one_that_is_gone(
    harness: Harness, version: str, token: str
) -> None:
    limited = Limited(harness)
    token = {
        "of-another-service": KeyRing([new_key()]).encrypt(b"x" * 32).rstrip("="),
        "malformed": "%20" + token,
        "long": "A" * 10_000,
    }[token]

    async def push(sender: Sender) -> tuple[int, int]:
        claims = {"aud": ENDPOINT, "exp": harness.clock() + 3600}
        headers = AES128GCM | {"authorization": sender.vapid(claims)}
        return refusal(await limited.endpoint.ask("POST", f"/wpush/{version}/{token}", headers))

    answers = [await push(SENDER) for _ in range(6)]
    assert answers == [(404, 102)] * 5 + [(429, 203)]
    assert limited.delays == [DELAY] * 2
    assert dict(limited.gone.senders()) == {
        decode_base64url(SENDER.key_text): GoneCounts(sent=5, delayed=2, refused=1)
    }
    assert await push(OTHER) == (404, 102)


async def test_the_wrong_version_of_an_endpoint_counts_and_the_right_one_does_not(
    harness: Harness,
) -> None:
    await harness.known_user()
    limited = Limited(harness)
    path = limited.endpoint.path(key=SENDER.point)
    claims = {"aud": ENDPOINT, "exp": harness.clock() + 3600}
    headers = AES128GCM | {"authorization": SENDER.vapid(claims)}
    answers = [
        refusal(await limited.endpoint.ask("POST", path.replace("/v2/", "/v1/"), headers))
        for _ in range(6)
    ]
    assert answers == [(404, 102)] * 5 + [(429, 203)]
    assert (await limited.endpoint.ask("POST", path, headers)).status == 201


async def test_tokens_that_differ_are_not_one_endpoint_that_is_ignored(harness: Harness) -> None:
    limited = Limited(harness)
    for number in range(50):
        answer = await limited.endpoint.ask("POST", f"/wpush/v1/none{number}", AES128GCM)
        assert refusal(answer) == (404, 102)
    assert limited.delays == []
    assert dict(limited.gone.senders()) == {}
