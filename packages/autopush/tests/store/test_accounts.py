"""Accounts are added, changed and revoked, on every engine, and tokens are not stored."""

import asyncio
from typing import Any

import pytest

from autopush.store import PushStore, TablePlan
from autopush.store.accounts import MAX_ACCOUNTS, AccountError, Accounts
from autopush.store.preflight import are_keys_known
from autopush.store.tables import ACCOUNTS_ROW, router_table
from autopush.webpush.identifiers import hash_secret
from keytables import Engine
from support import engines
from support.cases import cases
from support.clocks import ManualClock

engine = engines.engine_fixture(engines.NAMES)


@pytest.fixture
async def accounts(engine: Engine, clock: ManualClock) -> Accounts:
    return Accounts(await engine.ensure_table(router_table("router")), clock)


async def test_an_account_is_known_by_the_hash_of_its_token_until_it_is_revoked(
    accounts: Accounts, clock: ManualClock
) -> None:
    assert await accounts.read() == {}
    token = await accounts.add("ann", 3)
    (account,) = (await accounts.read()).values()
    assert (account.name, account.connections) == ("ann", 3)
    assert account.created_at == int(clock())
    assert account.token_hash == hash_secret(token)
    await accounts.revoke("ann")
    assert await accounts.read() == {}


async def test_an_account_that_is_added_again_has_another_token(accounts: Accounts) -> None:
    first = await accounts.add("ann")
    await accounts.revoke("ann")
    assert await accounts.add("ann") != first


async def test_no_token_is_in_the_store(engine: Engine, accounts: Accounts) -> None:
    token = await accounts.add("ann")
    table = await engine.ensure_table(router_table("router"))
    assert token not in str(await table.get((ACCOUNTS_ROW,)))


async def test_a_quota_can_be_changed_and_the_token_stays(accounts: Accounts) -> None:
    token = await accounts.add("ann")
    await accounts.set_quota("ann", 5)
    (account,) = (await accounts.read()).values()
    assert (account.connections, account.token_hash) == (5, hash_secret(token))


async def test_each_account_has_a_number_of_its_own_which_stays(
    engine: Engine, accounts: Accounts
) -> None:
    for name in ("ann", "bob", "eve"):
        await accounts.add(name)
    await accounts.revoke("bob")
    await accounts.set_quota("ann", 5)
    await accounts.add("dan")
    numbers = {name: each.number for name, each in (await accounts.read()).items()}
    assert numbers == {"ann": 0, "eve": 2, "dan": 1}

    # Those of a version without numbers get some.
    table = await engine.open_table(router_table("router"))
    row = await table.get((ACCOUNTS_ROW,))
    assert row is not None
    members: dict[str, Any] = dict(row["accounts"])  # type: ignore[arg-type]
    for name in ("ann", "dan"):
        members[name] = {key: each for key, each in members[name].items() if key != "number"}
    await table.put(row | {"accounts": members})
    numbers = {name: each.number for name, each in (await accounts.read()).items()}
    assert numbers == {"ann": 0, "dan": 1, "eve": 2}


async def test_of_changes_at_the_same_time_none_is_lost(accounts: Accounts) -> None:
    names = [f"user{number}" for number in range(8)]
    tokens = await asyncio.gather(*(accounts.add(name) for name in names))
    assert len(set(tokens)) == 8
    assert list(await accounts.read()) == names
    await asyncio.gather(*(accounts.revoke(name) for name in names[::2]))
    assert list(await accounts.read()) == names[1::2]


async def test_a_name_can_be_taken_once(accounts: Accounts) -> None:
    token = await accounts.add("ann")
    with pytest.raises(AccountError, match="there is a user ann already"):
        await accounts.add("ann")
    (account,) = (await accounts.read()).values()
    assert account.token_hash == hash_secret(token)


@cases("name", ["", "a b", "x" * 65, "ann\n", "ü", "a/b"])
async def test_what_is_no_name_is_refused(accounts: Accounts, name: str) -> None:
    with pytest.raises(AccountError, match="a name has"):
        await accounts.add(name)


async def test_only_a_known_account_can_be_changed(accounts: Accounts) -> None:
    with pytest.raises(AccountError, match="there is no user ann"):
        await accounts.revoke("ann")
    with pytest.raises(AccountError, match="there is no user ann"):
        await accounts.set_quota("ann", 1)


async def test_there_is_a_most_of_accounts_and_they_fit_into_their_row(
    engine: Engine, accounts: Accounts
) -> None:
    token = await accounts.add("x" * 64, 1_000_000)
    table = await engine.ensure_table(router_table("router"))
    row = await table.get((ACCOUNTS_ROW,))
    assert row is not None
    (members,) = dict(row["accounts"]).values()  # type: ignore[arg-type]
    row["accounts"] = {f"{number:064}": members for number in range(MAX_ACCOUNTS)}
    await table.put(row)
    with pytest.raises(AccountError, match="which is the most"):
        await accounts.add("ann")
    assert len(await accounts.read()) == MAX_ACCOUNTS
    assert token


async def test_a_store_with_accounts_and_no_users_takes_other_keys(
    engine: Engine, accounts: Accounts
) -> None:
    assert await are_keys_known(engine, TablePlan(), ["first"])
    await accounts.add("ann")
    assert await are_keys_known(engine, TablePlan(), ["other"])


async def test_the_store_of_the_service_reads_what_the_command_has_written(
    engine: Engine, accounts: Accounts, clock: ManualClock
) -> None:
    await accounts.add("ann")
    store = await PushStore.open(engine, TablePlan(), key_hash="", clock=clock)
    assert list(await store.accounts.read()) == ["ann"]
