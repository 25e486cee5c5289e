"""Who may look: names, tokens, cookies."""

import asyncio
import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from channelstats.web import auth, http
from channelstats.web.auth import (
    COOKIE,
    COOKIE_SECONDS,
    Authenticator,
    Sessions,
    TooManyFailures,
    Verdict,
    Way,
    host_name,
    is_own,
    personal_token,
)
from channelstats.web.http import local
from support.channelstats.dashboard import TOKEN, Client, Dashboard
from support.clocks import ManualClock


async def login(client: Client, token: str, to: str = "/") -> tuple[int, dict[str, str]]:
    form = {"token": token, "to": to}
    async with client.post("/login", data=form, allow_redirects=False) as answer:
        return answer.status, dict(answer.headers)


async def test_a_page_that_has_its_name_point_here_sees_nothing(board: Dashboard) -> None:
    for path in ("/", "/volume.json", "/health", "/static/dashboard.css", "/login", "/worker.js"):
        assert await board.status(path, Host="rebound.example") == 421
    assert await board.status("/volume.json", Host="localhost:1234") == 200


async def test_a_proxy_needs_a_token(board: Dashboard) -> None:
    assert await board.status("/", **{"X-Forwarded-For": "10.0.0.1"}) == 403


async def test_without_a_token_there_is_no_login(board: Dashboard) -> None:
    assert "<h1>Overview</h1>" in await board.text("/")
    async with board.client.get("/login", allow_redirects=False) as answer:
        assert answer.headers["Location"] == "/"


async def test_without_the_token_nothing_is_seen(guarded: Dashboard) -> None:
    for path in ("/", "/volume?weeks=1", "/report", "/nowhere", "/worker.js"):
        async with guarded.client.get(path, allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == f"/login?to={quote(path, safe='')}"
            assert await answer.text() == ""
    for path in ("/volume.json", "/volume.csv?table=x", "/names.json?like=b"):
        assert "log in" in await guarded.text(path, status=401)
    async with guarded.client.post("/me", data={"person": "UBOB"}) as answer:
        assert answer.status == 401
    for path in ("/login", "/static/dashboard.css", "/health"):
        text = await guarded.text(path)
        assert "Bob" not in text
        assert TOKEN not in text


async def test_the_token_lets_in_and_a_cookie_keeps_in(guarded: Dashboard) -> None:
    status, headers = await login(guarded.client, TOKEN, "/volume?weeks=1")
    assert status == 303
    assert headers["Location"] == "/volume?weeks=1"
    cookie = headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert await guarded.status("/volume", Host="stats.example", Forwarded="for=x") == 200
    copied = cookie.partition(";")[0]
    other = (await login(guarded.client, TOKEN))[1]["Set-Cookie"].partition(";")[0]
    guarded.client.session.cookie_jar.clear()
    async with guarded.client.post(
        "/logout", headers={"Cookie": copied}, allow_redirects=False
    ) as answer:
        assert answer.status == 303
    assert await guarded.status("/volume", Cookie=copied) == 303
    assert await guarded.status("/volume", Cookie=other) == 200


async def test_a_wrong_token_does_not(guarded: Dashboard) -> None:
    for wrong in ("", "wrong", f"{TOKEN}x", TOKEN[:-1], "ключ", "x" * 2_000):
        status, headers = await login(guarded.client, wrong)
        assert status == 403
        assert "Set-Cookie" not in headers
    assert await guarded.status("/volume") == 303


async def test_guessing_is_bounded_and_ends_with_the_minute(guarded: Dashboard) -> None:
    for number in range(10):
        await login(guarded.client, f"wrong {number}")
    status, _ = await login(guarded.client, TOKEN)
    assert status == 403
    async with guarded.client.post("/login", data={"token": TOKEN}) as answer:
        assert "Too many wrong tokens" in await answer.text()
    guarded.clock.advance(61)
    assert (await login(guarded.client, TOKEN))[0] == 303


async def test_a_token_in_an_address_goes_from_there_at_once(
    guarded: Dashboard, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = f"/volume?token={TOKEN}&weeks=1"
    async with guarded.client.get(path, allow_redirects=False) as answer:
        assert answer.status == 303
        assert answer.headers["Location"] == "/volume?weeks=1"
    assert await guarded.status("/volume?weeks=1") == 200
    # Whoever serves the application switches the log of requests off.
    told = [record for record in caplog.records if record.name != "aiohttp.access"]
    assert all(TOKEN not in record.getMessage() for record in told)


@pytest.mark.parametrize("headers", [{}, {"Sec-Fetch-Site": "cross-site"}])
async def test_wrong_tokens_in_addresses_are_bounded_and_lock_nobody_out(
    guarded: Dashboard, headers: dict[str, str]
) -> None:
    """Any page can have a browser send them."""

    async def try_address(token: str) -> str | None:
        path = f"/?token={token}"
        async with guarded.client.get(path, headers=headers, allow_redirects=False) as answer:
            assert answer.headers["Location"] in ("/", "/login")
            return answer.headers.get("Set-Cookie")

    for _ in range(20):
        assert await try_address("wrong") is None
    assert await try_address(TOKEN) is None
    assert (await login(guarded.client, TOKEN))[0] == 303


async def test_a_token_that_nobody_asked_for_goes_from_the_address(board: Dashboard) -> None:
    async with board.client.get("/volume?token=x&weeks=1", allow_redirects=False) as answer:
        assert answer.headers["Location"] == "/volume?weeks=1"


async def test_a_page_of_somebody_else_cannot_log_in(guarded: Dashboard) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    async with guarded.client.post("/login", data={"token": TOKEN}, headers=headers) as answer:
        assert answer.status == 403
        assert "Set-Cookie" not in answer.headers


async def test_over_https_the_cookie_stays_there(guarded: Dashboard) -> None:
    headers = {"X-Forwarded-Proto": "https"}
    form = {"token": TOKEN}
    async with guarded.client.post(
        "/login", data=form, headers=headers, allow_redirects=False
    ) as answer:
        assert "Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(
    "to",
    [
        "//evil.example",
        "///evil.example",
        "https://evil.example",
        "/\\evil.example",
        "evil",
        "",
        "/\r\nX: y",
        "/é",
        "//[",
        "/a b",
        "javascript:alert(1)",
    ],
)
def test_after_the_login_nobody_is_led_away(to: str) -> None:
    assert local(to) == "/"


@pytest.mark.parametrize("to", ["/", "/volume", "/volume?weeks=1&person=%C3%A9", "/?weeks=1"])
def test_after_the_login_the_page_that_was_asked_for_is_shown(to: str) -> None:
    assert local(to) == to


FORM = "Content-Type: application/x-www-form-urlencoded"


async def raw(to: Dashboard, first: str, *headers: str, body: str = "") -> int:
    """The status of what is answered to these very bytes."""
    lines = [f"{first} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    reader, writer = await asyncio.open_connection("127.0.0.1", to.client.port)
    try:
        writer.write(("\r\n".join(lines) + "\r\n\r\n" + body).encode("latin-1"))
        answer = await asyncio.wait_for(reader.readline(), 30)
        return int(answer.split()[1])
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("first", "header", "body", "status"),
    [
        ("GET /volume", f"Cookie: {COOKIE}=\xff", "", 303),
        ("GET /login?to=//%5B", "Accept: */*", "", 200),
        ("GET //[?token=x", "Accept: */*", "", 303),
        ("POST /login", "Origin: http://[", "token=x", 403),
        ("POST /login", "Origin: null", "token=x", 403),
        ("POST /login", f"{FORM}; charset=none", "token=x", 403),
        ("POST /login", FORM, "token=%ff&token=\xff", 403),
        ("POST /login", "Content-Type: multipart/form-data; boundary=x", "token=x", 415),
        ("POST /login", "Content-Type: application/json", '{"token": "x"}', 415),
        ("POST /login", FORM, f"token={'x' * 20_000}", 413),
        ("POST /login", f"{FORM}\r\nContent-Encoding: x", "token=x", 415),
    ],
)
async def test_what_makes_no_sense_is_refused_and_no_fault(
    guarded: Dashboard,
    caplog: pytest.LogCaptureFixture,
    first: str,
    header: str,
    body: str,
    status: int,
) -> None:
    assert await raw(guarded, first, header, body=body) == status
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_broken_compressed_body_is_no_fault_of_ours(
    guarded: Dashboard, encoding: str
) -> None:
    """`serve` has no body unpacked at all."""
    headers = f"{FORM}\r\nContent-Encoding: {encoding}"
    assert await raw(guarded, "POST /login", headers, body="\x1f\x8bxx") == 415


async def test_a_form_that_does_not_come_is_not_waited_for(
    guarded: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_BODY_PATIENCE", 0.01)
    assert await raw(guarded, "POST /login", FORM, "Content-Length: 9") == 408


async def test_no_answer_tells_what_the_dashboard_is_made_of(guarded: Dashboard) -> None:
    for path in ("/", "/login", "/health", "/static/dashboard.css", "/nowhere"):
        async with guarded.client.get(path, allow_redirects=False) as answer:
            assert answer.headers["Server"] == "channelstats"


# ── by values alone ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8090", "LOCALHOST", "127.0.0.1:1", "127.9.9.9", "[::1]:8090"]
)
def test_without_a_token_this_machine_is_let_in_by_its_own_names(
    clock: ManualClock, host: str
) -> None:
    assert Authenticator(None, clock).judge({"Host": host}, "") is Verdict.LET_IN


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8090",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "0.0.0.0:8090",
        "[::2]",
        "[::1",
        "",
        "a@localhost.evil.example",
    ],
)
def test_without_a_token_nobody_is_let_in_by_another_name(clock: ManualClock, host: str) -> None:
    assert Authenticator(None, clock).judge({"Host": host}, "") is Verdict.OTHER_NAME


def test_a_request_without_a_host_is_not_let_in(clock: ManualClock) -> None:
    assert Authenticator(None, clock).judge({}, "") is Verdict.OTHER_NAME


@pytest.mark.parametrize(
    "header", ["Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP"]
)
def test_without_a_token_nobody_comes_through_a_proxy(clock: ManualClock, header: str) -> None:
    headers = {"Host": "127.0.0.1:8090", header: "10.0.0.1"}
    assert Authenticator(None, clock).judge(headers, "") is Verdict.THROUGH_PROXY


def test_with_a_token_the_cookie_alone_counts(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    far, key = {"Host": "stats.example", "X-Forwarded-For": "10.0.0.1"}, guard.sessions.begin()
    assert guard.judge(far, key) is Verdict.LET_IN
    for cookie in ("", TOKEN, key[:-1], "é"):
        assert guard.judge({"Host": "localhost"}, cookie) is Verdict.LOG_IN


def test_each_login_is_a_session_that_ends_by_itself(clock: ManualClock, tmp_path: Path) -> None:
    path = tmp_path / "sessions"
    sessions = Sessions(TOKEN, clock, path)
    one, other = sessions.begin(), sessions.begin("UBOB")
    sessions.end(one)
    sessions.save()
    again = Sessions(TOKEN, clock, path)
    assert (again.person(one), again.person(other)) == ("", "UBOB")
    assert [again.knows(key) for key in (one, other, "")] == [False, True, False]
    assert not any(text in path.read_text() for text in (TOKEN, one, other, "UBOB"))
    assert not again.person(other.replace("UBOB", "UALICE")), "the name is part of the key"
    assert path.stat().st_mode & 0o077 == 0
    assert not Sessions(f"{TOKEN}2", clock, path).knows(other)
    clock.advance(COOKIE_SECONDS)
    assert not again.knows(other)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"of": 1}', b"\xff"])
def test_a_broken_file_of_sessions_is_none(
    clock: ManualClock, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "sessions"
    path.write_bytes(content)
    assert not Sessions(TOKEN, clock, path).knows("x")


def test_sessions_are_bounded(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_SESSIONS", 3)
    sessions = Sessions(TOKEN, clock)
    keys = [sessions.begin() for _ in range(5)]
    assert [sessions.knows(key) for key in keys] == [False, False, True, True, True]


def test_guesses_of_all_addresses_are_bounded(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    for number in range(100):
        assert not guard.is_right("wrong", f"10.0.0.{number}")
    with pytest.raises(TooManyFailures):
        guard.is_right(TOKEN, "10.1.0.1")
    assert guard.is_right(TOKEN, "10.1.0.1", Way.ADDRESS)
    clock.advance(61)
    assert guard.is_right(TOKEN, "10.1.0.1")


def test_wrong_tokens_are_bounded_by_address_and_minute(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    for _ in range(10):
        assert not guard.is_right("wrong", "10.0.0.1")
    with pytest.raises(TooManyFailures):
        guard.is_right(TOKEN, "10.0.0.1")
    assert guard.is_right(TOKEN, "10.0.0.2")
    clock.advance(60)
    assert guard.is_right(TOKEN, "10.0.0.1")


def test_addresses_of_one_network_are_one(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    for number in range(10):
        assert not guard.is_right("wrong", f"2001:db8::{number:x}%eth0")
    with pytest.raises(TooManyFailures):
        guard.is_right("wrong", "2001:db8::ffff")
    assert not guard.is_right("wrong", "2001:db8:0:1::1")


def test_what_is_remembered_of_failures_is_bounded(clock: ManualClock) -> None:
    guard = Authenticator(TOKEN, clock)
    for number in range(1_500):
        clock.advance(1)
        assert not guard.is_right("wrong", f"10.0.{number // 256}.{number % 256}")
    assert len(guard._failures) == 1_000


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Origin": "http://localhost:8090", "Host": "localhost:8090"}, True),
        ({"Origin": "http://localhost:8091", "Host": "localhost:8090"}, False),
        ({"Origin": "null", "Host": "localhost:8090"}, False),
        ({"Host": "localhost:8090"}, True),
    ],
)
def test_what_pages_of_others_send_is_known(headers: dict[str, str], own: bool) -> None:
    assert is_own(headers) is own


def test_a_host_is_found_without_its_port() -> None:
    assert host_name("[::1]:8090") == "::1"
    assert host_name("example.com:80") == "example.com"
    assert host_name("[nonsense") == ""


def test_a_person_logs_in_with_a_token_of_their_own_and_with_nobody_elses() -> None:
    guard = Authenticator(TOKEN, ManualClock(0))
    token = personal_token(TOKEN, "UBOB")
    assert guard.is_right(token, "10.0.0.1")
    assert (guard.person(token), guard.person(TOKEN)) == ("UBOB", "")
    made = token.partition(".")[2]
    for wrong in (f"UALICE.{made}", f".{made}", "UBOB.", personal_token(f"{TOKEN}2", "UBOB")):
        assert not guard.is_right(wrong, "10.0.0.1")
    assert not Authenticator(None, ManualClock(0)).is_right(token, "10.0.0.1")
