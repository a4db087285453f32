from __future__ import annotations

import asyncio
from collections import Counter

from infra.streams.reading import Lease
from processors.fairness import FairQueue


def a_lease(number: int, *, tenant: str = "demo") -> Lease:
    return Lease(0, "stream", f"{number}-0", 1, [b"tenant_id", tenant.encode()])


async def take(queue: FairQueue, count: int) -> list[Lease]:
    return [await asyncio.wait_for(queue.get(), 5) for _ in range(count)]


async def test_deliveries_of_one_tenant_and_class_keep_their_order() -> None:
    queue, leases = FairQueue(), [a_lease(number) for number in range(5)]
    for lease in leases:
        queue.put(lease, kind="default")

    assert await take(queue, 5) == leases


async def test_an_urgent_delivery_overtakes_what_waits() -> None:
    queue = FairQueue()
    for number in range(100):
        queue.put(a_lease(number), kind="low")
    urgent = a_lease(100)
    queue.put(urgent, kind="urgent")

    assert await queue.get() is urgent


async def test_a_flood_of_urgent_deliveries_does_not_starve_low_ones() -> None:
    queue = FairQueue()
    low = a_lease(0)
    queue.put(low, kind="low")
    for number in range(1, 200):
        queue.put(a_lease(number), kind="urgent")

    assert low in await take(queue, 20)


async def test_tenants_take_turns_however_many_deliveries_one_of_them_has() -> None:
    queue = FairQueue()
    for number in range(50):
        queue.put(a_lease(number, tenant="noisy"), kind="default")
    for number in range(50, 53):
        queue.put(a_lease(number, tenant="quiet"), kind="default")

    served = Counter(lease.fields[b"tenant_id"] for lease in await take(queue, 6))

    assert served == {b"noisy": 3, b"quiet": 3}


async def test_a_waiting_member_of_the_pool_gets_what_comes() -> None:
    queue = FairQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    lease = a_lease(1)

    queue.put(lease, kind="retry")

    assert await asyncio.wait_for(waiting, 5) is lease


async def test_who_is_cancelled_when_it_was_woken_leaves_its_turn_to_another() -> None:
    queue = FairQueue()
    cancelled, waiting = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    lease = a_lease(1)

    queue.put(lease, kind="default")
    cancelled.cancel()

    assert await asyncio.wait_for(waiting, 5) is lease
