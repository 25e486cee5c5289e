"""Signs of the emoji that are used most, so that a page can show them without a picture.

Rule: a name that is not here is shown as it is.
"""

from typing import Final

_TABLE: Final = """
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
    trophy=🏆
"""
_SIGNS: Final = dict(pair.split("=") for pair in _TABLE.split())
_TONES: Final = {f"skin-tone-{number}": chr(0x1F3FB + number - 2) for number in range(2, 7)}


def sign(name: str) -> str:
    """The sign of an emoji, with its skin tone; "" for one that is not known."""
    base, _, tone = name.partition("::")
    found = _SIGNS.get(base, "")
    return found + _TONES.get(tone, "") if found else ""
