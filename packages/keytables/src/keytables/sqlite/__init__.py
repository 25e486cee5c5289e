"""The embedded engine: tables in one SQLite file, shared by any number of processes.

Rule: the event loop is never blocked for longer than a millisecond. Reads run on the loop; writes
run there in short slices inside a transaction; whatever may wait for a lock or for the disk runs in
a thread.

    engine         opens the file, creates and drops tables
    table          one table: its writes and reads
    codec          items as rows
    conditional    conditions and updates, and the writes that read the item first
    write_queue    submitted writes, in order, until they are completed
    writer         group commit: transactions of queued writes
    worker_thread  the writer's thread, and how a busy loop lets it run
    locks          file locks: fair among the writers of several processes, and for a store in use
    queries        a query as a statement and its values
    reader         pages of queries, on the loop or in a thread
    statements     the SQL schema of a table, and statements for single rows
    indexes        secondary indexes during and after a bulk load
    sweeper        removal of expired items
    checkpoint     copying the write-ahead log into the file
    database       connections, checks of the file, translation of errors
    space          room on the disk: a full one, its reserve, and one that is nearly full
    failures       failures of the database, for the owner of the engine
    copies         copies of a store: made while it is in use, checked, and put in its place
    store_check    what of a store is damaged, in words
    log_file       which transactions of the write-ahead log SQLite would read
"""

from keytables.sqlite.engine import SqliteEngine
from keytables.sqlite.store_check import StoreCheck, check_store

__all__ = ["SqliteEngine", "StoreCheck", "check_store"]
