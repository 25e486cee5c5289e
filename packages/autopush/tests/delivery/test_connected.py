"""Which connection a user agent has on this worker."""

from support.connection_harness import OTHER, UAID, Harness, UserAgent


def claim(harness: Harness, agent: UserAgent, uaid: str = UAID) -> object:
    agent.connection.uaid = uaid
    return harness.registry.claim(uaid, agent.connection)


def test_the_connection_that_claims_a_user_agent_is_found_until_it_is_released(
    harness: Harness,
) -> None:
    registry, agent, other = harness.registry, harness.connect(), harness.connect()
    assert registry.find(UAID) is None
    assert claim(harness, agent) is None
    assert claim(harness, agent) is None, "a second claim replaces nothing"
    claim(harness, other, OTHER.replace("-", ""))
    registry.release(harness.connect().connection)  # which has no UAID
    assert registry.find(UAID) is agent.connection
    registry.release(agent.connection)
    assert registry.find(UAID) is None
    assert registry.find(OTHER.replace("-", "")) is other.connection


def test_a_second_connection_replaces_the_first_whose_late_release_changes_nothing(
    harness: Harness,
) -> None:
    first, second = harness.connect(), harness.connect()
    claim(harness, first)
    assert claim(harness, second) is first.connection
    assert harness.registry.find(UAID) is second.connection
    harness.registry.release(first.connection)
    assert harness.registry.find(UAID) is second.connection
