"""Which connection a user agent has on this worker."""

from support.connection_harness import OTHER, UAID, Harness, UserAgent


def claim(harness: Harness, agent: UserAgent, uaid: str = UAID) -> object:
    agent.connection.uaid = uaid
    return harness.registry.claim(uaid, agent.connection)


def test_an_unknown_user_agent_is_not_found(harness: Harness) -> None:
    assert harness.registry.find(UAID) is None


def test_the_claiming_connection_is_found(harness: Harness) -> None:
    agent = harness.connect()
    assert claim(harness, agent) is None
    assert harness.registry.find(UAID) is agent.connection


def test_a_second_claim_replaces_and_returns_the_first(harness: Harness) -> None:
    first, second = harness.connect(), harness.connect()
    claim(harness, first)
    assert claim(harness, second) is first.connection
    assert harness.registry.find(UAID) is second.connection


def test_a_connection_that_claims_twice_replaces_none(harness: Harness) -> None:
    agent = harness.connect()
    claim(harness, agent)
    assert claim(harness, agent) is None


def test_a_released_connection_is_not_found(harness: Harness) -> None:
    agent = harness.connect()
    claim(harness, agent)
    harness.registry.release(agent.connection)
    assert harness.registry.find(UAID) is None


def test_a_late_release_keeps_the_successor(harness: Harness) -> None:
    first, second = harness.connect(), harness.connect()
    claim(harness, first)
    claim(harness, second)
    harness.registry.release(first.connection)
    assert harness.registry.find(UAID) is second.connection


def test_the_release_of_a_connection_without_a_uaid_changes_nothing(harness: Harness) -> None:
    agent, unidentified = harness.connect(), harness.connect()
    claim(harness, agent)
    harness.registry.release(unidentified.connection)
    assert harness.registry.find(UAID) is agent.connection


def test_a_release_keeps_other_user_agents(harness: Harness) -> None:
    first, second = harness.connect(), harness.connect()
    claim(harness, first)
    claim(harness, second, OTHER.replace("-", ""))
    harness.registry.release(first.connection)
    assert harness.registry.find(second.uaid) is second.connection
