"""Signatures wait their turn: in order, a few at a time, never too many."""

import asyncio

import pytest

from autopush.web.push import SignatureQueue
from autopush.webpush.errors import PushError
from autopush.webpush.vapid import Claims, Credentials, Verifier, parse_credentials
from support.senders import Sender

ORIGIN = "http://push.example"


def credentials(sender: Sender, *, expires: int = 5) -> Credentials:
    return parse_credentials(sender.vapid({"aud": ORIGIN, "exp": expires}), {})


async def test_a_good_signature_gives_its_claims() -> None:
    claims = await SignatureQueue(Verifier(ORIGIN)).verify(credentials(Sender(), expires=7))
    assert claims == Claims(7, (ORIGIN,))


async def test_a_sender_verified_before_has_its_claims_at_once() -> None:
    verifier = Verifier(ORIGIN)
    queue, authorization = SignatureQueue(verifier), credentials(Sender()).authorization
    for known in (False, True):
        sender = verifier.credentials(authorization, None)
        assert sender is not None
        verifying = queue.verify(sender)
        if known:
            with pytest.raises(StopIteration):  # done without waiting for anything
                verifying.send(None)
        else:
            await verifying


async def test_a_bad_signature_is_refused_and_delays_no_other() -> None:
    queue = SignatureQueue(Verifier(ORIGIN))
    good, other = credentials(Sender()), credentials(Sender())
    forged = Credentials("", 2, good.token, other.key_text)
    outcomes = await asyncio.gather(
        queue.verify(forged), queue.verify(good), return_exceptions=True
    )
    assert isinstance(outcomes[0], PushError)
    assert outcomes[0].status == 401
    assert isinstance(outcomes[1], Claims)


async def test_the_loop_gets_its_turn_between_two_slices() -> None:
    queue = SignatureQueue(Verifier(ORIGIN), time_slice=0.0)
    sender = Sender()
    tasks = [asyncio.ensure_future(queue.verify(credentials(sender))) for _ in range(3)]
    seen = []
    while not tasks[-1].done():
        await asyncio.sleep(0)
        seen.append(sum(task.done() for task in tasks))
    assert seen == sorted(seen)
    assert {1, 2} <= set(seen)


async def test_a_cancelled_verification_does_no_harm() -> None:
    queue = SignatureQueue(Verifier(ORIGIN))
    sender = Sender()
    gone, kept = (asyncio.ensure_future(queue.verify(credentials(sender))) for _ in range(2))
    await asyncio.sleep(0)  # both are waiting now
    gone.cancel()
    assert isinstance(await kept, Claims)
    assert gone.cancelled()


async def test_too_many_waiting_signatures_are_503_201() -> None:
    queue = SignatureQueue(Verifier(ORIGIN), max_waiting=1)
    first, second = await asyncio.gather(
        *(queue.verify(credentials(Sender())) for _ in range(2)), return_exceptions=True
    )
    assert isinstance(first, Claims)
    assert isinstance(second, PushError)
    assert (second.status, second.errno) == (503, 201)
