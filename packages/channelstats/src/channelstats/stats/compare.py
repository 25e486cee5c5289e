"""One number against the one before.

Rule: what changed by less than half a per cent is the same; that is decided on exact numbers.
"""

from channelstats.stats.quantities import Quantity, parts, shown
from channelstats.stats.values import Change, State


def change(cur: Quantity, prev: Quantity | None) -> Change:
    """Compare with the period before, or with nothing when there was no such thing."""
    if prev is None:
        return _change(cur, None, None, "new")
    (num, den), (num_before, den_before) = parts(cur), parts(prev)
    if num_before == 0:
        return _change(cur, prev, None, "from_zero" if num else "same")
    # 100 * (num / den) / (num_before / den_before) - 100, over one denominator
    over = num_before * den
    difference = 100 * (num * den_before - over)
    diff_pct = difference / over
    if 2 * abs(difference) < over:
        return _change(cur, prev, diff_pct, "same")
    return _change(cur, prev, diff_pct, "up" if difference > 0 else "down")


def not_compared(cur: Quantity) -> Change:
    """A number without one before: of that time, messages are not known whole."""
    return _change(cur, None, None, "not_compared")


def _change(cur: Quantity, prev: Quantity | None, diff_pct: float | None, state: State) -> Change:
    before = None if prev is None else shown(prev)
    return {"cur": shown(cur), "prev": before, "diff_pct": diff_pct, "state": state}


def slack_text(change: Change, label: str = "", *, percentage: bool = False) -> str:
    """A comparison as Slack shows it: `*12,345* (+23%):green_arrow_up: words`.

    ``label`` is for one; anything but 1 gets an `s`.
    """
    cur, diff = change["cur"], abs(change["diff_pct"] or 0)
    labelled = label and f" {label}" + "s" * (cur != 1)
    note = {
        "new": ":new:",
        "from_zero": " :infinity:",
        "same": "",
        "not_compared": "",
        "up": f" (+{diff:.0f}%):green_arrow_up:",  # half to even
        "down": f" (-{diff:.0f}%):red_arrow_down:",
    }[change["state"]]
    return f"{_bold(cur, percentage=percentage)}{note}{labelled}"


def _bold(number: float, *, percentage: bool) -> str:
    if percentage:
        return f"*{number:,.1f}%*"
    return f"*{number:,.0f}*" if number == int(number) else f"*{number:,.1f}*"
