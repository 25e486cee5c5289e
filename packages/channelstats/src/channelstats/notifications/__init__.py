"""Web Push: whoever subscribed in the dashboard is told when a new weekly report is there.

The one rule: nobody is told of a week twice, nor of one that was there when they subscribed.

    vapid         the key that messages are signed with, and who answers for them
    endpoints     which addresses messages may be sent to
    subscribing   what a browser gives when it subscribes
    weeks         the newest week that is there
    message       what is told
    sending       one message on its way to one push service
    announcing    a week to everybody: `announce`
    announcer     looking for a new week from time to time: `Announcer`

A command that is done with a week says so with

    told = await announce(tables, week, settings, clock=call.clock)
    call.say(str(told))

which sends nothing, and asks for nothing, where nobody waits for that week.
"""

from channelstats.notifications.announcer import Announcer
from channelstats.notifications.announcing import Told, announce

__all__ = ["Announcer", "Told", "announce"]
