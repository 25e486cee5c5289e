"""The measures by name. Each starts its own server and does not depend on another one."""

from collections.abc import Callable, Coroutine
from functools import partial

from bench.measures.direct import direct_push
from bench.measures.memory import memory
from bench.measures.postgres import postgres
from bench.measures.returning import returning
from bench.measures.scale import scale
from bench.measures.stored import stored
from bench.measures.storm import storm
from bench.measures.upgrade import upgrade
from bench.measures.workers import workers
from bench.report import Row
from bench.run import Run

Measure = Callable[[Run], Coroutine[None, None, list[Row]]]

MEASURES: dict[str, Measure] = {
    "direct-bypass": partial(direct_push, mode="bypass", most_floors=2.5),
    "direct-store-first": partial(direct_push, mode="store-first", most_floors=4.0),
    "stored": stored,
    "returning": returning,
    "memory": memory,
    "scale": scale,
    "storm": storm,
    "upgrade": upgrade,
    "workers-bypass": partial(workers, mode="bypass"),
    "workers-store-first": partial(workers, mode="store-first"),
    "postgres": postgres,
}
