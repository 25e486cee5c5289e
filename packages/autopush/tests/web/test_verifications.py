"""Signatures wait their turn: in order, a few at a time, never too many."""

import asyncio

import pytest

from autopush.web import verifications
from autopush.web.verifications import Verifications
from autopush.webpush.errors import PushError
from autopush.webpush.vapid import Credentials, Verified, Verifier, parse
from support.senders import Sender

ORIGIN = "http://push.example"


def credentials(sender: Sender, *, expires: int = 5) -> Credentials:
    return parse(sender.vapid({"aud": ORIGIN, "exp": expires, "sub": "mailto:a@b.example"}), None)


async def test_a_good_signature_gives_its_sender() -> None:
    sender = Sender()
    verified = await Verifications(Verifier(ORIGIN)).verify(credentials(sender, expires=7))
    assert (verified.key, verified.expires) == (sender.point, 7)


async def test_a_bad_signature_is_refused_and_holds_up_no_other() -> None:
    queue = Verifications(Verifier(ORIGIN))
    good, other = credentials(Sender()), credentials(Sender())
    forged = Credentials("vapid", 2, good.token, other.key_text)
    outcomes = await asyncio.gather(
        queue.verify(forged), queue.verify(good), return_exceptions=True
    )
    assert isinstance(outcomes[0], PushError)
    assert outcomes[0].status == 401
    assert isinstance(outcomes[1], Verified)


async def test_the_loop_gets_its_turn_between_two_stretches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verifications, "STRETCH", 0.0)
    queue = Verifications(Verifier(ORIGIN))
    sender = Sender()
    futures = [queue.verify(credentials(sender)) for _ in range(3)]
    seen = []
    while not futures[-1].done():
        await asyncio.sleep(0)
        seen.append(sum(future.done() for future in futures))
    assert seen == sorted(seen)
    assert {1, 2} <= set(seen)


async def test_what_nobody_waits_for_any_more_does_no_harm() -> None:
    queue = Verifications(Verifier(ORIGIN))
    sender = Sender()
    gone, kept = queue.verify(credentials(sender)), queue.verify(credentials(sender))
    gone.cancel()
    assert isinstance(await kept, Verified)


async def test_too_many_waiting_signatures_are_503_201(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifications, "MAX_WAITING", 1)
    queue = Verifications(Verifier(ORIGIN))
    first = queue.verify(credentials(Sender()))
    with pytest.raises(PushError) as caught:
        queue.verify(credentials(Sender()))
    assert (caught.value.status, caught.value.errno) == (503, 201)
    await first
