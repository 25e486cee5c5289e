"""The start page in a real browser. Who pushes to Chromium here is `support.start_page_server`."""

import asyncio
import json
import shlex
import sys
import time
from collections.abc import AsyncIterator

import pytest

from autopush.webpush import vapid
from autopush.webpush.syntax import decode_any_base64, encode_base64url
from support.chromium import Chromium, Page
from support.start_page_server import Site, start_page_site

pytestmark = pytest.mark.browser

ENABLED = ":enabled:not([aria-disabled=true])"
# The public keys of RFC 8291, section 5.
EXAMPLE_SENDER = (
    "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8"
)
EXAMPLE_RECEIVER = (
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
)
WEBPUSH = 'import("/start/webpush.js")'


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with start_page_site() as started:
        yield started


async def said(page: Page, step: str) -> str:
    return str(await page.evaluate(f"document.querySelector('#step-{step} .said').innerText"))


async def reaches(page: Page, step: str, state: str) -> None:
    await page.until(f"document.querySelector('#step-{step}').dataset.state === '{state}'")


async def ready(page: Page) -> None:
    await page.until(f"document.querySelector('#subscribe').matches('{ENABLED}')")


async def press(page: Page, button: str) -> None:
    await page.until(f"document.querySelector('#{button}').matches('{ENABLED}')")
    await page.evaluate(f"document.querySelector('#{button}').click()")


async def subscribe(page: Page) -> None:
    await press(page, "subscribe")
    await reaches(page, "subscribe", "done")


async def send(page: Page, text: str) -> None:
    await page.evaluate(f"document.querySelector('#message').value = {json.dumps(text)}")
    await press(page, "send")


async def encrypted(page: Page, site: Site, plaintext: bytes) -> bytes:
    """What the page's module makes of a plaintext, for keys made here."""
    body = await page.evaluate(
        f"""{WEBPUSH}.then(async ({{ encrypt, fromBase64url, toBase64url }}) =>
          toBase64url(await encrypt(fromBase64url("{encode_base64url(plaintext)}"),
                                    {json.dumps(site.push.subscription)})))"""
    )
    return decode_any_base64(body)


async def test_the_encryption_gives_the_example_of_rfc_8291(browser: Chromium, site: Site) -> None:
    page = await browser.open(site.url)
    body = await page.evaluate(
        f"""{WEBPUSH}.then(async ({{ encrypt, fromBase64url, toBase64url }}) => {{
          const point = fromBase64url("{EXAMPLE_SENDER}");
          const curve = {{ name: "ECDH", namedCurve: "P-256" }};
          const jwk = {{ kty: "EC", crv: "P-256", d: "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
            x: toBase64url(point.slice(1, 33)), y: toBase64url(point.slice(33)) }};
          const ephemeral = {{
            privateKey: await crypto.subtle.importKey("jwk", jwk, curve, false, ["deriveBits"]),
            publicKey: await crypto.subtle.importKey("raw", point, curve, true, []),
          }};
          const p256dh = "{EXAMPLE_RECEIVER}";
          const text = new TextEncoder().encode("When I grow up, I want to be a watermelon");
          return toBase64url(await encrypt(text, {{ p256dh, auth: "BTBZMqHH6r4Tts7J_aSIgg" }},
            {{ salt: fromBase64url("DGv6ra1nlYgDCS1FRnbzlw"), ephemeral }}));
        }})"""
    )
    assert body == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
        "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
        "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


async def test_others_decrypt_what_the_page_encrypts(browser: Chromium, site: Site) -> None:
    page = await browser.open(site.url)
    bodies = []
    for plaintext in (b"", b"\0", bytes(range(256)), "Grüße 👋".encode(), b"x" * 3993):
        bodies.append(await encrypted(page, site, plaintext))
        assert site.push.decrypt(bodies[-1]) == plaintext
    assert len(bodies[-1]) == 4096
    # Salt and sender key are fresh each time.
    assert len({body[:16] for body in bodies}) == len({body[21:86] for body in bodies}) == 5


@pytest.mark.slow
async def test_a_message_that_no_push_service_must_take_is_not_encrypted(
    browser: Chromium, site: Site
) -> None:
    page = await browser.open(site.url)
    with pytest.raises(Exception, match="3994 bytes, at most 3993 fit"):
        await encrypted(page, site, b"x" * 3994)


async def test_the_vapid_header_satisfies_the_service(browser: Chromium, site: Site) -> None:
    page = await browser.open(site.url)
    header, key = await page.evaluate(
        f"""{WEBPUSH}.then(async ({{ newSenderKeys, publicKeyBytes, toBase64url, vapid }}) => {{
          const keys = await newSenderKeys();
          return [await vapid("{site.push.subscription["endpoint"]}", keys),
                  toBase64url(await publicKeyBytes(keys))];
        }})"""
    )
    verifier = vapid.Verifier(site.push.origin)
    credentials = verifier.credentials(header, None)
    assert credentials is not None
    verifier.check(verifier.verify(credentials), time.time())
    assert credentials.key() == decode_any_base64(key)
    assert credentials.draft == 2


async def test_a_visitor_subscribes_sends_and_sees_it_arrive(browser: Chromium, site: Site) -> None:
    page, complaints = await site.visit(browser)
    assert await said(page, "send") == "First subscribe."
    await subscribe(page)
    await page.evaluate("document.querySelector('#urgency').value = 'high'")
    await send(page, "Grüße 👋")
    await reaches(page, "send", "done")
    await reaches(page, "arrive", "done")
    await page.until("document.querySelector('#arrivals').innerText.includes('notification')")

    (message,) = site.push.messages
    assert json.loads(message.plaintext)["text"] == "Grüße 👋"
    assert message.headers["TTL"] == "60"
    assert message.headers["Urgency"] == "high"
    assert message.headers["Content-Encoding"] == "aes128gcm"
    verifier = vapid.Verifier(site.push.origin)
    credentials = verifier.credentials(message.headers["Authorization"], None)
    assert credentials is not None
    verifier.check(verifier.verify(credentials), time.time())
    assert "201 Created" in await page.evaluate("document.querySelector('#step-send').innerText")
    assert (await page.evaluate("document.querySelector('#arrivals .text').textContent")) == (
        "Grüße 👋"
    )
    assert "ms after it was sent" in await said(page, "arrive")
    notifications = await page.evaluate(
        "navigator.serviceWorker.ready.then(async (r) =>"
        " (await r.getNotifications()).map((n) => n.body))"
    )
    assert notifications == ["Grüße 👋"]
    assert complaints == []


@pytest.mark.slow
async def test_a_reload_keeps_the_subscription_and_unsubscribing_ends_it(
    browser: Chromium, site: Site
) -> None:
    page, _ = await site.visit(browser)
    await subscribe(page)
    await page.goto(site.url)
    await reaches(page, "subscribe", "done")
    await send(page, "once more")
    await reaches(page, "arrive", "done")
    await press(page, "unsubscribe")
    await reaches(page, "subscribe", "todo")
    assert await page.evaluate("document.querySelector('#send').disabled")
    await page.goto(site.url)
    await ready(page)
    await reaches(page, "subscribe", "todo")


@pytest.mark.slow
async def test_a_subscription_made_with_a_lost_key_is_replaced(
    browser: Chromium, site: Site
) -> None:
    page, _ = await site.visit(browser)
    await subscribe(page)
    await page.evaluate("localStorage.removeItem('autopush.sender-key')")
    await page.goto(site.url)
    await ready(page)
    await reaches(page, "subscribe", "todo")
    await subscribe(page)
    await send(page, "with the new key")
    await reaches(page, "arrive", "done")
    sender = vapid.parse_credentials(site.push.messages[0].headers["Authorization"], {})
    bound_to = await page.evaluate("JSON.parse(localStorage.getItem('fake-push.key'))")
    assert sender.key() == bytes(bound_to)


@pytest.mark.slow
async def test_the_python_command_on_the_page_sends_to_its_subscription(
    browser: Chromium, site: Site
) -> None:
    page, _ = await site.visit(browser)
    await subscribe(page)
    await page.evaluate("document.querySelector('details').open = true")
    command = shlex.split(
        await page.evaluate("document.querySelector('#program-code').textContent")
    )
    assert command[0] == "python3"
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command[1:], stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert output.decode().strip() == "201"
    await reaches(page, "arrive", "done")
    assert await said(page, "arrive") == "A message from elsewhere arrived."
    assert [message.plaintext for message in site.push.messages] == ["Hello from Python"]


@pytest.mark.slow
async def test_nothing_is_sent_to_a_push_service_that_is_not_this_one(browser: Chromium) -> None:
    async with start_page_site(push_origin="https://updates.push.services.mozilla.com") as site:
        page, complaints = await site.visit(browser)
        requested: list[str] = []
        page.on("Network.requestWillBeSent", lambda e: requested.append(e["request"]["url"]))
        await page.command("Network.enable")
        await press(page, "subscribe")
        await reaches(page, "subscribe", "failed")
        words = await said(page, "subscribe")
        assert "uses updates.push.services.mozilla.com (Mozilla" in words
        assert "not this server" in words
        assert await page.evaluate("document.querySelector('#send').disabled")
        await page.evaluate("document.querySelector('#send-form').requestSubmit()")
        await reaches(page, "send", "failed")
        assert [url for url in requested if "mozilla" in url] == []
        assert complaints == []
        await press(page, "unsubscribe")
        await reaches(page, "subscribe", "todo")


async def test_a_refusal_of_the_server_is_shown_with_what_to_do(
    browser: Chromium, site: Site
) -> None:
    page, _ = await site.visit(browser)
    await subscribe(page)
    for status, errno, message, words, advice in (
        (410, 106, "No such subscription", "error 106", "subscribe again"),
        (401, 109, "Auth expired", "(401, error 109): Auth expired", "clocks"),
        (503, 201, "Slow down", "Slow down", "Try again"),
        (500, None, None, "(500)", "log of the server"),
    ):
        site.push.refusal = (status, {"errno": errno, "message": message} if errno else {})
        await send(page, "refused")
        await page.until(
            f"document.querySelector('#step-send .said').innerText.includes('{words}')"
        )
        assert advice in await said(page, "send")
        await reaches(page, "send", "failed")
        assert await said(page, "arrive") == "The message was not taken."


async def test_an_error_links_to_its_explanation_and_to_no_unsafe_url(
    browser: Chromium, site: Site
) -> None:
    page, _ = await site.visit(browser)
    await subscribe(page)
    for more_info, links in (
        (
            "https://docs.example/errors.html#errno-106",
            ["https://docs.example/errors.html#errno-106"],
        ),
        ("javascript:alert(1)", []),
    ):
        site.push.refusal = (410, {"errno": 106, "message": more_info, "more_info": more_info})
        await send(page, "refused")
        await page.until(
            f"document.querySelector('#step-send .what').innerText.includes('{more_info}')"
        )
        assert links == await page.evaluate(
            "[...document.querySelectorAll('#step-send .said a')].map((a) => a.href)"
        )


async def test_a_message_too_long_is_counted_and_not_sent(browser: Chromium, site: Site) -> None:
    page, _ = await site.visit(browser)
    await subscribe(page)
    await send(page, "ä" * 2000)
    await reaches(page, "send", "failed")
    assert "too long by" in await said(page, "send")
    assert site.push.messages == []


@pytest.mark.slow
async def test_blocked_notifications_are_explained_with_what_to_do(
    browser: Chromium, site: Site
) -> None:
    page = await browser.open()
    await browser.set_permission(site.url.rstrip("/"), "notifications", "denied")
    await page.goto(site.url)
    await reaches(page, "subscribe", "failed")
    assert "Notifications are blocked" in await said(page, "subscribe")
    assert await page.evaluate("!document.querySelector('#subscribe').disabled")


@pytest.mark.slow
async def test_a_browser_that_cannot_reach_its_push_service_says_so(
    browser: Chromium, site: Site
) -> None:
    page, _ = await site.visit(browser)
    await page.evaluate("window.refuseSubscribe = ['push service error', 'AbortError']")
    await press(page, "subscribe")
    await reaches(page, "subscribe", "failed")
    assert "could not subscribe: push service error" in await said(page, "subscribe")


@pytest.mark.slow
async def test_an_insecure_context_is_explained_with_what_to_do(
    browser: Chromium, site: Site
) -> None:
    page = await browser.open(f"http://push.example:{site.port}/")
    await reaches(page, "subscribe", "failed")
    assert "secure context" in await said(page, "subscribe")
    assert await page.evaluate("document.querySelector('#subscribe').disabled")
    # Copying works all the same.
    await page.evaluate("document.querySelector('[data-copy]').click()")
    await page.until("document.querySelector('#copied').textContent === 'Copied'")


async def test_a_narrow_window_never_scrolls_sideways(browser: Chromium, site: Site) -> None:
    page, _ = await site.visit(browser)
    await subscribe(page)
    await send(page, "unbroken" * 40)
    await reaches(page, "arrive", "done")
    await page.evaluate("document.querySelector('details').open = true")
    for width in (360, 320):
        await page.emulate(width=width, height=780)
        assert await page.evaluate("document.documentElement.scrollWidth") == width
