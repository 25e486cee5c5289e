"""`channelstats doctor`: whether everything that the other commands need is there.

Rule: it changes nothing, makes nothing and posts nothing; each check costs itself, and the rest is
looked at whatever it finds. No token is shown.
"""

from typing import Final

from channelstats.commands.call import DONE, WITH_PROBLEMS, Call, Command
from channelstats.commands.doctor_machine import machine
from channelstats.commands.doctor_settings import settings
from channelstats.commands.doctor_slack import slack
from channelstats.commands.doctor_store import store
from channelstats.commands.finding import Level
from channelstats.render.words import printable

_CHECKS: Final = (machine, settings, store, slack)


async def _run(call: Call) -> int:
    worst = DONE
    for check in _CHECKS:
        async for finding in check(call):
            if finding.level is Level.PROBLEM:
                worst = WITH_PROBLEMS
            if finding.level is not Level.OK or not call.quiet:
                print(printable(str(finding)), flush=True)
    return worst


COMMAND = Command("doctor", "check the store, the settings and the tokens", _run)
