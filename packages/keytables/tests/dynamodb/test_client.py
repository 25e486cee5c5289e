"""Calls over real sockets: what is sent, what lost and malformed responses lead to, closing."""

import asyncio
import functools
import ssl
import time
import zlib
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from keytables.dynamodb.client import ApiResponse, Client
from keytables.dynamodb.retries import RetryPolicy, ServiceError
from keytables.dynamodb.signing import Credentials, LoadedCredentials, RefreshTimes
from keytables.errors import KeytablesError, Unavailable
from keytables.retries import Backoff
from support.certificates import tls_pair
from support.clocks import ManualClock
from support.event_loops import until
from support.scripted_server import (
    Exchange,
    HeldStep,
    ScriptedServer,
    Step,
    close,
    error,
    ok,
    raw,
    reset,
)
from support.sockets import silent_port, unused_port

OpenClient = Callable[..., Any]

BOTH_LOOPS = True

SECRETS = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "TOKEN+OF+A+SESSION")  # of the conftest

running = ScriptedServer.running


ATTEMPTS = RetryPolicy().attempts


# --- without failures ---------------------------------------------------------------------------


async def test_a_call_sends_its_operation_and_body_and_returns_the_response(
    open_client: OpenClient,
) -> None:
    async with running([ok(b'{"Item":{}}')]) as server:
        client = await open_client(server)
        reply = await client.call("GetItem", b'{"TableName":"router"}')
        assert (reply.body, reply.maybe_applied) == (b'{"Item":{}}', False)
    (request,) = server.requests
    assert (request.method, request.path, request.body) == ("POST", "/", b'{"TableName":"router"}')
    assert request.headers["x-amz-target"] == "DynamoDB_20120810.GetItem"
    assert request.headers["content-type"] == "application/x-amz-json-1.0"
    assert request.headers["host"] == f"127.0.0.1:{server.port}"
    assert request.headers["x-amz-security-token"] == SECRETS[2]
    assert f"Credential={SECRETS[0]}/" in request.headers["authorization"]
    assert "/eu-west-1/dynamodb/aws4_request" in request.headers["authorization"]


def chunked(body: bytes, size: int) -> Step:
    """In chunks, each written by itself."""

    async def step(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")
        await exchange.raw(b"X-Amz-Crc32: %d\r\n\r\n" % zlib.crc32(body))
        for at in range(0, len(body), size):
            chunk = body[at : at + size]
            await exchange.raw(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await asyncio.sleep(0)
        await exchange.raw(b"0\r\n\r\n")

    return step


async def test_chunked_and_large_responses_are_read_whole(open_client: OpenClient) -> None:
    large = b'{"Items":"' + b"x" * 3_000_000 + b'"}'
    async with running([chunked(large, 100_000), chunked(b'{"a":1}', 1), ok(large)]) as server:
        client = await open_client(server)
        bodies = [(await client.call("Scan", b"{}")).body for _ in range(3)]
        assert bodies == [large, b'{"a":1}', large]
        assert server.connections == 1


async def test_the_name_in_the_certificate_is_checked(
    open_client: OpenClient, tmp_path: Path
) -> None:
    right_server, right_client = tls_pair(tmp_path)
    wrong_server, wrong_client = tls_pair(tmp_path, "db.example")
    async with running(tls=right_server) as server:
        client = await open_client(server, "https", tls=right_client)
        await client.call("GetItem", b"{}")
        assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"
        distrusting = await open_client(server, "https", tls=ssl.create_default_context())
        with pytest.raises(Unavailable, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
            await distrusting.call("GetItem", b"{}")
    async with running(tls=wrong_server) as server:
        client = await open_client(server, "https", tls=wrong_client)
        with pytest.raises(Unavailable, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
            await client.call("GetItem", b"{}")


# --- lost responses -----------------------------------------------------------------------------


def half(body: bytes) -> Step:
    async def step(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) * 2))
        await exchange.raw(body)
        exchange.close()

    return step


LOSSES: dict[str, Step] = {
    "closed": close,
    "reset": reset,
    "half a response": half(b'{"a":'),
    "a response without an end": raw(b"HTTP/1.0 200 OK\r\n\r\n{}", close=True),
    "not HTTP": raw(b"\x00\x01\x02 hello\r\n\r\n"),
    "another protocol": raw(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    "not JSON": ok(b"<html>"),
    "two responses": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" * 2),
    "wrong checksum": ok(x_amz_crc32="12345"),
    "checksum that is not a number": ok(x_amz_crc32="x"),
    "error of the server": error("InternalServerError", status=500),
    "error of a proxy": raw(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>"),
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_after_a_lost_response_the_call_is_repeated_and_says_so(
    open_client: OpenClient, loss: str
) -> None:
    async with running([LOSSES[loss]]) as server:
        client = await open_client(server)
        assert (await client.call("PutItem", b"{}")).maybe_applied
        assert len(server.requests) == 2
        assert not (await client.call("PutItem", b"{}")).maybe_applied
        server.requests.clear()
        server.script = [LOSSES[loss]] * (ATTEMPTS + 1)  # one more on a stale connection
        with pytest.raises(Unavailable, match=r"^PutItem on table 'router': "):
            await client.call("PutItem", b"{}", table="router")
        assert len(server.requests) in (ATTEMPTS, ATTEMPTS + 1)
        server.script = []
        await client.call("PutItem", b"{}")  # the client recovers


async def test_a_rejection_after_a_lost_response_says_so(open_client: OpenClient) -> None:
    refusal = error("ConditionalCheckFailedException", "The conditional request failed")
    async with running([reset, refusal, refusal]) as server:
        client = await open_client(server)
        for maybe_applied in (True, False):
            with pytest.raises(ServiceError) as raised:
                await client.call("PutItem", b"{}")
            assert raised.value.code == "ConditionalCheckFailedException"
            assert raised.value.maybe_applied is maybe_applied
        assert server.connections == 2  # a rejection does not cost the connection


async def test_a_call_ends_within_its_time_limit() -> None:
    with silent_port() as port:
        client = await Client.open(
            region="eu-west-1",
            endpoint=f"http://127.0.0.1:{port}",
            retries=RetryPolicy(attempt_timeout=1000.0),
        )
        with pytest.raises(Unavailable, match="no response in time"):
            await client.call("PutItem", b"{}", time_limit=1)
        await client.close()


# --- stale connections --------------------------------------------------------------------------


async def test_a_connection_the_server_closed_for_being_idle_is_not_used_again(
    open_client: OpenClient,
) -> None:
    async with running() as server:
        client = await open_client(server)
        await client.call("GetItem", b"{}")
        await server.close_all()
        (host,) = client._hosts.hosts
        await until(lambda: not host.pool._open)
        assert not (await client.call("GetItem", b"{}")).maybe_applied
        assert server.connections == 2


async def test_a_request_on_a_stale_connection_is_repeated_at_once(open_client: OpenClient) -> None:
    # Any other attempt would be after the deadline.
    policy = RetryPolicy(backoff=Backoff(1000.0, 1000.0, jitter=0.0))
    first, second = HeldStep(), HeldStep()
    async with running([first, second]) as server:
        client = await open_client(server, retries=policy)
        calls = [asyncio.create_task(client.call("PutItem", b"{}")) for _ in range(2)]
        await asyncio.gather(first.received.wait(), second.received.wait())
        first.released.set()
        second.released.set()
        await asyncio.gather(*calls)
        server.script = [reset]  # as would the other idle connection
        assert (await client.call("PutItem", b"{}")).maybe_applied
        assert server.requests[-1].connection == 2


# --- throttling, outages, permissions-------------------------------------------------------------


async def test_a_refused_connection_is_unavailable(open_client: OpenClient) -> None:
    client = await Client.open(region="r", endpoint=f"http://127.0.0.1:{unused_port()}")
    with pytest.raises(Unavailable, match=r"GetItem: cannot connect to 127\.0\.0\.1"):
        await client.call("GetItem", b"{}")
    await client.close()


# --- credentials and the clock ------------------------------------------------------------------


async def test_a_host_without_an_address_is_unavailable() -> None:
    client = await Client.open(
        region="r", endpoint="http://nobody.invalid:80", credentials=lambda: loaded("a")
    )
    with pytest.raises(Unavailable, match=r"cannot connect to nobody\.invalid"):
        await client.call("GetItem", b"{}", time_limit=10)
    await client.close()


def loaded(name: str) -> LoadedCredentials:
    return LoadedCredentials(Credentials(name, "secret"), lambda seconds: False)


async def test_expired_credentials_are_renewed_and_the_call_goes_on(
    open_client: OpenClient,
) -> None:
    chain = [loaded("OLD"), loaded("NEW")]
    async with running([error("ExpiredTokenException")]) as server:
        client = await open_client(server, credentials=lambda: chain.pop(0))
        assert not (await client.call("PutItem", b"{}")).maybe_applied
    used = [request.headers["authorization"].split("/")[0] for request in server.requests]
    assert [text.rpartition("=")[2] for text in used] == ["OLD", "NEW"]


@pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "InvalidSignatureException"])
async def test_a_wrong_clock_is_corrected_by_the_server_s(
    open_client: OpenClient, code: str
) -> None:
    theirs = 1_800_000_000.0
    skewed = error(code, "Signature expired", Date=formatdate(theirs, usegmt=True))
    clock = ManualClock(theirs - 86_400)
    async with running([skewed]) as server:
        client = await open_client(server, clock=clock)
        assert not (await client.call("PutItem", b"{}")).maybe_applied
        await client.call("PutItem", b"{}")
        dates = [request.headers["x-amz-date"] for request in server.requests]
        assert dates == ["20270114T080000Z", "20270115T080000Z", "20270115T080000Z"]
        clock.advance(86_400)  # now the clock is right, and the correction wrong
        server.script = [skewed]
        await client.call("PutItem", b"{}")
        assert server.requests[-1].headers["x-amz-date"] == "20270115T080000Z"


async def test_a_wrong_clock_is_corrected_for_all_calls_signed_by_it(
    open_client: OpenClient,
) -> None:
    theirs = 1_800_000_000.0
    skewed = error("InvalidSignatureException", Date=formatdate(theirs, usegmt=True))
    together = asyncio.Barrier(3)

    async def step(exchange: Exchange) -> None:
        await together.wait()
        await skewed(exchange)

    async with running([step] * 3) as server:
        client = await open_client(server, clock=ManualClock(theirs - 86_400))
        await asyncio.gather(*[client.call("PutItem", b"{}") for _ in range(3)])
        dates = Counter(request.headers["x-amz-date"][:8] for request in server.requests)
        assert dates == {"20270114": 3, "20270115": 3}


async def test_renewed_credentials_sign_by_the_corrected_clock(open_client: OpenClient) -> None:
    theirs = 1_800_000_000.0
    skewed = error("InvalidSignatureException", Date=formatdate(theirs, usegmt=True))
    chain = [loaded("OLD"), loaded("NEW")]
    async with running([skewed, error("ExpiredTokenException")]) as server:
        client = await open_client(
            server, clock=ManualClock(theirs - 86_400), credentials=lambda: chain.pop(0)
        )
        await client.call("PutItem", b"{}")
        assert server.requests[-1].headers["x-amz-date"].startswith("20270115")


@pytest.mark.parametrize("date", ["now", "yesterday", "Mon, 99 Foo 2026", ""])
async def test_a_signature_that_is_wrong_for_other_reasons_is_not_repeated(
    open_client: OpenClient, date: str
) -> None:
    date = formatdate(usegmt=True) if date == "now" else date
    refusal = error("InvalidSignatureException", f"The Canonical String: {SECRETS[2]}", Date=date)
    async with running([refusal]) as server:
        client = await open_client(server)
        with pytest.raises(Unavailable, match="the secret key does not belong") as raised:
            await client.call("PutItem", b"{}")
        assert SECRETS[2] not in str(raised.value)
        assert len(server.requests) == 1


async def test_no_error_shows_a_secret_or_what_was_sent(open_client: OpenClient) -> None:
    everything = f"{' '.join(SECRETS)} PAYLOAD"
    codes = ["AccessDeniedException", "ExpiredTokenException", "InvalidSignatureException"]
    codes += ["ThrottlingException", "InternalServerError", "RequestTimeoutException"]
    steps = [error(code, everything) for code in codes]
    steps += [raw(everything.encode()), ok(everything.encode()), reset, half(everything.encode())]
    async with running() as server:
        client = await open_client(server)
        for step in steps:
            server.script = [step] * (ATTEMPTS + 1)
            with pytest.raises(KeytablesError) as raised:
                await client.call("PutItem", b'"PAYLOAD"', table="router")
            chain: BaseException | None = raised.value
            while chain is not None:
                text = f"{chain} {chain!r}"
                assert not any(each in text for each in (*SECRETS, "PAYLOAD")), text
                chain = chain.__cause__ or chain.__context__
            server.script = []
        assert not any(each in repr(vars(client)) for each in SECRETS)


# --- cancelling, limits, closing ----------------------------------------------------------------


async def test_callers_can_be_cancelled_at_any_moment(open_client: OpenClient) -> None:
    async with running() as server:
        client = await open_client(server, connections=3)

        async def numbered(exchange: Exchange) -> None:
            await asyncio.sleep(0)
            await exchange.respond(exchange.request.body)

        for turns in range(40):
            server.script = [numbered] * 100
            calls = [asyncio.create_task(client.call("A", b"{%d}" % n)) for n in range(8)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            responses = await asyncio.gather(*calls, return_exceptions=True)
            for number in range(1, 8, 2):
                response = responses[number]
                assert isinstance(response, ApiResponse)
                assert response.body == b"{%d}" % number
        assert server.connections <= 3


async def test_closing_waits_for_calls_that_have_begun(open_client: OpenClient) -> None:
    held = HeldStep()
    async with running([error("ThrottlingException"), held]) as server:
        client = await open_client(server)
        call = asyncio.create_task(client.call("GetItem", b"{}"))
        await held.received.wait()
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="closed"):
            await client.call("GetItem", b"{}")
        assert not closing.done()
        held.released.set()
        await closing
        assert (await call).body == b"{}"
        await server.until(lambda: server.closed == server.connections)
        await client.close()


async def test_closing_does_not_wait_for_ever(open_client: OpenClient) -> None:
    async with running([HeldStep(), HeldStep()]) as server:
        client = await open_client(server, connections=1)
        calls = [asyncio.create_task(client.call("GetItem", b"{}")) for _ in range(2)]
        await server.until(lambda: len(server.requests) == 1)
        await client.close(grace=0.05)
        for call in calls:
            with pytest.raises(Unavailable, match="the client is closed"):
                await call


async def test_the_credentials_of_a_closed_client_are_not_checked(open_client: OpenClient) -> None:
    times = RefreshTimes(check_interval=0.005)
    checks: Counter[str] = Counter()
    checked = asyncio.Event()

    def loaded_by(name: str) -> LoadedCredentials:
        def expires_within(seconds: float) -> bool:
            checks[name] += 1
            checked.set()
            return False

        return LoadedCredentials(Credentials(name, "secret"), expires_within)

    async with running() as server:
        closed = await open_client(server, credentials=lambda: loaded_by("closed"), refresh=times)
        await closed.close()
        checks.clear()
        await open_client(server, credentials=lambda: loaded_by("open"), refresh=times)
        while checks["open"] < 5:
            checked.clear()
            await checked.wait()
    assert checks["closed"] == 0


# --- opening ------------------------------------------------------------------------------------


async def test_a_server_on_this_machine_needs_no_credentials() -> None:
    async with running() as server:
        client = await Client.open(region="", endpoint=f"http://127.0.0.1:{server.port}")
        await client.call("GetItem", b"{}")
        await client.close()
    assert "/us-east-1/dynamodb/" in server.requests[0].headers["authorization"]


async def test_the_role_of_the_instance_is_not_used_for_a_server_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetched: list[str] = []
    fetcher = "botocore.utils.InstanceMetadataFetcher.retrieve_iam_role_credentials"
    monkeypatch.setattr(fetcher, lambda self: fetched.append("role"))
    client = await Client.open(region="", endpoint="http://127.0.0.1:1")
    await client.close()
    assert fetched == []
    with pytest.raises(Unavailable):
        await Client.open(region="eu-west-1")
    assert fetched == ["role"]


@pytest.mark.parametrize("endpoint", [None, "http://192.0.2.1:8000"])
async def test_missing_credentials_are_an_error_with_help_elsewhere(endpoint: str | None) -> None:
    with pytest.raises(Unavailable, match=r"no AWS credentials were found.*AWS_ACCESS_KEY_ID"):
        await Client.open(region="eu-west-1", endpoint=endpoint)


async def test_opening_does_not_wait_for_ever_for_credentials() -> None:
    with pytest.raises(Unavailable, match="no AWS credentials were found in"):
        await Client.open(
            region="eu-west-1", credentials=functools.partial(time.sleep, 0.5), open_timeout=0.05
        )


async def test_an_unknown_profile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(Unavailable, match=r"profile \(nobody\) could not be found"):
        await Client.open(region="eu-west-1", endpoint="http://127.0.0.1:1")


async def test_a_missing_ca_bundle_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "authorities.pem"
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"authorities\.pem"):
            await Client.open(region="eu-west-1", credentials=lambda: loaded("KEY"))
        bundle.write_text("nothing of the kind")
