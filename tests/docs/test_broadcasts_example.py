"""The example of broadcasts in the documentation works as it is written."""

import asyncio
import re
import shlex
import sys
from pathlib import Path

from support.paths import ROOT
from support.service import service
from support.sockets import unused_port
from support.user_agent import UserAgent

OPERATIONS = (ROOT / "docs" / "operations.md").read_text("utf-8")
SECTION = OPERATIONS.split("\n## Broadcasts\n")[1].split("\n## ")[0]
PORT = "8090"


def command(name: str) -> list[str]:
    """The command line of the section that begins so."""
    [line] = re.findall(rf"^\$ ({name} .*)$", SECTION, re.MULTILINE)
    return shlex.split(line)


async def test_the_file_is_served_and_its_broadcast_reaches_a_user_agent(tmp_path: Path) -> None:
    [document] = re.findall(r"```json\n(.*?)```", SECTION, re.DOTALL)
    folder = tmp_path / "broadcasts"
    folder.mkdir()
    (folder / "broadcasts.json").write_text(document)
    port = str(unused_port())
    python, *words = [word.replace(PORT, port) for word in command("python3")]
    assert python == "python3"
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-u", *words, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        assert b"Serving HTTP" in await asyncio.wait_for(server.stdout.readline(), 30)
        autopush, serve, *options = [word.replace(PORT, port) for word in command("autopush")]
        assert (autopush, serve) == ("autopush", "serve")
        async with service(tmp_path / "data", *options) as running:
            agent = await UserAgent.connect(running.websocket)
            reply = await agent.hello(broadcasts={"example/news": "old"})
            await agent.close()
    finally:
        server.terminate()
        await server.wait()
    assert reply["broadcasts"] == {"example/news": "2026-11-22"}
