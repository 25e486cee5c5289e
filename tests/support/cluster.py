"""A cluster: connection nodes and endpoint nodes, each a process of its own, over one store.

Each node can be ended, killed and started again; it keeps its ports and its keys.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from support.dynamo_servers import ministack
from support.service import Service

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "made-up", "AWS_SECRET_ACCESS_KEY": "made-up"}
"""Enough for a server on this machine, which checks no credentials."""


def new_store() -> str:
    """The value of `store` for new tables in this run's DynamoDB."""
    return f"dynamodb://us-east-1?endpoint={ministack()}&prefix=t{secrets.token_hex(6)}_"


class ServiceCluster:
    """N connection nodes and M endpoint nodes. All have the keys of the folder `data`.

    `store` is the text of the option; without it the nodes share the embedded store of the folder.
    """

    def __init__(
        self,
        data: Path,
        store: str = "",
        *,
        connections: int,
        endpoints: int,
        options: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        common = ["--store", store, *options]
        environment = {
            **(CREDENTIALS if store.startswith("dynamodb:") else {}),
            **(variables or {}),
        }
        self.endpoints, self.connections = (
            [Service(data, common, environment, command=command) for _ in range(number)]
            for command, number in (("endpoint", endpoints), ("connection", connections))
        )

    @property
    def nodes(self) -> list[Service]:
        """All of them, endpoints first."""
        return [*self.endpoints, *self.connections]

    @property
    def errors(self) -> list[str]:
        """Log lines that report a fault."""
        return [line for node in self.nodes for line in node.errors]

    def launch(self) -> None:
        """Start the first endpoint, whose URL is that of all, then the others at once."""
        first, *others = self.nodes
        first.launch()
        for node in others:
            node.options += ["--endpoint-url", first.endpoint]
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            list(threads.map(Service.launch, others))

    async def start(self) -> None:
        """As `launch`."""
        await asyncio.to_thread(self.launch)

    def end(self) -> list[int]:
        """Stop them all; returns their exit codes."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            return list(threads.map(Service.end, self.nodes))

    async def stop(self) -> list[int]:
        """As `end`."""
        return await asyncio.to_thread(self.end)

    @property
    def last_output(self) -> str:
        """The last lines of each."""
        return "".join(line for node in self.nodes for line in node.output[-20:])

    def by_way_of(self, endpoint: str, number: int) -> str:
        """The same endpoint URL at the endpoint node of that number."""
        return endpoint.replace(self.endpoints[0].endpoint, self.endpoints[number].endpoint)


@contextmanager
def running_cluster(
    data: Path, store: str = "", *options: str, connections: int, endpoints: int, **variables: str
) -> Iterator[ServiceCluster]:
    """Run a cluster; at the end every node must stop cleanly and none may have logged an error."""
    running = ServiceCluster(
        data,
        store,
        connections=connections,
        endpoints=endpoints,
        options=options,
        variables=variables,
    )
    try:
        running.launch()
        yield running
    finally:
        codes = running.end()
    assert set(codes) <= {0}, running.last_output
    assert running.errors == []


@asynccontextmanager
async def cluster(
    data: Path, store: str = "", *options: str, connections: int, endpoints: int, **variables: str
) -> AsyncIterator[ServiceCluster]:
    """As `running_cluster`, without blocking the event loop."""
    running = running_cluster(
        data, store, *options, connections=connections, endpoints=endpoints, **variables
    )
    nodes = await asyncio.to_thread(running.__enter__)
    try:
        yield nodes
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
