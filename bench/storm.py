"""The storm: the server is killed and started again, and all user agents reconnect at once.

Rule: nothing that was answered 201 before, during or after is lost or delivered twice, and every
user agent is answered.

Half of the returning user agents have a message waiting, some of these because they had not acked
it when the server was killed; meanwhile pushes go on to user agents that are connected.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field
from itertools import repeat

from bench.fleet import Fleet, at_once
from bench.ledger import Ledger, MismatchError, TimedLedger
from bench.machine import listen_overflows
from bench.open_loop import Metronome, OpenLoop, poisson
from bench.push_client import ClosedLoop, Poster
from bench.report import Row, percentile
from bench.run import POSTERS, Run
from bench.server import Server
from bench.user_agent import Identity, UserAgent

CONNECTED = 50
LONGEST_PUSH_S = 1.0
MOST_GROWTH_KIB = 20.0
"""Peak RSS a returning client may add: its connection and one message in every buffer on its way,
and no queue that grows.
"""


@dataclass
class _Reconnects:
    """What happened to the returning user agents."""

    began: float = 0.0
    seconds: list[float] = field(default_factory=list)
    turned_away: int = 0


async def storm(run: Run) -> list[Row]:
    size, limit = run.sizes.storm, run.sizes.limit
    async with run.server("store-first") as server:
        crowd = Fleet(server, Ledger(), size)
        ledger = TimedLedger()
        steady = Fleet(server, ledger, CONNECTED)
        await crowd.subscribe_all()
        await steady.subscribe_all()
        token = crowd.sender.token(crowd.origin)
        await _store_messages(crowd, token, limit)
        await _crash_and_restart(server, [crowd, steady])
        await steady.reconnect_all()
        await server.wait_until_idle()
        before = server.memory().resident

        ledger.begin(0)
        posters = await steady.posters(POSTERS)
        traffic = OpenLoop(posters, steady, ledger, steady.sender.token(steady.origin))
        pushing = Metronome(poisson(run.sizes.storm_pushes_per_second, limit), traffic.send)
        await asyncio.sleep(0.5)
        overflows = listen_overflows()
        history = await _reconnect_all(crowd, limit)
        overflows = listen_overflows() - overflows
        await crowd.ledger.all_delivered(limit)
        await asyncio.sleep(0.5)
        pushing.stop()
        await pushing.done
        ledger.expect(traffic.sent)
        await ledger.all_answered(limit)
        await ledger.all_delivered(limit)
        await _wait_until_idle(server, [crowd, steady])
        waits = traffic.latencies()
        answers = traffic.answer_times()
        waiting = crowd.ledger.close_round().delivered
        ledger.close_round()
        peak = server.memory().peak

        await _still_reachable(crowd, token, posters, limit)
        for poster in posters:
            poster.close()
        await crowd.leave()
        await crowd.reconnect_all()  # everything was acked: whatever comes now is a duplicate
        await _wait_until_idle(server, [crowd])
        crowd.ledger.close_round()
        await crowd.leave()
        await steady.leave()
    growth = (peak - before) / size / 1024
    longest = max(waits[-1], answers[-1]) / 1000
    seconds = sorted(history.seconds)
    return [
        Row(
            f"storm: {size:,} return after a kill",
            f"{seconds[-1]:.2f} s",
            "",
            "all answered, none lost or twice",
            True,
            rate=f"{size / seconds[-1]:,.0f}/s",
            note=(
                f"p50 {percentile(seconds, 50):.2f} s, p99 {percentile(seconds, 99):.2f} s;"
                f" {waiting:,} messages were waiting; {history.turned_away} times turned away,"
                f" {overflows:,} times by a full accept queue"
            ),
            values={
                "seconds": seconds[-1],
                "p50_s": percentile(seconds, 50),
                "p99_s": percentile(seconds, 99),
                "messages_waiting": waiting,
                "turned_away": history.turned_away,
                "accept_queue_overflows": overflows,
            },
        ),
        Row(
            "storm: longest wait of a push meanwhile",
            f"{longest:.3f} s",
            "",
            f"≤ {LONGEST_PUSH_S:g} s",
            longest <= LONGEST_PUSH_S,
            note=f"{traffic.sent:,} pushes; to the client p50 {percentile(waits, 50):.2f} ms,"
            f" p99 {percentile(waits, 99):.1f} ms;"
            f" the load itself was up to {traffic.lateness()[-1] / 1000:.3f} s late",
            values={"longest_s": longest, "pushes": traffic.sent, "p99_ms": percentile(waits, 99)},
        ),
        Row(
            "storm: peak RSS per returning client",
            f"{growth:.1f} KiB",
            "",
            f"≤ {MOST_GROWTH_KIB:g} KiB",
            growth <= MOST_GROWTH_KIB,
            note=f"peak {peak / 2**20:.0f} MiB, {before / 2**20:.0f} MiB before",
            values={"kib_per_client": growth, "peak": peak, "resident_before": before},
        ),
    ]


async def _store_messages(crowd: Fleet, token: bytes, limit: float) -> None:
    """A message for half of them: most are away, every tenth is connected and does not ack what it
    gets.
    """
    half = list(range(len(crowd.identities) // 2))
    silent = set(half[::10])
    place = {identity: index for index, identity in enumerate(crowd.identities)}
    leaving: list[UserAgent] = []
    staying: list[UserAgent] = []
    received_before = Ledger()
    received_before.begin(len(silent))
    for agent in crowd.agents:
        index = place[agent.identity]
        if index in silent:
            agent.acking = False
            agent.ledger = received_before  # what comes now must come again
        (leaving if index < len(half) and index not in silent else staying).append(agent)
    await at_once(UserAgent.leave, leaving)
    crowd.agents = staying
    posters = await crowd.posters(POSTERS)
    crowd.ledger.begin(len(half))
    ClosedLoop(posters, (crowd.push_to(index, token) for index in half), crowd.ledger)
    await crowd.ledger.all_answered(limit)
    await received_before.all_delivered(limit)
    for poster in posters:
        poster.close()


async def _crash_and_restart(server: Server, fleets: list[Fleet]) -> None:
    """Kill the server while all are connected and start it again on the same ports and data."""
    server.keep_ports(fleets[0].identities[0].endpoint)
    agents = [agent for fleet in fleets for agent in fleet.agents]
    for agent in agents:
        agent.closing = True
    server.kill()
    await asyncio.gather(*(agent.gone for agent in agents))
    for fleet in fleets:
        fleet.agents = []
    await asyncio.to_thread(server.start)


async def _reconnect_all(crowd: Fleet, limit: float) -> _Reconnects:
    """All at once; who is turned away tries again after a moment, as a user agent does."""
    history = _Reconnects(began=time.monotonic())

    async def come(identity: Identity) -> None:
        while True:
            try:
                agent = await crowd.connect(identity, limit)
            except OSError as refused:
                history.turned_away += 1
                if time.monotonic() - history.began > limit:
                    raise MismatchError(
                        f"a returning client was not answered in {limit:g} s: {refused}"
                    ) from None
                await asyncio.sleep(random.uniform(0.2, 1.0))
            else:
                history.seconds.append(time.monotonic() - history.began)
                crowd.agents.append(agent)
                return

    try:
        async with asyncio.TaskGroup() as group:
            for identity in crowd.identities:
                group.create_task(come(identity))
    except* MismatchError as several:
        raise MismatchError(str(several.exceptions[0])) from None
    return history


async def _wait_until_idle(server: Server, fleets: list[Fleet]) -> None:
    """Until nothing is on its way any more: a message that comes twice has come by then."""
    for fleet in fleets:
        await fleet.barrier()
    await server.wait_until_idle()


async def _still_reachable(crowd: Fleet, token: bytes, posters: list[Poster], limit: float) -> None:
    """One push to each of some of those who came back."""
    count = min(500, len(crowd.identities))
    crowd.ledger.begin(count)
    ClosedLoop(posters, crowd.pushes(repeat(token), count), crowd.ledger)
    await crowd.ledger.all_answered(limit)
    await crowd.ledger.all_delivered(limit)
    await _wait_until_idle(crowd.server, [crowd])
    crowd.ledger.close_round()
