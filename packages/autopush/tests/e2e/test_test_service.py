"""`autopush test-service` as others start it: by a program of any language, and for a browser."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autopush.testing.client import PushService
from autopush.testing.running import Address
from support.firefox import Firefox
from support.foreign_senders import PROGRAMS, SENDERS, node, send
from support.marionette import Marionette
from support.page_examples import code_blocks, page
from support.pywebpush_sender import PywebpushSender
from support.tools import run_captured

COMMAND = [str(Path(sys.executable).parent / "autopush"), "test-service", "--json"]


def start(*words: str, **options: Any) -> tuple["subprocess.Popen[str]", Address]:
    process = subprocess.Popen(
        [*COMMAND, *words],
        stdout=subprocess.PIPE,
        text=True,
        **({"stdin": subprocess.PIPE} | options),
    )
    assert process.stdout is not None
    return process, Address(**json.loads(process.stdout.readline()))


def end(process: "subprocess.Popen[str]") -> None:
    with process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.fixture(scope="module")
def over_tls() -> Iterator[PushService]:
    process, address = start("--tls")
    yield PushService(address)
    end(process)
    assert address.ca is not None
    assert not Path(address.ca).parent.exists()


def test_it_ends_with_its_parent_or_by_signal_but_not_in_the_background() -> None:
    process, _ = start()
    end(process)
    process, address = start(stdin=subprocess.DEVNULL)
    with process:
        assert PushService(address).received == []
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_library_of_another_language_is_read_and_refused(
    program: Any, over_tls: PushService
) -> None:
    words, key = program(), over_tls.new_vapid_key()
    subscription = over_tls.subscribe(key.public)

    def answer(ttl: int = 60) -> str:
        assert over_tls.ca is not None
        return send(
            words, Path(over_tls.ca), subscription.info, key, ttl=ttl, text="Grüße", topic="t"
        )

    over_tls.reset()
    assert answer() == "201"
    message = subscription.next()
    assert (message.text, message.topic, message.ttl) == ("Grüße", "t", "60")
    assert over_tls.received[0].mistakes == []
    over_tls.answer(429, retry_after=1)
    assert answer() == "429"
    subscription.expire()
    assert over_tls.received[1].status == 429
    assert answer() == "410"


def test_the_example_for_node_passes(tmp_path: Path) -> None:
    program = node()
    [example] = code_blocks(page("test-your-code"), "js")
    assert len(example.splitlines()) <= 12
    (tmp_path / "push.test.cjs").write_text(example)
    path = os.pathsep.join([str(Path(COMMAND[0]).parent), os.environ["PATH"]])
    done = run_captured(
        [program[0], "--test", "push.test.cjs"],
        cwd=tmp_path,
        env=os.environ | {"NODE_PATH": str(SENDERS / "node/node_modules"), "PATH": path},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.browser
@pytest.mark.timeout(300)
def test_firefox_shows_a_notification_that_is_clicked_and_unsubscribes() -> None:
    sender = PywebpushSender()
    with PushService.running() as service, Firefox(service.websocket_url) as firefox:
        firefox.start(remote=True)
        subscription = firefox.subscribe(sender.key)
        sender.send(subscription, "show: News")
        assert firefox.receive(subscription) == [b"show: News"]
        assert [(p.status, p.mistakes) for p in service.received] == [(201, [])]
        with Marionette(firefox.profile) as control:
            control.click_notification("News")
        firefox.wait(lambda: firefox.events(subscription)[1:], "the click")
        click = firefox.events(subscription)[-1]
        assert (click.kind, click.body) == ("click", b"News")
        firefox.unsubscribe(subscription)
        firefox.wait(lambda: firefox.heard("unregister"), "the reply to its unregister")
        with pytest.raises(Exception, match="410 Gone"):
            sender.send(subscription, "too late")
        other = firefox.subscribe(sender.key)
        service.expire(other.endpoint)
        with pytest.raises(Exception, match="410 Gone"):
            sender.send(other, "too late")
        assert [each.errno for each in service.received] == [None, 106, 103]
