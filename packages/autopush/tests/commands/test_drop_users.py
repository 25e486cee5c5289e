"""`autopush drop-user` and `autopush delete-uaids`."""

import io
from pathlib import Path

import pytest

from autopush.commands.drop_users import parse_list
from autopush.settings import StartupError
from support.data_store import DataStore, Run, uaid

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


def test_under_the_key_hash_the_record_is_found_by_the_uaid(store: DataStore, run: Run) -> None:
    store.add_users(range(1, 2), key_hash="secret")
    assert run("drop-user", uaid(1))[0] == 1
    assert run("drop-user", uaid(1), "--key-hash", "secret")[0] == 0
    assert store.users() == store.subscribed() == set()


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
    assert run("delete-uaids", name, "--dry-run")[:2] == (
        0,
        "would drop 1 of 2; 1 had no record\n",
    )
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


@pytest.mark.parametrize(
    "line",
    [uaid(1), DASHED, DASHED.upper(), f"  {uaid(1)}\t", f"{uaid(1)} # a phone", f"{{{DASHED}}}"],
)
def test_a_line_may_have_a_uaid_in_any_form(line: str) -> None:
    assert parse_list([line, "", "#", uaid(1)], "list") == [uaid(1)]


@pytest.mark.parametrize("line", ["x", uaid(1)[1:], uaid(1) + uaid(2), "g" * 32, "\ufffd" * 32])
def test_a_line_with_an_invalid_uaid_is_refused(line: str) -> None:
    with pytest.raises(StartupError, match="list:2: expected a UAID"):
        parse_list([uaid(1), line], "list")
