"""A reload of the running service: its settings change, and its connections do not."""

import asyncio
import os
import signal
import subprocess
from pathlib import Path

from support.application_server import application_server
from support.service import Service, run_command


def reload(*words: str) -> "subprocess.CompletedProcess[str]":
    return run_command(["reload", *words])


async def test_a_reload_changes_limits_under_open_websockets_and_a_bad_file_changes_nothing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "autopush.toml"
    file.write_text("")
    options = ("--workers", "2", "--config", str(file))
    running = Service(tmp_path / "data", options)
    running.is_executed = True
    await running.start()
    try:
        async with application_server() as sender:
            agents = [await running.connect() for _ in range(4)]
            endpoints = [(await agent.register())[1] for agent in agents]

            file.write_text('endpoint_rate = "1/h"\nenv = "other"\nlog_level = "warning"\n')
            by_store = await asyncio.to_thread(reload, "--data", str(tmp_path / "data"))
            assert by_store.stdout == (
                "Reloaded; changed: endpoint_rate, log_level\n"
                "Needs an upgrade (autopush upgrade): env\n"
            )
            assert by_store.returncode == 0
            for agent, endpoint in zip(agents, endpoints, strict=True):
                answer = await sender.push(endpoint, b"over the old connection")
                assert (await agent.notification())["version"] == answer.message_id
                assert (await sender.push(endpoint, b"one too many")).status == 429

            file.write_text('endpoint_rate = "1000/min"\nfcm_creds = {app = {auth = "SECRET"}}\n')
            refused = await asyncio.to_thread(reload, "--pid", str(running.pid))
            assert refused.returncode == 1
            assert refused.stdout.startswith("Not reloaded; the former settings stay in use:\n")
            assert "fcm_creds: app" in refused.stdout
            assert (await sender.push(endpoints[0], b"still one too many")).status == 429
            await running.logged("fcm_creds: app")
            assert not any("SECRET" in line for line in (*running.output, refused.stdout))

            for worker in running.workers:
                os.kill(worker, signal.SIGKILL)
            await running.logged("A worker ended and is restarted", 2)
            agent = await running.connect()
            _, endpoint = await agent.register()
            assert (await sender.push(endpoint, b"with the settings of the reload")).status == 201
            assert (await sender.push(endpoint, b"one too many")).status == 429
            for each in (*agents, agent):
                await each.close()
    finally:
        assert await running.stop() == 0
