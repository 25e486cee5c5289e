"""Users behind a bridge: which failure costs whom, and what becomes of their records."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from autopush.delivery import bridged
from autopush.delivery.bridge_contract import RouterError, RouterResponse
from autopush.delivery.bridged import CIRCUIT_RESET, MAX_FAILURES, Bridges
from autopush.store import UserRecord
from autopush.webpush.errors import Errno, PushError
from keytables import Throttled, Unavailable, Value
from support.connection_harness import UAID, Harness
from support.scripted_router import Outcome, ScriptedRouter


def outage() -> RouterError:
    return RouterError(Errno.BRIDGE_UNREACHABLE, "unreachable", is_outage=True)


@pytest.fixture
def fcm() -> ScriptedRouter:
    return ScriptedRouter()


@pytest.fixture
def apns() -> ScriptedRouter:
    return ScriptedRouter()


@pytest.fixture
def bridges(harness: Harness, fcm: ScriptedRouter, apns: ScriptedRouter) -> Bridges:
    return Bridges({"fcm": fcm, "apns": apns}, harness.store, harness.metrics)


@pytest.fixture
async def user(harness: Harness) -> UserRecord:
    return await registered(harness)


@pytest.fixture
async def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the clock of the event loop, which is that of the circuits."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])

    def pass_time(seconds: float) -> None:
        ahead[0] += seconds

    return pass_time


async def registered(
    harness: Harness, router_type: str = "fcm", uaid: str = UAID, app_id: str = "app"
) -> UserRecord:
    router_data: Mapping[str, Value] = {"token": "the-token", "app_id": app_id, "creds": {"k": 1}}
    await harness.store.users.register(uaid, router_type, router_data, "message")
    return await harness.record(uaid)


async def route(bridges: Bridges, harness: Harness, record: UserRecord) -> RouterResponse:
    return await bridges.route(bridges.find(record), harness.message(record.uaid))


async def refusal(bridges: Bridges, harness: Harness, record: UserRecord) -> tuple[int, int]:
    with pytest.raises(PushError) as caught:
        await route(bridges, harness, record)
    return caught.value.status, caught.value.errno


async def outages(bridges: Bridges, harness: Harness, record: UserRecord, number: int) -> None:
    for _ in range(number):
        assert await refusal(bridges, harness, record) == (502, 902)


def under_way(
    bridges: Bridges, harness: Harness, record: UserRecord, number: int
) -> "list[asyncio.Task[RouterResponse]]":
    return [asyncio.ensure_future(route(bridges, harness, record)) for _ in range(number)]


async def turns(number: int = 3) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


# ── finding the router ──────────────────────────────────────────────────────────────────────────


async def test_a_type_that_this_node_does_not_serve_is_400_108_and_the_record_stays(
    bridges: Bridges, harness: Harness
) -> None:
    record = await registered(harness, "gcm")
    with pytest.raises(PushError) as caught:
        bridges.find(record)
    assert (caught.value.status, caught.value.errno) == (400, 108)
    assert await harness.record() == record


@pytest.mark.parametrize("router_type", ["fcm", "gcm"])
async def test_a_user_that_failed_for_good_is_410_105_and_its_bridge_is_not_asked(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, router_type: str
) -> None:
    await registered(harness, router_type)
    harness.change_record(critical_failure="no such sender")
    with pytest.raises(PushError) as caught:
        bridges.find(await harness.record())
    assert (caught.value.status, caught.value.errno) == (410, 105)
    assert caught.value.message == "Critical Failure: no such sender"
    assert harness.users() == [UAID]
    assert len(fcm.calls) == 0


# ── answers and records ─────────────────────────────────────────────────────────────────────────


async def test_new_router_data_takes_the_place_of_the_old(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    harness.clock.advance(1)
    data = {**(user.router_data or {}), "token": "new"}
    fcm.outcome = RouterResponse(router_data=data)
    await route(bridges, harness, user)
    record = await harness.record()
    assert record.router_data == data
    assert record.connected_at == user.connected_at + 1000


async def test_a_user_that_has_registered_again_meanwhile_is_neither_dropped_nor_changed(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    harness.clock.advance(1)
    again = await registered(harness)
    for data in ({}, {"token": "late"}):
        fcm.outcome = RouterResponse(router_data=data)
        await route(bridges, harness, user)
        fcm.outcome = RouterError(Errno.BACK_OFF, "late", critical_failure="late")
        assert await refusal(bridges, harness, user) == (503, 201)
        assert await harness.record() == again


@pytest.mark.parametrize(
    "gone", [RouterError.unregistered(), RouterError(Errno.ENDPOINT_UNAVAILABLE, "unknown")]
)
async def test_a_refusal_of_the_token_before_is_503_and_of_a_dropped_user_410(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord, gone: RouterError
) -> None:
    fcm.outcome = gone
    replaced = {**(user.router_data or {}), "token": "the-new-token"}
    assert await harness.store.users.update_registration(user, replaced)
    assert await refusal(bridges, harness, user) == (503, 201)
    assert (await harness.record()).router_data == replaced
    await harness.store.users.drop(UAID)
    assert await refusal(bridges, harness, user) == (410, gone.errno)


@pytest.mark.parametrize(("given", "expected"), [((), "30"), ((("Retry-After", "7"),), "7")])
async def test_an_outage_says_when_to_try_again(
    bridges: Bridges,
    harness: Harness,
    fcm: ScriptedRouter,
    user: UserRecord,
    given: tuple[tuple[str, str], ...],
    expected: str,
) -> None:
    fcm.outcome = RouterError(Errno.BRIDGE_UNREACHABLE, "down", headers=given, is_outage=True)
    with pytest.raises(PushError) as caught:
        await route(bridges, harness, user)
    assert caught.value.headers == (("Retry-After", expected),)


@pytest.mark.parametrize("failure", [Throttled("t"), Unavailable("u")])
@pytest.mark.parametrize(
    ("outcome", "call"),
    [
        (RouterResponse(router_data={"token": "new"}), "update router"),
        (RouterResponse(router_data={}), "delete router"),
    ],
)
async def test_a_delivered_message_is_a_success_even_if_the_record_cannot_be_changed(
    bridges: Bridges,
    harness: Harness,
    fcm: ScriptedRouter,
    user: UserRecord,
    outcome: RouterResponse,
    call: str,
    failure: Exception,
) -> None:
    fcm.outcome = outcome
    harness.engine.fail(call, failure)
    assert await route(bridges, harness, user) is outcome
    assert await harness.record() == user


async def test_an_unregistered_device_is_410_even_if_the_record_cannot_be_dropped(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    fcm.outcome = RouterError.unregistered()
    harness.engine.fail("delete router", Unavailable("u"))
    assert await refusal(bridges, harness, user) == (410, 106)
    assert await refusal(bridges, harness, user) == (410, 106)
    assert harness.users() == []


@pytest.mark.parametrize(
    ("errno", "expected"), [(None, 999), (Errno.BRIDGE_REFUSED, 901), (12345, 999)]
)
async def test_a_response_that_is_no_success_is_an_error_with_its_errno(
    bridges: Bridges,
    harness: Harness,
    fcm: ScriptedRouter,
    user: UserRecord,
    errno: int | None,
    expected: int,
) -> None:
    fcm.outcome = RouterResponse(status_code=500, errno=errno, headers=(("X", "y"),))
    with pytest.raises(PushError) as caught:
        await route(bridges, harness, user)
    assert (caught.value.status, caught.value.errno) == (500, expected)
    assert ("X", "y") in caught.value.headers


# ── timeout, concurrency, circuit ───────────────────────────────────────────────────────────────


async def test_one_application_has_a_limited_number_of_messages_under_way(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    fcm.outcome = None
    waiting = under_way(bridges, harness, user, ScriptedRouter.max_under_way)
    await turns()
    assert await refusal(bridges, harness, user) == (503, 201)
    assert ScriptedRouter.max_under_way == len(fcm.calls)
    other = under_way(bridges, harness, await registered(harness, "fcm", "f" * 32, "other"), 1)
    await turns()
    assert ScriptedRouter.max_under_way + 1 == len(fcm.calls)
    fcm.release.set()
    assert {response.status_code for response in await asyncio.gather(*waiting, *other)} == {201}
    await route(bridges, harness, user)


async def test_all_bridges_together_have_a_limited_number_of_messages_under_way(
    harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    other = ScriptedRouter()
    few = Bridges({"fcm": fcm, "apns": other}, harness.store, harness.metrics, max_under_way=3)
    fcm.outcome = None
    waiting = under_way(few, harness, user, 3)
    await turns()
    reached = await registered(harness, "apns", "a" * 32, "other")
    assert await refusal(few, harness, reached) == (503, 201)
    fcm.release.set()
    await asyncio.gather(*waiting)
    await route(few, harness, reached)


async def test_the_refusals_of_a_busy_bridge_say_when_to_try_again(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    fcm.outcome = None
    waiting = under_way(bridges, harness, user, ScriptedRouter.max_under_way)
    await turns()
    with pytest.raises(PushError) as caught:
        await route(bridges, harness, user)
    assert dict(caught.value.headers) == {"Retry-After": str(bridged.BUSY_RETRY)}
    fcm.release.set()
    await asyncio.gather(*waiting)


async def test_a_cancelled_request_gives_its_place_back(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    fcm.outcome = None
    waiting = under_way(bridges, harness, user, ScriptedRouter.max_under_way)
    await turns()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    fcm.outcome = RouterResponse()
    await route(bridges, harness, user)


async def test_outages_in_a_row_open_the_circuit_and_a_trial_closes_it(
    bridges: Bridges,
    harness: Harness,
    fcm: ScriptedRouter,
    user: UserRecord,
    pass_time: Callable[[float], None],
) -> None:
    fcm.outcome = outage()
    await outages(bridges, harness, user, MAX_FAILURES)
    fcm.outcome = RouterResponse()
    with pytest.raises(PushError) as caught:
        await route(bridges, harness, user)
    assert (caught.value.status, caught.value.errno) == (503, 201)
    assert 0 < int(dict(caught.value.headers)["Retry-After"]) <= CIRCUIT_RESET
    assert len(fcm.calls) == MAX_FAILURES
    pass_time(CIRCUIT_RESET + 1)
    await route(bridges, harness, user)
    fcm.outcome = outage()
    await outages(bridges, harness, user, MAX_FAILURES)


async def test_only_one_message_is_the_trial_and_its_failure_opens_the_circuit_again(
    bridges: Bridges,
    harness: Harness,
    fcm: ScriptedRouter,
    user: UserRecord,
    pass_time: Callable[[float], None],
) -> None:
    fcm.outcome = outage()
    await outages(bridges, harness, user, MAX_FAILURES)
    pass_time(CIRCUIT_RESET + 1)
    fcm.outcome = None
    (trial,) = under_way(bridges, harness, user, 1)
    await turns()
    assert await refusal(bridges, harness, user) == (503, 201)
    assert len(fcm.calls) == MAX_FAILURES + 1
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)
    assert await refusal(bridges, harness, user) == (503, 201)
    pass_time(CIRCUIT_RESET + 1)
    fcm.outcome = outage()
    await outages(bridges, harness, user, 1)
    assert await refusal(bridges, harness, user) == (503, 201)


async def test_timeouts_open_the_circuit_too(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    fcm.timeout, fcm.outcome = 0.001, None
    for _ in range(MAX_FAILURES):
        assert await refusal(bridges, harness, user) == (502, 903)
    assert await refusal(bridges, harness, user) == (503, 201)


@pytest.mark.parametrize(
    "between",
    [RouterResponse(), RouterError.retry_after(1, "busy"), RouterError(Errno.UNKNOWN, "bad")],
)
async def test_only_outages_without_anything_between_open_the_circuit(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord, between: Outcome
) -> None:
    fcm.outcome = outage()
    await outages(bridges, harness, user, MAX_FAILURES - 1)
    fcm.outcome = between
    if isinstance(between, RouterResponse):
        await route(bridges, harness, user)
    else:
        await refusal(bridges, harness, user)
    fcm.outcome = outage()
    await outages(bridges, harness, user, MAX_FAILURES)


async def test_an_outage_of_one_application_leaves_all_others_alone(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    fcm.outcome = outage()
    await outages(bridges, harness, user, MAX_FAILURES)
    assert await refusal(bridges, harness, user) == (503, 201)
    fcm.outcome = RouterResponse()
    await route(bridges, harness, await registered(harness, "fcm", "e" * 32, "other"))
    await route(bridges, harness, await registered(harness, "apns", "f" * 32, "app"))
    assert await refusal(bridges, harness, user) == (503, 201)


async def test_circuits_of_any_number_of_applications_are_bounded(
    bridges: Bridges, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridged, "MAX_CIRCUITS", 5)
    for number in range(12):
        record = UserRecord(UAID, "fcm", 1, router_data={"app_id": f"app {number}"})
        await route(bridges, harness, record)
    assert len(bridges._circuits) <= 5


# ── other routers ────────────────────────────────────────────────────────────────────────────────


async def test_what_is_under_way_ends_with_the_former_routers_and_the_rest_has_the_new_ones(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, apns: ScriptedRouter, user: UserRecord
) -> None:
    fcm.outcome, fcm.timeout, apns.timeout = None, 0.05, 0.0
    (former,) = under_way(bridges, harness, user, 1)
    await asyncio.sleep(0)
    assert len(fcm.calls) == 1
    new = ScriptedRouter()
    listed = bridges.routers
    bridges.replace({"fcm": new})
    assert (await route(bridges, harness, user)).status_code == 201
    assert (len(new.calls), len(fcm.calls), fcm.is_closed, list(listed)) == (1, 1, False, ["fcm"])
    fcm.release.set()
    assert (await former).status_code == 201
    (closing,) = bridges._closing
    await closing
    assert (fcm.is_closed, new.is_closed) == (True, False)


async def test_new_credentials_close_a_circuit(
    bridges: Bridges, harness: Harness, fcm: ScriptedRouter, user: UserRecord
) -> None:
    fcm.outcome = outage()
    await outages(bridges, harness, user, MAX_FAILURES)
    assert await refusal(bridges, harness, user) == (503, 201)
    bridges.replace({"fcm": ScriptedRouter()})
    assert (await route(bridges, harness, user)).status_code == 201
    await bridges.close()
