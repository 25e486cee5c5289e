"""`autopush maintain`, `drop-user` and `delete-uaids`."""

import io
from pathlib import Path

import pytest

from autopush.commands.maintain import parse_list
from autopush.settings import StartupError
from keytables import Unavailable
from support.cases import cases
from support.data_store import DataStore, Run, month_table, next_month, uaid

ROTATING = "AUTOPUSH_NO_TABLE_ROTATION"


@pytest.fixture
def rotating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ROTATING, "false")


def uaids(*numbers: int) -> set[str]:
    return {uaid(number) for number in numbers}


# ── user agents ──────────────────────────────────────────────────────────────────────────────────


def test_user_agents_not_seen_for_two_months_are_dropped(store: DataStore, run: Run) -> None:
    for number, months in enumerate((0, 1, 2, 3, 12, 13)):
        store.add_users(range(number, number + 1), months)
    code, out, err = run("maintain", "--hours-only")
    assert (code, err) == (0, "")
    assert "users: dropped 3 last seen from " in out
    assert store.users() == store.subscribed() == uaids(0, 1, 5)


def test_flags_choose_the_months_that_are_searched(store: DataStore, run: Run) -> None:
    for number, months in enumerate((1, 2, 3, 4, 15)):
        store.add_users(range(number, number + 1), months)
    near = ("--hours-only", "--up-to", "3")
    assert run("maintain", "--months-ago", "3", *near)[0] == 0
    assert store.users() == uaids(0, 1, 3, 4)
    assert run("maintain", "--months-ago", "15", *near)[0] == 0
    assert store.users() == uaids(0, 1, 3)


def test_a_store_error_is_one_line_with_the_number_that_was_dropped(
    store: DataStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autopush.store.maintenance import UserRemover

    store.add_users(range(30))
    drop, calls = UserRemover.drop_unless_connected, 0

    async def fail(self: UserRemover, found: object, now: float) -> None:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise Unavailable("the disk is full")
        await drop(self, found, now)  # type: ignore[arg-type]

    monkeypatch.setattr(UserRemover, "drop_unless_connected", fail)
    code, out, err = run("maintain", "--hours-only", "--batch-size", "10")
    assert code == 1
    assert "dropped" not in out
    assert err == "autopush: 20 dropped, then: the disk is full; run it again for the rest\n"
    monkeypatch.undo()
    assert len(store.users()) == 10


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def test_the_next_month_is_created_and_old_ones_are_dropped(
    store: DataStore, run: Run, rotating: None
) -> None:
    store.add_users(range(1), 0, month_table(0))
    store.make_tables(*(month_table(ago) for ago in (1, 3, 4)))
    code, out, _ = run("maintain", "--only", "tables")
    assert code == 0
    assert f"tables: make {next_month()}: done\n" in out
    assert f"tables: drop {month_table(3)}: done\n" in out
    assert store.tables() == sorted(["router", month_table(1), month_table(0), next_month()])
    assert run("maintain", "--only", "tables")[1] == "tables: nothing to do\n"


def test_a_dry_run_prints_each_step_and_takes_none(
    store: DataStore, run: Run, rotating: None
) -> None:
    store.add_users(range(3), 3, month_table(3))
    store.make_tables(month_table(1), month_table(0))
    before = store.tables()
    code, out, _ = run("maintain", "--dry-run", "--hours-only")
    assert code == 0
    assert f"tables: would make {next_month()}\n" in out
    assert f"tables: would drop {month_table(3)}\n" in out
    assert "users: would drop 3 " in out
    assert store.tables() == before
    assert len(store.users()) == 3


def test_a_failed_step_does_not_stop_the_others(
    store: DataStore, run: Run, rotating: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keytables.sqlite import SqliteEngine

    store.add_users(range(2), 3, month_table(0))
    store.make_tables(month_table(3), month_table(4))
    drop = SqliteEngine.drop_table

    async def fail(self: SqliteEngine, name: str) -> None:
        if name == month_table(3):
            raise Unavailable("not now")
        await drop(self, name)

    monkeypatch.setattr(SqliteEngine, "drop_table", fail)
    code, out, err = run("maintain", "--hours-only")
    assert code == 1
    assert err == f"autopush: could not drop {month_table(3)}: not now\n"
    assert f"tables: drop {month_table(4)}: done\n" in out
    assert "users: dropped 2 " in out


def test_a_run_of_users_only_touches_no_table(store: DataStore, run: Run, rotating: None) -> None:
    store.add_users(range(1), 0, month_table(0))
    store.make_tables(month_table(5))
    before = store.tables()
    code, out, _ = run("maintain", "--only", "users", "--hours-only")
    assert code == 0
    assert "tables:" not in out
    assert store.tables() == before


# ── errors at the start ──────────────────────────────────────────────────────────────────────────


def test_a_store_without_router_table_is_an_error(store: DataStore, run: Run) -> None:
    store.make_tables("message")
    code, _, err = run("maintain", "--hours-only")
    assert code == 3
    assert "there is no table router in the store" in err
    assert store.tables() == ["message"]


@pytest.mark.parametrize(
    "words",
    [
        ("--rate", "0"),
        ("--batch-size", "101"),
        ("--months-ago", "0"),
        ("--keep-months", "1"),
        ("--only", "both"),
        ("--idle-read", "x"),
    ],
)
def test_a_value_out_of_bounds_is_wrong_usage(
    store: DataStore, run: Run, words: tuple[str, str]
) -> None:
    code, _, err = run("maintain", *words)
    assert code == 2
    assert f"argument {words[0]}: " in err


DASHED = "00000000-0000-0000-0000-000000000001"


def test_drop_user_prints_what_was_on_record_and_drops_it(store: DataStore, run: Run) -> None:
    store.add_users(range(1, 4), 0)
    code, out, err = run("drop-user", DASHED, uaid(2).upper())
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(f"dropped {uaid(1)}: webpush, message, 1 channel, last connect 20")
    assert second.startswith(f"dropped {uaid(2)}: ")
    assert store.users() == store.subscribed() == {uaid(3)}


def test_a_uaid_without_record_is_an_error_and_the_others_are_dropped(
    store: DataStore, run: Run
) -> None:
    store.add_users(range(1, 2))
    code, out, err = run("drop-user", uaid(9), uaid(1))
    assert code == 1
    assert err == f"autopush: {uaid(9)} has no record\n"
    assert out.startswith(f"dropped {uaid(1)}: ")
    assert run("drop-user", uaid(1))[:2] == (1, "")


def test_a_dry_run_prints_and_drops_nothing(store: DataStore, run: Run) -> None:
    store.add_users(range(1, 2))
    code, out, _ = run("drop-user", "--dry-run", uaid(1))
    assert code == 0
    assert out.startswith(f"would drop {uaid(1)}: ")
    assert store.users() == store.subscribed() == {uaid(1)}


@pytest.mark.parametrize("words", [(), ("nonsense",), (uaid(1), "1234"), (uaid(1) + "0",)])
def test_an_invalid_uaid_is_wrong_usage_and_nothing_is_dropped(
    store: DataStore, run: Run, words: tuple[str, ...]
) -> None:
    store.add_users(range(1, 2))
    code, out, err = run("drop-user", *words)
    assert (code, out) == (2, "")
    assert "UAID" in err
    assert store.users() == {uaid(1)}


# ── lists ────────────────────────────────────────────────────────────────────────────────────────


def listed(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def test_a_list_is_deleted(store: DataStore, run: Run, tmp_path: Path) -> None:
    store.add_users(range(60), 0)
    lines = [uaid(number) for number in range(10, 50)]
    name = listed(tmp_path / "list", "# old test phones", "", *lines, uaid(777), lines[0])
    code, out, err = run("delete-uaids", name)
    assert (code, err) == (0, "")
    assert out == "dropped 40 of 41; 1 had no record\n"
    left = {uaid(number) for number in (*range(10), *range(50, 60))}
    assert store.users() == store.subscribed() == left
    assert run("delete-uaids", name)[1] == "dropped 0 of 41; 41 had no record\n"


def test_a_list_is_read_from_standard_input_too(
    store: DataStore, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add_users(range(3))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{uaid(0)}\n{uaid(2)}\n"))
    assert run("delete-uaids", "-", "--quiet") == (0, "", "")
    assert store.users() == {uaid(1)}


def test_a_dry_run_counts_and_deletes_nothing(store: DataStore, run: Run, tmp_path: Path) -> None:
    store.add_users(range(3))
    name = listed(tmp_path / "list", uaid(1), uaid(9))
    assert run("delete-uaids", name, "--dry-run")[:2] == (0, "would drop 1 of 2; 1 had no record\n")
    assert len(store.users()) == 3


def test_a_bad_line_is_named_and_nothing_is_deleted(
    store: DataStore, run: Run, tmp_path: Path
) -> None:
    store.add_users(range(3))
    name = listed(tmp_path / "list", uaid(1), "# fine", f"{uaid(2)}x", uaid(0))
    code, out, err = run("delete-uaids", name)
    assert (code, out) == (3, "")
    assert err.startswith(f"autopush: {name}:3: expected a UAID")
    assert uaid(2) not in err
    assert err.count("\n") == 1
    assert len(store.users()) == 3


def test_a_list_that_cannot_be_read_is_an_error(store: DataStore, run: Run) -> None:
    code, _, err = run("delete-uaids", "missing")
    assert code == 3
    assert err == "autopush: cannot read missing: No such file or directory\n"


@cases(
    "line",
    [uaid(1), DASHED, DASHED.upper(), f"  {uaid(1)}\t", f"{uaid(1)} # a phone", f"{{{DASHED}}}"],
)
def test_a_line_may_have_a_uaid_in_any_form(line: str) -> None:
    assert parse_list([line, "", "#", uaid(1)], "list") == [uaid(1)]


@pytest.mark.parametrize("line", ["x", uaid(1)[1:], uaid(1) + uaid(2), "g" * 32, "\ufffd" * 32])
def test_a_line_with_an_invalid_uaid_is_refused(line: str) -> None:
    with pytest.raises(StartupError, match="list:2: expected a UAID"):
        parse_list([uaid(1), line], "list")


def test_quiet_prints_nothing(store: DataStore, run: Run) -> None:
    store.add_users(range(3))
    assert run("maintain", "--hours-only", "--quiet") == (0, "", "")
    assert store.users() == set()


def test_more_months_can_be_kept(store: DataStore, run: Run, rotating: None) -> None:
    store.make_tables(*(month_table(ago) for ago in (0, 1, 2, 3, 5, 6)))
    assert run("maintain", "--only", "tables", "--keep-months", "4")[0] == 0
    assert store.tables() == sorted([*(month_table(ago) for ago in range(4)), next_month()])


def test_under_the_key_hash_the_record_is_found_by_the_uaid(store: DataStore, run: Run) -> None:
    store.add_users(range(1, 2), key_hash="secret")
    assert run("drop-user", uaid(1))[0] == 1
    assert run("drop-user", uaid(1), "--key-hash", "secret")[0] == 0
    assert store.users() == store.subscribed() == set()
