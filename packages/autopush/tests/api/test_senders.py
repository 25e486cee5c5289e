"""`/senders`: one report of all workers, also while one of them stands still."""

import json
from collections.abc import Awaitable
from typing import cast

import pytest

from autopush.api.senders import PAGE, SENDERS, SendersPage
from autopush.limits import GoneLimits, LimitRefusals
from autopush.net.http_messages import Request, Response
from autopush.net.siblings import Siblings, SiblingSilent
from autopush.settings.value_types import Rate
from autopush.webpush.syntax import encode_base64url
from support.connection_harness import Harness

KEY, OTHER = b"\x04" + b"a" * 64, b"\x04" + b"b" * 64


async def page_after(harness: Harness, *keys: bytes) -> SendersPage:
    """Of a worker that has got a message of each to an endpoint that is gone."""
    gone = GoneLimits(LimitRefusals(harness.metrics), Rate(1_000, "h"), monotonic=harness.clock)
    for key in keys:
        await gone.check(key, b"endpoint")
    return SendersPage(gone, None, [])


class Workers:
    """The others, of which worker 3 stands still."""

    def __init__(self, *pages: SendersPage) -> None:
        self._pages = pages

    def call(self, index: int, port: str, request: Request) -> Awaitable[Response]:
        assert port == SENDERS

        async def answer() -> Response:
            if index == 3:
                raise SiblingSilent
            return self._pages[index - 1].respond_to_sibling(request)

        return answer()


@pytest.mark.parametrize(("others", "answered"), [([1, 2], 3), ([1, 2, 3], 3)])
async def test_the_report_sums_over_all_workers_that_answer(
    harness: Harness, others: list[int], answered: int
) -> None:
    page = await page_after(harness, KEY, b"", OTHER)
    page.others = others
    page.siblings = cast(
        Siblings,
        Workers(await page_after(harness, OTHER, OTHER, OTHER), await page_after(harness, KEY)),
    )
    response = await page.respond(Request("GET", PAGE, "", {}, "::1"))
    zeros = {"delayed": 0, "refused": 0}
    assert json.loads(response.body) == {
        "workers": 1 + len(others),
        "answered": answered,
        "senders": [
            {"key": encode_base64url(OTHER), "sent": 4, **zeros},
            {"key": encode_base64url(KEY), "sent": 2, **zeros},
            {"key": "", "sent": 1, **zeros},
        ],
    }
