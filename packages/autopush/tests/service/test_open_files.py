"""How many connections the limit on open files leaves for clients."""

import resource

import pytest

from autopush.service.listeners import (
    MAX_INTERNAL,
    connections_allowed,
    internal_connections_allowed,
)


@pytest.mark.parametrize(
    ("files", "wanted", "allowed"),
    [
        (1024, 0, 824),
        (200_000, 0, 180_000),
        (256, 0, 128),
        (1024, 500, 500),
        (1024, 5000, 824),
        (resource.RLIM_INFINITY, 0, 0),
        (resource.RLIM_INFINITY, 500, 500),
    ],
)
def test_descriptors_are_kept_for_what_is_not_a_connection_of_a_client(
    monkeypatch: pytest.MonkeyPatch, files: int, wanted: int, allowed: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert connections_allowed(wanted) == allowed


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        (1024, 100),
        (20_000, 1000),
        (1_000_000, MAX_INTERNAL),
        (resource.RLIM_INFINITY, MAX_INTERNAL),
    ],
)
def test_connections_of_nodes_leave_half_of_what_is_kept_from_clients(
    monkeypatch: pytest.MonkeyPatch, files: int, allowed: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (files, files))
    assert internal_connections_allowed() == allowed
