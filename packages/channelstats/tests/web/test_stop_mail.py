"""One click to stop mail: without a login, by a link that only the program can make."""

from pathlib import Path

from channelstats.sending.mail import mail_subscription, stop_secret, stop_url
from channelstats.tables.sending import id_of
from support.channelstats.dashboard import TOKEN, dashboard
from support.channelstats.house import House

ANNA, BOB = (mail_subscription(f"{name}@example.org") for name in ("anna", "bob"))


async def addresses(house: House) -> list[str]:
    return sorted(one.address for one in await house.tables.subscriptions.all())


async def test_one_click_stops_the_mail_to_one_address(empty: House, tmp_path: Path) -> None:
    for one in (ANNA, BOB):
        await empty.tables.subscriptions.add(one)
    async with dashboard(empty, tmp_path, token=TOKEN) as opened:
        stop = stop_url(opened.url + "/", id_of(ANNA.endpoint), stop_secret(tmp_path))
        path = stop.removeprefix(opened.url)
        asked = await opened.text(path)  # as a program does that looks through mail
        assert 'method="post"' in asked
        assert "Stop the weekly mail?" in asked  # not yet that it is stopped
        assert await addresses(empty) == ["anna@example.org", "bob@example.org"]
        # As a mail program sends it: RFC 8058, section 3.2.
        form = {"List-Unsubscribe": "One-Click"}
        async with opened.client.post(path, data=form) as answer:
            assert answer.status == 200
            assert "gets no more mails" in await answer.text()
        assert await addresses(empty) == ["bob@example.org"]
        async with opened.client.post(path, data=form) as answer:
            assert answer.status == 200


async def test_another_link_stops_nothing(empty: House, tmp_path: Path) -> None:
    await empty.tables.subscriptions.add(ANNA)
    async with dashboard(empty, tmp_path, token=TOKEN) as opened:
        anna, bob = id_of(ANNA.endpoint), id_of(BOB.endpoint)
        right = stop_url("/", bob, stop_secret(tmp_path))
        for path in ("/mail/stop", f"/mail/stop?of={anna}", right.replace(bob, anna)):
            async with opened.client.post(path) as answer:
                assert answer.status == 400
            assert "no whole link from a mail" in await opened.text(path, status=400)
        assert await addresses(empty) == ["anna@example.org"]
        headers = {"Origin": "https://elsewhere.example"}  # a page that has somebody press it
        async with opened.client.post(right, headers=headers) as answer:
            assert answer.status == 403
