"""Who stands in whose place."""

from support.connection_house import OTHER, UAID, House, UserAgent


def claim(house: House, agent: UserAgent, uaid: str = UAID) -> object:
    agent.connection.session.uaid = uaid
    return house.registry.claim(uaid, agent.connection)


def test_a_user_agent_nobody_knows_is_not_found(house: House) -> None:
    assert house.registry.find(UAID) is None


def test_the_connection_that_claims_a_place_is_found_there(house: House) -> None:
    agent = house.connect()
    assert claim(house, agent) is None
    assert house.registry.find(UAID) is agent.connection


def test_who_claims_a_place_learns_who_stood_there(house: House) -> None:
    first, second = house.connect(), house.connect()
    claim(house, first)
    assert claim(house, second) is first.connection
    assert house.registry.find(UAID) is second.connection


def test_claiming_a_place_twice_displaces_nobody(house: House) -> None:
    agent = house.connect()
    claim(house, agent)
    assert claim(house, agent) is None


def test_a_released_place_is_empty(house: House) -> None:
    agent = house.connect()
    claim(house, agent)
    house.registry.release(agent.connection)
    assert house.registry.find(UAID) is None


def test_a_late_release_leaves_the_successor_in_its_place(house: House) -> None:
    first, second = house.connect(), house.connect()
    claim(house, first)
    claim(house, second)
    house.registry.release(first.connection)
    assert house.registry.find(UAID) is second.connection


def test_releasing_a_connection_without_a_uaid_changes_nothing(house: House) -> None:
    agent, nobody = house.connect(), house.connect()
    claim(house, agent)
    house.registry.release(nobody.connection)
    assert house.registry.find(UAID) is agent.connection


def test_releasing_one_user_agent_leaves_the_others(house: House) -> None:
    first, second = house.connect(), house.connect()
    claim(house, first)
    claim(house, second, OTHER.replace("-", ""))
    house.registry.release(first.connection)
    assert house.registry.find(second.uaid) is second.connection


async def test_every_open_socket_is_known_greeted_or_not_until_it_closes(house: House) -> None:
    first, second = house.connect(), house.connect()
    assert list(house.registry.sockets) == [first.connection, second.connection]
    first.leave()
    await house.settle()
    assert list(house.registry.sockets) == [second.connection]
