"""The engine of these tests speaks to its database through a proxy that makes faults."""

from support.fault_fixtures import clock, database_port, open_engine, proxy

__all__ = ["clock", "database_port", "open_engine", "proxy"]
