"""The minute hand goes on whatever happens."""

import asyncio
from pathlib import Path

import pytest

from autopush.service.months import keep_turning
from autopush.telemetry import logs
from keytables import Throttled

PATIENCE = 10


@pytest.mark.parametrize(
    ("error", "level"), [(Throttled("too much"), "warning"), (RuntimeError("a defect"), "error")]
)
async def test_a_month_that_could_not_be_turned_is_logged_and_tried_again(
    tmp_path: Path, error: Exception, level: str
) -> None:
    tries = 0
    succeeded = asyncio.Event()

    async def turn_month() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise error
        succeeded.set()

    logs.configure(output=str(tmp_path / "log"))
    hand = asyncio.create_task(keep_turning(turn_month, every=0))
    await asyncio.wait_for(succeeded.wait(), PATIENCE)
    hand.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hand
    logs.shutdown()
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 2
    assert all(f'"level":"{level}"' in line and str(error) in line for line in lines)
