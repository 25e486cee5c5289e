"""Many IDs in few rows."""

from hypothesis import given
from hypothesis import strategies as st

from channelstats.tables.user_hash import key_of
from support.channelstats.house import House


async def test_an_id_is_known_as_a_whole_token_only(empty: House) -> None:
    hashes = empty.tables.user_hash
    await hashes.add(["U1233"])
    assert await hashes.known(["U1233", "U123", "U33", "3"]) == {"U1233"}


async def test_the_first_id_under_a_key_is_stored_and_none_is_lost(empty: House) -> None:
    hashes = empty.tables.user_hash
    await hashes.add(["UAX"])
    await hashes.add(["UBX", "UAX", "UCY"])
    rows = await empty.items("UserHash")
    assert {key: item["uids"] for key, item in rows.items()} == {"X": "UAX UBX", "Y": "UCY"}


@given(st.from_regex(r"U[A-Z0-9]{1,10}", fullmatch=True))
def test_the_key_is_the_last_character(uid: str) -> None:
    assert key_of(uid) == uid[-1]
