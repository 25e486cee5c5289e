"""The domain of push: users, their channels and their messages, written once over keytables."""

from autopush.store.push_store import PushStore
from autopush.store.tables import TablePlan
from autopush.store.users import UserRecord

__all__ = ["PushStore", "TablePlan", "UserRecord"]
