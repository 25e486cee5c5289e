"""From nothing but a package to a notification in Firefox, over TLS with a certificate by ACME."""

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.certificates import LOOPBACK
from support.debian_root import empty_root
from support.firefox import Firefox, find_firefox
from support.packaged import MODULE_WORDS, in_release, need_root, packaged
from support.pebble import Pebble
from support.pywebpush_sender import PywebpushSender
from support.service import Service, Wrap
from support.sockets import unused_port

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

NAME = "push.localhost"
"""Firefox takes every name below localhost for this machine, and Pebble every name."""
DELIVERED = 100  # the code of an ack


@pytest.fixture
def known_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process, which sends, find it too."""
    resolve = socket.getaddrinfo

    def find(host: Any, *rest: Any, **named: Any) -> Any:
        return resolve(LOOPBACK if host == NAME else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", find)


async def notify_firefox(folder: Path, pebble: Pebble, options: Sequence[str], wrap: Wrap) -> None:
    """`wrap`: as that of `Service`; `options`: those of this test, not of a user."""
    running = Service(folder / "data", options, wrap=wrap)
    try:
        await running.start()
        assert running.endpoint == f"https://{NAME}:{running.ports['--port']}"
        await running.logged("A certificate was read again")
        authority = folder / "issued.pem"
        authority.write_text(pebble.root())
        sender = PywebpushSender(authority)
        with Firefox(running.websocket, authority) as firefox:
            firefox.start()
            subscription = firefox.subscribe(sender.key)
            assert subscription.endpoint.startswith(f"{running.endpoint}/wpush/v2/")
            version = sender.send(subscription, "Hello")
            assert firefox.receive(subscription) == [b"Hello"]
            firefox.wait(lambda: version in firefox.acks, "the ack")
            assert firefox.acks[version] == DELIVERED
        assert running.errors == []
    finally:
        code = await running.stop()
    assert code == 0


def settings_for(pebble: Pebble, ca: Path) -> dict[str, str]:
    """What a user of the internet does not need. `ca`: of the directory, as the service sees it."""
    return {
        "host": LOOPBACK,
        "http_port": str(pebble.http_port),
        "acme_directory": pebble.url,
        "acme_ca": str(ca),
    }


@pytest.mark.usefixtures("known_name")
async def test_the_one_file_notifies_a_firefox_over_tls(tmp_path: Path) -> None:
    find_firefox()
    file = packaged("file")
    with Pebble(tmp_path, unused_port()).running() as pebble:
        words = ["--domain", NAME]
        for name, value in settings_for(pebble, pebble.ca).items():
            words += [f"--{name.replace('_', '-')}", value]
        await notify_firefox(
            tmp_path, pebble, words, lambda command: [str(file), *command[MODULE_WORDS:]]
        )


@in_release
@pytest.mark.slow
@pytest.mark.usefixtures("known_name")
async def test_the_debian_package_and_one_line_notify_a_firefox_over_tls(tmp_path: Path) -> None:
    find_firefox()
    need_root()
    with (
        Pebble(tmp_path, unused_port()).running() as pebble,
        empty_root("bookworm", tmp_path) as root,
    ):
        root.install(packaged("deb"))
        ca = Path("/etc/autopush/directory.pem")
        root.path(ca).write_bytes(pebble.ca.read_bytes())
        lines = [f"{name} = {value}" for name, value in settings_for(pebble, ca).items()]
        root.path(ca.with_name("test.ini")).write_text("\n".join(lines))
        root.shell(f"echo 'domain = {NAME}' >> /etc/autopush/autopush.ini")
        root.shell("cat /etc/autopush/test.ini >> /etc/autopush/autopush.ini")
        await notify_firefox(tmp_path, pebble, [], root.start_words)
