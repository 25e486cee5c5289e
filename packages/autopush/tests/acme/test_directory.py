"""Orders at a real directory, Pebble: each way in which one ends, in words."""

import asyncio
import email.utils
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from autopush.acme.directory import Directory
from autopush.acme.failures import OrderFailed
from autopush.acme.files import AcmeAccount, facts_of
from autopush.acme.port80 import Port80, plain
from autopush.acme.renewal import WantedCertificate
from autopush.net.http_messages import Limits
from autopush.net.http_server import HttpServer
from autopush.net.timers import TimerWheel
from support.aiohttp_server import served
from support.certificates import LOOPBACK
from support.pebble import EAB_KEY, EAB_KID, REFUSED, Pebble
from support.sockets import silent_port, unused_port

NAMES = ("push.example", "other.example")


def wanted(pebble: Pebble, *names: str, **fields: str) -> WantedCertificate:
    return WantedCertificate(names or NAMES, pebble.url, ca=str(pebble.ca), **fields)


@asynccontextmanager
async def port80(pebble: Pebble, answers: dict[str, str]) -> AsyncIterator[None]:
    async def find_answer(token: str) -> str | None:
        return answers.get(token)

    loop = asyncio.get_running_loop()
    wheel = TimerWheel(loop)
    server = HttpServer(
        Port80(NAMES, 443, find_answer),
        limits=Limits(max_body=0),
        wheel=wheel,
        error_response=plain,
        on_crash=lambda *_: plain(500, ""),
    )
    listener = await loop.create_server(server.protocol, LOOPBACK, pebble.http_port)
    try:
        yield
    finally:
        listener.close()
        await server.shutdown(0)
        wheel.close()


def order(
    certificate: WantedCertificate, answers: dict[str, str], account: AcmeAccount | None = None
) -> tuple[str, AcmeAccount]:
    """Blocks. `answers`: of port 80."""
    directory = Directory(certificate)
    account = directory.sign_in(account)
    placed = directory.place()
    answers |= directory.answers(placed)
    return directory.complete(placed), account


async def failure(certificate: WantedCertificate, answers: dict[str, str] | None = None) -> str:
    with pytest.raises(OrderFailed) as caught:
        await asyncio.to_thread(order, certificate, {} if answers is None else answers)
    return str(caught.value)


async def test_a_certificate_for_several_names_and_its_renewal_with_the_same_account(
    pebble: Pebble,
) -> None:
    answers: dict[str, str] = {}
    async with port80(pebble, answers):
        first, account = await asyncio.to_thread(order, wanted(pebble), answers)
        changed = wanted(pebble, email="ann@push.example")
        second, same = await asyncio.to_thread(order, changed, answers, account)
    assert (same.key, same.uri) == (account.key, account.uri)
    for pem in (first, second):
        assert (facts := facts_of(pem)) is not None
        assert facts.names == set(NAMES)
        assert pem.count("BEGIN CERTIFICATE") == 2
    assert first.partition("CERTIFICATE")[0] != second.partition("CERTIFICATE")[0]


async def test_the_directory_says_when_to_renew(pebble: Pebble) -> None:
    answers: dict[str, str] = {}
    async with port80(pebble, answers):
        pem, _ = await asyncio.to_thread(order, wanted(pebble), answers)
    directory = await asyncio.to_thread(Directory, wanted(pebble))
    at, pause = await asyncio.to_thread(directory.suggested_renewal, pem)
    assert (facts := facts_of(pem)) is not None
    assert at is not None
    assert facts.begins < at < facts.ends
    assert 60 < pause <= 86_400


async def test_an_order_goes_on_in_another_process_at_any_step(pebble: Pebble) -> None:
    """Each step in a session of its own, as after a kill; the last one twice."""
    answers: dict[str, str] = {}

    def session(account: AcmeAccount | None) -> tuple[Directory, AcmeAccount]:
        directory = Directory(wanted(pebble))
        return directory, directory.sign_in(account)

    async with port80(pebble, answers):
        directory, account = await asyncio.to_thread(session, None)
        placed = await asyncio.to_thread(directory.place)
        directory, _ = await asyncio.to_thread(session, account)
        answers |= await asyncio.to_thread(directory.answers, placed)
        assert len(answers) == 2
        pems = []
        for _ in range(2):
            directory, _ = await asyncio.to_thread(session, account)
            pems.append(await asyncio.to_thread(directory.complete, placed))
    assert pems[0] == pems[1]


async def test_who_else_answers_or_does_not_is_named(pebble: Pebble) -> None:
    async with port80(pebble, {}):
        words = await failure(wanted(pebble))
    assert "another server answers for http://push.example/: its DNS points elsewhere" in words
    assert "http://other.example/" in words
    words = await failure(wanted(pebble))
    assert "port 80 of push.example cannot be reached: have its DNS point to this" in words


async def test_a_refused_name_is_named(pebble: Pebble) -> None:
    words = await failure(wanted(pebble, "push.example", REFUSED))
    assert words.startswith("the directory issues no certificate for")
    assert REFUSED in words


async def test_an_unknown_ca_is_named_and_the_option(pebble: Pebble, tmp_path: Path) -> None:
    words = await failure(WantedCertificate(NAMES, pebble.url))
    assert "is from an unknown CA: name its PEM file with acme_ca" in words
    missing = str(tmp_path / "ca.pem")
    assert "acme_ca" in await failure(WantedCertificate(NAMES, pebble.url, ca=missing))


async def test_a_directory_that_was_set_up_anew_does_not_know_the_account(tmp_path: Path) -> None:
    with Pebble(tmp_path, unused_port()).running() as pebble:
        directory = await asyncio.to_thread(Directory, wanted(pebble))
        account = await asyncio.to_thread(directory.sign_in, None)
        pebble.stop()
        pebble.start()
        with pytest.raises(OrderFailed) as caught:
            await asyncio.to_thread(order, wanted(pebble), {}, account)
    assert caught.value.is_account_gone


async def test_an_external_account_is_bound(tmp_path: Path) -> None:
    with Pebble(tmp_path, unused_port(), needs_eab=True).running() as pebble:
        answers: dict[str, str] = {}
        async with port80(pebble, answers):
            known = wanted(pebble, eab_kid=EAB_KID, eab_key=EAB_KEY)
            pem, _ = await asyncio.to_thread(order, known, answers)
        assert facts_of(pem) is not None
        assert "set acme_eab_kid and acme_eab_key" in await failure(wanted(pebble))
        wrong = await failure(wanted(pebble, eab_kid=EAB_KID, eab_key="AAAA"))
        assert "check acme_eab_kid and acme_eab_key" in wrong
        assert "AAAA" not in wrong


async def test_a_directory_that_is_down_or_silent_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    down = f"https://{LOOPBACK}:{unused_port()}/"
    assert "cannot be reached (Connection refused)" in await failure(WantedCertificate(NAMES, down))
    monkeypatch.setattr("autopush.acme.directory.REQUEST_TIMEOUT", 0.2)
    with silent_port() as port:
        silent = f"https://{LOOPBACK}:{port}/"
        assert "did not answer within" in await failure(WantedCertificate(NAMES, silent))


# ── A directory whose answers are made up ─────────────────────────────────────────────────────────


@asynccontextmanager
async def made_up(answer: Callable[[], web.Response]) -> AsyncIterator[WantedCertificate]:
    """It answers every request but that for itself so."""

    async def respond(request: web.Request) -> web.Response:
        if request.path == "/":
            return web.json_response(dict.fromkeys(("newNonce", "newAccount", "newOrder"), url))
        if request.method == "HEAD":
            return web.Response(headers={"Replay-Nonce": "AAAA"})
        return answer()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    async with served(app) as origin:
        url = f"{origin}/resource"
        yield WantedCertificate(NAMES, f"{origin}/")


def problem(kind: str, status: int = 403, **headers: str) -> web.Response:
    document: dict[str, Any] = {"type": f"urn:ietf:params:acme:error:{kind}", "detail": "so"}
    return web.json_response(document, status=status, headers={"Replay-Nonce": "AAAA", **headers})


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_rate_limit_says_until_when(form: str) -> None:
    until = email.utils.formatdate(time.time() + 3600, usegmt=True)
    retry_after = {"seconds": "3600", "date": until}[form]

    def answer() -> web.Response:
        return problem("rateLimited", 429, **{"Retry-After": retry_after})

    async with made_up(answer) as certificate:
        with pytest.raises(OrderFailed, match="rate limit is reached") as caught:
            await asyncio.to_thread(order, certificate, {})
    assert caught.value.retry_after == pytest.approx(3600, abs=60)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("userActionRequired", "new terms: agree to them there (the directory says: so)"),
        ("invalidContact", "does not accept acme_email"),
        ("unheardOf", "the directory refuses the request: unheardOf (the directory says: so)"),
    ],
)
async def test_a_problem_is_explained(kind: str, words: str) -> None:
    async with made_up(lambda: problem(kind)) as certificate:
        assert words in await failure(certificate)


async def test_a_clock_that_is_wrong_by_a_day_is_named() -> None:
    yesterday = email.utils.formatdate(time.time() - 86_400, usegmt=True)
    async with made_up(lambda: problem("malformed", Date=yesterday)) as certificate:
        assert await failure(certificate) == (
            "the clock of this machine is 24 h ahead of the directory's: set it"
        )


async def test_what_is_no_directory_is_said() -> None:
    async with made_up(lambda: web.Response(text="hello")) as certificate:
        assert "does not answer as a directory" in await failure(certificate)
        other = WantedCertificate(NAMES, f"{certificate.directory}other")
        assert "does not answer as a directory" in await failure(other)
