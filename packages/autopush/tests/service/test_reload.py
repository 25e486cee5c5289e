"""A reload: which settings are taken, what each part makes of them, and what is answered."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from autopush.delivery.bridge_contract import Router
from autopush.delivery.megaphone import PollError
from autopush.service import app
from autopush.service.app import Worker
from autopush.service.reload import REPLY_TIMEOUT, ReloadAnswer, Reloading, WorkerReply, compare
from autopush.settings import OPTIONS, Settings, StartupError
from autopush.settings.value_types import Rate
from autopush.store import PushStore, TablePlan
from autopush.telemetry import logs
from support.cases import cases
from support.clocks import ManualClock
from support.connection_harness import Harness
from support.memory_engine import MemoryEngine
from support.service_context import service_context

RATE: Final = Rate(7, "min")


@pytest.fixture(autouse=True)
def levels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The levels that the logs were given."""
    levels: list[str] = []
    monkeypatch.setattr(logs, "set_level", levels.append)
    return levels


# ── what each option does ─────────────────────────────────────────────────────────────────────────


class Effect(NamedTuple):
    """`read`: what a part has from the option; `expected`: with `value`."""

    value: object
    read: Callable[[Any], object]
    expected: object


def own(value: object, read: Callable[[Any], object]) -> Effect:
    """Of an option whose value a part has as it is."""
    return Effect(value, read, value)


EFFECTS: Final[Mapping[str, Effect]] = {
    "trusted_proxies": Effect(("10.0.0.0/8",), lambda p: p.proxies.limit_key("10.0.0.1"), ""),
    "max_connections": own(7, lambda p: p.websockets.node.max_connections),
    "max_requests": own(7, lambda p: p.endpoint.app.max_requests),
    "max_tcp_connections": own(7, lambda p: p.connection_limits.max_connections),
    "max_connections_per_address": own(7, lambda p: p.connection_limits.max_per_address),
    "connection_rate": own(RATE, lambda p: p.websockets.new_connections.rate),
    "max_buffered_bytes": own(1 << 21, lambda p: p.buffered.limit),
    "new_user_agents_rate": own(RATE, lambda p: p.new_user_agents.rate),
    "message_rate": Effect(Rate(500, "min"), lambda p: p.websockets.node.limits.message_batch, 10),
    "registration_rate": Effect(
        RATE,
        lambda p: (
            p.endpoint.app.registration.changes.rate,
            p.websockets.node.limits._registrations._by_user_agent.rate,
        ),
        (RATE, RATE),
    ),
    "max_broadcasts": own(7, lambda p: p.websockets.broadcasts.max_names),
    "max_stored_messages": own(7, lambda p: p.endpoint.router.limits._limit.messages),
    "max_stored_bytes": own(7, lambda p: p.endpoint.router.limits._limit.size),
    "endpoint_rate": own(RATE, lambda p: p.endpoint.limits._messages.rate),
    "sender_rate": own(RATE, lambda p: p.endpoint.limits._signed.rate),
    "gone_rate": own(RATE, lambda p: p.gone._delayed.rate),
    "receipt_rate": own(RATE, lambda p: p.endpoint.receipts.senders.rate),
    "vapid_required": own(True, lambda p: p.endpoint.limits._is_vapid_required),
    "allowed_senders": Effect(
        ("mailto:a@example.com",), lambda p: p.endpoint.limits._allowed is None, False
    ),
    "client_certs": Effect({"b": ("BB",)}, lambda p: p.clients._names, {"BB": "b"}),
    "log_check_rate": own(RATE, lambda p: p.log_check.rates.rate),
    "max_notification_ttl": own(7, lambda p: p.endpoint.app.push.max_ttl),
    "no_matrix_gateway": Effect(True, lambda p: p.endpoint.app.matrix, None),
    "msg_limit": own(7, lambda p: p.websockets.node.session_settings.msg_limit),
    "max_unacked": own(7, lambda p: p.websockets.node.session_settings.max_unacked),
    "unacked_timeout": own(7.0, lambda p: p.websockets.node.session_settings.unacked_timeout),
    "hello_timeout": own(7.0, lambda p: p.websockets.node.session_settings.hello_timeout),
    "auto_ping_interval": own(7.0, lambda p: p.websockets.node.session_settings.auto_ping_interval),
    "auto_ping_timeout": own(7.0, lambda p: p.websockets.node.session_settings.auto_ping_timeout),
    "close_handshake_timeout": own(7.0, lambda p: p.websockets.node.session_settings.close_timeout),
}
BY_WORKER: Final = [
    option.name
    for option in OPTIONS
    if option.group in ("Bridges", "Broadcasts") or option.name in ("log_level", "debug")
]
"""Those that `Worker.reload` loads or sets itself."""


def test_an_effect_is_known_of_each_option_that_reloads() -> None:
    reloading = [row.name for row in OPTIONS if row.reloads or row.reloads_if_set]
    assert sorted([*EFFECTS, *BY_WORKER]) == sorted(reloading)


@cases("name", EFFECTS)
async def test_the_parts_of_a_worker_take_the_option(name: str) -> None:
    parts: Any = (await Harness.open(command="serve", client_certs={"a": ("AA",)})).parts
    value, read, expected = EFFECTS[name]
    before = read(parts)
    parts.apply(replace(parts.settings, **{name: value}))
    assert read(parts) == expected != before


# ── in a worker ───────────────────────────────────────────────────────────────────────────────────


class Source:
    """In place of a Megaphone."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url

    async def fetch(self) -> dict[str, str]:
        if "broken" in self.url:
            raise PollError("unknown", "the answer is 500")
        return {self.url: "1"}


@pytest.fixture
async def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Worker]:
    monkeypatch.setattr(app, "Megaphone", Source)
    clock = ManualClock()
    store = await PushStore.open(MemoryEngine(clock), TablePlan(), key_hash="", clock=clock)
    service = service_context(tmp_path)
    running = Worker(service, 0, service.metrics.of_worker(0), store, clock)
    await running.start()
    yield running
    await running.stop()


@pytest.mark.parametrize("name", [row.name for row in OPTIONS if row.group == "Bridges"])
async def test_the_credentials_of_bridges_are_loaded_anew_by_the_new_settings(
    worker: Worker, name: str
) -> None:
    loaded: list[Settings] = []

    def make_routers(settings: Settings, _clock: object) -> Mapping[str, Router]:
        loaded.append(settings)
        return {}

    io = worker._parts.io
    io.make_routers = make_routers
    present = worker._parts.settings
    changes: dict[str, Any] = {name: {"a": {}} if getattr(present, name) is None else "other"}
    settings = replace(present, **changes)
    await worker.reload(settings)
    assert loaded == [settings]


async def test_another_source_of_broadcasts_is_read_before_it_is_used(worker: Worker) -> None:
    parts = worker._parts
    assert parts.websockets is not None
    broadcasts = parts.websockets.broadcasts
    first = replace(parts.settings, megaphone_api_url="http://a.example/")
    await worker.reload(first)
    assert broadcasts.find("http://a.example/") is not None
    polling = worker._polling
    broken = replace(first, megaphone_api_url="http://broken.example/", max_requests=7)
    with pytest.raises(StartupError, match=r"megaphone_api_url: the answer is 500"):
        await worker.reload(broken)
    assert parts.settings is first
    assert worker._polling is polling
    await worker.reload(replace(first, megaphone_api_url=""))
    assert broadcasts.find("http://a.example/") is None
    assert worker._polling is None


@pytest.mark.parametrize("changes", [{"megaphone_api_token": "t"}, {"megaphone_poll_interval": 7}])
async def test_the_source_of_broadcasts_is_asked_in_the_new_way(
    worker: Worker, changes: dict[str, Any]
) -> None:
    first = replace(worker._parts.settings, megaphone_api_url="http://a.example/")
    await worker.reload(first)
    polling = worker._polling
    await worker.reload(first)
    assert worker._polling is polling
    await worker.reload(replace(first, **changes))
    assert worker._polling is not polling


@pytest.mark.parametrize(
    ("changes", "level"), [({"log_level": "error"}, "error"), ({"debug": True}, "debug")]
)
async def test_the_log_level_is_taken(
    worker: Worker, levels: list[str], changes: dict[str, Any], level: str
) -> None:
    await worker.reload(replace(worker._parts.settings, **changes))
    assert levels == [level]


# ── what changes, and the answer ──────────────────────────────────────────────────────────────────

STARTED: Final = Settings(port=0, max_requests=5)
PRESENT: Final = replace(STARTED, port=40_000)


def test_what_reloads_changes_and_the_rest_of_this_daemon_is_left_to_an_upgrade() -> None:
    read = replace(STARTED, max_requests=7, workers=3, store="sqlite:///x")
    change = compare(PRESENT, STARTED, read)
    assert change == (replace(PRESENT, max_requests=7), ["max_requests"], ["workers", "store"])
    of_a_node = replace(PRESENT, command="connection")
    assert compare(of_a_node, STARTED, replace(STARTED, max_requests=7)).changed == []
    assert compare(PRESENT, STARTED, STARTED) == (PRESENT, [], [])


def test_a_list_that_decides_how_a_port_speaks_reloads_only_where_there_was_and_is_one() -> None:
    one, other = (replace(STARTED, client_certs={name: ("AA",)}) for name in "ab")
    assert compare(one, one, other).changed == ["client_certs"]
    for before, after in ((STARTED, one), (one, STARTED)):
        assert compare(before, before, after)[1:] == ([], ["client_certs"])


class Reloads:
    """A `Reloading` whose files a test writes."""

    def __init__(self) -> None:
        self.file: Settings | StartupError = replace(STARTED, max_requests=7, workers=3)
        self.outcomes: list[ReloadAnswer] = []
        self.own = Reloading(PRESENT, STARTED, self._read, answer=self.outcomes.append)

    def _read(self) -> Settings:
        if isinstance(self.file, StartupError):
            raise self.file
        return self.file

    @property
    def answer(self) -> str:
        (outcome,) = self.outcomes
        return str(outcome)


@pytest.fixture
def reloads() -> Reloads:
    return Reloads()


def test_the_answer_names_what_changed_when_all_workers_have_taken_it(reloads: Reloads) -> None:
    settings = reloads.own.begin([0, 1])
    assert settings == replace(PRESENT, max_requests=7)
    reloads.own.note(0, WorkerReply(True, ["ssl_cert: bad; the former one stays in use"]))
    assert reloads.outcomes == []
    assert reloads.own.settings == PRESENT
    reloads.own.note(1, WorkerReply(True))
    assert reloads.own.settings == settings
    assert reloads.answer == (
        "Reloaded; changed: max_requests\n"
        "Needs an upgrade (autopush upgrade): workers\n"
        "worker 0: ssl_cert: bad; the former one stays in use"
    )


def test_with_a_file_that_cannot_be_used_the_workers_keep_their_settings(reloads: Reloads) -> None:
    reloads.file = StartupError("autopush.toml:3: unknown option 'x'")
    assert reloads.own.begin([0]) is PRESENT
    reloads.own.note(0, WorkerReply(True))
    assert reloads.own.settings is PRESENT
    assert reloads.answer == (
        "Not reloaded; the former settings stay in use:\nautopush.toml:3: unknown option 'x'"
    )


def test_settings_that_not_all_workers_take_are_not_those_of_later_ones(reloads: Reloads) -> None:
    reloads.own.begin([0, 1, 2])
    reloads.own.note(0, WorkerReply(True))
    for worker in (1, 2):
        reloads.own.note(worker, WorkerReply(False, ["megaphone_api_url: the answer is 500"]))
    assert reloads.own.settings is PRESENT
    assert reloads.answer.splitlines()[1:] == [
        "worker 1, 2: megaphone_api_url: the answer is 500",
        "the other workers have the new settings until they are restarted",
    ]


def test_a_silent_worker_is_named_in_time(reloads: Reloads) -> None:
    reloads.own.begin([0, 1])
    reloads.own.note(0, WorkerReply(True))
    due = reloads.own.due
    assert due is not None
    reloads.own.expire(due - 0.01)
    assert reloads.outcomes == []
    reloads.own.expire(due)
    assert f"worker 1: it has not answered within {REPLY_TIMEOUT:g} seconds" in reloads.answer
    reloads.own.note(1, WorkerReply(True))  # too late
    assert len(reloads.outcomes) == 1


def test_a_reload_asked_for_during_another_one_follows_it(reloads: Reloads) -> None:
    reloads.own.begin([0])
    assert reloads.own.begin([0]) is None
    wanted = [reloads.own.is_wanted]
    reloads.own.note(0, WorkerReply(True))
    wanted.append(reloads.own.is_wanted)
    reloads.own.begin([0])
    reloads.own.note(0, WorkerReply(True))
    wanted.append(reloads.own.is_wanted)
    assert wanted == [False, True, False]
    assert [outcome.changed for outcome in reloads.outcomes] == [["max_requests"], []]


def test_a_worker_that_starts_meanwhile_is_waited_for_and_one_that_ends_is_not(
    reloads: Reloads,
) -> None:
    reloads.own.begin([0, 1])
    reloads.own.note(1, None)
    assert reloads.own.wanted is not None
    reloads.own.expect(1)
    reloads.own.note(0, WorkerReply(True))
    assert reloads.outcomes == []
    reloads.own.note(1, WorkerReply(True))
    assert reloads.outcomes[0].is_applied
