"""Calls to a running service as another node makes them."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from autopush.keys import existing_crypto_keys, node_keys
from autopush.net.node_auth import REQUEST_HEADER, RESPONSE_HEADER, CallerSession
from autopush.store.tables import router_table
from keytables.stores import open_engine
from support.application_server import Answer, ApplicationServer


class NodeCaller:
    """A node that calls another one, whose node ID it has from a router record."""

    def __init__(self, server: ApplicationServer, node_id: str, keys: Sequence[bytes]) -> None:
        parts = urlsplit(node_id)
        self._server = server
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self.base = parts.path
        """What the paths of its calls begin with."""
        self._keys = keys
        self._session: CallerSession | None = None

    @classmethod
    async def of(
        cls, server: ApplicationServer, data: Path, uaid: str, crypto_key: str = ""
    ) -> Self:
        """One that calls the node of that user agent. `data`: the folder of both nodes;
        `crypto_key`: of both, if it is not in the folder.
        """
        keys = existing_crypto_keys([crypto_key] if crypto_key else [], data)
        return cls(server, await node_id_of(data, uaid), node_keys(keys))

    async def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """An authentic call; the response is checked to be authentic too."""
        if self._session is None:
            self._session = session = CallerSession(self._keys, self.base)
            opening, signature = session.opening()
            answer = await self._send("GET", opening, b"", {REQUEST_HEADER: signature})
            proof = answer.headers.get(RESPONSE_HEADER, "")
            session.opened(answer.status, answer.body, proof)
        number, signature = self._session.sign(method, self.base + path, body)
        signed = {**headers, REQUEST_HEADER: signature}
        answer = await self._send(method, self.base + path, body, signed)
        proof = answer.headers.get(RESPONSE_HEADER, "")
        assert self._session.is_authentic(number, answer.status, answer.body, proof)
        return answer

    async def _send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        return await self._server.request(method, self._origin + path, headers=headers, body=body)


async def node_id_of(data: Path, uaid: str) -> str:
    """The node ID on record of a user agent of a service with the embedded store."""
    engine = await open_engine(f"sqlite://{data}/autopush.sqlite", clock=time.time)
    try:
        table = await engine.open_table(router_table("router"))
        record = await table.get((uaid,))
        assert record is not None
        node_id = record["node_id"]
        assert isinstance(node_id, str)
        return node_id
    finally:
        await engine.close()
