"""The connection node: the sockets of user agents, and what other nodes may ask of them."""
