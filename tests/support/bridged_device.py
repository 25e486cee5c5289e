"""A device behind a bridge: registered with a router, and reached by pushes to its endpoint."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from autopush.delivery.bridge_contract import Router
from autopush.net.http_messages import Response
from autopush.store import UserRecord
from keytables import Value
from support.connection_harness import ENDPOINT, UAID, Harness
from support.endpoint_harness import AES128GCM, Endpoint


@dataclass
class BridgedDevice:
    """The user `UAID` of the harness."""

    harness: Harness
    endpoint: Endpoint
    router: Router
    router_type: str

    @classmethod
    async def open(cls, router_type: str, router: Router) -> Self:
        harness = await Harness.open()
        return cls(harness, Endpoint(harness, routers={router_type: router}), router, router_type)

    async def register(self, app_id: str, token: str, **members: Value) -> dict[str, Value]:
        """Register it, as the body of a request has it; returns what is stored."""
        router_data: dict[str, Value] = {"token": token, **members}
        self.router.register(UAID, router_data, app_id)
        await self.store(router_data)
        return router_data

    async def store(self, router_data: Mapping[str, Value]) -> None:
        """Store a record as it is, without asking the router."""
        await self.harness.bridged_user(self.router_type, router_data)
        self.harness.clock.advance(1)

    async def close(self) -> None:
        await self.router.close()

    async def push(self, headers: Mapping[str, str] | None = None, body: bytes = b"") -> Response:
        """Push; without `headers`, with a TTL of a minute and aes128gcm."""
        return await self.endpoint.push(AES128GCM if headers is None else headers, body)

    async def result(self, body: bytes = b"") -> tuple[int, int | None, str]:
        """What a push is answered: status, errno (None if it was delivered) and message."""
        response = await self.push(body=body)
        document = json.loads(response.body)
        if response.status == 201:
            assert document.keys() == {"message-id"}
            return 201, None, ""
        return response.status, document["errno"], document["message"]

    async def call(
        self, method: str, path: str, document: object, secret: str = ""
    ) -> tuple[int, dict[str, Any]]:
        """Call the registration API; `path` is what follows the router type."""
        headers = {"authorization": f"Bearer {secret}"} if secret else {}
        response = await self.endpoint.ask(
            method, f"/v1/{self.router_type}/{path}", headers, json.dumps(document).encode()
        )
        return response.status, json.loads(response.body)

    async def push_to(self, endpoint: str, body: bytes) -> int:
        """The status of a push to an endpoint that the registration API has returned."""
        path = endpoint.removeprefix(ENDPOINT)
        return (await self.endpoint.ask("POST", path, AES128GCM, body)).status

    async def record(self) -> UserRecord | None:
        return await self.harness.store.users.get(UAID)

    async def router_data(self) -> Mapping[str, Value] | None:
        """What is stored; None after the user was dropped."""
        record = await self.record()
        return None if record is None else record.router_data
