"""What the endpoint records of pushes: where they went, who sent them, why they were refused."""

import pytest

from autopush.bridges import RouterError
from autopush.telemetry.metric_table import (
    DROP_USER,
    ENCODING_AES128GCM,
    ENCODING_AESGCM,
    ENCODING_AESGCM128,
    NOTIFICATION_AUTH,
    NOTIFICATION_DATA,
    NOTIFICATION_ERROR,
    NOTIFICATION_RECEIVED,
    NOTIFICATION_SUCCESS,
    NOTIFICATION_TIME,
    VAPID_DRAFT_1,
    VAPID_DRAFT_2,
)
from autopush.telemetry.metrics import Metric
from autopush.webpush.errors import Errno
from keytables import Throttled, Unavailable
from support.connection_harness import ENDPOINT, UAID, Harness
from support.endpoint_harness import AES128GCM, Endpoint
from support.recorded import recorded
from support.scripted_router import ScriptedRouter
from support.senders import Sender

SENDER = Sender()
BODY = b"b" * 100


@pytest.fixture
def endpoint(harness: Harness) -> Endpoint:
    return Endpoint(
        harness, store_first=False, routers={"fcm": ScriptedRouter(), "own": ScriptedRouter()}
    )


def count(harness: Harness, metric: Metric, **labels: str) -> float:
    return recorded(harness.metrics, metric, **labels)


async def bridged(harness: Harness, router_type: str) -> None:
    await harness.bridged_user(router_type, {"token": "x"})


# ── Where they went ──────────────────────────────────────────────────────────────────────────────


def went(
    harness: Harness, destination: str, router: str = "webpush", size: int = len(BODY)
) -> bool:
    """Whether one message with that much data went there, and none elsewhere."""
    labels = {"destination": destination}
    found = [
        count(harness, NOTIFICATION_SUCCESS, **labels, router=router, vapid="False"),
        count(harness, NOTIFICATION_SUCCESS),
        count(harness, NOTIFICATION_DATA, **labels, platform=router),
        count(harness, NOTIFICATION_DATA),
    ]
    return found == [1, 1, size, size]


@pytest.mark.parametrize("store_first", [True, False])
async def test_a_message_that_a_user_agent_gets_at_once_is_direct(
    harness: Harness, store_first: bool
) -> None:
    agent = await harness.subscribed()
    endpoint = Endpoint(harness, store_first=store_first)
    assert (await endpoint.push(body=BODY, uaid=agent.uaid)).status == 201
    assert went(harness, "Direct")


@pytest.mark.parametrize(
    ("ttl", "destination", "size"), [("60", "Stored", len(BODY)), ("0", "Discarded", 0)]
)
async def test_a_message_waits_for_its_user_agent_or_is_discarded_and_is_no_data(
    harness: Harness, endpoint: Endpoint, ttl: str, destination: str, size: int
) -> None:
    await harness.known_user()
    harness.change_record(node_id=None)
    assert (await endpoint.push({**AES128GCM, "ttl": ttl}, BODY)).status == 201
    assert went(harness, destination, size=size)


@pytest.mark.parametrize(("router_type", "label"), [("fcm", "fcm"), ("own", "other")])
async def test_a_message_that_a_bridge_takes_is_direct(
    harness: Harness, endpoint: Endpoint, router_type: str, label: str
) -> None:
    await bridged(harness, router_type)
    assert (await endpoint.push(body=BODY)).status == 201
    assert went(harness, "Direct", label)


async def test_a_version_of_simplepush_counts_as_a_push(endpoint: Endpoint) -> None:
    agent = await endpoint.harness.identified(None, use_webpush=False)
    agent.register()
    await endpoint.harness.run_until_idle()
    path = endpoint.path(agent.uaid).replace("/wpush/v1/", "/spush/v1/")
    assert (await endpoint.ask("PUT", path, body=b"version=3&data=hello")).status == 200
    assert (await endpoint.ask("PUT", path, body=b"version=x")).status == 400
    assert count(endpoint.harness, NOTIFICATION_RECEIVED) == 2
    assert went(endpoint.harness, "Direct", "simplepush", size=5)
    assert count(endpoint.harness, NOTIFICATION_ERROR, code="400", router="simplepush") == 1


# ── Who sent them, and how ───────────────────────────────────────────────────────────────────────


def draft_2(harness: Harness) -> dict[str, str]:
    return {"authorization": SENDER.vapid({"aud": ENDPOINT, "exp": harness.clock() + 60})}


@pytest.mark.parametrize("scheme", ["bearer", "WebPush"])
async def test_a_sender_with_the_first_draft_is_counted_by_its_scheme(
    harness: Harness, endpoint: Endpoint, scheme: str
) -> None:
    await harness.known_user()
    token, key = draft_2(harness)["authorization"].removeprefix("vapid t=").split(",k=")
    headers = {"authorization": f"{scheme} {token}", "crypto-key": f"p256ecdsa={key}"}
    answer = await endpoint.push({"ttl": "60", **headers}, key=SENDER.point)
    assert answer.status == 201
    labels = {"vapid": "draft01", "scheme": scheme.lower()}
    assert count(harness, NOTIFICATION_AUTH, **labels) == count(harness, NOTIFICATION_AUTH) == 1
    assert count(harness, VAPID_DRAFT_1) == 1
    assert count(harness, VAPID_DRAFT_2) == 0
    assert count(harness, NOTIFICATION_SUCCESS, vapid="True") == 1


async def test_a_sender_as_of_rfc_8292_is_counted_at_each_push(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    for _ in range(3):
        headers = {"ttl": "60", **draft_2(endpoint.harness)}
        assert (await endpoint.push(headers, key=SENDER.point)).status == 201
    assert count(endpoint.harness, NOTIFICATION_AUTH, vapid="draft02", scheme="vapid") == 3
    assert count(endpoint.harness, VAPID_DRAFT_2) == 3
    assert count(endpoint.harness, VAPID_DRAFT_1) == 0


@pytest.mark.parametrize(
    ("metric", "headers"),
    [
        (ENCODING_AES128GCM, {"content-encoding": "aes128gcm"}),
        (
            ENCODING_AESGCM,
            {"content-encoding": "AESGCM", "encryption": "salt=aa", "crypto-key": "dh=aa"},
        ),
        (
            ENCODING_AESGCM128,
            {"content-encoding": "aesgcm128", "encryption": "salt=aa", "encryption-key": "dh=aa"},
        ),
    ],
    ids=["aes128gcm", "aesgcm", "aesgcm128"],
)
async def test_the_encoding_of_a_body_is_counted(
    harness: Harness, endpoint: Endpoint, metric: Metric, headers: dict[str, str]
) -> None:
    await harness.known_user()
    assert (await endpoint.push({"ttl": "60", **headers}, BODY)).status == 201
    assert (await endpoint.push({"ttl": "60", **headers})).status == 201  # without a body
    encodings = (ENCODING_AES128GCM, ENCODING_AESGCM, ENCODING_AESGCM128)
    assert [count(harness, each) for each in encodings] == [each is metric for each in encodings]


# ── Why they were refused ────────────────────────────────────────────────────────────────────────


async def test_a_push_that_is_refused_is_counted_with_its_status(
    harness: Harness, endpoint: Endpoint
) -> None:
    nonsense = await endpoint.ask("POST", "/wpush/v1/nonsense", {"ttl": "60"})
    unknown = await endpoint.push()
    await harness.known_user()
    too_large = await endpoint.push(body=b"x" * 5000)
    signed = await endpoint.push({"ttl": "x", **draft_2(harness)}, key=SENDER.point)
    assert [a.status for a in (nonsense, unknown, too_large, signed)] == [404, 410, 413, 400]
    none, webpush = {"router": "none", "vapid": "False"}, {"router": "webpush", "vapid": "False"}
    assert count(harness, NOTIFICATION_ERROR, code="404", **none) == 1
    assert count(harness, NOTIFICATION_ERROR, code="410", **none) == 1
    assert count(harness, NOTIFICATION_ERROR, code="413", **webpush) == 1
    assert count(harness, NOTIFICATION_ERROR, code="400", router="webpush", vapid="True") == 1
    assert count(harness, NOTIFICATION_ERROR) == 4
    assert count(harness, NOTIFICATION_RECEIVED) == 4
    assert count(harness, NOTIFICATION_SUCCESS) == 0
    assert count(harness, NOTIFICATION_AUTH) == 0


@pytest.mark.parametrize("error", [Throttled("full"), Unavailable("gone")])
async def test_a_store_that_fails_is_an_error_503(endpoint: Endpoint, error: Exception) -> None:
    await endpoint.harness.known_user()
    endpoint.harness.engine.fail("put message", error)
    assert (await endpoint.push()).status == 503
    assert count(endpoint.harness, NOTIFICATION_ERROR, code="503", router="webpush") == 1
    assert count(endpoint.harness, NOTIFICATION_SUCCESS) == 0


async def test_a_status_that_only_a_router_of_others_answers_is_other(endpoint: Endpoint) -> None:
    await bridged(endpoint.harness, "own")
    router = endpoint.bridges.routers["own"]
    assert isinstance(router, ScriptedRouter)
    router.outcome = RouterError(Errno.UNKNOWN, "I am a teapot", status=418)
    assert (await endpoint.push()).status == 418
    assert count(endpoint.harness, NOTIFICATION_ERROR, code="other", router="other") == 1


# ── How long they took, and users that are gone ──────────────────────────────────────────────────


async def test_only_the_time_of_accepted_pushes_is_measured(endpoint: Endpoint) -> None:
    await endpoint.harness.known_user()
    for ttl in ("60", "0", "x"):
        await endpoint.push({"ttl": ttl})
    await endpoint.ask("GET", "/status")
    *buckets, seconds = endpoint.harness.metrics.shared.total(NOTIFICATION_TIME)
    assert sum(buckets) == 2
    assert 0 < seconds < 60


async def test_a_user_dropped_by_the_registration_api_is_counted(
    harness: Harness, endpoint: Endpoint
) -> None:
    await bridged(harness, "fcm")
    path = f"/v1/fcm/app/registration/{UAID}"
    secret = endpoint.secrets.secret(UAID)
    headers = {"authorization": f"Bearer {secret}"}
    assert (await endpoint.ask("DELETE", path, headers)).status == 200
    assert (await endpoint.ask("DELETE", path, headers)).status == 410
    assert count(harness, DROP_USER, errno="101") == count(harness, DROP_USER) == 1
