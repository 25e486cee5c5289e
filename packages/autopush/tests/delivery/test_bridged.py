"""Users behind a bridge: which failure costs whom, and what becomes of their records."""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

import pytest

from autopush.delivery import bridged
from autopush.delivery.bridge_contract import RouterError, RouterResponse
from autopush.delivery.bridged import CIRCUIT_RESET, MAX_FAILURES, Bridges
from autopush.store import UserRecord
from autopush.webpush.errors import Errno, PushError
from keytables import Throttled, Unavailable, Value
from support.connection_harness import UAID, Harness
from support.scripted_router import Outcome, ScriptedRouter
from support.simulation.virtual_loop import VirtualLoop

VIRTUAL_TIME = True


class Setup:
    """A user behind one of two bridges."""

    def __init__(self, harness: Harness, user: UserRecord) -> None:
        self.harness, self.user = harness, user
        self.fcm, self.apns = ScriptedRouter(), ScriptedRouter()
        routers = {"fcm": self.fcm, "apns": self.apns}
        self.bridges = Bridges(routers, harness.store, harness.metrics)

    async def route(self, record: UserRecord | None = None) -> RouterResponse:
        record = record or self.user
        return await self.bridges.route(
            self.bridges.find(record), self.harness.message(record.uaid)
        )

    async def refusal(self, record: UserRecord | None = None) -> tuple[int, int]:
        with pytest.raises(PushError) as caught:
            await self.route(record)
        return caught.value.status, caught.value.errno

    async def outages(self, number: int) -> None:
        self.fcm.outcome = RouterError(Errno.BRIDGE_UNREACHABLE, "unreachable", is_outage=True)
        for _ in range(number):
            assert await self.refusal() == (502, 902)

    async def waiting(
        self, number: int, record: UserRecord | None = None
    ) -> "list[asyncio.Task[RouterResponse]]":
        """So many messages that FCM does not answer before its `release`."""
        self.fcm.outcome = None
        tasks = [asyncio.ensure_future(self.route(record)) for _ in range(number)]
        for _ in range(3):
            await asyncio.sleep(0)
        return tasks


@pytest.fixture
async def setup(harness: Harness) -> Setup:
    return Setup(harness, await registered(harness))


@pytest.fixture
async def pass_time() -> Callable[[float], None]:
    """Move the clock of the event loop, which is that of the circuits."""
    loop = cast(VirtualLoop, asyncio.get_running_loop())

    def pass_time(seconds: float) -> None:
        loop.now += seconds

    return pass_time


async def registered(
    harness: Harness, router_type: str = "fcm", uaid: str = UAID, app_id: str = "app"
) -> UserRecord:
    router_data: Mapping[str, Value] = {"token": "the-token", "app_id": app_id, "creds": {"k": 1}}
    await harness.store.users.register(uaid, router_type, router_data, "message")
    return await harness.record(uaid)


# ── finding the router ──────────────────────────────────────────────────────────────────────────


async def test_a_type_that_this_node_does_not_serve_is_400_108_and_the_record_stays(
    setup: Setup, harness: Harness
) -> None:
    record = await registered(harness, "gcm", "f" * 32)
    with pytest.raises(PushError) as caught:
        setup.bridges.find(record)
    assert (caught.value.status, caught.value.errno) == (400, 108)
    assert await harness.record(record.uaid) == record


@pytest.mark.parametrize("router_type", ["fcm", "gcm"])
async def test_a_user_that_failed_for_good_is_410_105_and_its_bridge_is_not_asked(
    setup: Setup, harness: Harness, router_type: str
) -> None:
    harness.change_record(router_type=router_type, critical_failure="no such sender")
    with pytest.raises(PushError) as caught:
        setup.bridges.find(await harness.record())
    assert (caught.value.status, caught.value.errno) == (410, 105)
    assert caught.value.message == "Critical Failure: no such sender"
    assert harness.users() == [UAID]
    assert setup.fcm.calls == []


# ── answers and records ─────────────────────────────────────────────────────────────────────────


async def test_new_router_data_takes_the_place_of_the_old(setup: Setup, harness: Harness) -> None:
    harness.clock.advance(1)
    data = {**(setup.user.router_data or {}), "token": "new"}
    setup.fcm.outcome = RouterResponse(router_data=data)
    await setup.route()
    record = await harness.record()
    assert record.router_data == data
    assert record.connected_at == setup.user.connected_at + 1000


async def test_a_user_that_has_registered_again_meanwhile_is_neither_dropped_nor_changed(
    setup: Setup, harness: Harness
) -> None:
    harness.clock.advance(1)
    again = await registered(harness)
    for data in ({}, {"token": "late"}):
        setup.fcm.outcome = RouterResponse(router_data=data)
        await setup.route()
        setup.fcm.outcome = RouterError(Errno.BACK_OFF, "late", critical_failure="late")
        assert await setup.refusal() == (503, 201)
        assert await harness.record() == again


@pytest.mark.parametrize(
    "gone", [RouterError.unregistered(), RouterError(Errno.ENDPOINT_UNAVAILABLE, "unknown")]
)
async def test_a_refusal_of_the_token_before_is_503_and_of_a_dropped_user_410(
    setup: Setup, harness: Harness, gone: RouterError
) -> None:
    setup.fcm.outcome = gone
    replaced = {**(setup.user.router_data or {}), "token": "the-new-token"}
    assert await harness.store.users.update_registration(setup.user, replaced)
    assert await setup.refusal() == (503, 201)
    assert (await harness.record()).router_data == replaced
    await harness.store.users.drop(UAID)
    assert await setup.refusal() == (410, gone.errno)


@pytest.mark.parametrize(("given", "expected"), [((), "30"), ((("Retry-After", "7"),), "7")])
async def test_an_outage_says_when_to_try_again(
    setup: Setup, given: tuple[tuple[str, str], ...], expected: str
) -> None:
    setup.fcm.outcome = RouterError(Errno.BRIDGE_UNREACHABLE, "down", headers=given, is_outage=True)
    with pytest.raises(PushError) as caught:
        await setup.route()
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
    setup: Setup, harness: Harness, outcome: RouterResponse, call: str, failure: Exception
) -> None:
    setup.fcm.outcome = outcome
    harness.engine.fail(call, failure)
    assert await setup.route() is outcome
    assert await harness.record() == setup.user


async def test_an_unregistered_device_is_410_even_if_the_record_cannot_be_dropped(
    setup: Setup, harness: Harness
) -> None:
    setup.fcm.outcome = RouterError.unregistered()
    harness.engine.fail("delete router", Unavailable("u"))
    assert await setup.refusal() == (410, 106)
    assert await setup.refusal() == (410, 106)
    assert harness.users() == []


@pytest.mark.parametrize(
    ("errno", "expected"), [(None, 999), (Errno.BRIDGE_REFUSED, 901), (12345, 999)]
)
async def test_a_response_that_is_no_success_is_an_error_with_its_errno(
    setup: Setup, errno: int | None, expected: int
) -> None:
    setup.fcm.outcome = RouterResponse(status_code=500, errno=errno, headers=(("X", "y"),))
    with pytest.raises(PushError) as caught:
        await setup.route()
    assert (caught.value.status, caught.value.errno) == (500, expected)
    assert ("X", "y") in caught.value.headers


# ── timeout, concurrency, circuit ───────────────────────────────────────────────────────────────


async def test_one_application_has_a_limited_number_of_messages_under_way(
    setup: Setup, harness: Harness
) -> None:
    waiting = await setup.waiting(ScriptedRouter.max_under_way)
    assert await setup.refusal() == (503, 201)
    assert ScriptedRouter.max_under_way == len(setup.fcm.calls)
    other = await setup.waiting(1, await registered(harness, "fcm", "f" * 32, "other"))
    assert ScriptedRouter.max_under_way + 1 == len(setup.fcm.calls)
    setup.fcm.release.set()
    assert {response.status_code for response in await asyncio.gather(*waiting, *other)} == {201}
    await setup.route()


async def test_all_bridges_together_have_a_limited_number_of_messages_under_way(
    setup: Setup, harness: Harness
) -> None:
    setup.bridges.max_under_way = 3
    waiting = await setup.waiting(3)
    reached = await registered(harness, "apns", "a" * 32, "other")
    assert await setup.refusal(reached) == (503, 201)
    setup.fcm.release.set()
    await asyncio.gather(*waiting)
    await setup.route(reached)


async def test_the_refusals_of_a_busy_bridge_say_when_to_try_again(setup: Setup) -> None:
    waiting = await setup.waiting(ScriptedRouter.max_under_way)
    with pytest.raises(PushError) as caught:
        await setup.route()
    assert dict(caught.value.headers) == {"Retry-After": str(bridged.BUSY_RETRY)}
    setup.fcm.release.set()
    await asyncio.gather(*waiting)


async def test_a_cancelled_request_gives_its_place_back(setup: Setup) -> None:
    waiting = await setup.waiting(ScriptedRouter.max_under_way)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    setup.fcm.outcome = RouterResponse()
    await setup.route()


async def test_outages_in_a_row_open_the_circuit_and_a_trial_closes_it(
    setup: Setup, pass_time: Callable[[float], None]
) -> None:
    await setup.outages(MAX_FAILURES)
    setup.fcm.outcome = RouterResponse()
    with pytest.raises(PushError) as caught:
        await setup.route()
    assert (caught.value.status, caught.value.errno) == (503, 201)
    assert int(dict(caught.value.headers)["Retry-After"]) == CIRCUIT_RESET + 1
    assert len(setup.fcm.calls) == MAX_FAILURES
    pass_time(CIRCUIT_RESET + 1)
    await setup.route()
    await setup.outages(MAX_FAILURES)


async def test_only_one_message_is_the_trial_and_its_failure_opens_the_circuit_again(
    setup: Setup, pass_time: Callable[[float], None]
) -> None:
    await setup.outages(MAX_FAILURES)
    pass_time(CIRCUIT_RESET + 1)
    (trial,) = await setup.waiting(1)
    assert await setup.refusal() == (503, 201)
    assert len(setup.fcm.calls) == MAX_FAILURES + 1
    trial.cancel()
    await asyncio.gather(trial, return_exceptions=True)
    assert await setup.refusal() == (503, 201)
    pass_time(CIRCUIT_RESET + 1)
    await setup.outages(1)
    assert await setup.refusal() == (503, 201)


async def test_timeouts_open_the_circuit_too(setup: Setup) -> None:
    setup.fcm.timeout, setup.fcm.outcome = 0.001, None
    for _ in range(MAX_FAILURES):
        assert await setup.refusal() == (502, 903)
    assert await setup.refusal() == (503, 201)


@pytest.mark.parametrize(
    "between",
    [RouterResponse(), RouterError.retry_after(1, "busy"), RouterError(Errno.UNKNOWN, "bad")],
)
async def test_only_outages_without_anything_between_open_the_circuit(
    setup: Setup, between: Outcome
) -> None:
    await setup.outages(MAX_FAILURES - 1)
    setup.fcm.outcome = between
    if isinstance(between, RouterResponse):
        await setup.route()
    else:
        await setup.refusal()
    await setup.outages(MAX_FAILURES)


async def test_an_outage_of_one_application_leaves_all_others_alone(
    setup: Setup, harness: Harness
) -> None:
    await setup.outages(MAX_FAILURES)
    assert await setup.refusal() == (503, 201)
    setup.fcm.outcome = RouterResponse()
    await setup.route(await registered(harness, "fcm", "e" * 32, "other"))
    await setup.route(await registered(harness, "apns", "f" * 32, "app"))
    assert await setup.refusal() == (503, 201)


async def test_circuits_of_any_number_of_applications_are_bounded(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridged, "MAX_CIRCUITS", 5)
    for number in range(12):
        record = UserRecord(UAID, "fcm", 1, router_data={"app_id": f"app {number}"})
        await setup.route(record)
    assert len(setup.bridges._circuits) <= 5


# ── other routers ────────────────────────────────────────────────────────────────────────────────


async def test_what_is_under_way_ends_with_the_former_routers_and_the_rest_has_the_new_ones(
    setup: Setup,
) -> None:
    setup.fcm.timeout, setup.apns.timeout = 0.05, 0.0
    (former,) = await setup.waiting(1)
    assert len(setup.fcm.calls) == 1
    new = ScriptedRouter()
    listed = setup.bridges.routers
    setup.bridges.replace({"fcm": new})
    assert (await setup.route()).status_code == 201
    assert (len(new.calls), len(setup.fcm.calls), setup.fcm.is_closed, list(listed)) == (
        1,
        1,
        False,
        ["fcm"],
    )
    setup.fcm.release.set()
    assert (await former).status_code == 201
    (closing,) = setup.bridges._closing
    await closing
    assert (setup.fcm.is_closed, new.is_closed) == (True, False)


async def test_new_credentials_close_a_circuit(setup: Setup) -> None:
    await setup.outages(MAX_FAILURES)
    assert await setup.refusal() == (503, 201)
    setup.bridges.replace({"fcm": ScriptedRouter()})
    assert (await setup.route()).status_code == 201
    await setup.bridges.close()
