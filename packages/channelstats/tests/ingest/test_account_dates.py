"""Slack's list of members: the two columns of it, and what may be wrong with them."""

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from channelstats.ingest.accounts import Accounts, MalformedList, read_accounts, store_accounts
from channelstats.tables.exclusion import Exclusions
from support.channelstats.house import UTC as ZONE
from support.channelstats.house import House

TODAY = date(2024, 3, 21)
NOV_3 = int(datetime(2017, 11, 3, tzinfo=UTC).timestamp())
HEADING = "Name,What I Do,Account type,Account created,Claimed Date,User ID,Email\n"


def line(uid: str, created: str) -> str:
    return f'Ann,"Sales, mostly",Member,"{created}","Nov 4, 2017",{uid},ann@example.org\n'


def read(folder: Path, text: str | bytes) -> Accounts:
    path = folder / "members.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_accounts(path, ZONE, TODAY)


def problems(found: Accounts) -> list[str]:
    return [str(problem) for problem in found.problems]


def test_the_id_and_the_date_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, HEADING + line("U1", "Nov 3, 2017") + line("W2", "Nov 3, 2017"))
    assert found == Accounts({"U1": NOV_3, "W2": NOV_3}, [])


@pytest.mark.parametrize(
    "text",
    ["Nov 3, 2017", "Nov 03, 2017", "November 3, 2017", "3 Nov 2017", "2017-11-03", "2017/11/03"],
)
def test_a_date_can_be_written_in_many_ways(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, HEADING + line("U1", text)).created == {"U1": NOV_3}


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfUser ID,Account created\nU1,2017-11-03\n",
        b"User ID;Account created\r\nU1;2017-11-03\r\n",
        b"User ID\tAccount created\nU1\t2017-11-03",
        "User ID,Account created\nU1,2017-11-03\n".encode("utf-16"),
        b"sep=;\n\nuser_id;account_created\nU1;2017-11-03\n",
        b"Userid,Account Created (UTC)\nU1,2017-11-03\n",
        b"\xe9,User ID,Account created\n\xe9\xe9,U1,2017-11-03\n\n , , \n",
        b'Name,User ID,Account created\n"two\nlines",U1,2017-11-03\n',
    ],
)
def test_spellings_and_encodings_of_spreadsheets_are_understood(
    tmp_path: Path, data: bytes
) -> None:
    assert read(tmp_path, data) == Accounts({"U1": NOV_3}, [])


def test_the_earlier_of_two_dates_is_right(tmp_path: Path) -> None:
    lines = [line("U1", day) for day in ("2018-01-01", "2017-11-03", "2019-01-01")]
    assert read(tmp_path, HEADING + "".join(lines)).created == {"U1": NOV_3}


def test_a_line_that_is_not_understood_is_named_and_costs_itself(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        HEADING
        + line("ann@example.org", "Nov 3, 2017")
        + line("U1", "2017-11-03")
        + line("U2", "11/03/2017")
        + line("U3", "Nov 31, 2017")
        + line("U4", "1970-01-01")
        + line("U5", "Nov 3, 2057")
        + "short\n",
    )
    assert found.created == {"U1": NOV_3}
    assert problems(found) == [
        "members.csv lines 2, 8: User ID: expected an ID like U012ABCDEF",
        "members.csv lines 4, 5: Account created: expected a date like Nov 3, 2017",
        "members.csv lines 6, 7: Account created: before the year 2000, or in the future",
    ]


def test_many_lines_of_a_kind_are_counted(tmp_path: Path) -> None:
    [problem] = problems(read(tmp_path, HEADING + line("x", "2017-11-03") * 2000))
    assert problem == (
        "members.csv lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 1,990 more: "
        "User ID: expected an ID like U012ABCDEF"
    )


@pytest.mark.parametrize(
    "text", ["", "Name,Email\nAnn,ann@example.org\n", "User ID\nU1\n", "\x00\x01", '"' * 200_000]
)
def test_without_the_columns_it_is_no_such_list(tmp_path: Path, text: str) -> None:
    with pytest.raises(MalformedList, match=r"members\.csv: ") as error:
        read(tmp_path, text)
    assert "@" not in str(error.value)


async def test_what_is_known_stays_where_it_is_earlier(empty: House) -> None:
    created = empty.tables.users_created
    await created.add([("U1", 100), ("U2", 300)])
    given = {"U1": 200, "U2": 200, "U3": 200, "U4": 200}
    assert await store_accounts(empty.tables, given, Exclusions(["U4"])) == 2
    assert await created.all() == {"U1": 100, "U2": 200, "U3": 200}
    assert await store_accounts(empty.tables, given, Exclusions(["U4"])) == 0
