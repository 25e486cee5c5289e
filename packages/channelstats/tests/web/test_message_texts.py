"""What messages say, read from an export while somebody looks."""

import json
from pathlib import Path

import pytest

from channelstats.render.names import Directory
from channelstats.slack.archive import ArchiveRefused
from channelstats.web.message_texts import LONGEST, MessageTexts, first_line
from support.channelstats.dashboard import dashboard
from support.channelstats.house import EXAMPLE, House
from support.channelstats.workspace import Raw, Workspace, write_folder, write_zip

NAMES = Directory({"UA": "Ann"}, {"C1": "general"})
AT = 1_710_111_540
"""2024-03-10 22:59 UTC."""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("\n  \nOne &lt;two&gt; &amp; three\nfour", "One <two> & three"),
        ("<@UA>, see <#C1|old> and <#C2|other>", "@Ann, see #general and #other"),
        ("<@UX> <#CX> <!here> <!subteam^S1|@team>", "@somebody #a channel @here @team"),
        ("<https://x.org/?a=1&amp;b=2|this> or <https://y.org>", "this or https://y.org"),
        ("turned \u202earound", "turned around"),
        ("x" * 300, "x" * (LONGEST - 1) + "\N{HORIZONTAL ELLIPSIS}"),
        ("", ""),
    ],
)
def test_the_first_line_is_as_slack_shows_it(text: str, line: str) -> None:
    assert first_line(text, NAMES) == line


def said(at: int, text: str) -> Raw:
    return {"type": "message", "user": "UA", "ts": f"{at}.000100", "text": text}


@pytest.mark.parametrize("write", [write_zip, write_folder])
def test_a_message_is_found_in_the_files_of_its_channel_and_day(
    write: object, tmp_path: Path
) -> None:
    files = Workspace(channels=[{"id": "C1", "name": "old-name"}]).files()
    of_days = {"10": [said(AT, "Hello")], "11": [said(AT + 60, "Of another zone")], "12": "broken"}
    for day, messages in of_days.items():
        files[f"old-name/2024-03-{day}.json"] = json.dumps(messages).encode()
    assert callable(write)
    texts = MessageTexts.open(write(files, tmp_path / "export"))
    for _ in range(2):
        found = texts.first_lines(
            [f"C1/{AT + more}.000100/" for more in (0, 60, 120, 86_400)] + [f"C2/{AT}.000100/", ""],
            NAMES,
        )
        assert list(found.values()) == ["Hello", "Of another zone"]


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveRefused, match="not an export"):
        MessageTexts.open(tmp_path)


async def test_to_do_shows_what_messages_say_and_nothing_else_does(
    questions: House, tmp_path: Path
) -> None:
    days = "from=2024-03-10&to=2024-03-16"
    async with dashboard(questions, tmp_path) as opened:
        assert 'class="says"' not in await opened.text(f"/todo?{days}")
    texts = MessageTexts.open(EXAMPLE)
    async with dashboard(questions, tmp_path, texts=texts) as opened:
        page = await opened.text(f"/todo?{days}")
        assert 'class="says"' in page
        says = page.split('class="says" dir="auto">')[1].split("<")[0]
        for path in ("/todo.json", "/todo.csv", "/", "/report"):
            assert says not in await opened.text(f"{path}?{days}")
