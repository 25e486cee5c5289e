"""The ministack of the test run behind a fault proxy, with faults that no caller may notice.

Left out are those whose effects the contract allows: after a lost response, the old item that is
returned may be what the write itself left, and a condition that never held may count as fulfilled
where the item is as the write leaves it.
"""

import asyncio
import functools
import json
import threading
from collections import Counter
from urllib.parse import urlsplit

from support import dynamo_servers
from support.fault_proxy import NOT_APPLIED, NOT_DELIVERED, Call, Fault, FaultProxy, Plan, randomly

MILD = {
    Fault.THROTTLED: 0.03,
    Fault.THROTTLED_GENERALLY: 0.01,
    Fault.ERROR: 0.02,
    Fault.UNAVAILABLE: 0.01,
    Fault.RESET: 0.03,
    Fault.CLOSED: 0.04,
    Fault.TRUNCATED: 0.02,
    Fault.FALSE_ERROR: 0.02,
    Fault.DELAYED: 0.01,
    Fault.SLOW: 0.01,
    Fault.PARTIAL_BATCH: 0.2,
}
MAX_IN_A_ROW = 2
_THROTTLED = frozenset({Fault.THROTTLED, Fault.THROTTLED_GENERALLY})


@functools.cache
def faulty_ministack() -> str:
    """The URL of the proxy."""
    port = urlsplit(dynamo_servers.ministack()).port
    assert port is not None
    proxy = FaultProxy(port, plan=unnoticeable(randomly(MILD, seed=1)), spare_error_responses=True)
    # Tests have loops of their own; this one lasts as long as the run.
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="fault proxy", daemon=True).start()
    asyncio.run_coroutine_threadsafe(proxy.start(), loop).result(60)
    return proxy.url


def unnoticeable(plan: Plan) -> Plan:
    """The plan without what may be noticed, and without many faults in a row for one call."""
    faults_of: Counter[str] = Counter()

    def limited(call: Call) -> Fault:
        fault, same = plan(call), json.dumps(call.body, sort_keys=True)
        if call.body.get("ReturnValues") == "ALL_OLD" and fault in NOT_DELIVERED:
            fault = Fault.NONE
        if "ConditionExpression" in call.body and fault in NOT_APPLIED - _THROTTLED:
            fault = Fault.NONE
        if fault not in NOT_APPLIED | NOT_DELIVERED or faults_of[same] >= MAX_IN_A_ROW:
            faults_of.pop(same, None)
            return fault if fault not in NOT_APPLIED | NOT_DELIVERED else Fault.NONE
        faults_of[same] += 1
        return fault

    return limited
