"""Where accounts are required, a socket is admitted where it opens, and again before its hello."""

import socket

import msgspec
import pytest

from autopush.delivery.moving import FORMAT, Moved, Movers
from autopush.delivery.user_agent import UserAgentConnection
from autopush.net.siblings import Adoption, Siblings
from autopush.store.accounts import Account
from autopush.store.users import UserRecord
from autopush.webpush.identifiers import hash_secret
from support.connection_harness import OTHER, UAID, Harness, UserAgent

ANN, BOB, STRANGER = (hash_secret(name) for name in ("ann", "bob", "eve"))
CLOSED = {
    "": ("close", 1008, "the token of a user is required"),
    STRANGER: ("close", 1008, "the user was revoked"),
}
NOT_ADMITTED = pytest.mark.parametrize("account", ["", STRANGER], ids=["none", "revoked"])


async def required(quota: int = 0) -> tuple[Harness, dict[str, Account]]:
    """A node with two accounts, and what it reads them from."""
    accounts = {"ann": Account("ann", ANN, 1, quota), "bob": Account("bob", BOB, 1, number=1)}

    async def read() -> dict[str, Account]:
        return accounts

    return await Harness.open(accounts_required=True, read_accounts=read), accounts


async def load(harness: Harness) -> None:
    assert harness.node.accounts is not None
    await harness.node.accounts.load()


def arrives(there: Harness, moved: Moved) -> tuple[Adoption, socket.socket]:
    """What the sender is answered, and the client's end of the socket that it hands over."""
    client, sock = socket.socketpair()
    sock.setblocking(False)
    movers = Movers(Siblings())
    status = movers.adopt(there.node, sock, msgspec.msgpack.encode(moved))
    return status, client


async def handed_over(account: str, *, hello: bytes = b"", identified: bool = False) -> Moved:
    """A connection of a version that required no accounts."""
    before, user = await Harness.open(), None
    if identified:
        agent = await before.subscribed()
        await before.run_until_idle()
        user = agent.connection._export()
        assert user is not None
    return Moved(FORMAT, "agent/1", "host", account, "192.0.2.1", hello, b"", user)


@NOT_ADMITTED
@pytest.mark.parametrize("identified", [False, True])
async def test_what_another_version_has_admitted_is_closed_on_arrival(
    account: str, identified: bool
) -> None:
    there, _ = await required()
    status, client = arrives(there, await handed_over(account, identified=identified))
    assert status is Adoption.TAKEN, "the sender keeps nothing of it"
    client.settimeout(10)
    await there.run_until_idle()
    frame = client.recv(100)
    assert (frame[0], int.from_bytes(frame[2:4])) == (0x88, 1008)
    assert not there.registry._users
    client.close()
    await there.run_until_idle()


async def test_before_the_accounts_are_read_nothing_is_taken_over() -> None:
    there, _ = await required()
    assert there.node.accounts is not None
    there.node.accounts._known = None
    status, client = arrives(there, await handed_over(ANN, identified=True))
    assert status is Adoption.REFUSED
    client.close()


async def test_what_it_hands_over_counts_towards_the_quota() -> None:
    there, _ = await required(quota=1)
    clients = [arrives(there, await handed_over(ANN))[1] for _ in range(3)]
    await there.run_until_idle()
    assert len([each for each in there.registry.sockets if each.is_connected]) == 1
    for client in clients:
        client.close()
    await there.run_until_idle()


@NOT_ADMITTED
async def test_a_hello_of_an_account_that_is_not_known_here_stays_with_the_sibling(
    account: str,
) -> None:
    there, _ = await required()
    status, client = arrives(there, await handed_over(account, hello=b"{}"))
    assert status is Adoption.REFUSED
    client.close()


@NOT_ADMITTED
async def test_a_socket_that_opens_without_an_account_is_closed(account: str) -> None:
    harness, _ = await required()
    assert harness.connect(account=account).received() == [CLOSED[account]]


async def test_the_connections_of_a_user_who_is_revoked_are_closed() -> None:
    harness, accounts = await required()
    agents = [harness.connect(account=account) for account in (ANN, BOB, ANN)]
    del accounts["ann"]
    await load(harness)
    assert [agent.received() for agent in agents] == [[CLOSED[STRANGER]], [], [CLOSED[STRANGER]]]


@pytest.mark.parametrize("uaid", [None, UAID])
async def test_a_socket_whose_account_is_revoked_says_no_hello(uaid: str | None) -> None:
    harness, accounts = await required()
    agent = harness.connect(account=ANN)
    del accounts["ann"]
    assert harness.node.accounts is not None
    harness.node.accounts.end_sessions = None  # it has not come to this socket yet
    await load(harness)
    agent.hello(uaid)
    await harness.run_until_idle()
    assert agent.received() == [CLOSED[STRANGER]]
    assert not harness.registry._users


async def test_a_socket_that_stays_after_all_counts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, _ = await required(quota=1)
    agent = harness.connect(account=ANN)

    async def cannot_move(_: UserAgentConnection) -> None:
        assert harness.node.accounts is not None
        harness.node.accounts.admit_connection(ANN)  # meanwhile it does not count

    monkeypatch.setattr(UserAgentConnection, "begin_move", cannot_move)
    assert await agent.connection.begin_leaving(with_hello=True) is None
    assert harness.connect(account=ANN).close_code() == 1008
    assert agent.connection.is_connected
    agent.disconnect()
    await harness.run_until_idle()
    assert harness.connect(account=ANN).received() == []


async def hello(harness: Harness, uaid: str | None, account: str) -> UserAgent:
    agent = harness.connect(account=account)
    agent.hello(uaid)
    await harness.run_until_idle()
    return agent


async def known(harness: Harness, account: str) -> UserRecord:
    agent = await hello(harness, None, account)
    agent.register()
    await harness.run_until_idle()
    return await harness.record(agent.uaid)


async def test_a_record_has_the_account_that_has_created_it_and_others_do_not_get_it() -> None:
    harness, accounts = await required()
    record = await known(harness, ANN)
    assert record.account == ANN
    other = await hello(harness, record.uaid, BOB)
    assert other.uaid != record.uaid
    assert (await harness.record(record.uaid)) == record
    again = await hello(harness, record.uaid, ANN)
    assert again.uaid == record.uaid

    # A new token of the same user, or the UAID goes to somebody else.
    del accounts["ann"]
    await load(harness)
    next_one = await hello(harness, record.uaid, BOB)
    assert next_one.uaid == record.uaid
    assert (await harness.record(record.uaid)).account == BOB


async def test_a_record_from_before_goes_to_the_account_that_connects_with_it() -> None:
    harness, _ = await required()
    await harness.known_user()
    assert (await harness.record()).account == ""
    await hello(harness, UAID, ANN)
    assert (await harness.record()).account == ANN
    assert (await hello(harness, UAID, BOB)).uaid != UAID
    assert (await hello(harness, OTHER, BOB)).uaid != OTHER
