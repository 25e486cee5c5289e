"""Log lines about requests: when there is one, what it says, and what it never says."""

import json
import platform
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from autopush.api.request_log import LINES_PER_SECOND, MAX_TEXT, RequestLog, shown_path
from autopush.api.responses import ErrorResponses
from autopush.bridges.stub import StubRouter
from autopush.net.http_messages import Request
from autopush.store.tables import uaid_hasher, uaid_log_hasher
from autopush.telemetry import logs
from autopush.telemetry.metric_table import REQUEST_REFUSED
from autopush.webpush.errors import Errno, PushError
from autopush.webpush.tokens import EndpointTokens
from keytables import Throttled, Unavailable
from support.cases import cases
from support.clocks import ManualClock
from support.connection_harness import CHANNEL, ENDPOINT, ERRORS, UAID, Harness
from support.endpoint_harness import AES128GCM, Endpoint, headers_of
from support.log_lines import LogFile
from support.recorded import recorded
from support.senders import Sender

HASH = sha256(UAID.encode()).hexdigest()
TOKEN = "device-token-1"


@pytest.fixture
def lines_at(tmp_path: Path) -> Iterator[Callable[[str], LogFile]]:
    """Logs of a level."""
    yield lambda level: LogFile(tmp_path, level=level)
    logs.shutdown()


@pytest.fixture
def lines(lines_at: Callable[[str], LogFile]) -> LogFile:
    return lines_at("debug")


def vapid(harness: Harness, sender: Sender, **claims: object) -> str:
    valid = {"aud": ENDPOINT, "exp": int(harness.clock()) + 60, "sub": "mailto:ops@example.com"}
    return sender.vapid(valid | claims)


# ── which requests have a line ────────────────────────────────────────────────────────────────────


async def test_without_debug_only_failures_of_the_service_have_a_line(
    harness: Harness, lines_at: Callable[[str], LogFile]
) -> None:
    lines = lines_at("info")
    endpoint = Endpoint(harness)
    await harness.known_user()
    assert (await endpoint.push()).status == 201
    assert (await endpoint.ask("POST", "/wpush/v1/nonsense")).status == 404
    assert (await endpoint.ask("GET", "/status")).status == 200
    assert lines.records == []
    harness.engine.fail("get router", Throttled("full"))
    assert (await endpoint.push()).status == 503
    assert [fields["level"] for fields in lines.all_fields] == ["warning"]


async def test_a_delivered_a_stored_and_a_discarded_message_have_a_line_of_debug(
    harness: Harness, lines: LogFile
) -> None:
    endpoint = Endpoint(harness)
    await harness.known_user()
    assert (await endpoint.push()).status == 201
    assert (await endpoint.push({"ttl": "0"})).status == 201
    agent = await harness.subscribed()
    assert (await endpoint.push(uaid=agent.uaid)).status == 201
    pushes = [fields for fields in lines.all_fields if "router_type" in fields]
    assert [(fields["message"], fields["router_type"]) for fields in pushes] == [
        ("Router miss, message stored", "webpush"),
        ("Router miss, message discarded", "webpush"),
        ("Successful delivery", "webpush"),
    ]
    assert {fields["level"] for fields in pushes} == {"debug"}


async def test_a_message_through_a_bridge_has_a_line_of_debug(
    harness: Harness, lines: LogFile
) -> None:
    endpoint = Endpoint(harness, routers={"stub": StubRouter()})
    body = json.dumps({"token": TOKEN}).encode()
    reply = json.loads((await endpoint.ask("POST", "/v1/stub/a/registration", {}, body)).body)
    path = reply["endpoint"].removeprefix(ENDPOINT)
    assert (await endpoint.ask("POST", path, AES128GCM)).status == 201
    fields = lines.all_fields[-1]
    assert (fields["message"], fields["router_type"]) == ("Successful delivery", "stub")
    assert TOKEN not in lines.text


async def test_a_version_of_simplepush_has_a_line_of_debug(
    harness: Harness, lines: LogFile
) -> None:
    endpoint = Endpoint(harness)
    await harness.store.users.create_simplepush(UAID, "http://other:1", 5, None)
    path = endpoint.tokens.simplepush_url(UAID, CHANNEL).removeprefix(ENDPOINT)
    assert (await endpoint.ask("PUT", path, body=b"version=3")).status == 202
    (fields,) = lines.all_fields
    assert fields["message"] == "Router miss, message stored"
    assert (fields["router_type"], fields["uaid_hash"]) == ("simplepush", HASH)


# ── what a line says ──────────────────────────────────────────────────────────────────────────────


async def test_a_line_describes_the_client_its_message_and_its_sender(
    harness: Harness, lines: LogFile
) -> None:
    endpoint = Endpoint(harness)
    await harness.known_user()
    authorization = vapid(harness, Sender())
    headers = AES128GCM | {"authorization": authorization, "user-agent": "pusher/1"}
    assert (await endpoint.push(headers, b"x" * 100)).status == 201
    (fields,) = lines.all_fields
    assert len(fields.pop("request_id")) == 36
    times = [fields.pop(name) for name in ("validation_time", "route_time", "request_time")]
    assert times[0] + times[1] == pytest.approx(times[2])
    assert min(times) > 0
    assert fields == {
        "message": "Router miss, message stored",
        "level": "debug",
        "remote_ip": "::1",
        "user_agent": "pusher/1",
        "method": "POST",
        "uri": "/wpush/v1/*",
        "python_version": platform.python_version(),
        "ami_id": "ami-1",
        "message_ttl": "60",
        "message_size": 100,
        "encoding": "aes128gcm",
        "uaid_hash": HASH,
        "channel_id": CHANNEL,
        "jwt_aud": ENDPOINT,
        "jwt_exp": int(harness.clock()) + 60,
        "jwt_sub": "mailto:ops@example.com",
        "router_type": "webpush",
    }


async def test_a_refusal_says_why(harness: Harness, lines: LogFile) -> None:
    endpoint = Endpoint(harness)
    await harness.known_user()
    authorization = vapid(harness, Sender(), aud="https://elsewhere.example")
    response = await endpoint.push(AES128GCM | {"authorization": authorization})
    assert response.status == 401
    (fields,) = lines.all_fields
    assert (fields["message"], fields["level"]) == ("Request refused", "debug")
    assert (fields["status_code"], fields["errno"]) == (401, 109)
    assert fields["reason"] == json.loads(response.body)["message"]
    assert (fields["jwt_aud"], fields["router_type"]) == ("https://elsewhere.example", "webpush")


async def test_a_refusal_for_the_store_names_its_error(harness: Harness, lines: LogFile) -> None:
    harness.engine.fail("get router", Unavailable("gone"))
    assert (await Endpoint(harness).push()).status == 503
    (fields,) = lines.all_fields
    assert (fields["errno"], fields["cause"]) == (202, "Unavailable")


async def test_a_refusal_of_a_bridge_names_the_router_type(
    harness: Harness, lines: LogFile
) -> None:
    endpoint = Endpoint(harness, routers={"stub": StubRouter()})
    body = json.dumps({"token": "outage-token"}).encode()
    reply = json.loads((await endpoint.ask("POST", "/v1/stub/a/registration", {}, body)).body)
    path = reply["endpoint"].removeprefix(ENDPOINT)
    assert (await endpoint.ask("POST", path, AES128GCM)).status == 502
    fields = lines.all_fields[-1]
    assert (fields["level"], fields["router_type"], fields["errno"]) == ("warning", "stub", 902)
    assert "outage-token" not in lines.text


async def test_with_a_key_hash_a_line_has_the_key_of_the_router_record() -> None:
    assert uaid_log_hasher("secret")(UAID) == uaid_hasher("secret")(UAID)
    assert uaid_log_hasher("")(UAID) == HASH


async def test_values_of_a_client_are_cut(harness: Harness, lines: LogFile) -> None:
    endpoint = Endpoint(harness)
    long = "x" * 10_000
    authorization = vapid(harness, Sender(), sub=long[:2000])  # a longer header is refused
    headers = {"user-agent": long, "content-encoding": long, "authorization": authorization}
    await endpoint.push(headers | {"ttl": long})
    (fields,) = lines.all_fields
    for name in ("user_agent", "encoding", "message_ttl", "jwt_sub"):
        assert fields[name] == "x" * MAX_TEXT


@pytest.mark.parametrize("claims", [{"sub": ["a"], "aud": {"b": 1}}, {"sub": None}, {}])
async def test_claims_that_are_no_text_or_number_are_left_out(
    harness: Harness, lines: LogFile, claims: dict[str, object]
) -> None:
    await Endpoint(harness).push({"authorization": Sender().vapid(claims)})
    (fields,) = lines.all_fields
    assert not any(name.startswith("jwt_") for name in fields)


@pytest.mark.parametrize("authorization", ["", "vapid", "vapid t=a,k=b", "Bearer \xe9.b.c", "x y"])
async def test_credentials_that_are_none_leave_a_line_without_claims(
    harness: Harness, lines: LogFile, authorization: str
) -> None:
    await harness.known_user()
    headers = {"ttl": "60", "authorization": authorization}
    assert (await Endpoint(harness).push(headers)).status == 401
    (fields,) = lines.all_fields
    assert fields["errno"] == 109
    assert not any(name.startswith("jwt_") for name in fields)


# ── what no line says ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("failure", [None, Throttled("full"), RuntimeError("a bug")])
async def test_no_line_holds_an_endpoint_a_message_id_a_uaid_or_a_credential(
    harness: Harness, lines: LogFile, failure: Exception | None
) -> None:
    endpoint = Endpoint(harness)
    await harness.known_user()
    authorization = vapid(harness, Sender())
    headers = AES128GCM | {"authorization": authorization, "cookie": "geheim"}
    message_id = headers_of(await endpoint.push(headers, b"payload"))["location"].rpartition("/")[2]
    if failure is not None:
        harness.engine.fail("get router", failure)
    path = endpoint.path()
    await endpoint.ask("POST", path, headers, b"payload")
    for method, where in (
        ("GET", path),
        ("POST", f"{path}/more"),
        ("POST", path.replace("/v1/", "/")),
        ("POST", path.replace("/wpush/v1/", "/")),
        ("POST", path.replace("wpush", "other")),
        ("POST", path.replace("/wpush", "//wpush")),
        ("DELETE", f"/m/{message_id}"),
        ("GET", f"/m/{message_id}"),
        ("GET", f"/v1/webpush/a/registration/{UAID}"),
    ):
        await endpoint.ask(method, where, headers)
    assert len(lines.records) >= 9
    token = path.rpartition("/")[2]
    jwt = authorization.partition("t=")[2].partition(",")[0]
    for secret in (token, message_id, UAID, jwt, "geheim", "payload"):
        assert secret not in lines.text


@cases(
    ("path", "shown"),
    [
        ("/", "/"),
        ("/status", "/status"),
        ("/wpush/v2/gAAAA", "/wpush/v2/*"),
        ("/wpush/gAAAA", "/wpush/*"),
        ("/gAAAA", "/*"),
        ("/m/gAAAA", "/m/*"),
        ("/v1/fcm/app/registration/ab/subscription/cd", "/v1/fcm/*/registration/*/subscription/*"),
        ("/v1/err/crit", "/v1/err/crit"),
        ("/" + "a/" * 1000, "/" + "/".join("*" * 9)),
        ("", ""),
    ],
)
def test_of_a_path_only_known_words_are_shown(path: str, shown: str) -> None:
    assert shown_path(path) == shown


# ── request ids ───────────────────────────────────────────────────────────────────────────────────


async def test_a_refusal_that_is_the_services_fault_carries_the_id_of_its_line(
    harness: Harness, lines: LogFile
) -> None:
    endpoint = Endpoint(harness)
    for _ in range(2):
        harness.engine.fail("get router", Unavailable("gone"))
        response = await endpoint.push()
        assert response.status == 503
        assert headers_of(response)["x-request-id"] == lines.all_fields[-1]["request_id"]
    assert lines.all_fields[0]["request_id"] != lines.all_fields[1]["request_id"]


async def test_other_responses_have_no_id(harness: Harness, lines: LogFile) -> None:
    endpoint = Endpoint(harness)
    await harness.known_user()
    for response in (await endpoint.push(), await endpoint.ask("GET", "/nothing")):
        assert "x-request-id" not in headers_of(response)


async def test_a_request_that_fails_unexpectedly_is_500_with_the_id_of_its_traceback(
    harness: Harness, lines: LogFile
) -> None:
    harness.engine.fail("get router", RuntimeError("a bug"))
    response = await Endpoint(harness).push()
    assert (response.status, json.loads(response.body)["errno"]) == (500, 999)
    assert b"a bug" not in response.body
    headers = headers_of(response)
    (fields,) = lines.all_fields
    assert (fields["message"], fields["level"]) == ("Request failed", "error")
    assert fields["exception"].endswith("RuntimeError: a bug")
    assert headers["x-request-id"] == fields["request_id"]
    assert headers["access-control-allow-origin"] == "*"


# ── how many lines there are ──────────────────────────────────────────────────────────────────────


async def test_lines_of_one_errno_are_bounded_each_second_and_the_rest_is_counted(
    harness: Harness, lines: LogFile
) -> None:
    watch = ManualClock()
    tokens = EndpointTokens(harness.ring, ENDPOINT)
    requests = RequestLog(
        tokens, ErrorResponses(ERRORS), harness.store.uaid_hash, harness.metrics, monotonic=watch
    )
    request = Request("POST", "/wpush/v1/token", "", {}, "::1")
    full = PushError(Errno.BACK_OFF, "full")
    responses = [requests.refused(request, full) for _ in range(100)]
    assert all(headers_of(response)["x-request-id"] for response in responses)
    assert len(lines.records) == LINES_PER_SECOND
    requests.refused(request, PushError(Errno.RETRY, "another"))
    assert len(lines.records) == LINES_PER_SECOND + 1
    watch.now += 1
    requests.refused(request, full)
    assert lines.all_fields[-1]["suppressed"] == 100 - LINES_PER_SECOND
    requests.refused(request, full)
    assert "suppressed" not in lines.all_fields[-1]
    assert recorded(harness.metrics, REQUEST_REFUSED, errno=f"{full.errno:d}") >= 100


async def test_lines_of_one_unexpected_error_are_bounded_too(
    harness: Harness, lines: LogFile
) -> None:
    tokens = EndpointTokens(harness.ring, ENDPOINT)
    requests = RequestLog(
        tokens,
        ErrorResponses(ERRORS),
        harness.store.uaid_hash,
        harness.metrics,
        monotonic=ManualClock(),
    )
    request = Request("GET", "/", "", {}, "::1")
    for _ in range(100):
        requests.failed(LookupError(), request)
    assert len(lines.records) == LINES_PER_SECOND
