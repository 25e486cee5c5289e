"""The embedded engine: tables in one SQLite file, shared by any number of processes.

Rule: the event loop is never blocked for longer than a millisecond. Reads run on the loop; writes
run there in short slices inside a transaction; whatever may wait for a lock or for the disk runs in
a thread.

    engine         opens the file, creates and drops tables
    table          one table: its writes and reads, and its indexes during a bulk load
    codec          items as rows
    statements     the SQL of a table: its schema, single rows, queries
    write_queue    the kinds of writes, and those submitted, in order, until they are completed
    writer         group commit: transactions of queued writes, and the thread that commits them
    checkpoint     the log copied into the file
    reader         pages of queries, on the loop or in a thread
    sweeper        removal of expired items
    database       connections, checks of the file, errors and their report
    locks          file locks: fair among the writers of several processes, and for a store in use
    space          room on the disk: a full one, its reserve, and one that is nearly full
    copies         copies of a store, made while it is in use; what of a store is damaged
"""

from keytables.sqlite.copies import StoreCheck, check_store
from keytables.sqlite.engine import SqliteEngine

__all__ = ["SqliteEngine", "StoreCheck", "check_store"]
