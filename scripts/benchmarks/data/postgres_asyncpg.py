"""Prints the microseconds of processor time of a prepared select by key, and of a row by a cursor, with asyncpg."""
import asyncio
import sys
import time

import asyncpg


async def main(url, n, count):
    connection = await asyncpg.connect(url)
    statement = await connection.prepare("select text from things where id = $1")
    before = time.process_time()
    for i in range(n):
        assert await statement.fetchval(i % 1000 + 1) == "text"
    print(f"select by key, one after the other\t{(time.process_time() - before) / n * 1e6}")
    before = time.process_time()
    found = 0
    async with connection.transaction():
        async for row in connection.cursor("select * from rows limit $1", count, prefetch=256):
            found += dict(row)["i"] > 0
    assert found == count
    print(f"a row of 4 columns by rows()\t{(time.process_time() - before) / count * 1e6}")
    await connection.close()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
