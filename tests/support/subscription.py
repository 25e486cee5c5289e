"""A page's subscription: what it gives to its application server, and how it reads what comes."""

import asyncio
import os
from typing import Any

import http_ece
import requests
from cryptography.hazmat.primitives.asymmetric import ec
from pywebpush import webpush

from autopush.webpush.syntax import decode_base64url, encode_base64url, parse_parameters
from support.senders import public_point
from support.user_agent import Message, UserAgent


class Subscription:
    """A page's subscription, with the keys to read what comes."""

    def __init__(self, channel: str, endpoint: str) -> None:
        self.channel = channel
        self.endpoint = endpoint
        self._private = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)

    @classmethod
    async def of(cls, agent: UserAgent, key: str | None = None) -> "Subscription":
        return cls(*await agent.register(key=key))

    @property
    def info(self) -> dict[str, Any]:
        """What the page gives to its application server."""
        point = public_point(self._private)
        keys = {"p256dh": encode_base64url(point), "auth": encode_base64url(self._auth)}
        return {"endpoint": self.endpoint, "keys": keys}

    def read(self, message: Message) -> bytes:
        """The plaintext, as a user agent gets at it."""
        assert message["channelID"] == self.channel
        body = decode_base64url(message["data"])
        headers = message["headers"]
        salt = dh = None
        if headers["encoding"] == "aesgcm":
            salt = decode_base64url(parse_parameters(headers["encryption"])["salt"])
            dh = decode_base64url(parse_parameters(headers["crypto_key"])["dh"])
        text = http_ece.decrypt(
            body,
            salt=salt,
            dh=dh,
            private_key=self._private,
            auth_secret=self._auth,
            version=headers["encoding"],
        )
        assert isinstance(text, bytes)
        return text

    async def push(self, text: bytes, vapid: Any = None, **options: Any) -> str:
        """Send with pywebpush; returns the message id. Each call has a connection of its own."""
        claims = {"sub": "mailto:admin@example.com"} if vapid is not None else None

        def send() -> requests.Response:
            response = webpush(
                self.info,
                text,
                vapid_private_key=vapid,
                vapid_claims=claims,
                **({"ttl": 60} | options),
            )
            assert isinstance(response, requests.Response)
            return response

        response = await asyncio.to_thread(send)
        assert response.status_code == 201
        message_id = response.json()["message-id"]
        assert isinstance(message_id, str)
        assert response.headers["Location"].endswith(f"/m/{message_id}")
        return message_id
