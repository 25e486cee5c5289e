"""Where accounts are required, only user agents with a token connect and register."""

from collections.abc import Collection, Mapping

import pytest
from msgspec.structs import replace

from autopush.admission import AccountLimits, OpenConnections, account_of
from autopush.limits import LimitRefusals
from autopush.net.http_messages import Request
from autopush.store.accounts import Account
from autopush.telemetry.metric_table import LIMIT_REFUSED
from autopush.telemetry.metrics import Metrics
from autopush.webpush.errors import PushError
from autopush.webpush.identifiers import hash_secret
from keytables import Unavailable
from support.recorded import new_metrics, recorded

TOKEN = "a" * 43
OTHER = "b" * 43
ANN = Account("ann", hash_secret(TOKEN), 1, connections=2)
EVE = Account("eve", hash_secret(OTHER), 1, number=1)


def request(path: str = "/", **headers: str) -> Request:
    return Request("GET", path, "", headers, "192.0.2.1")


class Reader:
    """The accounts of a store."""

    def __init__(self, *accounts: Account) -> None:
        self.accounts = {each.name: each for each in accounts}
        self.error: Exception | None = None

    async def __call__(self) -> Mapping[str, Account]:
        if self.error is not None:
            raise self.error
        return self.accounts


@pytest.fixture
def metrics() -> Metrics:
    return new_metrics()


@pytest.fixture
def reader() -> Reader:
    return Reader(ANN, EVE)


@pytest.fixture
async def limits(reader: Reader, metrics: Metrics) -> AccountLimits:
    limits = AccountLimits(LimitRefusals(metrics), reader)
    await limits.load()
    return limits


def refusal(limits: AccountLimits, asked: Request) -> tuple[int, int]:
    with pytest.raises(PushError) as refused:
        limits.admit_connection(account_of(asked), asked.client_address)
    assert TOKEN not in str(refused.value)
    assert OTHER not in str(refused.value)
    return refused.value.status, refused.value.errno


@pytest.mark.parametrize("path", [f"/{TOKEN}", f"/ws/{TOKEN}", f"/{TOKEN}/", f"/a/b/{TOKEN}"])
def test_the_token_ends_the_path_whatever_stands_before_it(path: str) -> None:
    assert account_of(request(path)) == ANN.token_hash


def test_or_it_is_in_the_header_authorization() -> None:
    assert account_of(request(authorization=f"Bearer {TOKEN}")) == ANN.token_hash
    assert account_of(request(f"/{OTHER}", authorization="Basic eDp5")) == EVE.token_hash


@pytest.mark.parametrize("path", ["/", "", "/ws", "/ws/", "/my/very/long/path/without/a/token"])
def test_without_a_token_it_is_401_with_a_challenge(
    limits: AccountLimits, metrics: Metrics, path: str
) -> None:
    assert refusal(limits, request(path)) == (401, 123)
    with pytest.raises(PushError) as refused:
        limits.admit(account_of(request(path)))
    assert refused.value.headers == (("WWW-Authenticate", 'Bearer realm="autopush"'),)
    assert recorded(metrics, LIMIT_REFUSED, limit="accounts_required") == 2


@pytest.mark.parametrize("token", ["c" * 43, TOKEN[:-1], TOKEN + "a", TOKEN.upper()])
def test_a_token_of_nobody_is_403(limits: AccountLimits, token: str) -> None:
    assert refusal(limits, request(f"/{token}")) == (403, 123)
    assert refusal(limits, request("/", authorization=f"Bearer {token}")) == (403, 123)


async def test_before_the_accounts_are_read_nobody_is_refused_for_good(
    reader: Reader, metrics: Metrics
) -> None:
    limits = AccountLimits(LimitRefusals(metrics), reader)
    assert refusal(limits, request(f"/{TOKEN}")) == (503, 202)
    await limits.load()
    assert limits.admit(ANN.token_hash)


async def test_while_the_store_fails_the_accounts_read_last_count(
    limits: AccountLimits, reader: Reader
) -> None:
    reader.error = Unavailable("away")
    with pytest.raises(Unavailable):
        await limits.load()
    assert limits.admit(ANN.token_hash) == ANN


async def test_an_account_that_is_added_or_revoked_counts_with_the_next_reading(
    limits: AccountLimits, reader: Reader
) -> None:
    del reader.accounts["ann"]
    limits.admit(ANN.token_hash)
    await limits.load()
    assert refusal(limits, request(f"/{TOKEN}")) == (403, 123)
    reader.accounts["ann"] = ANN
    await limits.load()
    assert limits.admit(ANN.token_hash)


async def test_the_sessions_of_a_revoked_account_are_ended(
    limits: AccountLimits, reader: Reader
) -> None:
    ended: list[str] = []

    async def end(identities: object) -> None:
        assert isinstance(identities, list)
        ended.extend(identities)

    limits.end_sessions = end
    for identity in (ANN.token_hash, EVE.token_hash):
        limits.open(identity)
    await limits.load()
    assert ended == []
    del reader.accounts["ann"]
    await limits.load()
    assert ended == [ANN.token_hash]


def test_above_its_quota_an_account_gets_429_until_a_connection_ends(
    limits: AccountLimits, metrics: Metrics
) -> None:
    for _ in range(2):
        limits.open(ANN.token_hash)
    assert refusal(limits, request(f"/{TOKEN}")) == (429, 203)
    assert recorded(metrics, LIMIT_REFUSED, limit="account_connections") == 1
    limits.close(ANN.token_hash)
    limits.admit_connection(ANN.token_hash)


async def test_the_quota_is_one_for_all_workers_and_free_when_a_worker_has_ended(
    reader: Reader, metrics: Metrics
) -> None:
    total = OpenConnections(3)
    workers = [AccountLimits(LimitRefusals(metrics), reader, total, each) for each in range(3)]
    for worker in workers:
        await worker.load()
    workers[0].open(ANN.token_hash)
    workers[2].open(ANN.token_hash)
    for worker in workers:
        assert refusal(worker, request(f"/{TOKEN}")) == (429, 203)
        with pytest.raises(PushError):  # as when both were admitted at the same time
            worker.open(ANN.token_hash)
    workers[1].open(EVE.token_hash)
    total.clear(2)
    workers[1].open(ANN.token_hash)
    workers[0].close(ANN.token_hash)
    workers[0].admit_connection(ANN.token_hash)


async def test_a_connection_counts_where_it_did_when_its_account_gets_another_number(
    limits: AccountLimits, reader: Reader
) -> None:
    limits.open(ANN.token_hash)
    del reader.accounts["ann"]
    reader.accounts["bob"] = Account("bob", hash_secret("d" * 43), 1, connections=1)
    await limits.load()
    limits.close(ANN.token_hash)
    limits.open(hash_secret("d" * 43))
    assert refusal(limits, request(f"/{'d' * 43}")) == (429, 203)


def test_only_a_uaid_of_no_other_account_can_be_taken(limits: AccountLimits) -> None:
    ann, eve, revoked = ANN.token_hash, EVE.token_hash, hash_secret("d" * 43)
    assert [limits.may_take(ann, owner) for owner in ("", ann, eve, revoked)] == [
        True,
        True,
        False,
        True,
    ]


async def test_after_a_renewal_only_the_new_token_connects_and_the_devices_stay_its_own(
    limits: AccountLimits, reader: Reader
) -> None:
    renewed = replace(ANN, token_hash=hash_secret("d" * 43), former=(ANN.token_hash,))
    reader.accounts["ann"] = renewed
    await limits.load()
    assert limits.admit(renewed.token_hash) is renewed
    assert refusal(limits, request(f"/{TOKEN}")) == (403, 123)
    assert limits.may_take(renewed.token_hash, ANN.token_hash)
    assert not limits.may_take(EVE.token_hash, ANN.token_hash)


async def test_the_sessions_of_an_expired_account_end_and_its_devices_stay_its_own(
    reader: Reader, metrics: Metrics
) -> None:
    now, ended = 99.0, list[str]()

    async def end(identities: Collection[str]) -> None:
        ended.extend(identities)

    limits = AccountLimits(LimitRefusals(metrics), reader, clock=lambda: now)
    limits.end_sessions = end
    reader.accounts["ann"] = replace(ANN, expires_at=100)
    await limits.load()
    limits.open(ANN.token_hash)
    now = 100.0
    await limits.load()
    assert ended == [ANN.token_hash]
    assert refusal(limits, request(f"/{TOKEN}")) == (403, 123)
    assert not limits.may_take(EVE.token_hash, ANN.token_hash)
