"""The contract of a router: what each response and error means to the sender and to the record."""

import asyncio
import json
from pathlib import Path
from typing import NoReturn

import pytest

from autopush.bridges import Errno, Router, RouterData, RouterError, RouterResponse, Value
from autopush.delivery import bridged
from autopush.delivery.bridged import Bridges
from autopush.telemetry import logs
from support.connection_harness import CHANNEL, UAID, Harness
from support.endpoint_harness import AES128GCM, Endpoint, headers_of, refusal
from support.scripted_router import ScriptedRouter

VIRTUAL_TIME = True

STORED = {"token": "device-token-1", "app_id": "app"}
SECRET = "device-token-1"


async def registered(harness: Harness, router: Router) -> Endpoint:
    """The endpoint of a user whose router that is."""
    await harness.bridged_user("example", STORED)
    return Endpoint(harness, routers={"example": router})


# ── responses ───────────────────────────────────────────────────────────────────────────────────


async def test_a_response_of_its_defaults_is_201_with_location_ttl_and_message_id(
    harness: Harness,
) -> None:
    response = await (await registered(harness, ScriptedRouter())).push(body=b"x")
    assert response.status == 201
    headers = headers_of(response)
    assert headers["ttl"] == "60"
    assert headers["location"].endswith(json.loads(response.body)["message-id"])


async def test_the_sender_gets_status_body_and_headers_of_a_response(harness: Harness) -> None:
    given = RouterResponse(
        status_code=202, response_body="queued", headers=(("TTL", "5"), ("Link", "</r>"))
    )
    response = await (await registered(harness, ScriptedRouter(given))).push()
    assert (response.status, bytes(response.body)) == (202, b"queued")
    headers = headers_of(response)
    assert (headers["ttl"], headers["link"]) == ("5", "</r>")
    assert "/m/" in headers["location"]


@pytest.mark.parametrize("fails", [False, True], ids=["response", "error"])
@pytest.mark.parametrize(
    ("router_data", "kept"),
    [
        pytest.param(None, STORED, id="None leaves it"),
        pytest.param({"token": "other"}, {"token": "other"}, id="other data replaces it"),
        pytest.param({}, None, id="an empty one drops the user"),
    ],
)
async def test_the_router_data_of_response_and_error_decides_what_becomes_of_the_record(
    harness: Harness, router_data: RouterData | None, kept: dict[str, str] | None, *, fails: bool
) -> None:
    router = ScriptedRouter(RouterResponse(router_data=router_data))
    if fails:
        router = ScriptedRouter(RouterError(Errno.RETRY, "no", router_data=router_data))
    response = await (await registered(harness, router)).push()
    assert response.status == (503 if fails else 201)
    record = await harness.store.users.get(UAID)
    assert (None if record is None else record.router_data) == kept


async def test_a_router_gets_the_message_and_the_whole_record(harness: Harness) -> None:
    router = ScriptedRouter()
    endpoint = await registered(harness, router)
    await endpoint.push({**AES128GCM, "topic": "news", "urgency": "high"}, b"x")
    [(notification, record)] = router.calls
    assert (notification.channel_id, notification.data) == (CHANNEL, "eA")
    assert (notification.ttl, notification.topic, notification.urgency) == (60, "news", "high")
    assert (record.uaid, record.router_type, record.router_data) == (UAID, "example", STORED)


# ── errors ──────────────────────────────────────────────────────────────────────────────────────


async def test_unregistered_is_410_106_and_drops_the_user(harness: Harness) -> None:
    endpoint = await registered(harness, ScriptedRouter(RouterError.unregistered()))
    assert refusal(await endpoint.push()) == (410, 106)
    assert refusal(await endpoint.push()) == (410, 103)


async def test_retry_after_is_503_201_with_those_seconds(harness: Harness) -> None:
    endpoint = await registered(harness, ScriptedRouter(RouterError.retry_after(7, "slower")))
    response = await endpoint.push()
    assert json.loads(response.body)["errno"] == 201
    assert (response.status, headers_of(response)["retry-after"]) == (503, "7")


async def test_a_critical_failure_is_410_105_until_the_user_registers_again(
    harness: Harness,
) -> None:
    error = RouterError(Errno.BRIDGE_REFUSED, "no", critical_failure="Missing SenderID")
    endpoint = await registered(harness, ScriptedRouter(error))
    assert refusal(await endpoint.push()) == (410, 105)
    endpoint = Endpoint(harness, routers={"example": ScriptedRouter()})
    assert refusal(await endpoint.push()) == (410, 105)
    harness.clock.advance(1)
    await harness.bridged_user("example", STORED)
    assert (await endpoint.push()).status == 201


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionRefusedError(SECRET), (502, 902)),
        (TimeoutError(SECRET), (502, 903)),
        (KeyError(SECRET), (500, 999)),
    ],
)
async def test_any_other_exception_is_an_outage_and_its_text_is_not_logged(
    harness: Harness, tmp_path: Path, error: Exception, expected: tuple[int, int]
) -> None:
    logs.configure(output=str(tmp_path / "log"))
    endpoint = await registered(harness, ScriptedRouter(error))
    for _ in range(5):
        assert refusal(await endpoint.push()) == expected
    response = await endpoint.push()
    assert (response.status, json.loads(response.body)["errno"]) == (503, 201)
    logs.shutdown()
    logged = (tmp_path / "log").read_text()
    assert "A bridge failed" in logged
    assert ("A router has a defect" in logged) == (expected[1] == 999)
    assert SECRET not in logged


async def test_the_log_says_where_a_router_has_its_defect(harness: Harness, tmp_path: Path) -> None:
    logs.configure(output=str(tmp_path / "log"))
    await (await registered(harness, ScriptedRouter(KeyError(SECRET)))).push()
    logs.shutdown()
    [defect] = [line for line in (tmp_path / "log").read_text().splitlines() if "defect" in line]
    fields = json.loads(defect)["Fields"]
    assert (fields["router"], fields["error"]) == ("ScriptedRouter", "KeyError")
    assert fields["at"][-1].startswith("scripted_router.py")


async def test_a_notification_that_takes_longer_than_the_timeout_is_cancelled(
    harness: Harness,
) -> None:
    class Cancelled(ScriptedRouter):
        timeout = 0.05
        is_cancelled = False

        async def route_notification(self, *_: object) -> NoReturn:
            try:
                await asyncio.Event().wait()
            finally:
                self.is_cancelled = True
            raise AssertionError

    router = Cancelled()
    assert refusal(await (await registered(harness, router)).push()) == (502, 903)
    assert router.is_cancelled


async def test_a_router_that_does_not_close_does_not_keep_the_others_from_it(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingRouter(ScriptedRouter):
        async def close(self) -> None:
            raise ConnectionResetError(SECRET)

    class HangingRouter(ScriptedRouter):
        async def close(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(bridged, "CLOSE_TIMEOUT", 0.01)
    logs.configure(output=str(tmp_path / "log"))
    last = ScriptedRouter()
    routers = {"failing": FailingRouter(), "hanging": HangingRouter(), "last": last}
    await Bridges(routers, harness.store, harness.metrics).close()
    assert last.is_closed
    logs.shutdown()
    logged = [json.loads(line)["Fields"] for line in (tmp_path / "log").read_text().splitlines()]
    assert [(line["bridge"], line["error"]) for line in logged] == [
        ("failing", "ConnectionResetError"),
        ("hanging", "TimeoutError"),
    ]


# ── what a router need not write ────────────────────────────────────────────────────────────────


async def test_without_methods_of_its_own_a_router_stores_and_replies_what_it_is_given() -> None:
    router = ScriptedRouter()
    router_data: dict[str, Value] = {"token": "t"}
    response: dict[str, object] = {"uaid": UAID}
    Router.register(router, UAID, router_data, "app")
    Router.amend_endpoint_response(router, response, router_data)
    await Router.close(router)
    assert (router_data, response) == ({"token": "t"}, {"uaid": UAID})


@pytest.mark.parametrize(
    ("router_data", "application"), [(STORED, "app"), ({}, ""), ({"app_id": 7}, "")]
)
def test_the_application_is_the_app_id_of_the_router_data(
    router_data: RouterData, application: str
) -> None:
    assert ScriptedRouter().application(router_data) == application
