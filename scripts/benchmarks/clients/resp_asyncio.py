"""GET by 50 tasks with redis-py's asyncio: prints the processor's seconds per answer. See resp.lua."""
import asyncio
import sys
import time

import redis.asyncio


async def main(port, rounds):
    client = redis.asyncio.Redis(host="127.0.0.1", port=port)

    async def work(count):
        for _ in range(count):
            assert await client.get("key") == b"value"

    await asyncio.gather(*(work(1) for _ in range(50)))
    start = time.process_time()
    await asyncio.gather(*(work(rounds) for _ in range(50)))
    print(f"{(time.process_time() - start) / rounds / 50:.9f}")
    await client.aclose()

asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
