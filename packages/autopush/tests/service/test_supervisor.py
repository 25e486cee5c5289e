"""The supervisor, in a process of its own that is controlled by lines and signals; its watchdog."""

import itertools
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from math import inf
from multiprocessing import Pipe
from pathlib import Path

import pytest

from autopush.service.supervisor import CONFIRM_AFTER, HEALTHY_AFTER, Restarts, Watchdog, WorkerSlot
from support.forked import ForkedProcess

HEADER = '''
import mmap, os, pickle, select, signal, sys, time, warnings
from autopush.service import supervisor
from autopush.service.reload import MAX_MESSAGE, Reloading, WorkerReply
from autopush.service.supervisor import CONFIRM_AFTER, Watchdog
from autopush.service.systemd import ServiceManager
from autopush.service.upgrade import ServiceUpgrade
from autopush.settings import Settings
from autopush.telemetry import logs

warnings.simplefilter("default")  # shown on standard error: of files left open, too
logs.configure(output="stderr", human=True, background=False)

BEAT = 0.05
heartbeats = memoryview(mmap.mmap(-1, 8 * 8)).cast("B").cast("d")

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def take_settings(slot):
    if message := slot.messages.recv(MAX_MESSAGE):  # else the parent is gone
        say("took", slot.index, pickle.loads(message).max_requests)
        slot.messages.send(pickle.dumps(WorkerReply(True)))

def until_stopped(slot):
    # As a worker's loop does: ends on SIGTERM, or when the parent is gone. Its heart beats.
    wakeup, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end)
    signal.signal(signal.SIGTERM, lambda *_: None)
    say("worker", slot.index, os.getpid())
    heartbeats[slot.index] = time.monotonic()
    slot.report_ready()
    readable, received = [], b""
    while slot.parent_pipe not in readable and signal.SIGTERM not in received:
        readable, _, _ = select.select([wakeup, slot.parent_pipe, slot.messages], [], [], BEAT)
        received = os.read(wakeup, 16) if wakeup in readable else b""
        if slot.messages in readable:
            take_settings(slot)
        heartbeats[slot.index] = time.monotonic()
    say("orphaned" if slot.parent_pipe in readable else "stopped", slot.index)
    return 0

def on_ready():
    say("ready")

def companion(parent_pipe):
    # Ends on SIGTERM and SIGUSR2, or when the parent is gone.
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
    say("companion", os.getpid())
    while not select.select([parent_pipe], [], [], BEAT)[0]:
        pass
    say("orphaned companion")
    return 0

def supervise(
    worker, workers=2, grace_period=20.0, watchdog_timeout=0.0, next=None, drain=0.0, beside=None
):
    sys.exit(
        supervisor.Supervisor(
            worker,
            workers,
            on_ready=on_ready,
            grace_period=grace_period,
            watchdog=Watchdog(watchdog_timeout, lambda: heartbeats),
            manager=ServiceManager({}),
            reloading=Reloading(
                Settings(),
                Settings(),
                lambda: Settings(max_requests=7),
                answer=lambda outcome: say("answer", outcome.is_applied, *outcome.changed),
            ),
            upgrade=ServiceUpgrade([], lambda _: None, command=next),
            drain=drain,
            companion=supervisor.Companion("companion", beside) if beside else None,
        ).run()
    )

start = until_stopped

next_version = [sys.executable, "-c", """
import json, os, sys, time
print("next", os.getpid(), flush=True)
os.write(json.loads(os.environ["INHERITED_BY_AUTOPUSH"])["ready_pipe"], b"ready")
time.sleep(float(sys.argv[1]))
"""]
'''


class Supervised:
    """A running supervisor; its lines are read as they come."""

    def __init__(self, program: str, errors: Path) -> None:
        self._output, writing = os.pipe()
        with open(writing, "wb"), errors.open("wb") as file:
            self.process = ForkedProcess(program=program, stdout=writing, stderr=file.fileno())
        self._errors = errors
        self.lines: list[list[str]] = []
        self._partial = b""

    def wait_for(self, what: Callable[[list[list[str]]], bool]) -> list[list[str]]:
        descriptor = self._output
        deadline = time.monotonic() + 30
        while not what(self.lines):
            ready, _, _ = select.select([descriptor], [], [], deadline - time.monotonic())
            data = os.read(descriptor, 65_536) if ready else b""
            assert data, f"ended or timed out after {self.lines}"
            *lines, self._partial = (self._partial + data).split(b"\n")
            self.lines += [line.decode().split() for line in lines]
        return self.lines

    def pids(self, index: int) -> list[int]:
        """Process ids of the workers that had this index, oldest first."""
        return [int(line[2]) for line in self.lines if line[:2] == ["worker", str(index)]]

    def count(self, *words: str) -> int:
        return sum(line[: len(words)] == list(words) for line in self.lines)

    def end(self, signal_number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and standard error after a signal; what was still printed is in `lines`."""
        self.process.send_signal(signal_number)
        return self.result()

    def result(self) -> tuple[int, str]:
        code = self.process.wait(30)
        out = self._partial
        while data := os.read(self._output, 65_536):
            out += data
        self.lines += [line.decode().split() for line in out.splitlines()]
        return code, self.errors

    @property
    def errors(self) -> str:
        return self._errors.read_text()

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # a session of its own
        self.process.kill()  # one that has none yet
        self.process.wait(30)
        os.close(self._output)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    started: list[Supervised] = []

    def start(program: str, *, is_ready: bool = True) -> Supervised:
        started.append(Supervised(HEADER + program, tmp_path / f"errors-{len(started)}"))
        if is_ready:
            started[-1].wait_for(lambda lines: ["ready"] in lines)
        return started[-1]

    yield start
    for supervised in started:
        supervised.close()


Run = Callable[..., Supervised]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ready_is_reported_once_when_all_workers_are(run: Run) -> None:
    service = run(
        """
others, report = os.pipe()
def start(slot):
    if slot.index == 0:
        for _ in range(2):
            os.read(others, 1)
        say("last")
        return until_stopped(slot)
    slot.report_ready()
    os.write(report, b"x")
    return until_stopped(slot)
supervise(start, 3)
"""
    )
    assert service.end()[0] == 0
    assert service.count("ready") == 1
    assert service.lines.index(["last"]) < service.lines.index(["ready"])


def test_a_worker_that_ended_before_all_were_ready_is_waited_for_again(run: Run) -> None:
    service = run(
        """
lived, mark = os.pipe()  # outlives the workers: the first worker 0 leaves a mark in it
first_died, tell_death = os.pipe()
other_reported, tell_report = os.pipe()
def start(slot):
    if slot.index == 0:
        if not select.select([lived], [], [], 0)[0]:
            os.write(mark, b"x")
            slot.report_ready()
            return 1
        os.write(tell_death, b"x")
        os.read(other_reported, 1)
        time.sleep(0.1)  # were it wrong, `ready` would come now
        say("replacement")
    else:
        os.read(first_died, 1)
        slot.report_ready()
        os.write(tell_report, b"x")
    return until_stopped(slot)
supervise(start)
"""
    )
    assert service.end()[0] == 0
    assert service.count("ready") == 1
    assert service.lines.index(["replacement"]) < service.lines.index(["ready"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_every_worker_and_ends_with_0(run: Run, number: int) -> None:
    service = run("supervise(start)")
    code, err = service.end(number)
    assert (code, err) == (0, "")
    assert service.count("stopped") == 2
    assert not any(alive(pid) for index in (0, 1) for pid in service.pids(index))


def test_an_interrupt_sent_to_the_whole_group_ends_with_0_and_restarts_no_worker(run: Run) -> None:
    service = run("supervise(start, 4)")
    os.killpg(service.process.pid, signal.SIGINT)
    code, err = service.result()
    assert (code, err) == (0, "")
    assert service.count("worker") == 4


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_worker_that_ended_is_restarted_at_once(run: Run, number: signal.Signals) -> None:
    service = run("supervise(start)")
    (victim,), (other,) = service.pids(0), service.pids(1)
    os.kill(victim, number)
    service.wait_for(lambda _: len(service.pids(0)) == 2)
    assert alive(other)
    code, err = service.end()
    assert code == 0
    cause = "exit code 0" if number is signal.SIGTERM else f"signal {number.name}"
    assert f"worker=0 pid={victim} cause='{cause}'" in err
    assert "delay=0.0" in err
    assert service.count("ready") == 1
    assert service.pids(1) == [other]


def test_workers_that_end_at_the_same_moment_are_all_restarted(run: Run) -> None:
    service = run("supervise(start, 8)")
    for index in range(8):
        os.kill(service.pids(index)[0], signal.SIGKILL)
    service.wait_for(lambda _: all(len(service.pids(index)) == 2 for index in range(8)))
    assert service.end()[0] == 0


def test_a_worker_that_keeps_failing_at_its_start_waits_longer_each_time(run: Run) -> None:
    service = run(
        """
def start(slot):
    say("died", time.monotonic())
    raise LookupError("broken")
supervise(start, 1)
""",
        is_ready=False,
    )
    service.wait_for(lambda lines: len(lines) >= 5)
    times = [float(line[1]) for line in service.lines[:5]]
    gaps = [late - early for early, late in itertools.pairwise(times)]
    for gap, least in zip(gaps, (0.0, 0.1, 0.2, 0.4), strict=True):
        assert gap >= least
    code, err = service.end()
    assert code == 0
    assert "LookupError: broken" in err
    assert "cause='exit code 1'" in err
    assert "Supervisor(" not in err, "the parent's frames"


def test_delays_end_at_5_seconds_and_start_over_after_a_healthy_run() -> None:
    restarts = Restarts()
    delays = [restarts.schedule(now=100.0, uptime=HEALTHY_AFTER - 1) for _ in range(30)]
    assert delays[:4] == [0.0, 0.1, 0.2, 0.4]
    assert max(delays) == delays[-1] == 5.0
    assert restarts.at == 105.0
    assert restarts.schedule(now=200.0, uptime=HEALTHY_AFTER) == 0.0
    assert restarts.at == 200.0
    assert restarts.schedule(now=200.0) == 0.1


def test_exit_code_3_at_the_start_ends_the_service_with_3(run: Run) -> None:
    service = run(
        """
def start(slot):
    if slot.index == 1:
        print("autopush: port in use", file=sys.stderr)
        return 3
    return until_stopped(slot)
supervise(start, 3)
""",
        is_ready=False,
    )
    code, err = service.result()
    assert (code, err) == (3, "autopush: port in use\n")
    assert not any(alive(pid) for index in (0, 2) for pid in service.pids(index))


def test_exit_code_3_of_a_restarted_worker_does_not_end_the_others(run: Run) -> None:
    service = run(
        """
lived, mark = os.pipe()  # outlives the workers: the first worker 0 leaves a mark in it
def start(slot):
    if slot.index == 0:
        if select.select([lived], [], [], 0)[0]:
            say("refused")
            return 3
        os.write(mark, b"x")
    return until_stopped(slot)
supervise(start)
"""
    )
    os.kill(service.pids(0)[0], signal.SIGKILL)
    service.wait_for(lambda _: service.count("refused") >= 2)
    assert service.process.poll() is None
    assert alive(service.pids(1)[0])
    assert service.end()[0] == 0


def test_a_worker_that_does_not_stop_is_killed_after_the_grace_period(run: Run) -> None:
    service = run(
        """
def start(slot):
    if slot.index == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        say("worker", slot.index, os.getpid())
        slot.report_ready()
        while True:
            time.sleep(60)
    return until_stopped(slot)
supervise(start, grace_period=5)
"""
    )
    code, err = service.end()
    assert code == 0
    assert service.count("stopped", "1") == 1
    assert "did not stop in time" in err
    assert not alive(service.pids(0)[0])


def test_a_worker_that_does_not_end_after_an_upgrade_is_killed_after_the_drain_and_the_grace_period(
    run: Run,
) -> None:
    service = run(
        """
supervise(start, grace_period=0.3, next=[*next_version, "0"], drain=0.5)
"""
    )
    began = time.monotonic()
    service.process.send_signal(signal.SIGUSR2)
    assert service.process.wait(30) == 0
    assert time.monotonic() - began > 0.8
    assert not any(alive(pid) for number in (0, 1) for pid in service.pids(number))
    assert service.errors.count("did not stop in time") == 2


def test_when_the_next_version_fails_while_workers_end_others_take_their_places(run: Run) -> None:
    service = run(
        """
def start(slot):
    signal.signal(signal.SIGUSR2, lambda *_: say("retires", slot.index))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
    return until_stopped(slot) if slot.index else ends_at_once(slot)

def ends_at_once(slot):  # it has no clients
    say("worker", slot.index, os.getpid())
    slot.report_ready()
    return signal.sigwait([signal.SIGTERM, signal.SIGUSR2]) and 0

supervise(start, next=[*next_version, "600"], drain=600)
"""
    )
    service.process.send_signal(signal.SIGUSR2)
    service.wait_for(lambda lines: service.count("retires", "1") == 1)
    (following,) = (int(line[1]) for line in service.lines if line[0] == "next")
    os.kill(following, signal.SIGKILL)
    service.wait_for(lambda _: all(len(service.pids(index)) == 2 for index in (0, 1)))
    assert service.count("stopped", "1") == 1
    code, err = service.end()
    assert code == 0
    assert "this version serves again" in err
    assert err.count("ERROR") == 1  # that a worker ended as it was told is none


def test_a_companion_is_restarted_and_ends_with_this_version(run: Run) -> None:
    service = run(
        """
supervise(start, 1, next=[*next_version, "600"], drain=600, beside=companion)
"""
    )

    def pids() -> list[int]:
        return [int(line[1]) for line in service.lines if line[0] == "companion"]

    service.wait_for(lambda _: len(pids()) == 1)
    os.kill(pids()[0], signal.SIGKILL)
    service.wait_for(lambda _: len(pids()) == 2)
    service.process.send_signal(signal.SIGUSR2)
    service.wait_for(lambda lines: any(line[0] == "next" for line in lines))
    (following,) = (int(line[1]) for line in service.lines if line[0] == "next")
    while alive(pids()[1]):  # until the parent has waited for it
        time.sleep(0.01)
    os.kill(following, signal.SIGKILL)
    service.wait_for(lambda _: len(pids()) == 3)
    assert service.errors.count("The companion ended and is restarted") == 1
    assert service.end()[0] == 0
    assert not alive(pids()[2])


def test_a_companion_notices_when_the_parent_is_killed(run: Run) -> None:
    service = run("supervise(start, 1, beside=companion)")
    service.wait_for(lambda _: service.count("companion") == 1)
    service.process.kill()
    service.wait_for(lambda _: service.count("orphaned", "companion") == 1)


def test_workers_also_restarted_ones_notice_when_the_parent_is_killed(run: Run) -> None:
    service = run("supervise(start, 3)")
    os.kill(service.pids(0)[0], signal.SIGKILL)
    service.wait_for(lambda _: len(service.pids(0)) == 2)
    service.process.kill()
    service.wait_for(lambda _: service.count("orphaned") == 3)


def test_at_sighup_every_worker_gets_the_settings_also_one_that_still_starts(run: Run) -> None:
    service = run(
        """
def start(slot):
    say("started", slot.index)
    select.select([slot.messages], [], [])
    return until_stopped(slot)
supervise(start, 3)
""",
        is_ready=False,
    )
    service.wait_for(lambda _: service.count("started") == 3)
    service.process.send_signal(signal.SIGHUP)
    service.wait_for(lambda _: service.count("answer") == 1)
    assert sorted(line for line in service.lines if line[0] == "took") == [
        ["took", index, "7"] for index in "012"
    ]
    assert service.count("answer", "True", "max_requests") == 1
    service.wait_for(lambda lines: ["ready"] in lines)
    code, errors = service.end()
    assert (code, "ERROR" in errors) == (0, False)


def test_a_worker_that_ends_in_a_reload_is_not_waited_for_and_its_successor_is_told_of_it(
    run: Run,
) -> None:
    service = run(
        """
def start(slot):
    say("started", slot.index, slot.has_reloaded)
    if slot.has_reloaded:
        return until_stopped(slot)
    slot.report_ready()
    select.select([slot.messages], [], [])
    return 1 if slot.index == 0 else until_stopped(slot)
supervise(start, 2)
"""
    )
    assert service.count("started", "0", "False") == 1
    service.process.send_signal(signal.SIGHUP)
    service.wait_for(lambda _: service.count("started", "0", "True") == 1)
    service.wait_for(lambda _: service.count("answer") == 1)
    assert service.end()[0] == 0


def test_a_worker_starts_with_its_signals_reset_and_no_thread_in_the_parent(run: Run) -> None:
    service = run(
        """
import threading
def start(slot):
    defaults = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT)]
    is_reset = defaults == [signal.SIG_DFL, signal.SIG_DFL, signal.SIG_IGN]
    blocked = signal.pthread_sigmask(0, []) == {signal.SIGHUP, signal.SIGUSR2}
    say("child", is_reset, signal.set_wakeup_fd(-1), blocked)
    return until_stopped(slot)
supervise(start, 2)
"""
    )
    assert service.count("child", "True", "-1", "True") == 2
    threads = os.listdir(f"/proc/{service.process.pid}/task")
    assert len(threads) == 1
    assert service.end()[0] == 0


@pytest.mark.parametrize(
    ("watchdog_timeout", "least", "most"), [(0.0, inf, inf), (3600.0, 3590.0, 3600.0)]
)
def test_the_parent_sleeps_until_a_heartbeat_could_be_overdue_if_ever(
    run: Run, watchdog_timeout: float, least: float, most: float
) -> None:
    wakeups = run(
        f"""
wait = supervisor.wait
def spy(objects, timeout):
    say("sleeps", float("inf") if timeout is None else timeout)
    return wait(objects, timeout)
supervisor.wait = spy
supervise(start, watchdog_timeout={watchdog_timeout})
"""
    )
    wakeups.wait_for(lambda lines: lines[-1][0] == "sleeps")
    assert least <= float(wakeups.lines[-1][1]) <= most
    assert wakeups.end()[0] == 0


def test_output_buffered_in_the_parent_is_not_printed_by_the_children(run: Run) -> None:
    service = run("sys.stdout.write('once\\n')\nsupervise(start, 3)")
    assert service.end()[0] == 0
    assert service.count("once") == 1


def test_a_worker_logs_from_a_thread_and_loses_nothing_at_its_end(run: Run) -> None:
    service = run(
        """
def start(slot):
    for number in range(90):
        logs.get("worker").info("line", slot=slot.index, number=number)
    say("threads", len(os.listdir("/proc/self/task")))
    return until_stopped(slot)
supervise(start)
"""
    )
    code, err = service.end()
    assert code == 0
    assert err.count("INFO worker: line") == 180
    assert service.count("threads", "2") == 2


def test_a_report_to_a_parent_that_is_gone_raises_nothing() -> None:
    reader, writer = Pipe(duplex=False)
    reader.close()
    with writer:
        slot = WorkerSlot(0, -1, writer, socket.socket())
        slot.report_ready()
        slot.messages.close()


# ── the watchdog ─────────────────────────────────────────────────────────────────────────────────


def test_a_frozen_worker_is_killed_and_replaced(run: Run) -> None:
    service = run("supervise(start, watchdog_timeout=5)")
    (victim,), (other,) = service.pids(0), service.pids(1)
    frozen_at = time.monotonic()
    os.kill(victim, signal.SIGSTOP)
    service.wait_for(lambda _: len(service.pids(0)) == 2)
    assert time.monotonic() - frozen_at > 5
    assert not alive(victim)
    assert alive(other)
    code, err = service.end()
    assert code == 0
    assert f"A worker is frozen and is killed worker=0 pid={victim} silence=" in err
    assert f"worker=0 pid={victim} cause='signal SIGKILL'" in err
    assert service.pids(1) == [other]


class Heartbeats:
    """Those of three workers, of which the watchdog hears after `timeout` 10."""

    def __init__(self) -> None:
        self.last = [100.0, 100.0, 100.0]
        self.watchdog = Watchdog(10.0, lambda: self.last)

    def look(self, now: float, *ready: int) -> dict[int, float]:
        return self.watchdog.frozen(dict.fromkeys(ready or (0, 1, 2), 90.0), now)


def test_a_worker_silent_at_two_looks_is_frozen_and_no_other() -> None:
    beats = Heartbeats()
    assert beats.look(101.0) == {}
    assert beats.watchdog.due == 110.0
    beats.last[:] = [109.0, 100.0, 109.5]
    assert beats.look(110.0) == {}
    assert beats.watchdog.due == 110.0 + CONFIRM_AFTER
    beats.last[:] = [110.5, 100.0, 110.5]
    assert beats.look(110.0 + CONFIRM_AFTER) == {1: 10.0 + CONFIRM_AFTER}
    beats.look(111.0, 0, 2)
    assert beats.watchdog.due == 120.5


def test_a_worker_that_beats_before_the_second_look_is_not_frozen() -> None:
    beats = Heartbeats()
    beats.look(101.0)
    beats.look(110.0)
    beats.last[:] = [110.9] * 3
    assert beats.look(111.0) == {}
    assert beats.watchdog.due == 120.9


def test_nobody_is_frozen_after_a_time_in_which_the_watchdog_did_not_run() -> None:
    beats = Heartbeats()
    beats.look(101.0)
    assert beats.look(3_600.0) == {}, "no look was due while they were silent"
    assert beats.look(3_600.5) == {}, "too early to decide"
    assert beats.look(7_200.0) == {}, "the look that was to decide came late"
    beats.last[:] = [7_200.2, 7_200.2, 100.0]
    assert beats.look(7_201.0) == {2: 7_101.0}


def test_the_silence_of_a_worker_begins_when_it_serves() -> None:
    beats = Heartbeats()
    beats.last[0] = 0.0
    assert beats.watchdog.frozen({0: 105.0}, 106.0) == {}
    assert beats.watchdog.due == 115.0


def test_a_timeout_of_0_watches_nobody() -> None:
    watchdog = Watchdog(0.0, lambda: [0.0])
    assert watchdog.frozen({0: 0.0}, 1e6) == {}
    assert watchdog.due is None
