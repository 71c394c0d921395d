"""Prints the microseconds of processor time of a GET with redis-py: one after the other, by 50 tasks, in batches."""
import asyncio
import sys
import time

import redis.asyncio


async def main(port, n):
    server = redis.asyncio.Redis(port=port)

    async def gets(count):
        for _ in range(count):
            await server.get("key")

    async def batches():
        for _ in range(n // 100):
            pipeline = server.pipeline(transaction=False)
            for _ in range(100):
                pipeline.get("key")
            await pipeline.execute()

    async def measure(label, work):
        before = time.process_time()
        await work
        print(f"{label}\t{(time.process_time() - before) / n * 1e6}")

    await gets(n // 10)
    await measure("GET, one after the other", gets(n))
    await measure("GET by 50 tasks", asyncio.wait_for(asyncio.gather(*(gets(n // 50) for _ in range(50))), None))
    await measure("GET in a batch of 100", batches())
    await server.aclose() if hasattr(server, "aclose") else await server.close()


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
