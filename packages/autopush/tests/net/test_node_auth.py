"""Sessions between nodes: who gets one, and which messages count in it."""

from collections.abc import Sequence

import pytest

from autopush.net.node_auth import (
    Call,
    CallerSession,
    HandshakeFailed,
    InstanceGone,
    Opened,
    Sessions,
    Unauthenticated,
    instance_url,
    is_instance_path,
    new_instance,
)
from support.cases import cases

OLD, NEW, FOREIGN = b"old key", b"new key", b"key of another service"
HERE, BASE = "this-instance", "/i/this-instance"
PATH = f"{BASE}/push/0123"
BODY = b"a notification"


def handshake(caller: CallerSession, sessions: Sessions) -> None:
    path, signature = caller.opening()
    opened = sessions.receive("GET", path, b"", signature)
    assert isinstance(opened, Opened)
    caller.opened(opened.status, opened.session.encode(), opened.proof)


def session_between(
    caller_keys: Sequence[bytes], own_keys: Sequence[bytes], instance: str = HERE
) -> tuple[CallerSession, Sessions]:
    caller, sessions = CallerSession(caller_keys, BASE), Sessions(own_keys, instance)
    handshake(caller, sessions)
    return caller, sessions


def call(caller: CallerSession, sessions: Sessions) -> tuple[int, Call]:
    number, signature = caller.sign("PUT", PATH, BODY)
    received = sessions.receive("PUT", PATH, BODY, signature)
    assert isinstance(received, Call)
    return number, received


# ── The handshake ─────────────────────────────────────────────────────────────────────────────────


def test_an_instance_has_a_name_of_its_own() -> None:
    names = {new_instance() for _ in range(100)}
    assert len(names) == 100
    for name in names:
        url = instance_url("http://node:8081", name)
        assert is_instance_path(url.removeprefix("http://node:8081"))


@pytest.mark.parametrize(
    ("caller_keys", "own_keys"),
    [
        ([NEW], [NEW]),
        ([NEW, OLD], [OLD]),
        ([OLD], [NEW, OLD]),
        ([NEW, OLD], [OLD, NEW]),
        ([FOREIGN, OLD], [NEW, OLD]),
    ],
)
def test_nodes_with_any_key_in_common_have_a_session(
    caller_keys: list[bytes], own_keys: list[bytes]
) -> None:
    caller, sessions = session_between(caller_keys, own_keys)
    number, received = call(caller, sessions)
    assert received.path == "/push/0123"
    assert caller.is_authentic(number, 200, b"text", received.proof(200, b"text"))


def test_a_caller_without_a_known_key_is_refused_and_leaves_nothing() -> None:
    sessions = Sessions([NEW, OLD], HERE)
    path, signature = CallerSession([FOREIGN], BASE).opening()
    with pytest.raises(Unauthenticated, match="no crypto_key in common"):
        sessions.receive("GET", path, b"", signature)
    assert len(sessions) == 0


def test_a_caller_learns_that_its_key_is_refused() -> None:
    with pytest.raises(HandshakeFailed, match="refuses the crypto_key"):
        CallerSession([FOREIGN], BASE).opened(401, b"Not a call of a node", "")


@cases("proof", ["", "0" * 32, "é" * 32])
@cases("status", [200, 404])
def test_what_a_stranger_responds_is_no_session_and_no_sign_that_the_node_is_gone(
    status: int, proof: str
) -> None:
    with pytest.raises(HandshakeFailed, match="another program"):
        CallerSession([NEW], BASE).opened(status, b"0" * 32, proof)


def test_a_response_to_another_caller_is_no_session() -> None:
    sessions, first = Sessions([NEW], HERE), CallerSession([NEW], BASE)
    path, signature = first.opening()
    opened = sessions.receive("GET", path, b"", signature)
    assert isinstance(opened, Opened)
    with pytest.raises(HandshakeFailed):
        CallerSession([NEW], BASE).opened(opened.status, opened.session.encode(), opened.proof)


def test_another_instance_with_a_known_key_says_that_it_is_another_one() -> None:
    sessions, caller = Sessions([NEW], "started-since"), CallerSession([NEW], BASE)
    with pytest.raises(InstanceGone):
        handshake(caller, sessions)
    assert len(sessions) == 0


def test_the_oldest_session_is_forgotten_when_there_are_too_many() -> None:
    sessions = Sessions([NEW], HERE, max_sessions=2)
    callers = [CallerSession([NEW], BASE) for _ in range(3)]
    for caller in callers:
        handshake(caller, sessions)
    assert len(sessions) == 2
    with pytest.raises(Unauthenticated, match="unknown session"):
        call(callers[0], sessions)
    for caller in callers[1:]:
        call(caller, sessions)


# ── Messages ──────────────────────────────────────────────────────────────────────────────────────


def test_a_repeated_request_is_refused() -> None:
    caller, sessions = session_between([NEW], [NEW])
    signatures = [caller.sign("PUT", PATH, BODY)[1] for _ in range(3)]
    sessions.receive("PUT", PATH, BODY, signatures[1])
    for signature in signatures[:2]:
        with pytest.raises(Unauthenticated, match="repeated"):
            sessions.receive("PUT", PATH, BODY, signature)
    sessions.receive("PUT", PATH, BODY, signatures[2])


@cases(
    ("method", "path", "body"),
    [
        ("DELETE", PATH, BODY),
        ("PUT", f"{BASE}/push/4567", BODY),
        ("PUT", "/push/0123", BODY),
        ("PUT", "/i/another/push/0123", BODY),
        ("PUT", PATH, b"another notification"),
        ("PUT", PATH, b""),
    ],
)
def test_a_signature_is_of_one_request_only(method: str, path: str, body: bytes) -> None:
    caller, sessions = session_between([NEW], [NEW])
    _, signature = caller.sign("PUT", PATH, BODY)
    with pytest.raises(Unauthenticated):
        sessions.receive(method, path, body, signature)
    sessions.receive("PUT", PATH, BODY, signature)


@cases(
    "change",
    [
        lambda text: "",
        lambda text: text.replace("autopush-node", "Bearer"),
        lambda text: text.rpartition(".")[0],
        lambda text: f"{text}.0",
        lambda text: text[:-1],
        lambda text: f"{text[:-1]}é",
        lambda text: text.replace(".1.", ".2."),
        lambda text: text.replace(".1.", ".x."),
        lambda text: text.replace(".1.", ".¹."),
    ],
)
def test_a_changed_signature_is_refused(change: object) -> None:
    assert callable(change)
    caller, sessions = session_between([NEW], [NEW])
    _, signature = caller.sign("PUT", PATH, BODY)
    with pytest.raises(Unauthenticated):
        sessions.receive("PUT", PATH, BODY, change(signature))


def test_a_request_of_an_earlier_instance_is_refused() -> None:
    caller, _ = session_between([NEW], [NEW])
    _, signature = caller.sign("PUT", PATH, BODY)
    with pytest.raises(Unauthenticated, match="unknown session"):
        Sessions([NEW], HERE).receive("PUT", PATH, BODY, signature)


def test_only_the_response_to_that_request_is_authentic() -> None:
    caller, sessions = session_between([NEW], [NEW])
    first, received = call(caller, sessions)
    second, _ = call(caller, sessions)
    proof = received.proof(404, b"text")
    assert caller.is_authentic(first, 404, b"text", proof)
    for number, status, body, other in (
        (second, 404, b"text", proof),
        (first, 200, b"text", proof),
        (first, 404, b"", proof),
        (first, 404, b"text", ""),
        (first, 404, b"text", proof[:-1]),
        (first, 404, b"text", "é" * 32),
    ):
        assert not caller.is_authentic(number, status, body, other)


def test_the_request_is_no_proof_of_the_response() -> None:
    caller, sessions = session_between([NEW], [NEW])
    number, signature = caller.sign("PUT", PATH, BODY)
    sessions.receive("PUT", PATH, BODY, signature)
    assert not caller.is_authentic(number, 200, BODY, signature.rpartition(".")[2])
