"""A file system for SQLite on which the log of a store can fail to reach the disk."""

import apsw


class FailingSync(apsw.VFS):
    """As "unix", for connections that are opened from now on. While `fails`, no log is synced."""

    def __init__(self) -> None:
        super().__init__("failing-sync", "unix", makedefault=True)
        self.fails = False

    def xOpen(self, name: "str | apsw.URIFilename | None", flags: list[int]) -> apsw.VFSFile:
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(
        self, disk: FailingSync, name: "str | apsw.URIFilename | None", flags: list[int]
    ) -> None:
        super().__init__("unix", name, flags)
        self.disk = disk
        self.is_log = bool(flags[1] & apsw.SQLITE_OPEN_WAL)

    def xSync(self, flags: int) -> None:
        if self.is_log and self.disk.fails:
            error = apsw.IOError("disk I/O error")
            # apsw hands it to SQLite; its type stub does not know it.
            vars(error)["extendedresult"] = apsw.SQLITE_IOERR_FSYNC
            raise error
        super().xSync(flags)
