"""Measures the cost of nats.py: URL WORKLOAD COUNT. Prints "cpu" and "wall" in microseconds per operation."""
import asyncio
import sys
import time

import nats

DATA = b"0123456789abcdef"


async def main(url, workload, count):
    connection = await nats.connect(url)
    over, received = asyncio.Event(), 0

    async def handle(_):
        nonlocal received
        received += 1
        if received == count:
            over.set()

    async def requests(number):
        for _ in range(number):
            await connection.request("echo", DATA, timeout=5)

    if workload == "receive":
        await connection.subscribe("bench", cb=handle, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await connection.flush()
        print("ready", flush=True)
    cpu, wall = time.process_time(), time.monotonic()
    if workload == "publish":
        for _ in range(count):
            await connection.publish("bench", DATA)
        await connection.flush(60)
    elif workload == "receive":
        await over.wait()
    elif workload == "request":
        await requests(count)
    elif workload == "request100":
        await asyncio.gather(*(requests(count // 100) for _ in range(100)))
    else:
        sys.exit(3)
    print(f"cpu\t{(time.process_time() - cpu) / count * 1e6}\nwall\t{(time.monotonic() - wall) / count * 1e6}")
    await connection.close()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
