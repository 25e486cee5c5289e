"""Accounts, as the console shows and changes them; `autopush user` does the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from autopush.clock import Clock
from autopush.console.invitation import Invitation
from autopush.store.accounts import MAX_ACCOUNTS, AccountError, Accounts

DAY: Final = 86_400
MAX_DAYS: Final = 36_500
MAX_CONNECTIONS: Final = 1_000_000
ACTIONS: Final = ("add", "renew", "quota", "expire", "revoke")


@dataclass(eq=False)
class AccountPages:
    """`websocket_url`: that of the service. `required`: whether only users connect."""

    accounts: Accounts
    websocket_url: str
    required: bool
    clock: Clock

    async def document(self) -> dict[str, object]:
        """All accounts; there are at most `MAX_ACCOUNTS`.

        :raises KeytablesError: the store failed
        """
        now = self.clock()
        return {
            "required": self.required,
            "most": MAX_ACCOUNTS,
            "accounts": [
                {
                    "name": each.name,
                    "created_at": each.created_at,
                    "connections": each.connections,
                    "expires_at": each.expires_at,
                    "has_expired": each.has_expired(now),
                }
                for each in (await self.accounts.read()).values()
            ],
        }

    async def change(self, action: str, name: str, fields: Mapping[str, str]) -> dict[str, object]:
        """`fields`: `connections` and `days`, as far as the action has them. Returns the link and
        its QR code, if there is a new one.

        :raises AccountError: it cannot be done, nothing was
        :raises KeytablesError: the store failed
        """
        connections = _number(fields, "connections", MAX_CONNECTIONS)
        days = _number(fields, "days", MAX_DAYS)
        ends = int(self.clock()) + DAY * days if days else 0
        match action:
            case "add":
                token = await self.accounts.add(name, connections or 0, expires_at=ends)
                return self._invitation(name, token, ends)
            case "renew":
                expires_at = None if days is None else ends
                token = await self.accounts.renew(name, expires_at=expires_at)
                known = (await self.accounts.read()).get(name)
                return self._invitation(name, token, known.expires_at if known else 0)
            case "quota" if connections is not None:
                await self.accounts.set_quota(name, connections)
            case "expire" if days is not None:
                await self.accounts.set_expiry(name, ends)
            case "revoke":
                await self.accounts.revoke(name)
            case _:
                raise AccountError("quota needs connections, expire needs days")
        return {}

    def _invitation(self, name: str, token: str, ends: int) -> dict[str, object]:
        expires = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%d") if ends else ""
        invitation = Invitation(name, self.websocket_url, token, expires)
        return {
            "name": name,
            "link": invitation.link,
            "expires": expires or None,
            "qr": invitation.svg(),
        }


def _number(fields: Mapping[str, str], name: str, most: int) -> int | None:
    """:raises AccountError: it is no number up to `most`"""
    if not (text := fields.get(name, "")):
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= most):
        raise AccountError(f"{name}: a number from 0 to {most:,}")
    return int(text)
