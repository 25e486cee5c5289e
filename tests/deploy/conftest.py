"""A service behind each proxy with TLS, as the recipes of `deploy/` put them together."""

from collections.abc import Iterator

import pytest

from support.proxies import Caddy, HAProxy, Nginx, ReverseProxy, Site, prepare_site, running_site

PROXIES = [Nginx, Caddy, HAProxy]


@pytest.fixture(scope="module", params=PROXIES, ids=lambda kind: kind.name)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Both run for the whole module."""
    kind: type[ReverseProxy] = request.param
    prepared = prepare_site(tmp_path_factory.mktemp(kind.name), kind)
    # One of the tests sends a body that is too large.
    with running_site(prepared, expected=["too large body"]) as site:
        yield site
