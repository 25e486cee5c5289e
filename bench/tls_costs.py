"""What TLS costs the service: memory of an idle connection, and CPU time to open one.

``PYTHONPATH=tests python -m bench.tls_costs`` (about half a minute) starts the service with and
without TLS, connects user agents that say hello, and prints each figure with its ratio to the one
without TLS.
"""

import asyncio
import os
import resource
import tempfile
from pathlib import Path
from typing import NamedTuple

from support.certificates import Authority
from support.service import Service
from support.user_agent import UserAgent

CONNECTIONS = 3000
BEFORE = 200
"""Connections made before the first look, so that what is made once is not counted."""
AT_ONCE = 20


class Costs(NamedTuple):
    """Of one connection."""

    kib: float
    milliseconds: float


async def costs(service: Service) -> Costs:
    agents = await connected(service, BEFORE)
    memory, cpu = resident(service.pid), cpu_seconds(service.pid)
    agents += await connected(service, CONNECTIONS)
    kib = (resident(service.pid) - memory) / CONNECTIONS
    milliseconds = (cpu_seconds(service.pid) - cpu) / CONNECTIONS * 1000
    for agent in agents:
        await agent.drop_connection()
    return Costs(kib, milliseconds)


async def connected(service: Service, count: int) -> list[UserAgent]:
    turns = asyncio.Semaphore(AT_ONCE)

    async def connect() -> UserAgent:
        async with turns:
            return await service.connect()

    return await asyncio.gather(*(connect() for _ in range(count)))


def resident(pid: int) -> int:
    """Resident memory in KiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def cpu_seconds(pid: int) -> float:
    """User and system time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found: list[Costs] = []
    for has_tls in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(Path(folder))
            files = authority.issue(Path(folder))
            service = Service(Path(folder) / "data", files.options if has_tls else [])
            service.tls = authority.client() if has_tls else None
            await service.start()
            found.append(await costs(service))
            await service.stop()
    plain, tls = found
    print(f"idle connection: {plain.kib:.1f} KiB, with TLS {tls.kib:.1f} KiB")
    print(f"  ratio {tls.kib / plain.kib:.1f}")
    print(f"opening one, CPU: {plain.milliseconds:.2f} ms, with TLS {tls.milliseconds:.2f} ms")
    print(f"  ratio {tls.milliseconds / plain.milliseconds:.1f}")


if __name__ == "__main__":
    asyncio.run(main())
