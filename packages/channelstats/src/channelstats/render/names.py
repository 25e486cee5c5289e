"""What people, channels and emoji are called, and where messages are.

Rule: who or what is not known is shown by its ID.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from channelstats.identifiers import UNLISTED_CHANNEL
from channelstats.metrics.table import (
    Kind,
)
from channelstats.render.words import printable
from channelstats.tables import Tables
from channelstats.tables.directory import Channel, User

_EMOJI: Final = """
    +1=👍 thumbsup=👍 -1=👎 heart=❤️ tada=🎉 rocket=🚀 eyes=👀 wave=👋 fire=🔥 joy=😂 smile=😄
    pray=🙏 clap=👏 100=💯 raised_hands=🙌 white_check_mark=✅ heavy_check_mark=✔️ x=❌
    thinking_face=🤔 slightly_smiling_face=🙂 sob=😭 heart_eyes=😍 sweat_smile=😅 laughing=😆
    grin=😁 wink=😉 blush=😊 sunglasses=😎 cry=😢 scream=😱 muscle=💪 ok_hand=👌 point_up=☝️
    raised_hand=✋ star=⭐ star2=🌟 sparkles=✨ zap=⚡ boom=💥 warning=⚠️ bulb=💡 memo=📝 bug=🐛
    hammer=🔨 wrench=🔧 gear=⚙️ lock=🔒 mag=🔍 link=🔗 ship=🚢 package=📦 coffee=☕ beer=🍺
    beers=🍻 pizza=🍕 cake=🍰 gift=🎁 balloon=🎈 party=🥳 partying_face=🥳
    rolling_on_the_floor_laughing=🤣 rofl=🤣 sun=☀️ rainbow=🌈 dog=🐶 cat=🐱 robot_face=🤖
    ghost=👻 skull=💀 see_no_evil=🙈 shrug=🤷 facepalm=🤦 face_palm=🤦 hugging_face=🤗
    saluting_face=🫡 blue_heart=💙 green_heart=💚 purple_heart=💜 yellow_heart=💛
    point_right=👉 handshake=🤝 brain=🧠 hourglass=⌛ calendar=📅 chart_with_upwards_trend=📈
    trophy=🏆 sos=🆘 seedling=🌱
"""
EXTERNAL: Final = " (external)"
"""Follows the name of somebody from outside."""

_SIGNS: Final = dict(pair.split("=") for pair in _EMOJI.split())
_TONES: Final = {f"skin-tone-{number}": chr(0x1F3FB + number - 2) for number in range(2, 7)}


@dataclass(frozen=True)
class Directory:
    """With ``signs`` an emoji is its sign alone where it has one here, as in a mail."""

    people: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    slack_name: str = ""
    signs: bool = False

    @classmethod
    def of_rows(
        cls, users: Mapping[str, User], channels: Mapping[str, Channel], slack_name: str = ""
    ) -> Self:
        """The names in rows of the tables."""
        people = {
            uid: f"{user.name}{EXTERNAL if user.is_stranger else ''}" for uid, user in users.items()
        }
        return cls(people, {cid: channel.name for cid, channel in channels.items()}, slack_name)

    def person(self, uid: str) -> str:
        return printable(self.people.get(uid, "")) or uid

    def channel(self, cid: str) -> str:
        return printable(self.channels.get(cid, "")) or cid

    def called(self, cell: str, kind: Kind) -> str:
        """What the text of a cell is read as: a name, `#channel`, `:emoji:`, the address of a
        message, or the text itself.
        """
        if kind is Kind.PERSON:
            return self.person(cell)
        if kind is Kind.CHANNEL:
            return f"#{self.channel(cell)}"
        if kind is Kind.MESSAGE:
            return self.permalink(cell)
        if kind is Kind.EMOJI:
            return (self.signs and emoji_sign(cell)) or f":{cell}:"
        return cell

    def permalink(self, message: str) -> str:
        """The address of a message `CID/ts/thread_ts`; "" where the workspace's is not known."""
        if not (message and self.slack_name):
            return ""
        cid, ts, thread_ts = message.split("/")
        if cid.startswith(UNLISTED_CHANNEL):
            return ""  # Slack knows no such ID.
        address = f"https://{self.slack_name}.slack.com/archives/{cid}/p{ts.replace('.', '')}"
        return f"{address}?thread_ts={thread_ts}&cid={cid}" if thread_ts else address


async def load(tables: Tables, slack_name: str = "") -> Directory:
    """The real names. ``slack_name`` is the one of the settings."""
    name = await tables.configuration.slack_name(slack_name)
    return Directory.of_rows(await tables.users.all(), await tables.channels.all(), name)


def emoji_sign(name: str) -> str:
    """The sign of an emoji that is often used, with its skin tone; "" for another one."""
    base, _, tone = name.partition("::")
    sign = _SIGNS.get(base, "")
    return sign + _TONES.get(tone, "") if sign else ""
