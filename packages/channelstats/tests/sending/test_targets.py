"""Where a report goes that is sent to a place by its name."""

import pytest

from channelstats.lookup import NotFound
from channelstats.sending.targets import destination_of
from support.channelstats.house import House


@pytest.mark.parametrize(
    ("name", "cid"),
    [("#dev", "CDEV"), ("dev", "CDEV"), ("CDEV", "CDEV"), ("D0UNKNOWN", "D0UNKNOWN")],
)
async def test_an_id_that_is_in_no_table_is_taken_as_it_is(
    example: House, name: str, cid: str
) -> None:
    assert await destination_of(example.tables, name) == cid


@pytest.mark.parametrize("name", ["#nowhere", "@nobody", "X0UNKNOWN"])
async def test_what_is_called_so_by_nobody_is_refused(example: House, name: str) -> None:
    with pytest.raises(NotFound):
        await destination_of(example.tables, name)
