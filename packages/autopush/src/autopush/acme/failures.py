"""What went wrong with an order, in words that say what to do.

The names of problems are those of RFC 8555 section 6.7, without their prefix.
"""

from datetime import UTC, datetime
from typing import Final

MAX_CLOCK_ERROR: Final = 3600.0
"""Seconds that the clock of this machine may differ from the directory's."""
MAX_DETAIL: Final = 300

_ADVICE: Final = {
    "dns": "{name} does not resolve: its DNS needs an A or AAAA record with the public address of "
    "this machine",
    "unknownHost": "{name} does not resolve: its DNS needs an A or AAAA record with the public "
    "address of this machine",
    "connection": "port 80 of {name} cannot be reached: have its DNS point to this machine, and "
    "the firewall or router let port 80 through to http_port",
    "tls": "http://{name}/ leads to a server whose TLS fails: have its port 80 lead to http_port",
    "unauthorized": "another server answers for http://{name}/: its DNS points elsewhere, or a "
    "proxy does not pass port 80 on to http_port",
    "incorrectResponse": "another server answers for http://{name}/: its DNS points elsewhere, or "
    "a proxy does not pass port 80 on to http_port",
    "caa": "the DNS of {name} has a CAA record that forbids this directory to issue: change it",
    "dnssec": "the DNSSEC signatures of {name} are wrong: repair them",
    "rejectedIdentifier": "the directory issues no certificate for {name}: use another domain",
    "unsupportedIdentifier": "the directory issues no certificate for {name}: use another domain",
    "rateLimited": "the directory's rate limit is reached",
    "externalAccountRequired": "the directory wants an account made before: set acme_eab_kid and "
    "acme_eab_key, which it shows there",
    "userActionRequired": "the directory has new terms: agree to them there",
    "accountDoesNotExist": "the directory does not know the account any more",
    "invalidContact": "the directory does not accept acme_email",
    "invalidEmail": "the directory does not accept acme_email",
    "unsupportedContact": "the directory does not accept acme_email",
    "serverInternal": "the directory has an internal error",
}
_OF_VALIDATION: Final = frozenset({"unauthorized"})
"""Problems that mean this only of a challenge."""


class OrderFailed(Exception):  # noqa: N818 - an outcome, as `LeaseLost`
    """The text is for the operator, and without secrets. `retry_after`: seconds, as the directory
    asks, or None. `is_order_gone`: it is to be placed again; `is_account_gone`: so is the account.
    """

    def __init__(
        self,
        words: str,
        retry_after: float | None = None,
        *,
        is_order_gone: bool = False,
        is_account_gone: bool = False,
    ) -> None:
        super().__init__(words)
        self.retry_after = retry_after
        self.is_order_gone = is_order_gone
        self.is_account_gone = is_account_gone


def of_problem(
    problem: str, detail: str, name: str, *, is_validation: bool = False, has_eab: bool = False
) -> str:
    """`name`: the first of those that it is about; `has_eab`: an external account was given."""
    said = f" (the directory says: {shortened(detail)})" if detail else ""
    if has_eab and problem in ("unauthorized", "malformed") and not is_validation:
        return f"the directory refuses the account: check acme_eab_kid and acme_eab_key{said}"
    if problem in _ADVICE and (is_validation or problem not in _OF_VALIDATION):
        return _ADVICE[problem].format(name=name) + said
    return f"the directory refuses the request: {problem or 'unknown problem'}{said}"


def with_limit(words: str, until: float) -> str:
    """`until`: seconds since the epoch."""
    return f"{words} until {moment(until)}"


def of_untrusted(host: str, reason: str, *, has_ca: bool) -> str:
    """The directory's own certificate is not accepted, for this reason that OpenSSL gives."""
    if "expired" in reason or "not yet valid" in reason:
        return (
            f"the certificate of {host} is out of date, or the clock of this machine is wrong: "
            f"check `date` ({reason})"
        )
    what = "it is not in acme_ca" if has_ca else "name its PEM file with acme_ca"
    return f"the certificate of {host} is from an unknown CA: {what} ({reason})"


def of_clock(difference: float) -> str:
    """`difference`: seconds that this machine is ahead of the directory."""
    hours, side = abs(difference) / 3600, "ahead" if difference > 0 else "behind"
    return f"the clock of this machine is {hours:.0f} h {side} of the directory's: set it"


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def shortened(text: str) -> str:
    """As one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_DETAIL else f"{line[: MAX_DETAIL - 1]}…"
