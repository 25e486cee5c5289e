"""How important a message is to its user (RFC 8030, section 5.3)."""

from typing import Final

LOWEST: Final = "very-low"
"""As a filter it lets all messages pass."""
NORMAL: Final = "normal"
"""That of a message whose sender names none."""
HIGHEST: Final = "high"
LEVELS: Final = {LOWEST: 0, "low": 1, NORMAL: 2, HIGHEST: 3}


def known_urgency(name: object) -> str | None:
    """The name if it is one of the four, None for any other value."""
    return name if isinstance(name, str) and name in LEVELS else None


def is_below(urgency: str, least: str) -> bool:
    return LEVELS[urgency] < LEVELS[least]
