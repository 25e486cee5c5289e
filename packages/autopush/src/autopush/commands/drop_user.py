"""`autopush drop-user UAID…`: forget single user agents, and say what was on record about them.

Rule: it shows which user agent it was, never what could be used in its name.
"""

import argparse
import time
from typing import Final

from autopush.commands import until_signal
from autopush.commands.opening import engine_of, removal_of
from autopush.commands.output import complain
from autopush.settings import Settings
from autopush.store.maintenance import UserSummary, delete_uaids
from autopush.store.rate_limiter import RateLimiter
from keytables import KeytablesError

NOT_ALL: Final = 1


def run(settings: Settings, given: argparse.Namespace) -> int:
    """Drop them; returns the exit code: 1 when one had no record, or could not be dropped.

    :raises StartupError: the store cannot be opened
    """
    return until_signal.run(_drop(settings, given))


async def _drop(settings: Settings, given: argparse.Namespace) -> int:
    code, verb = 0, "would drop" if given.dry_run else "dropped"
    async with engine_of(settings, time.time) as engine:
        removal = await removal_of(settings, engine)
        limiter = RateLimiter(len(given.uaids))
        for uaid in given.uaids:
            try:
                described = await removal.describe(uaid)
                if described is None:
                    complain(f"{uaid} has no record")
                    code = NOT_ALL
                    continue
                async for _ in delete_uaids(
                    removal, [uaid], limiter=limiter, dry_run=given.dry_run
                ):
                    print(f"{verb} {uaid}: {_words(described)}", flush=True)
            except KeytablesError as error:
                complain(f"could not drop {uaid}: {error}")
                code = NOT_ALL
    return code


def _words(described: UserSummary) -> str:
    channels = "1 channel" if described.channels == 1 else f"{described.channels} channels"
    seen = str(described.last_connect or "")
    return ", ".join(
        [
            described.router_type,
            described.table or "no message table",
            channels,
            f"last connect {seen[:4]}-{seen[4:6]}" if seen else "last connect unknown",
        ]
    )
