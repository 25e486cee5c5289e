"""How often user agents may ask something of a connection node.

Rule: a user agent counts by its UAID, so a new connection does not start again; and all those of
one client address count together, so new UAIDs do not either. Nothing is kept of a user agent that
asks little.
"""

import sys
import time
from collections.abc import Callable
from typing import Final

from autopush.protocol.effects import TooOften
from autopush.rates import Rate, TokenBuckets
from autopush.telemetry.limit_refusals import LimitRefusals

PER_ADDRESS: Final = 10
"""How many times the rate of one user agent those of one address have together."""
MAX_USER_AGENTS: Final = 1000
"""User agents whose rates are known at once."""
MAX_BATCH: Final = 100
"""Messages that are counted at once: so few that a connection remembers their number for free."""

TOO_MANY_REGISTRATIONS: Final = "too many registrations"
TOO_MANY_USER_AGENTS: Final = "too many new user agents"


class UserAgentLimits:
    """The limits of one node. A rate of None is no limit.

    `new_user_agents`: of addresses (`TrustedProxies.limit_key`); what else makes records of user
    agents takes from it too.
    """

    def __init__(
        self,
        refusals: LimitRefusals,
        new_user_agents: TokenBuckets,
        *,
        message_rate: Rate | None = None,
        registration_rate: Rate | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.message_batch = sys.maxsize
        """Messages of one connection for which `admits_messages` is asked once."""
        batches = None
        if message_rate is not None:
            self.message_batch = max(1, min(MAX_BATCH, message_rate.count // 50))
            batches = Rate(message_rate.count // self.message_batch, message_rate.unit)
        self._messages = _UserAgentRates(batches, monotonic)
        self._registrations = _UserAgentRates(registration_rate, monotonic)
        self._new_user_agents = new_user_agents
        self._refusals = refusals

    def admits_messages(self, user_agent: str | int, address_key: str) -> bool:
        """Whether `message_batch` messages were not too many. `user_agent`: its UAID; before the
        hello any number of the connection.
        """
        if not self._messages.take(user_agent, address_key):
            return True
        self._refusals.add("message_rate", address_key)
        return False

    def refuse_registration(self, uaid: str, address_key: str, *, is_new: bool) -> TooOften | None:
        """What is wrong with a register or unregister now. `is_new`: it makes the record of a user
        agent.
        """
        if wait := self._registrations.take(uaid, address_key):
            self._refusals.add("registration_rate", address_key)
            return TooOften(TOO_MANY_REGISTRATIONS, wait)
        if is_new and (wait := self._new_user_agents.take(address_key)):
            self._refusals.add("new_user_agents", address_key)
            return TooOften(TOO_MANY_USER_AGENTS, wait)
        return None


class _UserAgentRates:
    """A rate for each user agent, and `PER_ADDRESS` times as much for each address."""

    __slots__ = ("_by_address", "_by_user_agent")

    def __init__(self, rate: Rate | None, monotonic: Callable[[], float]) -> None:
        together = None if rate is None else Rate(PER_ADDRESS * rate.count, rate.unit)
        self._by_user_agent = TokenBuckets(rate, max_keys=MAX_USER_AGENTS, monotonic=monotonic)
        self._by_address = TokenBuckets(together, monotonic=monotonic)

    def take(self, user_agent: str | int, address_key: str) -> float:
        return self._by_user_agent.take(user_agent) or self._by_address.take(address_key)
