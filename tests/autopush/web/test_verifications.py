"""The queue of signatures: whoever waits is answered, in order, whatever the others sent."""

import asyncio

import pytest

from autopush.web import verifications as module
from autopush.web.verifications import Verifications
from autopush.webpush.errors import PushError
from autopush.webpush.vapid import Credentials, Verified, Verifier, parse
from support.senders import Sender

ORIGIN = "https://push.example"
SENDER, STRANGER = Sender(), Sender()
CLAIMS = {"aud": ORIGIN, "exp": 1_800_000_000}


def credentials(sender: Sender = SENDER, key: Sender | None = None) -> Credentials:
    """Signed by `sender`, said to be signed by `key`."""
    return parse(f"vapid t={sender.token(CLAIMS)},k={(key or sender).key_text}", None)


@pytest.fixture
async def queue() -> Verifications:
    return Verifications(Verifier(ORIGIN))


async def test_a_good_signature_names_its_sender(queue: Verifications) -> None:
    assert (await queue.verify(credentials())).key == SENDER.point


async def test_a_bad_signature_is_401_109_and_does_not_touch_the_others(
    queue: Verifications,
) -> None:
    good, bad, last = (
        queue.verify(credentials()),
        queue.verify(credentials(STRANGER, key=SENDER)),
        queue.verify(credentials(STRANGER)),
    )
    assert (await good).key == SENDER.point
    with pytest.raises(PushError) as caught:
        await bad
    assert (caught.value.status, caught.value.errno) == (401, 109)
    assert (await last).key == STRANGER.point


async def test_nothing_is_computed_before_the_next_turn_of_the_loop(queue: Verifications) -> None:
    future = queue.verify(credentials())
    assert not future.done()
    await asyncio.sleep(0)
    assert future.done()


async def test_a_long_queue_is_worked_off_in_order_over_several_turns(
    queue: Verifications, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRETCH", 0)
    futures = [queue.verify(credentials()) for _ in range(4)]
    done = []
    for _ in range(4):
        await asyncio.sleep(0)
        done.append([future.done() for future in futures])
    assert done == [[number <= turn for number in range(4)] for turn in range(4)]


async def test_who_gave_up_is_passed_over(queue: Verifications) -> None:
    gone, bad_and_gone, here = (
        queue.verify(credentials()),
        queue.verify(credentials(STRANGER, key=SENDER)),
        queue.verify(credentials()),
    )
    gone.cancel()
    bad_and_gone.cancel()
    assert (await here).key == SENDER.point


async def test_a_full_queue_is_503_201_until_it_is_worked_off(
    queue: Verifications, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    first = [queue.verify(credentials()) for _ in range(2)]
    with pytest.raises(PushError) as caught:
        queue.verify(credentials())
    assert (caught.value.status, caught.value.errno) == (503, 201)
    await asyncio.gather(*first)
    await queue.verify(credentials())


async def test_a_fault_in_the_verifier_reaches_its_caller_and_nobody_else() -> None:
    class Faulty(Verifier):
        __slots__ = ("faults",)

        def verify(self, credentials: Credentials) -> Verified:
            if self.faults:
                self.faults -= 1
                raise RuntimeError("a bug")
            return super().verify(credentials)

    verifier = Faulty(ORIGIN)
    verifier.faults = 1
    queue = Verifications(verifier)
    first, second = queue.verify(credentials()), queue.verify(credentials())
    async with asyncio.timeout(1):
        with pytest.raises(RuntimeError):
            await first
        assert (await second).key == SENDER.point
        assert (await queue.verify(credentials())).key == SENDER.point
