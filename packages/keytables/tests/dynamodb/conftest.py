"""A client of a scripted server, in an environment without credentials and AWS configuration.

Modules that say `BOTH_LOOPS = True` run their coroutine tests on uvloop and in CI on asyncio too.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from keytables.dynamodb.client import Client
from keytables.dynamodb.retries import RetryPolicy
from keytables.dynamodb.signing import Credentials, LoadedCredentials
from keytables.retries import Backoff
from support.event_loops import pytest_asyncio_loop_factories
from support.scripted_server import ScriptedServer

SECRETS = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG", "TOKEN+OF+A+SESSION")
LOADED = LoadedCredentials(Credentials(*SECRETS), lambda seconds: False)

IMMEDIATELY = RetryPolicy(backoff=Backoff(0.0, 0.0))
"""Without delays between attempts."""

OpenClient = Callable[..., Awaitable[Client]]

__all__ = ["pytest_asyncio_loop_factories"]


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials, no files, no instance with a role."""
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "aws-credentials"))
    monkeypatch.setenv("BOTO_CONFIG", str(tmp_path / "boto-config"))


@pytest.fixture
async def open_client() -> AsyncIterator[OpenClient]:
    """Opens clients of a `ScriptedServer` that retry without delays; they are closed in the end."""
    async with AsyncExitStack() as opened:

        async def open_one(server: ScriptedServer, scheme: str = "http", **options: Any) -> Client:
            client = await Client.open(
                **{
                    "region": "eu-west-1",
                    "endpoint": f"{scheme}://127.0.0.1:{server.port}",
                    "credentials": lambda: LOADED,
                    "retries": IMMEDIATELY,
                    **options,
                }
            )
            opened.push_async_callback(client.close)
            return client

        yield open_one
