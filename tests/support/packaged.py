"""What `make release` builds, run as its users run it."""

import os
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from select import select
from signal import SIGKILL, SIGTERM
from typing import Final

import pytest

from support.application_server import application_server
from support.paths import ROOT, TOOLS
from support.service import STOP_TIMEOUT, Service, Wrap, clean_environment
from support.tools import give_up
from support.user_agent import UserAgent

MODULE_WORDS = 3
"""Of the command line that `Service.wrap` gets, before the name of the daemon."""


RELEASE: Final = os.environ.get("AUTOPUSH_RELEASE")
"""The folder with what `make release` has built, where it runs the tests."""
in_release = pytest.mark.skipif(RELEASE is None, reason="is run by make release")
_IN_RELEASE: Final = {"file": "autopush", "image": "autopush_*_oci.tar", "deb": "autopush_*.deb"}


def packaged(what: str) -> Path:
    """`file`, `image` or `deb`: of the release, else hardly compressed, from `make`."""
    if RELEASE:
        [found] = (ROOT / RELEASE).glob(_IN_RELEASE[what])
        return found
    path = TOOLS / "packages" / what
    if not path.exists():
        give_up("needs packages (make .tools/.packages, on Debian 12)")
    return path


def run(
    words: Sequence[str | Path],
    *,
    code: int = 0,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Both outputs of a program, which ends with that code."""
    ended = subprocess.run(
        words,
        cwd=cwd,
        env=clean_environment(**(variables or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == code, (words, ended.returncode, ended.stdout)
    return ended.stdout


def need_root() -> None:
    if os.geteuid() != 0:
        give_up("needs root, for namespaces and users (sudo make test)")


@asynccontextmanager
async def upgraded(
    data: Path,
    wrap: Wrap,
    upgrade: Sequence[str],
    *options: str,
    agents: int = 4,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[int]:
    """A service with user agents, that the command `upgrade` then replaces by its next version:
    they stay connected, and are pushed to before and after it. `wrap`: as that of `Service`. Gives
    the process id of the next version.
    """
    running = Service(data, options, variables, wrap=wrap)
    connected: list[UserAgent] = []
    following = None
    try:
        await running.start()
        async with application_server() as sender:
            connected = [await running.connect() for _ in range(agents)]
            endpoints = [(await agent.register())[1] for agent in connected]

            async def push_to_all(body: bytes) -> None:
                for agent, endpoint in zip(connected, endpoints, strict=True):
                    assert (await sender.push(endpoint, body)).status == 201
                    await agent.ack([await agent.notification()])

            await push_to_all(b"before")
            printed = run(upgrade, variables=variables)
            following = int(printed.rpartition("serves (process ")[2].partition(")")[0])
            await push_to_all(b"after")
            assert [agent.socket.close_code for agent in connected] == [None] * agents
        assert following is not None
        yield following
    finally:
        for agent in connected:
            await agent.close()
        if following is not None:
            end(following)  # first: it has the output of the other
        code = await running.stop()
    assert code == 0


def end(pid: int) -> None:
    """Of a process that is no child of this one."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        os.kill(pid, SIGTERM)
        if not select([descriptor], [], [], STOP_TIMEOUT)[0]:
            os.kill(pid, SIGKILL)
        os.close(descriptor)
