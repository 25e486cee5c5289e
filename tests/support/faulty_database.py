"""The run's ministack behind a fault proxy, disturbed so mildly that no caller may notice.

Rule: no fault is done that a caller is allowed to notice. After a lost reply the old item may be
what the write left itself, and a condition that never held may be answered as done where that is
what the item is like.
"""

import asyncio
import functools
import json
import threading
from collections import Counter
from urllib.parse import urlsplit

from support import dynamo_servers
from support.fault_proxy import UNDONE, UNTOLD, Call, Fault, FaultProxy, Plan, randomly

MILD = {
    Fault.THROTTLED: 0.03,
    Fault.THROTTLED_OTHERWISE: 0.01,
    Fault.ERROR: 0.02,
    Fault.UNAVAILABLE: 0.01,
    Fault.RESET: 0.03,
    Fault.LOST: 0.04,
    Fault.HALF: 0.02,
    Fault.BROKEN: 0.02,
    Fault.DELAYED: 0.01,
    Fault.DRIPPING: 0.01,
    Fault.PARTLY: 0.2,
}
IN_A_ROW = 2
_SAID_UNDONE = frozenset({Fault.THROTTLED, Fault.THROTTLED_OTHERWISE})


@functools.cache
def faulty_ministack() -> str:
    """The URL of the proxy."""
    port = urlsplit(dynamo_servers.ministack()).port
    assert port is not None
    proxy = FaultProxy(port, plan=unnoticed(randomly(MILD, seed=1)), spare_refusals=True)
    # Every test has a loop of its own; this one lasts as long as the run, and ends with it.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="fault proxy", daemon=True).start()
    asyncio.run_coroutine_threadsafe(proxy.up(), loop).result(60)
    return proxy.url


def unnoticed(plan: Plan) -> Plan:
    """The plan without what could be noticed, and without many faults in a row for one call."""
    suffered: Counter[str] = Counter()

    def sparing(call: Call) -> Fault:
        fault, same = plan(call), json.dumps(call.body, sort_keys=True)
        if call.body.get("ReturnValues") == "ALL_OLD" and fault in UNTOLD:
            fault = Fault.NONE
        if "ConditionExpression" in call.body and fault in UNDONE - _SAID_UNDONE:
            fault = Fault.NONE
        if fault not in UNDONE | UNTOLD or suffered[same] >= IN_A_ROW:
            suffered.pop(same, None)
            return fault if fault not in UNDONE | UNTOLD else Fault.NONE
        suffered[same] += 1
        return fault

    return sparing
