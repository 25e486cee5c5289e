"""Every answer of the dashboard over a workspace whose names are meant to do harm."""

import csv
import io
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from urllib.parse import unquote_plus, urljoin, urlsplit

import pytest

from support.channelstats.dashboard import Dashboard, dashboard
from support.channelstats.elements import Elements
from support.channelstats.house import House, house
from support.channelstats.workspace import Raw, Workspace, write_folder

MOST = 260
"""Addresses that are looked at."""

DAYS = "from=2024-03-10&to=2024-03-16"
FIRST = 1_710_061_200
"""A Sunday, 10 March 2024, 09:00."""

PEOPLE = {
    "UMARKUP": '"><img src=x onerror=alert(1)>',
    "USCRIPT": "</script><script>alert(`zwölf`)</script>",
    "UFORMULA": "=cmd|' /C kalk'!A0",
    "UQUOTED": 'O\'Hara "Quill" & Söhne; path=/',
    "URIGHTS": "\u202eשלום\u2066",  # noqa: RUF001 - one of the other direction
    "UCHINESE": "王小明 🦩",
    "UBREAKS": "Zeile\r\nSet-Cookie: böse=1",
    "UBRACES": "{{ 7*191 }} ${jndi}",
}
CHANNELS = {
    "CSHOUTS": "x'\"><svg onload=alert(2)>",
    "CRIDDLE": "räksel-七面鳥",
    "CSUMMEN": "@summe(1+1)",
}
EMOJI = ("tada", "zwölf-uhr", "ohara_wave", "räksel")
ZONE = '<b onclick="alert(3)">Mars'
OWN_TAGS = re.compile(
    r"<(img|iframe|object|embed|base|foreignobject|b)\b|javascript:", re.IGNORECASE
)


def workspace() -> Workspace:
    users: list[Raw] = [
        {
            "id": uid,
            "name": name,
            "real_name": name,
            "tz": ZONE if uid == "UMARKUP" else "Asia/Tokyo",
            "profile": {"display_name": name},
        }
        for uid, name in PEOPLE.items()
    ]
    # The folder of a channel is called after it, which is no place for a slash.
    channels: list[Raw] = [{"id": cid, "name": name} for cid, name in CHANNELS.items()]
    made = Workspace(users=users, channels=channels)
    people = list(PEOPLE)
    for place, cid in enumerate(CHANNELS):
        messages: list[Raw] = []
        for number in range(28):
            one, other = people[(number + place) % len(people)], people[number * 3 % len(people)]
            at = f"{FIRST + 13_000 * number + place}.000{number:03d}"
            message: Raw = {"type": "message", "user": one, "ts": at, "text": f"a b <@{other}>"}
            message["reactions"] = [
                {"name": EMOJI[number % len(EMOJI)], "users": [other, "UNOBODY"], "count": 2}
            ]
            messages.append(message)
        made.messages[cid] = messages
    return made


@pytest.fixture
async def hostile(tmp_path: Path) -> AsyncIterator[House]:
    export = write_folder(workspace().files(), tmp_path / "export")
    async with house(tmp_path) as opened:
        await opened.take_in(export)
        yield opened


@dataclass
class Answer:
    """``text`` is the body; ``said`` all of it as it is meant, with headers and address."""

    status: int
    kind: str
    text: str
    headers: list[str]
    path: str

    @property
    def said(self) -> str:
        plain = unescape(unquote_plus("\n".join((self.path, *self.headers, self.text))))
        return f"{plain}\n{json.loads(self.text)!r}" if "json" in self.kind else plain


def _places(answer: Answer) -> list[str]:
    """Where an answer leads, and what it loads."""
    page = Elements(answer.text if "html" in answer.kind else "")
    return [*page.links, *page.loads]


@dataclass
class Walk:
    """Everything that links lead to, from some addresses on; each form of address in turn."""

    of: Dashboard
    answers: list[Answer] = field(default_factory=list)

    async def go(self, *starts: str) -> None:
        waiting, seen = list(starts), set(starts)
        while waiting and len(self.answers) < MOST:
            answer = await self.ask(waiting.pop(0))
            self.answers.append(answer)
            for link in _places(answer):
                to = urljoin(answer.path, link)
                if not urlsplit(to).netloc and not link.startswith("#") and to not in seen:
                    seen.add(to)
                    waiting.append(to)

    async def ask(self, path: str) -> Answer:
        async with self.of.client.get(path) as answer:
            text = (await answer.read()).decode(errors="replace")
            headers = [f"{name}: {value}" for name, value in answer.headers.items()]
            kind = answer.headers.get("Content-Type", "")
            return Answer(answer.status, kind, text, headers, path)


STARTS = (
    *(f"/{name}?{DAYS}" for name in ("people", "channels", "network", "reactions", "threads")),
    *(f"/{name}?{DAYS}" for name in ("", "volume", "hours", "newcomers", "report")),
    "/names.json?like=a",
    "/names.json?like=",
)


@pytest.mark.slow
async def test_no_name_is_ever_more_than_text(hostile: House, tmp_path: Path) -> None:
    async with dashboard(hostile, tmp_path, slack_name="example") as opened:
        walk = Walk(opened)
        await walk.go(*STARTS)
        errors = [await walk.ask(f"/people?person={name}") for name in ("%3Cb%3E", "%0d%0aX:y")]
    pages = [answer for answer in (*walk.answers, *errors) if "html" in answer.kind]
    assert any("onerror" in unescape(answer.text) for answer in pages)
    for answer in pages:
        assert Elements(answer.text).running == [], answer.path
        assert not OWN_TAGS.search(answer.text), answer.path
        assert "1337" not in answer.text
    tables = [answer for answer in walk.answers if "csv" in answer.kind]
    assert any("'=cmd" in answer.text for answer in tables)
    for answer in tables:
        for row in csv.reader(io.StringIO(answer.text)):
            assert not [cell for cell in row if cell[:1] in set("=+@\t\r")], answer.path
    for answer in walk.answers:
        assert answer.status == 200, (answer.path, answer.text)
        assert not [line for line in answer.headers if line.lower().startswith("set-cookie")]
