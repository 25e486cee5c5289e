"""`autopush keys rotate`, as an operator runs it."""

import asyncio
import shutil
from pathlib import Path

import pytest

from autopush.keys import save_keys, service_keys
from autopush.webpush.tokens import new_key
from support.application_server import ApplicationServer, application_server
from support.data_store import DataStore, Run
from support.service import refusal, service


def key_lines(store: DataStore, name: str = "crypto_key") -> list[str]:
    lines = (store.data / "keys" / name).read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.fixture
def keys(store: DataStore) -> list[str]:
    """The keys that the first start has created."""
    save_keys(service_keys((), (), store.data))
    return key_lines(store)


def test_a_new_key_is_put_first_and_none_is_printed(
    store: DataStore, run: Run, keys: list[str]
) -> None:
    path = store.data / "keys" / "crypto_key"
    code, out, err = run("keys", "rotate")
    assert (code, err) == (0, "")
    assert out.startswith(f"put a new key first in {path}; 1 other key stays accepted\nRestart ")
    assert "all of them must accept the key before one of them uses it" in out
    assert out.endswith(f"Back up {path}.\n")
    after = key_lines(store)
    assert after[1:] == keys
    assert after[0] != keys[0]
    assert not [key for key in after if key in out]


def test_the_key_of_the_registration_api_is_rotated_by_name(
    store: DataStore, run: Run, keys: list[str]
) -> None:
    before = key_lines(store, "auth_key")
    assert run("keys", "rotate", "auth_key")[0] == 0
    assert key_lines(store, "auth_key")[1:] == before
    assert key_lines(store) == keys


def test_a_key_is_prepared_on_all_nodes_and_then_used(
    store: DataStore, run: Run, keys: list[str]
) -> None:
    code, out, _ = run("keys", "rotate", "crypto_key", "--prepare")
    assert code == 0
    assert out.startswith("put a new key last in ")
    assert "Then run `autopush keys rotate crypto_key`." in out
    [old, prepared] = key_lines(store)
    assert [old] == keys
    code, out, _ = run("keys", "rotate", "crypto_key")
    assert code == 0
    assert out.startswith("put the prepared key first in ")
    assert "; 1 other key stays accepted\n" in out
    assert "they may be restarted in any order" in out
    assert key_lines(store) == [prepared, old]


def test_a_dry_run_changes_nothing(store: DataStore, run: Run, keys: list[str]) -> None:
    path = store.data / "keys" / "crypto_key"
    assert run("keys", "rotate", "--dry-run")[:2] == (
        0,
        f"would put a new key first in {path}; 1 other key stays accepted\n",
    )
    assert key_lines(store) == keys


@pytest.mark.parametrize("name", ["crypto_key", "auth_key"])
def test_a_key_that_is_given_elsewhere_is_refused_and_the_place_named(
    store: DataStore, run: Run, keys: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    given = new_key()
    monkeypatch.setenv(name.upper(), given)
    code, out, err = run("keys", "rotate", name)
    assert (code, out) == (3, "")
    place = f"environment variable {name.upper()}"
    assert err.startswith(
        f"autopush: {name} is not kept in the data folder but given by {place}: change it there."
    )
    assert err.count("\n") == 1
    assert given not in err
    assert key_lines(store) == keys


def test_without_a_key_file_there_is_nothing_to_rotate(store: DataStore, run: Run) -> None:
    path = store.data / "keys" / "crypto_key"
    code, _, err = run("keys", "rotate")
    assert code == 3
    assert err == f"autopush: there is no {path}: the first start of the service creates it\n"
    assert list(store.data.iterdir()) == []


@pytest.mark.parametrize("words", [(), ("drop",), ("rotate", "key_hash"), ("rotate", "x", "y")])
def test_anything_else_is_wrong_usage(run: Run, words: tuple[str, ...]) -> None:
    assert run("keys", *words)[0] == 2


async def test_old_endpoints_are_valid_after_the_restart(
    store: DataStore, installed: Run, tmp_path: Path
) -> None:
    async def push(sender: ApplicationServer, endpoint: str) -> int:
        return (await sender.push(endpoint, b"x")).status

    async with application_server(reconnecting=True) as sender, service(store.data) as running:
        agent = await running.connect()
        _, old = await agent.register()
        code, _, err = await asyncio.to_thread(installed, "autopush", "keys", "rotate")
        assert (code, err) == (0, "")
        assert await push(sender, old) == 201  # the running service goes on with its keys
        await agent.close()
        assert await running.stop() == 0
        await running.start()
        agent = await running.connect(agent.uaid)
        _, new = await agent.register()
        assert [await push(sender, endpoint) for endpoint in (old, new)] == [201, 201]
        # Only the first key is needed for what was made since.
        path = store.data / "keys" / "crypto_key"
        first = key_lines(store)[0]
        path.write_text(f"{first}\n")
        await agent.close()
        assert await running.stop() == 0
        await running.start()
        assert [await push(sender, endpoint) for endpoint in (old, new)] == [404, 201]


# ── A crypto key that is lost ────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a service that made its keys and has a subscription."""
    data = tmp_path_factory.mktemp("served")

    async def serve() -> None:
        async with service(data) as running:
            agent = await running.connect()
            await agent.register()
            await agent.close()

    asyncio.run(serve())
    return data


@pytest.fixture
def crypto_key(store: DataStore, served: Path) -> Path:
    """The file of the crypto key, in a store with a user."""
    shutil.copytree(served, store.data, dirs_exist_ok=True)
    return store.data / "keys" / "crypto_key"


def test_a_lost_crypto_key_is_not_replaced_beside_a_store_with_users(
    store: DataStore, crypto_key: Path
) -> None:
    path, saved = crypto_key, crypto_key.read_text()
    path.unlink()
    for where in (f"{path}, which is missing", str(path)):
        if not where.endswith("missing"):
            path.write_text(new_key())
            path.chmod(0o600)
        refused = refusal(store.data, "serve")
        assert path.exists() is not where.endswith("missing")
        assert refused.startswith("autopush: the crypto_key of this store is lost: ")
        assert f"another key than that of {where}. Put the old key there, " in refused
        assert "`autopush keys accept`" in refused
        assert not [line for line in saved.splitlines() if line[0] != "#" and line in refused]
    refused = refusal(store.data, "serve", AUTOPUSH_CRYPTO_KEY=new_key())
    assert "that of crypto_key (environment variable AUTOPUSH_CRYPTO_KEY)" in refused
    path.write_text(saved)
    asyncio.run(starts(store.data))


async def starts(data: Path) -> None:
    async with service(data):
        pass


def test_the_service_starts_with_another_key_once_that_is_accepted(
    store: DataStore, run: Run, crypto_key: Path
) -> None:
    crypto_key.unlink()
    refusal(store.data, "serve")
    place, file = store.data / "autopush.sqlite", crypto_key
    created = f"created {file}; keep a copy in a safe place\n"
    for flags, begin in (
        (("--dry-run",), f"{place} would accept"),
        ((), f"{created}{place} accepts"),
    ):
        assert not file.exists()
        code, out, err = run("keys", "accept", *flags)
        assert (code, err) == (0, "")
        assert out.startswith(f"{begin} the present crypto_key. Subscriptions ")
    assert file.exists()
    known = f"{place} knows the crypto_key already; nothing to do\n"
    assert run("keys", "accept") == (0, known, "")
    asyncio.run(starts(store.data))


def test_after_a_rotation_the_store_knows_the_new_key(
    store: DataStore, run: Run, crypto_key: Path
) -> None:
    assert run("keys", "rotate")[0] == 0
    [new, _] = key_lines(store)
    asyncio.run(starts(store.data))
    crypto_key.write_text(f"{new}\n")
    asyncio.run(starts(store.data))


@pytest.mark.parametrize("words", [("auth_key",), ("--prepare",)])
def test_accepting_is_for_the_crypto_key_alone(
    store: DataStore, run: Run, keys: list[str], words: tuple[str, ...]
) -> None:
    code, _, err = run("keys", "accept", *words)
    assert (code, err) == (
        3,
        "autopush: keys accept: the store knows the crypto_key only; it has no --prepare\n",
    )
