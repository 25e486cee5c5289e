"""The opening handshake: what is accepted, and that all else is a 400 or 426 that says why."""

from hypothesis import given
from hypothesis import strategies as st

from autopush.net.frames import HandshakeAnswer, answer_handshake
from support.cases import cases

GOOD = {
    "host": "push.example.com",
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def judge(
    changes: dict[str, str | None] | None = None,
    *,
    method: str = "GET",
    version: str = "1.1",
    subprotocols: tuple[str, ...] = (),
) -> HandshakeAnswer:
    headers = {**GOOD, **(changes or {})}
    return answer_handshake(
        method,
        version,
        {name: value for name, value in headers.items() if value is not None},
        subprotocols=subprotocols,
    )


def test_the_example_of_the_rfc() -> None:
    assert judge() == HandshakeAnswer(
        101,
        (
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ),
    )


@cases(
    "changes",
    [
        {"upgrade": "WebSocket"},
        {"upgrade": "h2c, websocket"},
        {"connection": "keep-alive, Upgrade"},
        {"connection": "upgrade"},
        {"connection": "keep-alive,\tUPGRADE ,"},
        {"sec-websocket-version": " 13 "},
        {"sec-websocket-key": " dGhlIHNhbXBsZSBub25jZQ== "},
        {"origin": "https://anywhere.example"},
        {"host": None},
    ],
)
def test_forms_that_are_accepted(changes: dict[str, str | None]) -> None:
    assert judge(changes).accepted


@cases(
    ("changes", "status", "named"),
    [
        ({"upgrade": None}, 426, "Upgrade"),
        ({"upgrade": "h2c"}, 426, "Upgrade"),
        ({"upgrade": "websockets"}, 426, "Upgrade"),
        ({"connection": None}, 426, "Connection"),
        ({"connection": "close"}, 426, "Connection"),
        ({"connection": "no-upgrade"}, 426, "Connection"),
        ({"sec-websocket-version": None}, 426, "Sec-WebSocket-Version"),
        ({"sec-websocket-version": "8"}, 426, "Sec-WebSocket-Version"),
        ({"sec-websocket-version": "13, 13"}, 426, "Sec-WebSocket-Version"),
        ({"sec-websocket-key": None}, 400, "Sec-WebSocket-Key"),
        ({"sec-websocket-key": ""}, 400, "Sec-WebSocket-Key"),
        ({"sec-websocket-key": "dGhlIHNhbXBsZSBub25j"}, 400, "Sec-WebSocket-Key"),
        ({"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZWQh"}, 400, "Sec-WebSocket-Key"),
        ({"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=!"}, 400, "Sec-WebSocket-Key"),
        ({"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ"}, 400, "Sec-WebSocket-Key"),
        ({"sec-websocket-key": "dGhlIHNhbXBsZSBub25j\u00fc\u00fc=="}, 400, "Sec-WebSocket-Key"),
        (
            {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==, dGhlIHNhbXBsZSBub25jZQ=="},
            400,
            "Sec-WebSocket-Key",
        ),
    ],
)
def test_refusals_name_what_was_expected(
    changes: dict[str, str | None], status: int, named: str
) -> None:
    answer = judge(changes)
    assert answer.status == status
    assert named in answer.reason


def test_another_method_or_http_version_is_a_bad_request() -> None:
    for answer in (judge(method="POST"), judge(version="1.0"), judge(version="2")):
        assert answer.status == 400


def test_a_426_says_what_to_upgrade_to_and_a_wrong_version_which_is_right() -> None:
    plain, old = judge({"upgrade": None}), judge({"sec-websocket-version": "8"})
    for answer in (plain, old):
        assert ("Upgrade", "websocket") in answer.headers
    assert ("Sec-WebSocket-Version", "13") in old.headers


@cases(
    ("offer", "supported", "chosen"),
    [
        ("push-notification", ("push-notification",), "push-notification"),
        ("chat, push-notification", ("push-notification",), "push-notification"),
        ("b,a", ("a", "b"), "a"),
        ("chat", ("push-notification",), None),
        ("Push-Notification", ("push-notification",), None),
        ("", ("push-notification",), None),
        (None, ("push-notification",), None),
        ("push-notification", (), None),
    ],
)
def test_a_subprotocol_is_echoed_when_offered_and_missing_otherwise(
    offer: str | None, supported: tuple[str, ...], chosen: str | None
) -> None:
    answer = judge({"sec-websocket-protocol": offer}, subprotocols=supported)
    assert answer.accepted
    assert dict(answer.headers).get("Sec-WebSocket-Protocol") == chosen


def test_extensions_are_never_agreed_to() -> None:
    answer = judge({"sec-websocket-extensions": "permessage-deflate; client_max_window_bits"})
    assert answer.accepted
    assert "Sec-WebSocket-Extensions" not in dict(answer.headers)


@given(
    st.text(),
    st.text(),
    st.dictionaries(st.sampled_from([*GOOD, "sec-websocket-protocol"]), st.text()),
)
def test_whatever_comes_the_answer_is_acceptance_400_or_426(
    method: str, version: str, headers: dict[str, str]
) -> None:
    for answer in (
        answer_handshake(method, version, headers),
        answer_handshake("GET", "1.1", {**GOOD, **headers}, subprotocols=("push-notification",)),
    ):
        assert answer.status in (101, 400, 426)
        for name, value in answer.headers:
            assert (name + value).isascii()
            assert (name + value).isprintable()
