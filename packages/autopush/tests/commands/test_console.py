"""`autopush console-token` and `autopush audit`, and what other commands leave in the audit log."""

import json

import pytest

from autopush.keys import save_keys, service_keys
from support.data_store import DataStore, Run, uaid


def test_a_token_is_printed_once_and_who_made_it_is_kept(run: Run) -> None:
    code, token, _ = run("console-token", "--role", "look")
    assert (code, len(token.strip())) == (0, 43)
    _, printed, _ = run("audit")
    assert "console-token  role=look  (command line, user " in printed
    assert token.strip() not in printed


def test_what_commands_change_is_in_the_audit_log_and_what_they_read_is_not(
    store: DataStore, run: Run
) -> None:
    save_keys(service_keys((), (), store.data))
    store.add_users(range(2))
    for words in (
        ["user", "add", "ann"],
        ["user", "list"],
        ["drop-user", "--dry-run", uaid(1)],
        ["drop-user", uaid(1)],
        ["keys", "rotate", "--dry-run"],
        ["keys", "rotate"],
    ):
        assert run(*words)[0] == 0, words
    lines = [json.loads(line) for line in run("audit", "--json")[1].splitlines()]
    assert [line["action"] for line in lines] == ["user add", "drop-user", "keys rotate"]
    assert lines[0]["name"] == "ann"
    assert uaid(1) not in str(lines)


def test_without_a_line_nothing_is_changed(store: DataStore, run: Run) -> None:
    (store.data / "audit.log").mkdir()
    store.add_users(range(2))
    code, _, error = run("drop-user", uaid(1))
    assert code == 3
    assert "nothing was changed" in error
    assert store.data.name in error
    (store.data / "audit.log").rmdir()
    assert run("drop-user", "--dry-run", uaid(1))[0] == 0


@pytest.mark.parametrize("command", ["console-token", "audit"])
def test_a_folder_that_is_not_there_is_named(store: DataStore, run: Run, command: str) -> None:
    store.data.rmdir()
    code, _, error = run(command)
    assert code == 3
    assert f"{store.data} is not a folder" in error
