"""Signatures, compared with botocore's, and the refresh of credentials."""

import asyncio
import datetime
import logging
import threading
from unittest import mock

import botocore.auth
import botocore.credentials
import pytest
from botocore.awsrequest import AWSRequest
from hypothesis import given
from hypothesis import strategies as st

from keytables.dynamodb.signing import (
    CredentialRefresher,
    Credentials,
    LoadedCredentials,
    RefreshTimes,
    Signer,
    run_in_thread,
)
from keytables.errors import Unavailable
from support.cases import cases
from support.event_loops import until

BOTH_LOOPS = True

KEY = "AKIDEXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

hosts = st.sampled_from(
    ["dynamodb.eu-west-1.amazonaws.com", "127.0.0.1:8000", "[::1]:4567", "db.example", "a:1"]
)
tokens = st.none() | st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=400
)
seconds = st.integers(0, 4_000_000_000)


def split(request: bytes) -> tuple[dict[str, str], bytes]:
    head, _, body = request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first == "POST / HTTP/1.1"
    return dict(line.split(": ", 1) for line in lines), body


def as_botocore_signs(
    headers: dict[str, str], body: bytes, credentials: Credentials, region: str, now: float
) -> str:
    signed = ("host", "content-type", "x-amz-target")
    request = AWSRequest(
        "POST", f"http://{headers['host']}/", {name: headers[name] for name in signed}, body
    )
    theirs = botocore.credentials.Credentials(
        credentials.access_key, credentials.secret_key, credentials.token
    )
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=moment):
        botocore.auth.SigV4Auth(theirs, "dynamodb", region).add_auth(request)
    text = request.headers["Authorization"]
    assert isinstance(text, str)
    return text


@given(
    body=st.binary(max_size=2000),
    host=hosts,
    token=tokens,
    now=seconds,
    operation=st.sampled_from(["GetItem", "BatchWriteItem", "UpdateTimeToLive"]),
    region=st.sampled_from(["us-east-1", "eu-central-2", "cn-north-1", "local"]),
)
def test_a_request_is_signed_as_botocore_signs_it(
    body: bytes, host: str, token: str | None, now: int, operation: str, region: str
) -> None:
    credentials = Credentials(KEY, SECRET, token)
    headers, sent = split(
        Signer(credentials, region=region, authority=host).request(operation, body, now)
    )
    assert sent == body
    assert headers["content-length"] == str(len(body))
    assert headers["x-amz-target"] == f"DynamoDB_20120810.{operation}"
    assert headers.get("x-amz-security-token") == token
    assert headers["authorization"] == as_botocore_signs(headers, body, credentials, region, now)


@given(times=st.lists(seconds, min_size=2, max_size=6), body=st.binary(max_size=20))
def test_a_signer_s_cache_follows_the_second_and_the_day(times: list[int], body: bytes) -> None:
    credentials = Credentials(KEY, SECRET)
    signer = Signer(credentials, region="us-east-1", authority="db.example")
    for now in [*times, times[0] + 0.75, times[0] + 86_400]:
        headers, _ = split(signer.request("PutItem", body, now))
        expected = as_botocore_signs(headers, body, credentials, "us-east-1", now)
        assert headers["authorization"] == expected


def test_compression_is_not_requested() -> None:
    signer = Signer(Credentials(KEY, SECRET), region="us-east-1", authority="db.example")
    headers, _ = split(signer.request("GetItem", b"{}", 0))
    assert headers["accept-encoding"] == "identity"


def test_credentials_are_not_shown() -> None:
    credentials = Credentials(KEY, SECRET, "TOKEN")
    for text in (repr(credentials), str(credentials), f"{[credentials]}"):
        assert not any(secret in text for secret in (KEY, SECRET, "TOKEN"))


@cases("texts", [("", SECRET), (KEY, ""), ("A B", SECRET), (KEY, SECRET, "a\r\nb: c"), (KEY, "é")])
def test_credentials_that_cannot_be_in_a_header_are_not_usable(texts: tuple[str, ...]) -> None:
    assert not Credentials(*texts).is_usable
    assert Credentials(KEY, SECRET, "TOKEN").is_usable


# --- refresh --------------------------------------------------------------------------------------


class Provider:
    """Credentials KEY1, KEY2, …; `left`: seconds each of them has. A load waits for `released`."""

    def __init__(self, *left: float, fails: bool = False) -> None:
        self.left = list(left)
        self.fails = fails
        self.loads = 0
        self.checks = 0
        self.loading = threading.Event()
        self.released = threading.Event()
        self.threads: list[threading.Thread] = []

    def __call__(self) -> LoadedCredentials:
        self.loads += 1
        self.threads.append(threading.current_thread())
        self.loading.set()
        assert self.released.wait(10)
        if self.fails:
            raise Unavailable("the provider fails")
        return self.loaded(self.loads + 1)

    def loaded(self, number: int) -> LoadedCredentials:
        def expires_within(seconds: float) -> bool:
            self.checks += 1
            return self.left[min(number, len(self.left)) - 1] < seconds

        return LoadedCredentials(Credentials(f"KEY{number}", "secret"), expires_within)


class RecordedRefresher(CredentialRefresher):
    """Records what was loaded."""

    def __init__(self, provider: Provider, **times: float) -> None:
        self.keys: list[str] = []
        self.changed = asyncio.Event()
        super().__init__(provider.loaded(1), provider, self.change, RefreshTimes(**times))

    def change(self, credentials: Credentials) -> None:
        self.keys.append(credentials.access_key)
        self.changed.set()


QUICK = 0.01
"""Seconds between two checks."""


async def test_credentials_are_renewed_before_they_expire_in_a_thread() -> None:
    provider = Provider(600.0, 1e6)
    refresher = RecordedRefresher(provider, check_interval=QUICK)
    await until(provider.loading.is_set)
    assert refresher.keys == []  # the old ones stay in use
    provider.released.set()
    await asyncio.wait_for(refresher.changed.wait(), 30)
    assert refresher.keys == ["KEY2"]
    assert provider.threads[0] is not threading.main_thread()
    refresher.close()


async def test_a_load_that_hangs_is_the_only_one() -> None:
    provider = Provider(600.0)
    refresher = RecordedRefresher(provider, check_interval=QUICK)
    await until(provider.loading.is_set)
    for _ in range(5):
        assert not await refresher.renew(Credentials("KEY1", "secret"), 0.02)
    assert provider.loads == 1
    refresher.close()
    provider.released.set()


async def test_short_lived_credentials_are_not_loaded_at_every_check() -> None:
    provider = Provider(600.0, 500.0)  # 500 s left is above the half of 900
    provider.released.set()
    refresher = RecordedRefresher(provider, check_interval=QUICK)
    await asyncio.wait_for(refresher.changed.wait(), 30)
    provider.checks = 0
    await until(lambda: provider.checks > 20)
    assert provider.loads == 1
    refresher.close()


async def test_a_failed_renewal_keeps_the_old_credentials_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Provider(600.0, fails=True)
    provider.released.set()
    with caplog.at_level(logging.WARNING):
        refresher = RecordedRefresher(provider, check_interval=QUICK)
        await until(lambda: provider.loads >= 2)  # it is repeated
    refresher.close()
    assert refresher.keys == []
    assert "could not be renewed: the provider fails" in caplog.text


async def test_refused_credentials_are_renewed_once_for_all_callers() -> None:
    provider = Provider(1e6)
    refresher = RecordedRefresher(provider)
    old = Credentials("KEY1", "secret")
    asking = [asyncio.create_task(refresher.renew(old, 10)) for _ in range(5)]
    await until(provider.loading.is_set)
    provider.released.set()
    assert await asyncio.gather(*asking) == [True] * 5
    assert provider.loads == 1
    assert await refresher.renew(old, 10)  # they were refused before they were renewed
    assert provider.loads == 1
    assert not await refresher.renew(Credentials("KEY2", "secret"), 10)  # not again so soon
    assert provider.loads == 1
    refresher.close()


async def test_a_cancelled_caller_does_not_cancel_the_renewal() -> None:
    provider = Provider(1e6)
    refresher = RecordedRefresher(provider)
    asking = [
        asyncio.create_task(refresher.renew(Credentials("KEY1", "secret"), 10)) for _ in range(2)
    ]
    await until(provider.loading.is_set)
    asking[0].cancel()
    provider.released.set()
    assert await asking[1]
    refresher.close()


async def test_the_margin_is_restored_for_long_lived_credentials() -> None:
    provider = Provider(600.0, 100.0, 1000.0, 1e6)
    provider.released.set()
    refresher = RecordedRefresher(provider, check_interval=QUICK)
    await until(lambda: refresher.keys == ["KEY2"])
    provider.left[1] = 10.0
    await until(lambda: refresher.keys == ["KEY2", "KEY3"])
    provider.left[2] = 890.0
    await until(lambda: refresher.keys == ["KEY2", "KEY3", "KEY4"])
    refresher.close()


async def test_a_result_that_nobody_awaits_is_not_logged() -> None:
    logged: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context))
    release = threading.Event()
    future = run_in_thread(lambda: release.wait(10))
    thread = next(each for each in threading.enumerate() if each.name == "credentials")
    future.cancel()
    release.set()
    await until(lambda: not thread.is_alive())
    await asyncio.sleep(0)
    assert logged == []


async def test_a_thread_may_outlive_its_loop() -> None:
    release = threading.Event()
    ended = threading.Event()

    def on_another_loop() -> None:
        async def leave() -> None:
            run_in_thread(lambda: release.wait(10))

        asyncio.run(leave())
        release.set()
        for thread in threading.enumerate():
            if thread.name == "credentials":
                thread.join(10)
        ended.set()

    await asyncio.to_thread(on_another_loop)
    assert ended.is_set()
