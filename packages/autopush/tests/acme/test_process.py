"""The job: what it orders when, what it keeps, and that one node of a cluster orders for all."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from autopush.acme.directory import Directory
from autopush.acme.failures import OrderFailed, moment
from autopush.acme.files import AcmeAccount, CertificateFolder, PlacedOrder, facts_of
from autopush.acme.process import SHARED_PAUSES, CertificateJob
from autopush.acme.renewal import RETRIES, WantedCertificate
from autopush.acme.sharing import SharedCertificate
from autopush.store.tables import CERTIFICATE_ROW, router_table
from autopush.webpush.tokens import KeyRing, new_key
from keytables import TableHandle
from support.certificates import Authority
from support.clocks import ManualClock
from support.memory_engine import MemoryEngine

DAY = 86_400.0
NAMES = ("push.example", "other.example")
WANTED = WantedCertificate(NAMES, "https://directory.example/")


class Killed(BaseException):
    """Where a process is killed."""


class FakeDirectory:
    """Of all sessions. `fails`: by step, what happens there once. `steps`: that were taken."""

    terms = "https://directory.example/terms"

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self._authority, self._folder, self._clock = Authority(folder), folder, clock
        self.steps: list[str] = []
        self.fails: dict[str, BaseException] = {}
        self.suggested: float | None = None
        self.days = 90.0
        self.during_validation: Callable[[], None] = lambda: None

    def __call__(self, _: WantedCertificate) -> Directory:
        return cast("Directory", self)

    def _take(self, step: str) -> None:
        self.steps.append(step)
        if (error := self.fails.pop(step, None)) is not None:
            raise error

    def sign_in(self, known: AcmeAccount | None) -> AcmeAccount:
        if known is None:
            self._take("account")
        return known or AcmeAccount("key", "https://directory.example/1")

    def place(self) -> PlacedOrder:
        self._take("place")
        return PlacedOrder(WANTED.directory, NAMES, f"order {self.steps.count('place')}", "key")

    def answers(self, order: PlacedOrder) -> dict[str, str]:
        self._take("answers")
        return {"TOKEN": f"TOKEN.{order.uri}"}

    def complete(self, order: PlacedOrder) -> str:
        self.during_validation()
        self._take("complete")
        now = (self._clock() - time.time()) / DAY
        files = self._authority.issue(self._folder, *NAMES, days=(now, now + self.days))
        return files.key.read_text() + files.certificate.read_text()

    def suggested_renewal(self, _: str) -> tuple[float | None, float]:
        self._take("ask")
        return self.suggested, 6 * 3600.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(time.time())


@pytest.fixture
def directory(tmp_path: Path, clock: ManualClock) -> FakeDirectory:
    return FakeDirectory(tmp_path, clock)


@pytest.fixture
def folder(tmp_path: Path, clock: ManualClock) -> CertificateFolder:
    folder = CertificateFolder(tmp_path)
    folder.prepare(NAMES, clock())
    return folder


@pytest.fixture
def job(folder: CertificateFolder, clock: ManualClock, directory: FakeDirectory) -> CertificateJob:
    return CertificateJob(WANTED, folder, clock, open_directory=directory)


async def test_the_first_one_is_ordered_once_and_renewed_when_it_is_time(
    job: CertificateJob, clock: ManualClock, directory: FakeDirectory
) -> None:
    pause = await job.look()
    assert directory.steps == ["account", "place", "answers", "complete"]
    first = job.folder.certificate.read_text()
    directory.steps.clear()
    for _ in range(3):
        clock.advance(pause)
        pause = await job.look()
    assert set(directory.steps) == {"ask"}
    assert job.folder.certificate.read_text() == first
    clock.advance(60 * DAY)
    await job.look()
    assert job.folder.certificate.read_text() != first
    assert directory.steps[-3:] == ["place", "answers", "complete"]


async def test_it_is_renewed_when_the_directory_says_so(
    job: CertificateJob, clock: ManualClock, directory: FakeDirectory
) -> None:
    await job.look()
    directory.suggested = clock() + 600
    assert 590 < await job.look() < 602
    directory.steps.clear()
    clock.advance(601)
    await job.look()
    assert directory.steps == ["place", "answers", "complete"]


async def test_a_challenge_is_answered_while_it_is_validated(
    job: CertificateJob, directory: FakeDirectory
) -> None:
    loop, answers = asyncio.get_running_loop(), list[str | None]()

    def ask() -> None:  # in the thread of the directory's client
        answer = asyncio.run_coroutine_threadsafe(job.find_answer("TOKEN"), loop)
        answers.append(answer.result(30))

    directory.during_validation = ask
    await job.look()
    assert answers == ["TOKEN.order 1"]
    assert await job.find_answer("TOKEN") is None


@pytest.mark.parametrize("step", ["place", "answers", "complete"])
async def test_a_process_that_is_killed_leaves_an_order_that_the_next_one_goes_on_with(
    job: CertificateJob, directory: FakeDirectory, step: str
) -> None:
    directory.fails[step] = Killed()
    with pytest.raises(Killed):
        await job.look()
    before = list(directory.steps)
    await CertificateJob(WANTED, job.folder, job.clock, open_directory=directory).look()
    assert directory.steps.count("account") == 1
    assert directory.steps[len(before) :] == [
        *(["place"] if step == "place" else []),
        "answers",
        "complete",
    ]
    assert job.folder.read().order is None
    assert facts_of(job.folder.certificate.read_text()) == facts_of(job.folder.read().certificate)


async def test_an_order_that_is_gone_meanwhile_is_placed_anew(
    job: CertificateJob, directory: FakeDirectory
) -> None:
    directory.fails["complete"] = Killed()
    with pytest.raises(Killed):
        await job.look()
    directory.fails["answers"] = OrderFailed("no such order", is_order_gone=True)
    await job.look()
    assert directory.steps.count("place") == 2
    assert job.folder.read().certificate


async def test_an_account_that_the_directory_does_not_know_is_made_anew(
    job: CertificateJob, clock: ManualClock, directory: FakeDirectory
) -> None:
    await job.look()
    clock.advance(65 * DAY)
    directory.steps.clear()
    directory.fails["place"] = OrderFailed("no such account", is_account_gone=True)
    await job.look()
    assert directory.steps == ["place", "account", "place", "answers", "complete"]


async def test_a_failure_keeps_what_there_is_and_is_tried_again_later(
    job: CertificateJob, clock: ManualClock, directory: FakeDirectory
) -> None:
    await job.look()
    first = job.folder.certificate.read_text()
    clock.advance(65 * DAY)
    directory.fails["complete"] = OrderFailed("port 80 cannot be reached")
    pause = await job.look()
    assert pause <= RETRIES.first + 1
    state = job.folder.read()
    assert state.failure is not None
    assert state.failure.words == "port 80 cannot be reached"
    assert job.folder.certificate.read_text() == first
    directory.steps.clear()
    await job.look()
    assert directory.steps == []
    clock.advance(pause)
    await job.look()
    assert directory.steps == ["answers", "complete"]  # the order is still there
    assert job.folder.read().failure is None


async def test_a_rate_limit_is_waited_for(job: CertificateJob, directory: FakeDirectory) -> None:
    directory.fails["place"] = OrderFailed("the rate limit is reached", 2 * 3600.0)
    assert await job.look() == 3600.0  # the clock is read again meanwhile
    failure = job.folder.read().failure
    assert failure is not None
    assert failure.retry_at == job.clock() + 2 * 3600.0
    assert failure.words.endswith(f" until {moment(failure.retry_at)}")


async def test_one_that_is_due_at_once_is_not_ordered_for_ever(
    job: CertificateJob, directory: FakeDirectory
) -> None:
    directory.days = -100.0 + 101  # its clock is behind ours
    job.clock = ManualClock(time.time() + 50 * DAY)
    await job.look()
    failure = job.folder.read().failure
    assert failure is not None
    assert "the clock of this machine" in failure.words
    assert not job.folder.read().certificate


# ── in a cluster ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def router(clock: ManualClock) -> TableHandle:
    return await MemoryEngine(clock).ensure_table(router_table("router"))


KEY = new_key()


def node(
    router: TableHandle, path: Path, clock: ManualClock, directory: FakeDirectory
) -> CertificateJob:
    path.mkdir()
    folder = CertificateFolder(path)
    folder.prepare(NAMES, clock())
    shared = SharedCertificate(router, KeyRing([KEY]), clock)
    return CertificateJob(WANTED, folder, clock, shared, directory)


async def test_one_node_orders_for_all_and_each_answers_the_challenge(
    router: TableHandle, tmp_path: Path, clock: ManualClock, directory: FakeDirectory
) -> None:
    one, two = (node(router, tmp_path / name, clock, directory) for name in ("one", "two"))
    loop, seen = asyncio.get_running_loop(), list[object]()

    async def ask_the_other() -> None:
        assert await two.find_answer("another") is None
        seen.append(await two.find_answer("TOKEN"))
        seen.append(await two.look())

    def ask() -> None:
        asyncio.run_coroutine_threadsafe(ask_the_other(), loop).result(30)

    directory.during_validation = ask
    await one.look()
    assert seen == ["TOKEN.order 1", SHARED_PAUSES[0]]
    directory.during_validation = lambda: None
    assert await two.look() == SHARED_PAUSES[1]
    assert directory.steps.count("place") == 1
    assert two.folder.certificate.read_text() == one.folder.certificate.read_text()


async def test_a_failure_of_one_node_makes_the_others_wait_too(
    router: TableHandle, tmp_path: Path, clock: ManualClock, directory: FakeDirectory
) -> None:
    one, two = (node(router, tmp_path / name, clock, directory) for name in ("one", "two"))
    directory.fails["place"] = OrderFailed("no")
    await one.look()
    await two.look()
    assert directory.steps.count("place") == 1
    failure = two.folder.read().failure
    assert failure is not None
    assert failure.words == "no"


async def test_the_store_has_no_key_that_can_be_read(
    router: TableHandle, tmp_path: Path, clock: ManualClock, directory: FakeDirectory
) -> None:
    one = node(router, tmp_path / "one", clock, directory)
    await one.look()
    row = await router.get((CERTIFICATE_ROW,))
    assert row is not None
    assert row.keys() == {"uaid", "sealed", "revision"}
    assert "PRIVATE" not in str(row)
    other = SharedCertificate(router, KeyRing([new_key()]), clock)
    assert (await other.read()).state is None
