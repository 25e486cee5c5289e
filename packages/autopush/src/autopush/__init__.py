"""A Web Push service: user agents hold WebSockets to it, application servers post to it."""
