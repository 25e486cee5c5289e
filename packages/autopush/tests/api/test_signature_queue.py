"""Signatures wait their turn: each user's in order, a few at a time, never too many."""

import asyncio

import pytest

from autopush.api.push import SignatureQueue
from autopush.webpush.errors import PushError
from autopush.webpush.vapid import Claims, Credentials, Verifier, parse_credentials
from support.connection_harness import UAID
from support.senders import Sender

ORIGIN = "http://push.example"


def credentials(sender: Sender, *, expires: int = 5) -> Credentials:
    return parse_credentials(sender.vapid({"aud": ORIGIN, "exp": expires}), {})


async def test_a_good_signature_gives_its_claims() -> None:
    claims = await SignatureQueue(Verifier(ORIGIN)).verify(credentials(Sender(), expires=7), UAID)
    assert claims == Claims(7, (ORIGIN,))


async def test_a_sender_verified_once_comes_with_its_claims() -> None:
    verifier, sender = Verifier(ORIGIN), credentials(Sender())
    claims = await SignatureQueue(verifier).verify(sender, UAID)
    known = verifier.credentials(sender.authorization, None)
    assert known is not None
    assert known.claims is claims


async def test_a_bad_signature_is_refused_and_delays_no_other() -> None:
    queue = SignatureQueue(Verifier(ORIGIN))
    good, other = credentials(Sender()), credentials(Sender())
    forged = Credentials("", 2, good.token, other.key_text)
    outcomes = await asyncio.gather(
        queue.verify(forged, UAID), queue.verify(good, UAID), return_exceptions=True
    )
    assert isinstance(outcomes[0], PushError)
    assert outcomes[0].status == 401
    assert isinstance(outcomes[1], Claims)


async def test_the_loop_gets_its_turn_between_two_slices() -> None:
    queue = SignatureQueue(Verifier(ORIGIN), time_slice=0.0)
    sender = Sender()
    tasks = [asyncio.ensure_future(queue.verify(credentials(sender), UAID)) for _ in range(3)]
    seen = []
    while not tasks[-1].done():
        await asyncio.sleep(0)
        seen.append(sum(task.done() for task in tasks))
    assert seen == sorted(seen)
    assert {1, 2} <= set(seen)


async def test_a_cancelled_verification_does_no_harm() -> None:
    queue = SignatureQueue(Verifier(ORIGIN))
    sender = Sender()
    gone, kept = (asyncio.ensure_future(queue.verify(credentials(sender), UAID)) for _ in range(2))
    await asyncio.sleep(0)  # both are waiting now
    gone.cancel()
    assert isinstance(await kept, Claims)
    assert gone.cancelled()


async def test_too_many_waiting_signatures_are_503_201() -> None:
    queue = SignatureQueue(Verifier(ORIGIN), max_waiting=1)
    first, second = await asyncio.gather(
        *(queue.verify(credentials(Sender()), UAID) for _ in range(2)), return_exceptions=True
    )
    assert isinstance(first, Claims)
    assert isinstance(second, PushError)
    assert (second.status, second.errno) == (503, 201)


async def test_the_users_that_messages_are_for_take_turns() -> None:
    queue = SignatureQueue(Verifier(ORIGIN), time_slice=0.0)
    sender, order = Sender(), list[str]()

    async def verify(uaid: str, number: int) -> None:
        await queue.verify(credentials(sender, expires=number), uaid)
        order.append(uaid)

    flood = [asyncio.ensure_future(verify("flooded", number)) for number in range(20)]
    await asyncio.sleep(0)
    await asyncio.gather(verify("one", 100), verify("two", 200))
    assert order.count("flooded") <= 3
    await asyncio.gather(*flood)
    assert len(order) == 22


async def test_signatures_that_wait_for_one_user_leave_room_for_those_of_others() -> None:
    queue = SignatureQueue(Verifier(ORIGIN), max_waiting=10, max_waiting_of_user=1)
    sender = Sender()
    first, second, other = await asyncio.gather(
        *(
            queue.verify(credentials(sender, expires=number), uaid)
            for number, uaid in enumerate(("flooded", "flooded", "other"))
        ),
        return_exceptions=True,
    )
    assert isinstance(first, Claims)
    assert isinstance(second, PushError)
    assert (second.status, second.errno) == (503, 201)
    assert isinstance(other, Claims)


async def test_a_new_token_that_comes_many_times_at_once_is_verified_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = list[Credentials]()
    verify = Verifier.verify

    def counting(self: Verifier, asked: Credentials) -> Claims:
        calls.append(asked)
        return verify(self, asked)

    monkeypatch.setattr(Verifier, "verify", counting)
    queue, header = SignatureQueue(Verifier(ORIGIN)), credentials(Sender()).authorization
    claims = await asyncio.gather(
        *(queue.verify(parse_credentials(header, {}), str(number)) for number in range(5))
    )
    assert len(set(claims)) == len(calls) == 1


async def test_a_header_of_another_key_does_not_pass_for_a_known_one() -> None:
    verifier = Verifier(ORIGIN)
    queue, good = SignatureQueue(verifier), credentials(Sender())
    await queue.verify(good, UAID)
    other = Credentials(good.authorization, 1, good.token, credentials(Sender()).key_text, "bearer")
    with pytest.raises(PushError):
        await queue.verify(other, UAID)
