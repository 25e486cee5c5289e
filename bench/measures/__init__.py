"""The measures by name. Each starts its own server and does not depend on another one."""

from collections.abc import Callable, Coroutine
from functools import partial

from bench.measures.bridge import bridge_outage
from bench.measures.daemons import cluster, daemons
from bench.measures.direct import direct_push
from bench.measures.dynamodb import dynamodb
from bench.measures.latency import latency
from bench.measures.memory import memory
from bench.measures.postgres import postgres
from bench.measures.returning import returning
from bench.measures.scale import scale
from bench.measures.store_writers import store_writers
from bench.measures.stored import stored
from bench.measures.upgrade import upgrade
from bench.measures.workers import workers
from bench.report import Row
from bench.run import Run
from bench.storm import storm

Measure = Callable[[Run], Coroutine[None, None, list[Row]]]

MEASURES: dict[str, Measure] = {
    "direct-bypass": partial(direct_push, mode="bypass", most_floors=2.5),
    "direct-store-first": partial(direct_push, mode="store-first", most_floors=4.0),
    "stored": stored,
    "store-writers": store_writers,
    "returning": returning,
    "memory": memory,
    "scale": scale,
    "latency-bypass": partial(latency, mode="bypass", most_ms=2.0),
    "latency-store-first": partial(latency, mode="store-first", most_ms=10.0),
    "storm": storm,
    "upgrade": upgrade,
    "workers-bypass": partial(workers, mode="bypass"),
    "workers-store-first": partial(workers, mode="store-first"),
    "daemons": daemons,
    "dynamodb": dynamodb,
    "cluster": cluster,
    "postgres": postgres,
    "bridge": bridge_outage,
}
