"""`autopush check`, as an operator runs it."""

import json
import time

from keytables import Engine
from support.damaged_store import damage_log, damage_table, leave_unclosed
from support.data_store import DataStore, Run


def test_a_whole_store_is_not_damaged(store: DataStore, run: Run) -> None:
    store.add_users(range(3))
    code, out, err = run("check")
    assert (code, err) == (0, "")
    assert out.startswith(f"{store.data}/autopush.sqlite: not damaged; ")
    assert out.count("\n") == 1


def test_a_damaged_table_is_named_with_what_to_do(store: DataStore, run: Run) -> None:
    store.add_users(range(3))
    damage_table(store.data / "autopush.sqlite", "router")
    code, out, err = run("check")
    assert (code, err) == (1, "")
    verdict, damage, advice = out.splitlines()
    assert ": damaged; " in verdict
    assert damage.startswith("damaged: table 'router': some of its rows cannot be read")
    assert "autopush restore --force BACKUP" in advice


def test_a_damaged_log_says_how_many_transactions_are_lost(store: DataStore, run: Run) -> None:
    path = store.data / "autopush.sqlite"
    leave_unclosed(path)
    damage_log(path)
    code, out, _ = run("check")
    assert code == 1
    verdict, damage, advice = out.splitlines()
    assert "its last user did not close it" in verdict
    assert damage.startswith("damaged: the log is damaged: of its ")
    assert "restore" not in advice


def test_json_has_all_of_it(store: DataStore, run: Run) -> None:
    path = store.data / "autopush.sqlite"
    leave_unclosed(path)
    code, out, _ = run("check", "--json")
    assert code == 0
    assert json.loads(out) == {
        "store": str(path),
        "ok": True,
        "damage": [],
        "complete": True,
        "unclean": True,
        "in_use": False,
        "advice": [],
    }
    damage_log(path)
    code, out, _ = run("check", "--json")
    document = json.loads(out)
    assert (code, document["ok"], len(document["damage"])) == (1, False, 1)
    assert document["advice"]


def test_a_store_in_use_is_read_and_stays_in_use(store: DataStore, run: Run) -> None:
    store.add_users(range(3))

    async def check(engine: Engine) -> tuple[int, str, str]:
        found = run("check")
        assert await engine.table_names() == ["message", "router"]
        return found

    code, out, _ = store.use(check)
    assert code == 0
    assert "its log was not checked, as a process has it open" in out


def test_it_changes_nothing(store: DataStore, run: Run) -> None:
    path = store.data / "autopush.sqlite"
    leave_unclosed(path)
    damage_log(path)
    before = {name.name: name.read_bytes() for name in store.data.glob("autopush.sqlite*")}
    began = time.monotonic()
    run("check", "--timeout", "5")
    assert time.monotonic() - began < 30
    after = {name.name: name.read_bytes() for name in store.data.glob("autopush.sqlite*")}
    for name in ("autopush.sqlite", "autopush.sqlite-wal"):
        assert after[name] == before[name]


def test_without_an_embedded_store_it_is_one_line(store: DataStore, run: Run) -> None:
    code, out, err = run("check")
    assert (code, out) == (3, "")
    assert err == f"autopush: there is no store at {store.data}/autopush.sqlite\n"
    code, _, err = run("check", "--store", "dynamodb://eu-west-1")
    assert code == 3
    assert err.startswith("autopush: cannot check dynamodb://eu-west-1")
