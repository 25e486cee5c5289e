"""Broadcasts and subscriptions: who is told which version, and how often."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from autopush.protocol import broadcasts as module
from autopush.protocol.broadcasts import (
    NO_BROADCASTS,
    NOT_FOUND,
    TOO_MANY,
    Broadcasts,
    Subscriptions,
)
from autopush.telemetry.metrics import Counter
from support.cases import cases
from support.soak import examples


def subscribed(broadcasts: Broadcasts, **known: str) -> Subscriptions:
    return broadcasts.no_subscriptions.add(known)[0]


def changes(subscriptions: Subscriptions) -> dict[str, object]:
    return subscriptions.take_changes()[1]


@cases("known", [None, 3, ["2"], {}, True])
def test_what_is_no_text_is_no_version(known: object) -> None:
    broadcasts = Broadcasts({"a": "2"})
    assert broadcasts.no_subscriptions.add({"a": known})[1] == {"a": "2"}


@cases("wanted", [None, {}, [], ["a"], "a", 3])
def test_what_is_no_object_has_no_ids(wanted: object) -> None:
    broadcasts = Broadcasts({"a": "2"})
    assert broadcasts.no_subscriptions.add(wanted) == (broadcasts.no_subscriptions, {})


def test_a_user_agent_subscribes_to_so_many_ids_and_no_more() -> None:
    versions = {f"id-{number}": "1" for number in range(7)}
    refused = Counter(0.0)
    broadcasts = Broadcasts(versions, max_names=5, refused=refused)
    first = {name: version for name, version in versions.items() if name < "id-4"}
    subscriptions, news = broadcasts.no_subscriptions.add(first)
    assert (news, refused.value) == ({}, 0)
    further = dict.fromkeys(["id-4", "id-5", "id-6"], "1")
    subscriptions, news = subscriptions.add(further)
    assert news == {"errors": dict.fromkeys(["id-5", "id-6"], TOO_MANY)}
    assert refused.value == 1
    broadcasts.update(dict.fromkeys(versions, "2"))
    assert len(changes(subscriptions)) == 5
    assert subscriptions.add({"id-0": "1"})[1]["id-0"] == "2", (
        "one that it has is not a further one"
    )


@pytest.mark.parametrize("known", [True, False])
def test_one_message_names_so_many_ids_and_the_rest_is_not_answered(known: bool) -> None:
    wanted = {f"id-{number}": "1" for number in range(5000)}
    refused = Counter(0.0)
    broadcasts = Broadcasts(wanted if known else {}, max_names=3, refused=refused)
    subscriptions, news = broadcasts.no_subscriptions.add(wanted)
    errors = {} if known else dict.fromkeys(["id-0", "id-1", "id-2"], NOT_FOUND)
    assert news == {"errors": errors | {"id-3": TOO_MANY}}
    assert refused.value == 1
    broadcasts.update(dict.fromkeys(wanted, "2"))
    assert len(changes(subscriptions)) == 3 * known


def test_ids_that_the_source_has_left_out_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_KNOWN", 3)
    broadcasts = Broadcasts({"a": "1", "b": "1"})
    subscriptions = subscribed(broadcasts, a="1", b="1")
    broadcasts.update({"b": "1", "c": "1"})
    assert broadcasts.find("a")
    broadcasts.update({"b": "2", "d": "1"})
    assert [bool(broadcasts.find(name)) for name in "abcd"] == [False, True, False, True]
    assert changes(subscriptions) == {"b": "2"}


def test_user_agents_with_the_same_subscriptions_share_them() -> None:
    broadcasts = Broadcasts({"a": "1"})
    one, other = subscribed(broadcasts, a="1"), subscribed(broadcasts, a="0")
    assert one is other
    broadcasts.update({"a": "2"})
    assert one.take_changes()[0] is other.take_changes()[0] is not one


def test_shared_subscriptions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SHARED", 2)
    broadcasts = Broadcasts(dict.fromkeys("abcdef", "1"))
    made = {name: subscribed(broadcasts, **{name: "1"}) for name in "abcdef"}
    assert len(broadcasts._shared) <= 2
    broadcasts.update(dict.fromkeys("abcdef", "2"))
    for name, subscriptions in made.items():
        assert changes(subscriptions) == {name: "2"}


def test_without_a_source_no_id_is_found() -> None:
    subscriptions, news = NO_BROADCASTS.no_subscriptions.add({"a": "1"})
    assert news == {"errors": {"a": NOT_FOUND}}
    assert changes(subscriptions) == {}


# ── any order ─────────────────────────────────────────────────────────────────────────────────────

IDS = st.sampled_from("abcd")
VERSIONS = st.sampled_from("123")


class Client:
    """A user agent: the ids it has subscribed to with the version it knows, and those of them that
    have changed since it was told last.
    """

    def __init__(self, broadcasts: Broadcasts) -> None:
        self.subscriptions = broadcasts.no_subscriptions
        self.knows: dict[str, object] = {}
        self.pending: set[str] = set()


class AnyOrder(RuleBasedStateMachine):
    """Changes at the source, polls, ticks and subscriptions of user agents in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.source: dict[str, str] = {}
        self.broadcasts = Broadcasts()
        self.known: dict[str, str] = {}
        self.clients = [Client(self.broadcasts), Client(self.broadcasts)]

    @rule(name=IDS, version=VERSIONS)
    def change(self, name: str, version: str) -> None:
        self.source[name] = version

    @rule(name=IDS)
    def leave_out(self, name: str) -> None:
        self.source.pop(name, None)

    @rule()
    def poll(self) -> None:
        changed = {name for name in self.source if self.known.get(name) != self.source[name]}
        self.known |= self.source
        assert self.broadcasts.update(self.source) == len(changed)
        for client in self.clients:
            client.pending |= changed & client.knows.keys()

    @rule(number=st.integers(0, 1), wanted=st.dictionaries(IDS, VERSIONS | st.none()))
    def subscribe(self, number: int, wanted: dict[str, Any]) -> None:
        client = self.clients[number]
        client.subscriptions, news = client.subscriptions.add(wanted)
        unknown = wanted.keys() - self.known.keys()
        assert news.pop("errors", {}) == dict.fromkeys(unknown, NOT_FOUND)
        client.knows |= {name: wanted[name] for name in wanted.keys() - unknown}
        outdated = {name for name in wanted if client.knows.get(name) != self.known.get(name)}
        self.told(client, news, outdated | client.pending - wanted.keys())

    @rule(number=st.integers(0, 1))
    def tick(self, number: int) -> None:
        client = self.clients[number]
        client.subscriptions, news = client.subscriptions.take_changes()
        self.told(client, news, client.pending)

    def told(self, client: Client, news: dict[str, object], expected: set[str]) -> None:
        """Exactly these ids with their newest versions; with them the client knows all it wants."""
        assert news == {name: self.known[name] for name in expected}
        client.pending = set()
        client.knows |= news
        assert client.knows == {name: self.known[name] for name in client.knows}


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=examples(200, 200), stateful_step_count=30, deadline=None
)
