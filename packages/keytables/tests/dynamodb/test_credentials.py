"""Credentials: where they are found, and how they are kept fresh."""

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from keytables.dynamodb import credentials as module
from keytables.dynamodb.credentials import Found, Keeper, find_credentials, in_thread
from keytables.dynamodb.signature import Credentials
from keytables.errors import Unavailable

BOTH_LOOPS = True


# --- the chain ----------------------------------------------------------------------------------


def give(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)


def test_there_may_be_none() -> None:
    assert find_credentials("us-east-1", role=False) is None
    assert find_credentials("us-east-1", role=True) is None


def test_those_of_the_environment_never_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, AWS_ACCESS_KEY_ID="A", AWS_SECRET_ACCESS_KEY="B")
    found = find_credentials("us-east-1", role=False)
    assert found is not None
    assert found.credentials == Credentials("A", "B", None)
    assert not found.expires_within(1e9)
    give(monkeypatch, AWS_SESSION_TOKEN="C")
    found = find_credentials("us-east-1", role=False)
    assert found is not None
    assert found.credentials == Credentials("A", "B", "C")


def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """A profile whose credentials a program prints."""
    (tmp_path / "program.py").write_text(program)
    config = tmp_path / "aws-config"
    config.write_text(
        f"[default]\ncredential_process = {sys.executable} {tmp_path / 'program.py'}\n"
    )
    give(monkeypatch, AWS_CONFIG_FILE=str(config))


def test_temporary_ones_tell_when_they_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.dumps(
        {
            "Version": 1,
            "AccessKeyId": "A",
            "SecretAccessKey": "B",
            "SessionToken": "C",
            "Expiration": "2099-01-01T00:00:00Z",
        }
    )
    process(tmp_path, monkeypatch, f"print({document!r})")
    found = find_credentials("us-east-1", role=False)
    assert found is not None
    assert found.credentials == Credentials("A", "B", "C")
    assert not found.expires_within(900)
    assert found.expires_within(1e10)


def test_a_source_that_fails_shows_nothing_of_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, monkeypatch, "import sys; sys.exit('the secret is hunter2')")
    with pytest.raises(Unavailable, match="no AWS credentials can be had") as raised:
        find_credentials("us-east-1", role=False)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_half_a_pair_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, AWS_ACCESS_KEY_ID="A")
    with pytest.raises(Unavailable, match="AWS_SECRET_ACCESS_KEY"):
        find_credentials("us-east-1", role=False)


def test_a_key_that_no_header_can_bear_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, AWS_ACCESS_KEY_ID="A\r\nx: y", AWS_SECRET_ACCESS_KEY="B")
    with pytest.raises(Unavailable, match="characters that no key has"):
        find_credentials("us-east-1", role=False)


def test_the_instance_is_asked_only_when_its_role_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    fetcher = "botocore.utils.InstanceMetadataFetcher.retrieve_iam_role_credentials"
    monkeypatch.setattr(fetcher, lambda self: asked.append("role"))
    find_credentials("us-east-1", role=False)
    assert asked == []
    find_credentials("us-east-1", role=True)
    assert asked == ["role"]


# --- keeping them fresh -------------------------------------------------------------------------


class Chain:
    """Credentials KEY1, KEY2, … ; `left`: seconds each of them has. A load waits to be let go."""

    def __init__(self, *left: float, fails: bool = False) -> None:
        self.left = list(left)
        self.fails = fails
        self.loads = 0
        self.looks = 0
        self.loading = threading.Event()
        self.let_go = threading.Event()
        self.threads: list[threading.Thread] = []

    def __call__(self) -> Found:
        self.loads += 1
        self.threads.append(threading.current_thread())
        self.loading.set()
        assert self.let_go.wait(10)
        if self.fails:
            raise Unavailable("the chain is broken")
        return self.found(self.loads + 1)

    def found(self, number: int) -> Found:
        def expires_within(seconds: float) -> bool:
            self.looks += 1
            return self.left[min(number, len(self.left)) - 1] < seconds

        return Found(Credentials(f"KEY{number}", "secret"), expires_within)


class Watched(Keeper):
    """A keeper that tells what changed."""

    def __init__(self, chain: Chain) -> None:
        self.keys: list[str] = []
        self.changed = asyncio.Event()
        super().__init__(chain.found(1), chain, self.change)

    def change(self, credentials: Credentials) -> None:
        self.keys.append(credentials.access_key)
        self.changed.set()


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK", 0.01)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - a thread's doing
            await asyncio.sleep(0.005)


@pytest.mark.usefixtures("quick_looks")
async def test_they_are_renewed_ahead_of_their_expiry_in_a_thread() -> None:
    chain = Chain(600.0, 1e6)
    keeper = Watched(chain)
    await until(chain.loading.is_set)
    assert keeper.keys == []  # the old ones go on
    chain.let_go.set()
    await asyncio.wait_for(keeper.changed.wait(), 10)
    assert keeper.keys == ["KEY2"]
    assert chain.threads[0] is not threading.main_thread()
    keeper.close()


@pytest.mark.usefixtures("quick_looks")
async def test_a_load_that_hangs_is_the_only_one() -> None:
    chain = Chain(600.0)
    keeper = Watched(chain)
    await until(chain.loading.is_set)
    for _ in range(5):
        assert not await keeper.renew(Credentials("KEY1", "secret"), 0.02)
    assert chain.loads == 1
    keeper.close()
    chain.let_go.set()


@pytest.mark.usefixtures("quick_looks")
async def test_those_that_never_live_long_are_not_asked_for_at_every_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AHEAD", 900.0)
    chain = Chain(600.0, 500.0)  # 500 s left is above the half of 900
    chain.let_go.set()
    keeper = Watched(chain)
    await asyncio.wait_for(keeper.changed.wait(), 10)
    chain.looks = 0
    await until(lambda: chain.looks > 20)
    assert chain.loads == 1
    keeper.close()


@pytest.mark.usefixtures("quick_looks")
async def test_a_renewal_that_fails_leaves_the_old_ones_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chain = Chain(600.0, fails=True)
    chain.let_go.set()
    with caplog.at_level(logging.WARNING):
        keeper = Watched(chain)
        await until(lambda: chain.loads >= 2)  # and it is tried again
    keeper.close()
    assert keeper.keys == []
    assert "could not be renewed: the chain is broken" in caplog.text


async def test_refused_ones_are_renewed_for_all_who_ask_at_once() -> None:
    chain = Chain(1e6)
    keeper = Watched(chain)
    old = Credentials("KEY1", "secret")
    asking = [asyncio.create_task(keeper.renew(old, 10)) for _ in range(5)]
    await until(chain.loading.is_set)
    chain.let_go.set()
    assert await asyncio.gather(*asking) == [True] * 5
    assert chain.loads == 1
    assert await keeper.renew(old, 10)  # they were refused before they were renewed
    assert chain.loads == 1
    assert not await keeper.renew(Credentials("KEY2", "secret"), 10)  # not again so soon
    assert chain.loads == 1
    keeper.close()


async def test_a_caller_that_is_cancelled_takes_the_renewal_from_nobody() -> None:
    chain = Chain(1e6)
    keeper = Watched(chain)
    asking = [
        asyncio.create_task(keeper.renew(Credentials("KEY1", "secret"), 10)) for _ in range(2)
    ]
    await until(chain.loading.is_set)
    asking[0].cancel()
    chain.let_go.set()
    assert await asking[1]
    keeper.close()


@pytest.mark.usefixtures("quick_looks")
async def test_the_margin_is_the_full_one_again_for_long_lived_ones() -> None:
    chain = Chain(600.0, 100.0, 1000.0, 1e6)
    chain.let_go.set()
    keeper = Watched(chain)
    await until(lambda: keeper.keys == ["KEY2"])
    chain.left[1] = 10.0
    await until(lambda: keeper.keys == ["KEY2", "KEY3"])
    chain.left[2] = 890.0
    await until(lambda: keeper.keys == ["KEY2", "KEY3", "KEY4"])
    keeper.close()


async def test_an_answer_nobody_awaits_any_more_is_no_news() -> None:
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda loop, context: complaints.append(context)
    )
    let_go = threading.Event()
    future = in_thread(lambda: let_go.wait(10))
    thread = next(each for each in threading.enumerate() if each.name == "credentials")
    future.cancel()
    let_go.set()
    await until(lambda: not thread.is_alive())
    await asyncio.sleep(0)
    assert complaints == []


async def test_a_thread_that_outlives_its_loop_hurts_nobody() -> None:
    let_go = threading.Event()
    ended = threading.Event()

    def on_another_loop() -> None:
        async def leave() -> None:
            in_thread(lambda: let_go.wait(10))

        asyncio.run(leave())
        let_go.set()
        for thread in threading.enumerate():
            if thread.name == "credentials":
                thread.join(10)
        ended.set()

    await asyncio.to_thread(on_another_loop)
    assert ended.is_set()
