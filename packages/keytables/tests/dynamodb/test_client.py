"""Calls over real sockets: what is sent, what lost and odd answers lead to, and how it closes."""

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

from keytables.dynamodb import client as client_module
from keytables.dynamodb import connection as connection_module
from keytables.dynamodb import credentials as credentials_module
from keytables.dynamodb import retries
from keytables.dynamodb.client import Client, ServiceError
from keytables.dynamodb.credentials import Found
from keytables.dynamodb.signature import Credentials
from keytables.errors import AccessRefused, KeytablesError, Throttled, Unavailable
from support.certificates import tls_pair
from support.clocks import ManualClock
from support.scripted_server import (
    Exchange,
    Held,
    ScriptedServer,
    Step,
    close,
    error,
    ok,
    raw,
    reset,
)
from support.sockets import deaf_port, full_port, unused_port

OpenClient = Callable[..., Any]

BOTH_LOOPS = True
SECRETS = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "TOKEN+OF+A+SESSION")

running = ScriptedServer.running


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "BASE", 0.0)


@pytest.fixture
def short_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "try_seconds", lambda patience: 0.1)


# --- the plain way ------------------------------------------------------------------------------


async def test_a_call_sends_its_operation_and_body_and_brings_the_answer(
    open_client: OpenClient,
) -> None:
    async with running([ok(b'{"Item":{}}')]) as server:
        client = await open_client(server)
        reply = await client.call("GetItem", b'{"TableName":"router"}')
        assert (reply.body, reply.repeated) == (b'{"Item":{}}', False)
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/", b'{"TableName":"router"}')
    assert asked.headers["x-amz-target"] == "DynamoDB_20120810.GetItem"
    assert asked.headers["content-type"] == "application/x-amz-json-1.0"
    assert asked.headers["host"] == f"127.0.0.1:{server.port}"
    assert asked.headers["x-amz-security-token"] == SECRETS[2]
    assert f"Credential={SECRETS[0]}/" in asked.headers["authorization"]
    assert "/eu-west-1/dynamodb/aws4_request" in asked.headers["authorization"]


async def test_a_connection_is_used_again_and_again(open_client: OpenClient) -> None:
    async with running() as server:
        client = await open_client(server)
        for _ in range(20):
            await client.call("GetItem", b"{}")
        assert server.connections == 1


async def test_the_signature_bears_the_time_of_the_clock_that_was_injected(
    open_client: OpenClient,
) -> None:
    clock = ManualClock(1_800_000_000.0)
    async with running() as server:
        client = await open_client(server, clock=clock)
        await client.call("GetItem", b"{}")
        clock.advance(3600)
        await client.call("GetItem", b"{}")
    dates = [asked.headers["x-amz-date"] for asked in server.asked]
    assert dates == ["20270115T080000Z", "20270115T090000Z"]


def chunked(body: bytes, size: int) -> Step:
    """In chunks, each written alone."""

    async def step(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n")
        await exchange.raw(b"X-Amz-Crc32: %d\r\n\r\n" % zlib.crc32(body))
        for at in range(0, len(body), size):
            chunk = body[at : at + size]
            await exchange.raw(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            await asyncio.sleep(0)
        await exchange.raw(b"0\r\n\r\n")

    return step


async def test_answers_in_chunks_and_large_ones_come_whole(open_client: OpenClient) -> None:
    large = b'{"Items":"' + b"x" * 3_000_000 + b'"}'
    async with running([chunked(large, 100_000), chunked(b'{"a":1}', 1), ok(large)]) as server:
        client = await open_client(server)
        bodies = [(await client.call("Scan", b"{}")).body for _ in range(3)]
        assert bodies == [large, b'{"a":1}', large]
        assert server.connections == 1


async def test_an_interim_answer_is_passed_over(open_client: OpenClient) -> None:
    interim = b"HTTP/1.1 100 Continue\r\nX-Amz-Crc32: 1\r\n\r\n"

    async def step(exchange: Exchange) -> None:
        await exchange.raw(interim)
        await exchange.answer(b'{"a":1}')

    async with running([step]) as server:
        client = await open_client(server)
        assert (await client.call("GetItem", b"{}")).body == b'{"a":1}'


async def test_a_server_that_closes_after_each_answer_is_served_on_new_connections(
    open_client: OpenClient,
) -> None:
    async with running([ok(Connection="close")] * 3) as server:
        client = await open_client(server)
        replies = [await client.call("GetItem", b"{}") for _ in range(3)]
        assert not any(reply.repeated for reply in replies)
        assert server.connections == 3


async def test_the_name_in_the_certificate_is_checked(
    open_client: OpenClient, tmp_path: Path
) -> None:
    right_server, right_client = tls_pair(tmp_path)
    wrong_server, wrong_client = tls_pair(tmp_path, "db.example")
    async with running(tls=right_server) as server:
        client = await open_client(server, "https", tls=right_client)
        await client.call("GetItem", b"{}")
        assert server.asked[0].headers["host"] == f"127.0.0.1:{server.port}"
        distrusting = await open_client(server, "https", tls=ssl.create_default_context())
        with pytest.raises(Unavailable, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
            await distrusting.call("GetItem", b"{}")
    async with running(tls=wrong_server) as server:
        client = await open_client(server, "https", tls=wrong_client)
        with pytest.raises(Unavailable, match="TLS failed: CERTIFICATE_VERIFY_FAILED"):
            await client.call("GetItem", b"{}")


# --- lost replies -------------------------------------------------------------------------------


def half(body: bytes) -> Step:
    async def step(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(body) * 2))
        await exchange.raw(body)
        exchange.close()

    return step


LOSSES: dict[str, Step] = {
    "closed": close,
    "reset": reset,
    "half an answer": half(b'{"a":'),
    "an answer without an end": raw(b"HTTP/1.0 200 OK\r\n\r\n{}", close=True),
    "not HTTP": raw(b"\x00\x01\x02 hello\r\n\r\n"),
    "another protocol": raw(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    "not JSON": ok(b"<html>"),
    "two answers": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" * 2),
    "wrong checksum": ok(x_amz_crc32="12345"),
    "checksum that is no number": ok(x_amz_crc32="x"),
    "server's error": error("InternalServerError", status=500),
    "proxy's error": raw(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>"),
}


@pytest.mark.parametrize("loss", LOSSES)
async def test_a_lost_reply_is_tried_again_and_told_of(open_client: OpenClient, loss: str) -> None:
    async with running([LOSSES[loss]]) as server:
        client = await open_client(server)
        assert (await client.call("PutItem", b"{}")).repeated
        assert len(server.asked) == 2
        assert not (await client.call("PutItem", b"{}")).repeated


@pytest.mark.parametrize("loss", LOSSES)
async def test_replies_lost_again_and_again_end_as_unavailable(
    open_client: OpenClient, loss: str
) -> None:
    async with running([LOSSES[loss]] * retries.TRIES) as server:
        client = await open_client(server)
        with pytest.raises(Unavailable, match=r"^PutItem on table 'router': "):
            await client.call("PutItem", b"{}", table="router")
        assert len(server.asked) == retries.TRIES
        await client.call("PutItem", b"{}")  # all is well again


async def test_a_verdict_after_a_lost_reply_says_so(open_client: OpenClient) -> None:
    refusal = error("ConditionalCheckFailedException", "The conditional request failed")
    async with running([reset, refusal, refusal]) as server:
        client = await open_client(server)
        for repeated in (True, False):
            with pytest.raises(ServiceError) as raised:
                await client.call("PutItem", b"{}")
            assert raised.value.code == "ConditionalCheckFailedException"
            assert raised.value.repeated is repeated
        assert server.connections == 2  # a verdict does not cost the connection


@pytest.mark.usefixtures("short_tries")
async def test_an_answer_that_does_not_come_in_time_is_a_lost_one(open_client: OpenClient) -> None:
    held = Held()
    async with running([held]) as server:
        client = await open_client(server)
        assert (await client.call("PutItem", b"{}")).repeated
        assert server.connections == 2
        held.let_go.set()


@pytest.mark.usefixtures("short_tries")
async def test_an_answer_that_trickles_does_not_prolong_its_time(open_client: OpenClient) -> None:
    gone = asyncio.Event()

    async def trickle(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        try:
            while True:
                await exchange.raw(b"{")
                await asyncio.sleep(0.01)
        except (OSError, RuntimeError):  # uvloop's word for it
            gone.set()
            exchange.close()

    async with running([trickle]) as server:
        client = await open_client(server)
        assert (await client.call("PutItem", b"{}")).repeated
        await asyncio.wait_for(gone.wait(), 10)


async def test_a_call_ends_when_its_patience_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "try_seconds", lambda patience: 1000.0)
    with deaf_port() as port:
        client = await Client.open(region="eu-west-1", endpoint=f"http://127.0.0.1:{port}")
        with pytest.raises(Unavailable, match="no answer in time"):
            await client.call("PutItem", b"{}", patience=0.2)
        await client.close()


async def test_an_answer_above_the_bound_is_not_kept(
    open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "MAX_ANSWER", 10_000)
    endless = chunked(b"{" * 20_000, 1000)
    async with running([endless, raw(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 2000)]) as server:
        client = await open_client(server)
        assert (await client.call("Scan", b"{}")).repeated
        assert len(server.asked) == 3


# --- connections that went stale ----------------------------------------------------------------


async def test_a_connection_the_server_closed_for_being_idle_is_not_used_again(
    open_client: OpenClient,
) -> None:
    async with running() as server:
        client = await open_client(server)
        await client.call("GetItem", b"{}")
        await server.close_all()
        await asyncio.sleep(0.02)  # the end of the connection is on its way
        assert not (await client.call("GetItem", b"{}")).repeated
        assert server.connections == 2


async def test_a_connection_that_ends_as_a_request_goes_out_is_made_up_for_at_once(
    open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retries, "BASE", 1000.0)  # any other retry would be behind the deadline
    first, second = Held(), Held()
    async with running([first, second]) as server:
        client = await open_client(server)
        calls = [asyncio.create_task(client.call("PutItem", b"{}")) for _ in range(2)]
        await asyncio.gather(first.asked.wait(), second.asked.wait())
        first.let_go.set()
        second.let_go.set()
        await asyncio.gather(*calls)
        server.script = [reset]  # and the other idle connection would do the same
        assert (await client.call("PutItem", b"{}")).repeated
        assert server.asked[-1].connection == 2


async def test_an_idle_connection_is_closed_after_a_while(
    open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "IDLE", 0.05)
    async with running() as server:
        client = await open_client(server)
        await client.call("GetItem", b"{}")
        await server.until(lambda: server.ended == 1)
        assert not (await client.call("GetItem", b"{}")).repeated


# --- throttling, outages, rights ----------------------------------------------------------------


async def test_throttling_is_tried_again_and_is_not_ambiguous(open_client: OpenClient) -> None:
    throttled = error("ProvisionedThroughputExceededException")
    async with running([throttled] * 3) as server:
        client = await open_client(server)
        assert not (await client.call("PutItem", b"{}")).repeated
        server.script = [throttled] * 4
        with pytest.raises(Throttled, match="ProvisionedThroughputExceededException"):
            await client.call("PutItem", b"{}", table="router")
        assert len(server.asked) == 8
        assert server.connections == 1


async def test_nobody_there_is_unavailable_and_not_ambiguous(open_client: OpenClient) -> None:
    client = await Client.open(region="r", endpoint=f"http://127.0.0.1:{unused_port()}")
    with pytest.raises(Unavailable, match=r"GetItem: cannot connect to 127\.0\.0\.1"):
        await client.call("GetItem", b"{}")
    await client.close()


async def test_no_answer_to_connecting_is_unavailable() -> None:
    with full_port() as port:
        client = await Client.open(region="r", endpoint=f"http://127.0.0.1:{port}")
        with pytest.raises(Unavailable, match="connecting took too long"):
            await client.call("GetItem", b"{}", patience=0.3)
        await client.close()


async def test_a_host_that_has_no_address_is_unavailable() -> None:
    client = await Client.open(
        region="r", endpoint="http://nobody.invalid:80", credentials=lambda: found("a")
    )
    with pytest.raises(Unavailable, match=r"cannot connect to nobody\.invalid"):
        await client.call("GetItem", b"{}", patience=10)
    await client.close()


async def test_a_missing_right_is_refused_by_name_at_once(open_client: OpenClient) -> None:
    async with running([error("AccessDeniedException", "User: arn:… is not")]) as server:
        client = await open_client(server)
        with pytest.raises(AccessRefused, match="dynamodb:UpdateItem") as raised:
            await client.call("UpdateItem", b"{}", table="router")
        assert (raised.value.operation, raised.value.table) == ("UpdateItem", "router")
        assert len(server.asked) == 1


# --- credentials and the clock ------------------------------------------------------------------


def found(name: str) -> Found:
    return Found(Credentials(name, "secret"), lambda seconds: False)


async def test_expired_credentials_are_renewed_and_the_call_goes_on(
    open_client: OpenClient,
) -> None:
    chain = [found("OLD"), found("NEW")]
    async with running([error("ExpiredTokenException")]) as server:
        client = await open_client(server, credentials=lambda: chain.pop(0))
        assert not (await client.call("PutItem", b"{}")).repeated
    used = [asked.headers["authorization"].split("/")[0] for asked in server.asked]
    assert [text.rpartition("=")[2] for text in used] == ["OLD", "NEW"]


async def test_many_refused_calls_ask_for_credentials_once(open_client: OpenClient) -> None:
    asked: list[str] = []

    def load() -> Found:
        asked.append("")
        return found(f"KEY{len(asked)}")

    def judge(exchange: Exchange) -> Step:
        old = "Credential=KEY1/" in exchange.asked.headers["authorization"]
        return error("UnrecognizedClientException") if old else ok()

    async def step(exchange: Exchange) -> None:
        await judge(exchange)(exchange)

    async with running([step] * 100) as server:
        client = await open_client(server, credentials=load)
        await asyncio.gather(*[client.call("PutItem", b"{}") for _ in range(10)])
        assert len(asked) == 2


@pytest.mark.parametrize("code", ["ExpiredTokenException", "UnrecognizedClientException"])
async def test_credentials_that_stay_refused_end_the_call_with_the_ways_to_give_others(
    open_client: OpenClient, code: str
) -> None:
    async with running([error(code)] * 3) as server:
        client = await open_client(server)
        for _ in range(2):
            with pytest.raises(Unavailable, match=f"{code}.*AWS_ACCESS_KEY_ID"):
                await client.call("PutItem", b"{}")
        assert len(server.asked) == 2


@pytest.mark.parametrize("code", ["RequestTimeTooSkewed", "InvalidSignatureException"])
async def test_a_clock_that_is_wrong_is_set_by_the_server(
    open_client: OpenClient, code: str
) -> None:
    theirs = 1_800_000_000.0
    skewed = error(code, "Signature expired", Date=formatdate(theirs, usegmt=True))
    clock = ManualClock(theirs - 86_400)
    async with running([skewed]) as server:
        client = await open_client(server, clock=clock)
        assert not (await client.call("PutItem", b"{}")).repeated
        await client.call("PutItem", b"{}")
        dates = [asked.headers["x-amz-date"] for asked in server.asked]
        assert dates == ["20270114T080000Z", "20270115T080000Z", "20270115T080000Z"]
        clock.advance(86_400)  # now it is set right, and the correction is wrong
        server.script = [skewed]
        await client.call("PutItem", b"{}")
        assert server.asked[-1].headers["x-amz-date"] == "20270115T080000Z"


async def test_a_clock_that_is_wrong_is_set_for_all_who_went_by_it(open_client: OpenClient) -> None:
    theirs = 1_800_000_000.0
    skewed = error("InvalidSignatureException", Date=formatdate(theirs, usegmt=True))
    together = asyncio.Barrier(3)

    async def step(exchange: Exchange) -> None:
        await together.wait()
        await skewed(exchange)

    async with running([step] * 3) as server:
        client = await open_client(server, clock=ManualClock(theirs - 86_400))
        await asyncio.gather(*[client.call("PutItem", b"{}") for _ in range(3)])
        dates = Counter(asked.headers["x-amz-date"][:8] for asked in server.asked)
        assert dates == {"20270114": 3, "20270115": 3}


async def test_renewed_credentials_sign_by_the_clock_that_was_set(open_client: OpenClient) -> None:
    theirs = 1_800_000_000.0
    skewed = error("InvalidSignatureException", Date=formatdate(theirs, usegmt=True))
    chain = [found("OLD"), found("NEW")]
    async with running([skewed, error("ExpiredTokenException")]) as server:
        client = await open_client(
            server, clock=ManualClock(theirs - 86_400), credentials=lambda: chain.pop(0)
        )
        await client.call("PutItem", b"{}")
        assert server.asked[-1].headers["x-amz-date"].startswith("20270115")


@pytest.mark.parametrize("date", ["now", "yesterday", "Mon, 99 Foo 2026", ""])
async def test_a_signature_that_is_wrong_for_other_reasons_is_not_tried_again(
    open_client: OpenClient, date: str
) -> None:
    date = formatdate(usegmt=True) if date == "now" else date
    refusal = error("InvalidSignatureException", f"The Canonical String: {SECRETS[2]}", Date=date)
    async with running([refusal]) as server:
        client = await open_client(server)
        with pytest.raises(Unavailable, match="the secret key does not belong") as raised:
            await client.call("PutItem", b"{}")
        assert SECRETS[2] not in str(raised.value)
        assert len(server.asked) == 1


async def test_no_error_shows_a_secret_or_what_was_sent(
    open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = f"{' '.join(SECRETS)} PAYLOAD"
    codes = ["AccessDeniedException", "ExpiredTokenException", "InvalidSignatureException"]
    codes += ["ThrottlingException", "InternalServerError", "RequestTimeoutException"]
    steps = [error(code, everything) for code in codes]
    steps += [raw(everything.encode()), ok(everything.encode()), reset, half(everything.encode())]
    async with running() as server:
        client = await open_client(server)
        for step in steps:
            server.script = [step] * (retries.TRIES + 1)
            with pytest.raises(KeytablesError) as raised:
                await client.call("PutItem", b'"PAYLOAD"', table="router")
            chain: BaseException | None = raised.value
            while chain is not None:
                text = f"{chain} {chain!r}"
                assert not any(each in text for each in (*SECRETS, "PAYLOAD")), text
                chain = chain.__cause__ or chain.__context__
            server.script = []
        assert not any(each in repr(vars(client)) for each in SECRETS)


# --- cancelling, bounds, closing ----------------------------------------------------------------


async def test_cancelling_a_caller_shifts_no_answer(open_client: OpenClient) -> None:
    held = Held()
    async with running([held, ok(b'{"second":1}')]) as server:
        client = await open_client(server, connections=1)
        first = asyncio.create_task(client.call("GetItem", b"{}"))
        await held.asked.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(client.call("GetItem", b"{}"))
        await asyncio.sleep(0)
        held.let_go.set()
        assert (await second).body == b'{"second":1}'
        assert server.connections == 1


async def test_cancelling_callers_at_any_moment_leaves_the_client_whole(
    open_client: OpenClient,
) -> None:
    async with running() as server:
        client = await open_client(server, connections=3)

        async def numbered(exchange: Exchange) -> None:
            await asyncio.sleep(0)
            await exchange.answer(exchange.asked.body)

        for turns in range(40):
            server.script = [numbered] * 100
            calls = [asyncio.create_task(client.call("A", b"{%d}" % n)) for n in range(8)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for call in calls[::2]:
                call.cancel()
            answers = await asyncio.gather(*calls, return_exceptions=True)
            for number in range(1, 8, 2):
                answer = answers[number]
                assert isinstance(answer, client_module.Reply)
                assert answer.body == b"{%d}" % number
        assert server.connections <= 3


async def test_connections_and_waiting_calls_have_bounds(open_client: OpenClient) -> None:
    steps = [Held() for _ in range(3)]
    async with running(steps) as server:
        client = await open_client(server, connections=3, max_waiting=3)
        calls = [asyncio.create_task(client.call("GetItem", b"{}")) for _ in range(3)]
        for step in steps:
            await step.asked.wait()
        waiting = [asyncio.create_task(client.call("GetItem", b"{}")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(Throttled, match="3 calls are waiting"):
            await client.call("GetItem", b"{}")
        for step in steps:
            step.let_go.set()
        await asyncio.gather(*calls, *waiting)
        assert server.connections == 3


async def test_a_call_that_gets_no_connection_in_time_is_throttled(
    open_client: OpenClient,
) -> None:
    held = Held()
    async with running([held]) as server:
        client = await open_client(server, connections=1)
        first = asyncio.create_task(client.call("GetItem", b"{}"))
        await held.asked.wait()
        with pytest.raises(Throttled, match="no connection came free"):
            await client.call("GetItem", b"{}", patience=0.2)
        held.let_go.set()
        await first


async def test_closing_waits_for_the_calls_under_way(open_client: OpenClient) -> None:
    held = Held()
    async with running([error("ThrottlingException"), held]) as server:
        client = await open_client(server)
        call = asyncio.create_task(client.call("GetItem", b"{}"))
        await held.asked.wait()
        closing = asyncio.create_task(client.close())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="closed"):
            await client.call("GetItem", b"{}")
        assert not closing.done()
        held.let_go.set()
        await closing
        assert (await call).body == b"{}"
        await server.until(lambda: server.ended == server.connections)
        await client.close()


async def test_closing_does_not_wait_for_ever(
    open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "GRACE", 0.05)
    async with running([Held(), Held()]) as server:
        client = await open_client(server, connections=1)
        calls = [asyncio.create_task(client.call("GetItem", b"{}")) for _ in range(2)]
        await server.until(lambda: len(server.asked) == 1)
        await client.close()
        for call in calls:
            with pytest.raises(Unavailable, match="the client is closed"):
                await call


async def test_nobody_looks_at_the_credentials_of_a_closed_client(
    open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials_module, "LOOK", 0.005)
    looks: Counter[str] = Counter()
    looked = asyncio.Event()

    def found_by(name: str) -> Found:
        def expires_within(seconds: float) -> bool:
            looks[name] += 1
            looked.set()
            return False

        return Found(Credentials(name, "secret"), expires_within)

    async with running() as server:
        closed = await open_client(server, credentials=lambda: found_by("closed"))
        await closed.close()
        looks.clear()
        await open_client(server, credentials=lambda: found_by("open"))
        while looks["open"] < 5:
            looked.clear()
            await looked.wait()
    assert looks["closed"] == 0


async def test_a_call_needs_no_task_until_it_waits(open_client: OpenClient) -> None:
    async with running() as server:
        client = await open_client(server)
        loop = asyncio.get_running_loop()
        started: asyncio.Future[asyncio.Future[None]] = loop.create_future()

        def outside_of_any_task() -> None:
            assert asyncio.current_task() is None
            started.set_result(client.call("GetItem", b"{}").send(None))

        for _ in range(2):  # with a new connection, and with an idle one
            loop.call_soon(outside_of_any_task)
            await asyncio.wait([await started])
            started = loop.create_future()


# --- opening ------------------------------------------------------------------------------------


async def test_a_server_on_this_machine_is_spoken_to_without_credentials() -> None:
    async with running() as server:
        client = await Client.open(region="", endpoint=f"http://127.0.0.1:{server.port}")
        await client.call("GetItem", b"{}")
        await client.close()
    assert "/us-east-1/dynamodb/" in server.asked[0].headers["authorization"]


async def test_the_region_of_the_environment_is_taken_when_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    async with running() as server:
        client = await Client.open(region="", endpoint=f"http://127.0.0.1:{server.port}")
        await client.call("GetItem", b"{}")
        await client.close()
    assert "/eu-north-1/dynamodb/" in server.asked[0].headers["authorization"]


async def test_the_instance_is_not_asked_for_credentials_for_a_server_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    fetcher = "botocore.utils.InstanceMetadataFetcher.retrieve_iam_role_credentials"
    monkeypatch.setattr(fetcher, lambda self: asked.append("role"))
    client = await Client.open(region="", endpoint="http://127.0.0.1:1")
    await client.close()
    assert asked == []
    with pytest.raises(Unavailable):
        await Client.open(region="eu-west-1")
    assert asked == ["role"]


@pytest.mark.parametrize("endpoint", [None, "http://192.0.2.1:8000"])
async def test_elsewhere_missing_credentials_are_told_with_the_ways_to_give_them(
    endpoint: str | None,
) -> None:
    with pytest.raises(Unavailable, match=r"no AWS credentials were found.*AWS_ACCESS_KEY_ID"):
        await Client.open(region="eu-west-1", endpoint=endpoint)


async def test_a_chain_that_hangs_does_not_hang_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "OPEN", 0.05)
    with pytest.raises(Unavailable, match="no AWS credentials were found in"):
        await Client.open(
            region="eu-west-1",
            credentials=functools.partial(time.sleep, 0.5),
        )


async def test_a_profile_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(Unavailable, match=r"profile \(nobody\) could not be found"):
        await Client.open(region="eu-west-1", endpoint="http://127.0.0.1:1")


async def test_a_bundle_of_authorities_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "authorities.pem"
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"authorities\.pem"):
            await Client.open(region="eu-west-1", credentials=lambda: found("KEY"))
        bundle.write_text("nothing of the kind")
