"""What a node answers to another one, in five words."""

from enum import Enum


class NodeAnswer(Enum):
    """What another node said, or failed to say."""

    DONE = "the node has taken it"
    BUSY = "the user agent is there but cannot take more now; it will look into storage"
    ABSENT = "the user agent is not connected there"
    UNREACHABLE = "nobody is there: the connection was refused just now"
    SILENT = "no answer; the node may be slow, stopped, cut off or have too much to do"

    @property
    def means_gone(self) -> bool:
        """Whether the router record may forget this node."""
        return self in (NodeAnswer.ABSENT, NodeAnswer.UNREACHABLE)
