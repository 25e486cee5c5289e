"""A push service for the tests of others: senders, libraries, browsers and web apps.

It is the real service, composed in memory, with a control API beside it. The modules, from below:
`user_agents` subscribe and decrypt; `mistakes` says what a sender did wrong; `steering` stands
before the public port, records every push and answers otherwise when told to; `control` has the
verbs, as HTTP; `in_memory` joins them, on a `memory_engine`; `running` serves them on two ports,
with `throwaway_ca` over TLS; `client` is the Python side of the verbs.
"""
