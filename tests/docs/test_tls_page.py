"""The page about TLS: its commands make what the service and its clients can use."""

import asyncio
import re
import ssl
import subprocess
from pathlib import Path

import pytest

from autopush.net.tls import ClientTls, ServerTls
from support.paths import ROOT
from support.tools import need

PAGE = ROOT / "docs" / "tls.md"


def shell_of(section: str) -> str:
    """The first block of shell commands under a heading."""
    _, text = PAGE.read_text().split(f"\n## {section}\n")
    block = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert block
    return block[1]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder in which the commands for a CA were run."""
    need("openssl", "apt-get install openssl")
    script = shell_of("A CA of your own")
    subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


async def test_the_commands_make_a_ca_and_a_certificate_that_its_clients_trust(made: Path) -> None:
    tls = ServerTls(str(made / "fullchain.pem"), str(made / "privkey.pem"))
    assert tls.names == ("push.example.org", "127.0.0.1")
    server = await asyncio.start_server(
        lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=tls.context
    )
    port = server.sockets[0].getsockname()[1]
    strict = ssl.create_default_context(cafile=str(made / "ca.pem"))
    strict.verify_flags |= ssl.VERIFY_X509_STRICT  # as Python has it from 3.13 on
    for context in (strict, await ClientTls(str(made / "ca.pem")).context()):
        for name in ("push.example.org", "127.0.0.1"):
            _, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname=name
            )
            writer.close()
            await writer.wait_closed()
    server.close()
    await server.wait_closed()


def test_the_hook_for_renewals_is_a_shell_script() -> None:
    script = shell_of("A new certificate without a restart")
    assert script.startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", "-c", script], check=True)
