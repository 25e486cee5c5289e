"""Plumbing of the network: HTTP, RFC 6455, links between nodes, timers. Knows nothing of push."""
