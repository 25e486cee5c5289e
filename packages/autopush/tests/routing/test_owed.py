"""Checks owed to silent nodes: asked again, in batches, bounded, given up in the end."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from autopush.routing import owed as owed_module
from autopush.routing.node_answer import NodeAnswer
from autopush.routing.owed import OwedChecks

DONE, SILENT = NodeAnswer.DONE, NodeAnswer.SILENT
NODE, OTHER = "http://one:8081", "http://two:8081"


class Cluster:
    """Nodes that answer as told; `asked` notes every question, `rounds` those asked together."""

    def __init__(self) -> None:
        self.answers: dict[str, NodeAnswer] = {}
        self.say: Callable[[str, str], NodeAnswer] = lambda node, uaid: self.answers[node]
        self.asked: Counter[tuple[str, str]] = Counter()
        self.rounds: list[int] = []
        self.open = 0
        self.progress = asyncio.Event()

    async def ask(self, node_id: str, uaid: str) -> NodeAnswer:
        self.asked[node_id, uaid] += 1
        self.open += 1
        await asyncio.sleep(0)
        if self.open:
            self.rounds.append(self.open)
            self.open = 0
        answer = self.say(node_id, uaid)
        self.progress.set()
        return answer

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds():
                self.progress.clear()
                await self.progress.wait()

    def count(self, node_id: str) -> int:
        return sum(count for (node, _), count in self.asked.items() if node == node_id)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owed_module, "ASK_AGAIN", 0.002)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def owed(cluster: Cluster) -> AsyncIterator[OwedChecks]:
    made = OwedChecks(cluster.ask)
    yield made
    made.close()


async def settled(owed: OwedChecks) -> None:
    """Until nobody asks any more."""
    async with asyncio.timeout(5):
        while owed._collecting:
            await asyncio.wait(owed._collecting.values())


async def test_a_check_is_asked_for_until_the_node_answers(
    cluster: Cluster, owed: OwedChecks
) -> None:
    answers = [SILENT, SILENT, DONE]
    cluster.say = lambda node, uaid: answers.pop(0)
    owed.add(NODE, "u")
    await settled(owed)
    assert cluster.asked == {(NODE, "u"): 3}
    assert len(owed) == 0


@pytest.mark.parametrize("answer", [NodeAnswer.DONE, NodeAnswer.BUSY, NodeAnswer.ABSENT])
async def test_any_answer_pays_a_check(
    cluster: Cluster, owed: OwedChecks, answer: NodeAnswer
) -> None:
    cluster.answers[NODE] = answer
    for uaid in "abc":
        owed.add(NODE, uaid)
    await settled(owed)
    assert cluster.asked == {(NODE, uaid): 1 for uaid in "abc"}


async def test_a_silent_node_is_asked_one_question_at_a_time(
    cluster: Cluster, owed: OwedChecks
) -> None:
    cluster.answers[NODE] = SILENT
    for number in range(50):
        owed.add(NODE, str(number))
    await cluster.until(lambda: cluster.count(NODE) > 100)
    assert set(cluster.rounds) == {1}
    assert min(cluster.asked.values()) >= 2, "they take turns"


async def test_a_node_that_answers_again_is_asked_for_the_rest_in_batches(
    cluster: Cluster, owed: OwedChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_module, "ASKED_AT_ONCE", 20)
    cluster.answers[NODE] = DONE
    for number in range(50):
        owed.add(NODE, str(number))
    await settled(owed)
    assert set(cluster.asked.values()) == {1}
    assert len(cluster.asked) == 50
    assert cluster.rounds == [1, 20, 20, 9]


async def test_a_silent_node_holds_up_no_other(cluster: Cluster, owed: OwedChecks) -> None:
    cluster.answers = {NODE: SILENT, OTHER: DONE}
    for number in range(20):
        owed.add(NODE, str(number))
    owed.add(OTHER, "u")
    await cluster.until(lambda: cluster.count(OTHER) == 1)


async def test_a_node_that_is_gone_is_owed_nothing(cluster: Cluster, owed: OwedChecks) -> None:
    cluster.answers[NODE] = NodeAnswer.UNREACHABLE
    for number in range(20):
        owed.add(NODE, str(number))
    await settled(owed)
    assert cluster.count(NODE) == 1
    assert len(owed) == 0


async def test_a_check_that_is_owed_anew_while_it_is_asked_for_is_asked_for_again(
    cluster: Cluster, owed: OwedChecks
) -> None:
    """The node may have looked before the newer message was stored."""

    def answer(node: str, uaid: str) -> NodeAnswer:
        if cluster.asked[node, uaid] == 1:
            owed.add(node, uaid)
        return DONE

    cluster.say = answer
    owed.add(NODE, "u")
    await settled(owed)
    assert cluster.asked == {(NODE, "u"): 2}


async def test_a_node_that_is_silent_again_is_asked_again(
    cluster: Cluster, owed: OwedChecks
) -> None:
    for _ in range(2):
        cluster.asked.clear()
        answers = [SILENT, DONE]
        cluster.say = lambda node, uaid, answers=answers: answers.pop(0)  # type: ignore[misc]
        owed.add(NODE, "u")
        await settled(owed)
        assert cluster.asked == {(NODE, "u"): 2}


async def test_a_node_that_stays_silent_for_long_is_given_up(
    cluster: Cluster, owed: OwedChecks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed_module, "OWED_FOR", 0.01)
    cluster.answers[NODE] = SILENT
    owed.add(NODE, "a")
    owed.add(NODE, "b")
    await settled(owed)
    assert cluster.count(NODE) >= 1
    assert len(owed) == 0


async def test_how_many_are_owed_is_bounded_for_all_nodes_together(
    cluster: Cluster,
    owed: OwedChecks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owed_module, "MAX_OWED", 3)
    cluster.answers = {NODE: DONE, OTHER: DONE}
    for uaid in "ab":
        owed.add(NODE, uaid)
        owed.add(OTHER, uaid)
    assert len(owed) == 3
    await settled(owed)
    owed.add(OTHER, "b")
    await settled(owed)
    assert cluster.asked == dict.fromkeys([(NODE, "a"), (NODE, "b"), (OTHER, "a"), (OTHER, "b")], 1)


async def test_who_ends_waits_until_all_are_paid(cluster: Cluster, owed: OwedChecks) -> None:
    answers = {NODE: [SILENT, SILENT, DONE], OTHER: [SILENT, DONE]}
    cluster.say = lambda node, uaid: answers[node].pop(0)
    owed.add(NODE, "u")
    owed.add(OTHER, "u")
    await owed.finished(5)
    assert cluster.asked == {(NODE, "u"): 3, (OTHER, "u"): 2}


async def test_who_ends_does_not_wait_for_ever(cluster: Cluster, owed: OwedChecks) -> None:
    cluster.answers[NODE] = SILENT
    owed.add(NODE, "u")
    await cluster.until(lambda: cluster.count(NODE) >= 1)
    async with asyncio.timeout(5):
        await owed.finished(0.01)


async def test_closing_forgets_what_is_owed(cluster: Cluster, owed: OwedChecks) -> None:
    cluster.answers[NODE] = SILENT
    owed.add(NODE, "u")
    await cluster.until(lambda: cluster.count(NODE) == 1)
    collecting = list(owed._collecting.values())
    owed.close()
    await asyncio.wait(collecting)
    assert len(owed) == 0
