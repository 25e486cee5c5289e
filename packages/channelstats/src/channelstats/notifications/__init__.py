"""Web Push: subscribers of the dashboard are notified when a new weekly report is ready.

announcing    a week, to everybody who waits for it
push_sender   one message to one push service, signed and encrypted
endpoints     what a browser gives, and where messages may be sent to
"""

from channelstats.notifications.announcing import Announcer, AnnounceResult, newest_week

__all__ = ["AnnounceResult", "Announcer", "newest_week"]
