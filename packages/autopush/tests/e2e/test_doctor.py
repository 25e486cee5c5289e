"""`autopush doctor` beside a running service."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.service import Service, run_command, service

pytestmark = pytest.mark.slow


async def doctor(
    running: Service, *flags: str, command: str = "serve", **variables: str
) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and findings, with the flags that the service has."""
    ports = [word for flag, port in running.ports.items() for word in (flag, port)]
    words = ["doctor", "--for", command, "--json", "--data", str(running.data), *ports, *flags]
    ended = await asyncio.to_thread(run_command, words, **variables)
    assert ended.stderr == ""
    document = json.loads(ended.stdout)
    assert document["ok"] is (ended.returncode == 0)
    return ended.returncode, document["findings"]


def of(findings: list[dict[str, Any]], check: str) -> list[tuple[str, str]]:
    return [(each["level"], each["found"]) for each in findings if each["check"] == check]


async def test_a_running_service_is_recognised_and_reached(tmp_path: Path) -> None:
    async with service(tmp_path, "--workers", "2") as running:
        code, findings = await doctor(running)
        assert code == 0, findings
        assert [level for level, _ in of(findings, "ports")] == ["OK"] * 2
        assert all(found.endswith(": in use by this service") for _, found in of(findings, "ports"))
        assert ("OK", f"{running.endpoint} is this service") in of(findings, "endpoint URL")
        assert ("OK", f"{running.websocket} opens a WebSocket") in of(findings, "WebSocket URL")
        assert of(findings, "clock") == [("OK", "within 5 s of that of the public URL")]
        opens, works = of(findings, "store")
        assert opens == ("OK", f"{tmp_path}/autopush.sqlite opens, 3 tables, 2 parts")
        assert works[1].startswith("reading, conditional writing and deleting works")
        agent = await running.connect()  # it still works
        await agent.close()
    assert running.errors == []
