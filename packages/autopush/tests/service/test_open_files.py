"""How many connections the limit on open files leaves for clients."""

import resource

import pytest

from autopush.service.open_files import connections_allowed


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
