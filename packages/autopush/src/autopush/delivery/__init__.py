"""How a message reaches its user: user agents on sockets, other nodes, bridges, the store."""
