"""The same worker in the versions before and after this one, while an upgrade is under way.

They share the node ID, so each answers for the user agents of all: it asks the others for those
that it has not itself. As connections and answers come in one order, a user agent that moves is
found by the one that asks, or by the one that is asked.
"""

from dataclasses import dataclass, field
from typing import Final

from autopush.delivery.calls import NodeCall, Outcome
from autopush.net.siblings import (
    PREDECESSOR,
    SUCCESSOR,
    Port,
    SiblingError,
    SiblingNotStarted,
    SiblingRestarted,
    Siblings,
)

OLDER: Final = Port[NodeCall, Outcome]("older", NodeCall, Outcome)
NEWER: Final = Port[NodeCall, Outcome]("newer", NodeCall, Outcome)
"""Where the worker in that version is asked; it asks on in the same direction."""

_PORTS: Final = {PREDECESSOR: OLDER, SUCCESSOR: NEWER}


@dataclass(eq=False)
class OtherVersions:
    """`directions`: which of the two are asked."""

    siblings: Siblings = field(default_factory=Siblings)
    directions: tuple[int, ...] = (PREDECESSOR, SUCCESSOR)

    @property
    def exist(self) -> bool:
        """Whether there are any at the moment."""
        return any(
            each in self.siblings and self.siblings[each].was_heard for each in self.directions
        )

    async def ask(self, call: NodeCall) -> Outcome:
        """The outcome of a call; ABSENT if no other version has the user agent, SILENT if one that
        may have it does not answer.
        """
        for index in self.directions:
            sibling = self.siblings.heard(index)
            if sibling is None:
                continue
            try:
                outcome = await sibling.call(_PORTS[index], call)
            except (SiblingRestarted, SiblingNotStarted):
                continue  # it has no user agents any more
            except SiblingError:
                return Outcome.SILENT
            if outcome is not Outcome.ABSENT:
                return outcome
        return Outcome.ABSENT
