"""`autopush user`, as an operator runs it."""

import io
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopush import cli
from autopush.store.accounts import MAX_FORMER
from autopush.webpush.identifiers import hash_secret
from autopush.webpush.tokens import new_key
from support.data_store import DataStore, Run, uaid

TOKEN = re.compile(r"[A-Za-z0-9_-]{43}\n")


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """The time, which stands still: no day begins in a test."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    return now


@pytest.fixture(autouse=True)
def used(store: DataStore) -> None:
    """The store was used by a service before."""
    store.add_users(range(1))


def test_a_user_is_added_listed_and_revoked(run: Run, now: float) -> None:
    code, token, err = run("user", "add", "ann")
    assert (code, err) == (0, "")
    assert TOKEN.fullmatch(token)
    today = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")
    assert run("user", "list") == (0, f"ann  since {today}, no quota, 0 devices\n", "")
    assert run("user", "revoke", "ann") == (0, "revoked ann; sessions end within seconds\n", "")
    assert run("user", "list") == (0, "", "")


def test_no_command_but_add_prints_a_token(run: Run) -> None:
    token = run("user", "add", "ann")[1].strip()
    assert token not in str(run("user", "list"))
    assert token not in str(run("user", "quota", "ann", "--connections", "2"))
    assert token not in str(run("user", "revoke", "ann"))


def test_a_quota_is_set_with_the_user_or_later(run: Run) -> None:
    run("user", "add", "ann", "--connections", "2")
    assert ", 2 connections at once, " in run("user", "list")[1]
    assert run("user", "quota", "ann", "--connections", "5")[1] == ("ann: 5 connections at once\n")
    assert run("user", "quota", "ann")[1] == "ann: no quota\n"
    assert ", no quota, " in run("user", "list")[1]


def test_a_quota_without_its_flag_is_refused_with_the_flag(run: Run) -> None:
    code, out, err = run("user", "quota", "ann", "1")
    assert (code, out) == (2, "")
    assert "[NAME] [--connections N] [--days N] [--page FILE]" in err
    assert "unexpected argument: '1'" in err


def test_a_renewed_token_keeps_the_devices_of_the_former_ones(store: DataStore, run: Run) -> None:
    tokens = [run("user", "add", "ann")[1].strip()]
    tokens += [run("user", "renew", "ann")[1].strip() for _ in range(MAX_FORMER)]
    for number, token in enumerate(tokens, 1):
        store.add_users(range(number, number + 1), account=hash_secret(token))
    assert len(set(tokens)) == 1 + MAX_FORMER
    assert run("user", "list")[1].endswith(f", {1 + MAX_FORMER} devices\n")


def test_a_token_expires_after_so_many_days_and_what_has_expired_is_renewed_with_more(
    run: Run, now: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("user", "add", "ann", "--days", "30")
    date = datetime.fromtimestamp(now + 30 * 86_400, UTC).strftime("%Y-%m-%d")
    assert run("user", "list")[1].endswith(f", expires {date}\n")
    monkeypatch.setattr(time, "time", lambda: now + 31 * 86_400)
    assert run("user", "list")[1].endswith(f", expired {date}\n")
    assert run("user", "renew", "ann") == (
        1,
        "",
        "autopush: ann has expired: give --days, 0 for ever\n",
    )
    assert TOKEN.fullmatch(run("user", "renew", "ann", "--days", "1")[1])
    assert run("user", "expire", "ann", "--days", "0")[1] == "ann: does not expire\n"
    assert "expire" not in run("user", "list")[1]


def test_a_terminal_gets_the_link_and_its_code(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPUSH_WEBSOCKET_URL", "wss://push.example.org/ws")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    link, _, code = run("user", "add", "ann")[1].partition("\n")
    assert re.fullmatch(r"https://push\.example\.org/ws/[A-Za-z0-9_-]{43}", link)
    assert "█" in code


def test_the_page_for_a_user_is_a_file_of_its_owner_that_loads_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOPUSH_ENDPOINT_URL", "https://push.example.org")
    path = tmp_path / "ann.html"
    _, token, err = run("user", "add", "ann", "--page", str(path))
    assert err == ""
    assert path.stat().st_mode & 0o777 == 0o600
    page = path.read_text()
    assert f"https://push.example.org/{token.strip()}<" in page
    assert f"wss://push.example.org/{token.strip()}<" in page
    assert "<svg" in page
    assert not re.search(r"(?:src|href)=|url\(|@import", page)


def test_a_page_that_cannot_be_written_costs_nobody_a_token(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "ann.html"
    path.write_text("of somebody else")
    code, out, err = run("user", "add", "ann", "--page", str(path))
    assert (code, out) == (3, "")
    assert err == f"autopush: --page: {path} exists: name a new file\n"
    assert path.read_text() == "of somebody else"
    assert run("user", "list") == (0, "", "")
    other = tmp_path / "other.html"
    assert run("user", "renew", "eve", "--page", str(other))[0] == 1
    assert not other.exists()


@pytest.mark.parametrize("action", ["revoke", "quota", "renew"])
def test_a_user_that_is_not_there_is_one_line_and_exit_code_1(run: Run, action: str) -> None:
    run("user", "add", "ann")
    assert run("user", action, "eve") == (1, "", "autopush: there is no user eve\n")


def test_a_name_that_is_taken_or_none_is_refused(run: Run) -> None:
    run("user", "add", "ann")
    assert run("user", "add", "ann")[::2] == (1, "autopush: there is a user ann already\n")
    for name in ([], ["a b"]):
        code, out, err = run("user", "add", *name)
        assert (code, out) == (1, "")
        assert err.startswith("autopush: a name has 1 to 64 of ")


@pytest.mark.parametrize(
    "words",
    [
        *(["user", action, "ann"] for action in ("add", "list", "revoke", "quota")),
        ["maintain"],
        ["drop-user", uaid(1)],
        ["delete-uaids", "-"],
        ["keys", "accept"],
        ["check"],
        ["backup", "backups"],
        ["doctor"],
    ],
)
def test_no_command_creates_a_store_and_each_names_the_one_that_is_missing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    data = tmp_path / "elsewhere"
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{uaid(1)}\n"))
    monkeypatch.setenv("CRYPTO_KEY", new_key())
    code, out, err = run(*words, "--data", str(data))
    assert code != 0 or words == ["doctor"]
    assert str(data) in out + err
    assert not data.exists()


def test_a_store_without_the_tables_of_a_service_is_none(run: Run, tmp_path: Path) -> None:
    data = tmp_path / "empty"
    data.mkdir()
    for place in ("autopush.sqlite", "other.sqlite"):
        (data / place).touch()
        url = f"sqlite://{data}/{place}"
        for words in (("user", "add", "ann"), ("maintain",)):
            code, out, err = run(*words, "--store", url)
            assert (code, out) == (3, "")
            assert f"{data}/{place}, which has none of its tables" in err


@pytest.mark.parametrize(
    "words",
    [
        ["user", "add", "ann"],
        ["maintain", "--hours-only"],
        ["drop-user", uaid(1)],
        ["backup", "backups"],
    ],
)
def test_the_store_that_was_used_is_named(
    store: DataStore, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    cli.main(words)
    assert capfd.readouterr().err.startswith(f"store: {store.data}/autopush.sqlite\n")
