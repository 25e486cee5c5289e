"""`autopush user`, as an operator runs it."""

import io
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from autopush import cli
from autopush.webpush.tokens import new_key
from support.data_store import DataStore, Run, uaid

TOKEN = re.compile(r"[A-Za-z0-9_-]{43}\n")


@pytest.fixture(autouse=True)
def used(store: DataStore) -> None:
    """The store was used by a service before."""
    store.add_users(range(1))


def test_a_user_is_added_listed_and_revoked(run: Run) -> None:
    code, token, err = run("user", "add", "ann")
    assert (code, err) == (0, "")
    assert TOKEN.fullmatch(token)
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    assert run("user", "list") == (0, f"ann  since {today}, no quota\n", "")
    assert run("user", "revoke", "ann") == (0, "revoked ann; sessions end within seconds\n", "")
    assert run("user", "list") == (0, "", "")


def test_no_command_but_add_prints_a_token(run: Run) -> None:
    token = run("user", "add", "ann")[1].strip()
    assert token not in str(run("user", "list"))
    assert token not in str(run("user", "quota", "ann", "--connections", "2"))
    assert token not in str(run("user", "revoke", "ann"))


def test_a_quota_is_set_with_the_user_or_later(run: Run) -> None:
    run("user", "add", "ann", "--connections", "2")
    assert run("user", "list")[1].endswith(", 2 connections at once\n")
    assert run("user", "quota", "ann", "--connections", "5")[1] == ("ann: 5 connections at once\n")
    assert run("user", "quota", "ann")[1] == "ann: no quota\n"
    assert run("user", "list")[1].endswith(", no quota\n")


def test_a_quota_without_its_flag_is_refused_with_the_flag(run: Run) -> None:
    code, out, err = run("user", "quota", "ann", "1")
    assert (code, out) == (2, "")
    assert "[NAME] [--connections N]" in err
    assert "there is an argument too many: '1'" in err


@pytest.mark.parametrize("action", ["revoke", "quota"])
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
    "words", [["user", "add", "ann"], ["maintain"], ["drop-user", uaid(1)], ["backup", "backups"]]
)
def test_the_store_that_was_used_is_named(
    store: DataStore, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    cli.main(words)
    assert capfd.readouterr().err.startswith(f"store: {store.data}/autopush.sqlite\n")
