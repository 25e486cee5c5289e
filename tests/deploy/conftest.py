"""A service behind nginx with TLS, as `deploy/nginx.conf` puts them together."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.certificates import Authority
from support.nginx import Nginx, Site, find_nginx
from support.service import Service
from support.sockets import unused_port


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Both run for the whole module; neither may have complained at its end."""
    find_nginx()
    folder = tmp_path_factory.mktemp("site")
    authority = Authority(folder)
    files = authority.issue(folder)
    service = Service(folder / "data", [])
    service.ports = ports = {flag: str(unused_port()) for flag in service.ports}
    nginx = Nginx(
        folder,
        files,
        websocket_port=int(service.ports["--port"]),
        endpoint_port=int(service.ports["--endpoint-port"]),
    )
    site = Site(service, nginx, authority, files)
    service.options = ["--endpoint-url", site.https, "--websocket-url", f"{site.wss}/"]
    try:
        service.launch()
        service.ports = ports  # the ready line names the public URLs
        with nginx:
            yield site
    finally:
        code = service.end()
    assert code == 0
    assert service.errors == []
    # One of the tests sends a body that is too large.
    assert [line for line in nginx.complaints if "too large body" not in line] == []


@pytest.fixture
def recipe(tmp_path: Path) -> Nginx:
    """The recipe, with no service behind it."""
    files = Authority(tmp_path).issue(tmp_path)
    return Nginx(tmp_path, files, websocket_port=unused_port(), endpoint_port=unused_port())
