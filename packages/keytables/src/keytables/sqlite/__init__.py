"""The embedded engine: tables in one SQLite file, shared by any number of processes.

The one rule: the event loop is never held for longer than a millisecond. Reads are answered on the
loop; writes run there in short slices inside a transaction; whatever may wait for a lock or for the
disk happens in a thread.

    engine      opens the file, makes and drops tables
    handle      the writes of one table
    reads       the reads of one table
    statements  the SQL text of one table
    codec       an item as one blob and the columns beside it
    compile     conditions and updates as functions over items
    operations  one submitted write, of each kind
    indexes     dropping and making them around the loading of a table
    scans       queries whose index is missing
    writer      group commit: submitted writes, in order, a transaction at a time
    locks       turns among the writers of several processes, and a claim
    ranges      ranges of sort keys as bounds of a statement
    joint       one answer for several writes
    aide        the thread, and how a busy loop lets it run
    checkpoint  moving the write-ahead log into the file
    sweeper     removing expired items
    database    connections, file checks, errors of SQLite as ours
"""

from keytables.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine"]
