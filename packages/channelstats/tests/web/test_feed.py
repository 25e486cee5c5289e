"""The feed of what is to be done, and the address that needs no login."""

import re
from urllib.parse import urlsplit

from channelstats.web.auth import FEED
from support.channelstats.dashboard import TOKEN, Dashboard


async def log_in(board: Dashboard) -> None:
    async with board.client.post("/login", data={"token": TOKEN}) as answer:
        assert answer.status == 200


async def address(board: Dashboard) -> str:
    """A new address of the feed, with its key."""
    async with board.client.post("/feed", data={"as": "new"}) as answer:
        assert answer.headers["Cache-Control"] == "no-store"
        (found,) = re.findall(r"<pre>(.*?)</pre>", await answer.text())
    parts = urlsplit(found)
    assert found.startswith(board.url)
    return f"{parts.path}?{parts.query}"


async def test_without_a_login_the_feed_needs_its_own_key(guarded: Dashboard) -> None:
    assert await guarded.status(FEED) == 401
    assert await guarded.status(f"{FEED}?key=") == 403
    assert await guarded.status(f"{FEED}?key=anything") == 403
    async with guarded.client.post("/feed", data={"as": "new"}) as answer:
        assert answer.status == 401
    await log_in(guarded)
    feed = await address(guarded)
    guarded.client.session.cookie_jar.clear()
    assert "<feed" in await guarded.text(feed)
    assert await guarded.status(FEED) == 401


async def test_the_key_opens_nothing_but_the_feed(guarded: Dashboard) -> None:
    await log_in(guarded)
    key = urlsplit(await address(guarded)).query
    guarded.client.session.cookie_jar.clear()
    for path in ("/", "/todo", "/todo.json", "/people.csv", "/report", "/names.json"):
        assert await guarded.status(f"{path}?{key}") in (303, 401), path


async def test_a_new_address_ends_the_one_before_and_it_can_be_ended(guarded: Dashboard) -> None:
    await log_in(guarded)
    first, second = await address(guarded), await address(guarded)
    assert await guarded.status(first) == 403
    assert await guarded.status(second) == 200
    async with guarded.client.post("/feed", data={"as": "none"}, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/todo")
    assert await guarded.status(second) == 403
    async with guarded.client.post("/feed", data={"as": "other"}) as answer:
        assert answer.status == 400


async def test_only_a_digest_of_the_key_is_kept(guarded: Dashboard) -> None:
    await log_in(guarded)
    key = (await address(guarded)).partition("key=")[2]
    assert key not in str(await guarded.house.tables.configuration.get("feed"))


async def test_to_do_offers_what_its_visitor_can_use(board: Dashboard, guarded: Dashboard) -> None:
    assert f'href="{FEED}"' in await board.text("/todo")
    await log_in(guarded)
    page = await guarded.text("/todo")
    assert 'action="/feed"' in page
    assert f'href="{FEED}"' not in page
