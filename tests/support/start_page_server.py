"""The start page behind a small server that is also a push service of one subscription.

`FakePush` plays browser vendor and push service at once: Chromium cannot be pointed at another push
service, so the page's `PushManager` is replaced by one that hands out a subscription whose keys are
known here. What the page sends is decrypted with `http_ece`, an independent library, and passed to
Chromium's own service worker as a push.
"""

import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import http_ece
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec

from autopush.api.pages import Pages
from autopush.net.http_messages import Request
from autopush.webpush.syntax import encode_base64url
from support.aiohttp_server import served
from support.chromium import Chromium, Page
from support.senders import public_point

TOKEN = "gAAAAABpIFqQ" + "x" * 120
PUSH_MANAGER = """
(() => {
  const { endpoint, p256dh, auth } = %s;
  const bytes = (text) => Uint8Array.from(
    atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const kept = "fake-push.key";
  class FakeSubscription {
    constructor(key) {
      this.endpoint = endpoint;
      this.options = { userVisibleOnly: true, applicationServerKey: Uint8Array.from(key).buffer };
    }
    getKey(name) { return bytes(name === "auth" ? auth : p256dh).buffer; }
    toJSON() { return { endpoint, expirationTime: null, keys: { p256dh, auth } }; }
    async unsubscribe() { localStorage.removeItem(kept); return true; }
  }
  PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
    if (window.refuseSubscribe) throw new DOMException(...window.refuseSubscribe);
    if (localStorage.getItem(kept)) throw new DOMException("other key", "InvalidStateError");
    localStorage.setItem(kept, JSON.stringify([...applicationServerKey]));
    return new FakeSubscription(applicationServerKey);
  };
  PushManager.prototype.getSubscription = async () => {
    const key = JSON.parse(localStorage.getItem(kept));
    return key && new FakeSubscription(key);
  };
})();
"""


@dataclass
class Message:
    """One message as it was sent, and its plaintext."""

    headers: dict[str, str]
    body: bytes
    plaintext: str


@dataclass
class FakePush:
    """The push service of one browser. `origin` is where its endpoint lies."""

    origin: str
    refusal: tuple[int, dict[str, object]] | None = None
    messages: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.auth = os.urandom(16)
        self.private_key = ec.generate_private_key(ec.SECP256R1())
        self.registration: str | None = None
        self._page: Page | None = None

    @property
    def subscription(self) -> dict[str, str]:
        """What a page needs to send."""
        return {
            "endpoint": f"{self.origin}/wpush/v2/{TOKEN}",
            "p256dh": encode_base64url(public_point(self.private_key)),
            "auth": encode_base64url(self.auth),
        }

    def decrypt(self, body: bytes) -> bytes:
        """The plaintext of an aes128gcm body."""
        plaintext = http_ece.decrypt(
            body, private_key=self.private_key, auth_secret=self.auth, version="aes128gcm"
        )
        assert isinstance(plaintext, bytes)
        return plaintext

    async def install(self, page: Page) -> None:
        """Let that tab subscribe here, and deliver to it what is sent."""
        self._page = page
        page.on("ServiceWorker.workerRegistrationUpdated", self._registered)
        await page.command("ServiceWorker.enable")
        await page.before_load(PUSH_MANAGER % json.dumps(self.subscription))

    async def take(self, request: web.Request) -> web.Response:
        """Answer a POST to the endpoint, and deliver the message."""
        if self.refusal is not None:
            status, document = self.refusal
            return _with_cors(web.json_response(document, status=status))
        body = await request.read()
        message = Message(dict(request.headers), body, self.decrypt(body).decode())
        self.messages.append(message)
        if self._page is not None:
            await self.deliver(message.plaintext)
        return _with_cors(web.json_response({"message-id": "gAAAAABpIFqQ" + "m" * 160}, status=201))

    async def deliver(self, text: str) -> None:
        """Give a push to Chromium's service worker."""
        assert self._page is not None
        assert self.registration is not None, "no service worker was registered"
        await self._page.command(
            "ServiceWorker.deliverPushMessage",
            origin=await self._page.evaluate("location.origin"),
            registrationId=self.registration,
            data=text,
        )

    def _registered(self, event: dict[str, list[dict[str, object]]]) -> None:
        for registration in event["registrations"]:
            if not registration["isDeleted"]:
                self.registration = str(registration["registrationId"])


@dataclass
class Site:
    """A running start page: `url` is the page, `push` what is behind its endpoints."""

    port: int
    push: FakePush

    @property
    def url(self) -> str:
        """Another name of the machine than the endpoint has, as visitors do it."""
        return f"http://localhost:{self.port}/"

    async def visit(self, browser: Chromium) -> tuple[Page, list[str]]:
        """A tab with the page, allowed to notify, and what its console complained about so far."""
        complaints: list[str] = []
        page = await browser.open()
        page.on("Log.entryAdded", lambda event: complaints.append(event["entry"]["text"]))
        page.on("Runtime.exceptionThrown", lambda event: complaints.append(str(event)))
        await browser.set_permission(self.url.rstrip("/"), "notifications", "granted")
        await self.push.install(page)
        await page.goto(self.url)
        return page, complaints


@contextlib.asynccontextmanager
async def start_page_site(*, push_origin: str | None = None) -> AsyncIterator[Site]:
    """Serve the page on a free port. `push_origin`: where the endpoint lies if not here."""
    site: Site
    pages: Pages

    async def answer(request: web.Request) -> web.Response:
        if request.path.startswith("/wpush/"):
            if request.method == "OPTIONS":
                return _with_cors(web.Response())
            return await site.push.take(request)
        if request.path == "/health":
            return web.json_response({"status": "OK"})
        page = pages.respond(Request(request.method, request.path, "", {}, ""))
        if page is None:
            return web.Response(status=404)
        headers = [*page.headers, ("Content-Type", page.content_type or "")]
        return web.Response(status=page.status, body=page.body, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with served(app) as own:
        site = Site(urlsplit(own).port or 0, FakePush(push_origin or own))
        pages = Pages(endpoint_url=own, websocket_url="ws://127.0.0.1:8080/")
        yield site


def _with_cors(response: web.Response) -> web.Response:
    response.headers["Access-Control-Allow-Origin"] = "*"
    response.headers["Access-Control-Allow-Methods"] = "POST"
    response.headers["Access-Control-Allow-Headers"] = (
        "content-encoding,ttl,content-type,authorization,topic,urgency"
    )
    return response
