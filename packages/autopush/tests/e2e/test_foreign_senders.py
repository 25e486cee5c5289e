"""Libraries of application servers in other languages, unchanged, send through the service.

pywebpush, that of Python, has a module of its own.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from autopush.webpush.syntax import encode_base64url
from support.certificates import Authority
from support.paths import ROOT
from support.service import Service, running_service
from support.subscription import Subscription
from support.tools import give_up, need
from support.user_agent import UserAgent

pytestmark = pytest.mark.slow

Connect = Callable[..., Awaitable[UserAgent]]

SENDERS = ROOT / ".tools/senders"
TIMEOUT = 30.0


def node() -> list[str]:
    script = SENDERS / "node/send.js"
    if not script.exists():
        give_up("needs web-push of Node (install npm, then make tools)")
    return [need("node", "apt-get install nodejs"), str(script)]


def compiled(name: str, library: str, install: str) -> list[str]:
    """Not missing in CI either: Debian's Go is too old for the library, and Rust compiles for ten
    minutes.
    """
    program = shutil.which(str(SENDERS / name))
    if program is None:
        pytest.skip(f"needs {library} ({install})")
    return [program]


def go() -> list[str]:
    return compiled("go", "webpush-go", "install go 1.22, then make tools")


def rust() -> list[str]:
    return compiled("rust", "web-push of Rust", "install cargo, then make .tools/senders/rust")


@pytest.fixture(scope="module", params=["1", "2"], ids=["a worker", "two workers"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """With TLS, without which that of Node sends nothing."""
    folder = tmp_path_factory.mktemp("senders")
    authority = Authority(folder)
    options = (*authority.issue(folder).options, "--workers", request.param)
    with running_service(folder / "data", *options) as service:
        service.tls = authority.client()
        yield service


@pytest.fixture
def trusted(running: Service) -> Path:
    """The certificate of the authority that the libraries are to trust."""
    return running.data.parent / "authority.pem"


@pytest.fixture
def connect(running: Service, agents: list[UserAgent]) -> Connect:
    async def connect(uaid: str | None = None) -> UserAgent:
        agents.append(await running.connect(uaid))
        return agents[-1]

    return connect


@pytest.fixture(params=[node, go, rust], ids=lambda program: program.__name__)
def program(request: pytest.FixtureRequest) -> list[str]:
    words: list[str] = request.param()
    return words


class Key:
    """A VAPID key pair, as these libraries take it."""

    def __init__(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        number = key.private_numbers().private_value
        self.private = encode_base64url(number.to_bytes(32, "big"))
        point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        self.public = encode_base64url(point)


def signs(program: list[str]) -> bool:
    """That of Rust leaves the port out of the audience, so here it sends without VAPID."""
    return Path(program[0]).name != "rust"


async def subscribed(agent: UserAgent, program: list[str], key: Key) -> Subscription:
    return await Subscription.of(agent, key.public if signs(program) else None)


async def send(
    program: list[str], trusted: Path, subscription: Subscription, key: Key, **more: Any
) -> str:
    """The status that the library reports."""
    wanted = {
        "subscription": subscription.info,
        "ttl": 60,
        "publicKey": key.public if signs(program) else None,
        "privateKey": key.private if signs(program) else None,
        **more,
    }
    process = await asyncio.create_subprocess_exec(
        *program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(program[-1]).parent,
        env=os.environ | dict.fromkeys(("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"), str(trusted)),
    )
    async with asyncio.timeout(TIMEOUT):
        out, _ = await process.communicate(json.dumps(wanted).encode())
    return out.decode().strip()


@pytest.mark.parametrize("urgency", [None, "very-low", "high"])
async def test_what_the_library_encrypts_is_read(
    running: Service, connect: Connect, program: list[str], trusted: Path, urgency: str | None
) -> None:
    key, agent = Key(), await connect()
    subscription = await subscribed(agent, program, key)
    more = {"urgency": urgency} if urgency else {}
    assert await send(program, trusted, subscription, key, text="Grüße, 世界", **more) == "201"
    message = await agent.notification()
    assert subscription.read(message) == "Grüße, 世界".encode()


async def test_of_a_topic_only_the_last_message_waits(
    running: Service, connect: Connect, program: list[str], trusted: Path
) -> None:
    key, agent = Key(), await connect()
    subscription = await subscribed(agent, program, key)
    await agent.close()
    for number in range(2):
        text = f"{number}"
        assert await send(program, trusted, subscription, key, text=text, topic="news") == "201"
    assert await send(program, trusted, subscription, key, text="other") == "201"
    agent = await connect(agent.uaid)
    waited = [subscription.read(each) for each in await agent.receive(2, ack=True)]
    assert sorted(waited) == [b"1", b"other"]
    await agent.silence()


async def test_another_key_is_refused_and_a_subscription_that_is_gone_is_reported(
    running: Service, connect: Connect, program: list[str], trusted: Path
) -> None:
    key, agent = Key(), await connect()
    subscription = await subscribed(agent, program, key)
    if signs(program):
        assert await send(program, trusted, subscription, Key(), text="x") == "401"
    await agent.unregister(subscription.channel)
    gone = await send(program, trusted, subscription, key, text="x")
    assert "410" in gone or "EndpointNotValid" in gone
