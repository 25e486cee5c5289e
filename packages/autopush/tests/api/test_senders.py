"""`/senders`: one report of all workers, also while one of them stands still."""

import json
from typing import cast

import pytest

from autopush.api.senders import SENDERS, GoneReport, SenderCounts, SendersPage
from autopush.limits import GoneLimits, LimitRefusals
from autopush.net.siblings import Port, Sibling, Siblings, SiblingSilent
from autopush.settings.value_types import Rate
from autopush.webpush.syntax import encode_base64url
from support.connection_harness import Harness

KEY, OTHER = b"\x04" + b"a" * 64, b"\x04" + b"b" * 64


async def page_after(harness: Harness, *keys: bytes) -> SendersPage:
    """Of a worker that has got a message of each to an endpoint that is gone."""
    gone = GoneLimits(LimitRefusals(harness.metrics), Rate(1_000, "h"), monotonic=harness.clock)
    for key in keys:
        await gone.check(key, b"endpoint")
    return SendersPage(gone)


class Worker:
    """Another one; with no page it stands still."""

    def __init__(self, page: SendersPage | None) -> None:
        self._page = page

    async def call(self, port: Port[None, GoneReport], asked: None) -> GoneReport:
        assert port is SENDERS
        if self._page is None:
            raise SiblingSilent
        return self._page.own()


@pytest.mark.parametrize("is_silent", [False, True])
async def test_the_report_sums_over_all_workers_that_answer(
    harness: Harness, is_silent: bool
) -> None:
    page = await page_after(harness, KEY, b"", OTHER)
    others = [await page_after(harness, OTHER, OTHER, OTHER), await page_after(harness, KEY)]
    workers = [*others, *[None] * is_silent]
    siblings = {each: Worker(other) for each, other in enumerate(workers, 1)}
    page.siblings = Siblings(cast(dict[int, Sibling], siblings))
    response = await page.respond()
    zeros = {"delayed": 0, "refused": 0}
    assert json.loads(response.body) == {
        "workers": 3 + is_silent,
        "answered": 3,
        "senders": [
            {"key": encode_base64url(OTHER), "sent": 4, **zeros},
            {"key": encode_base64url(KEY), "sent": 2, **zeros},
            {"key": "", "sent": 1, **zeros},
        ],
    }


def test_accepted_messages_are_counted_by_sender_and_those_with_most_come_first() -> None:
    counts = SenderCounts()
    for key in (OTHER, KEY, KEY):
        counts.add(key)
    assert list(counts.most(2).items()) == [
        (encode_base64url(KEY), 2),
        (encode_base64url(OTHER), 1),
    ]
    assert counts.most(1) == {encode_base64url(KEY): 2}
