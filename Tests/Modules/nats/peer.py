"""A client of nats.py, started by nats_peers_test.lua: executes the commands in its input, and prints the results."""
import asyncio
import sys

import nats
from nats.js import api


async def main(url):
    connection = await nats.connect(url)
    stream = connection.jetstream()

    async def echo(message):
        header = {"Seen": (message.headers or {}).get("Word", "none")}
        await connection.publish(message.reply, message.data[::-1], headers=header)

    async def put(bucket, key, value):
        return await (await stream.key_value(bucket)).put(key, value.encode())

    async def get(bucket, key):
        entry = await (await stream.key_value(bucket)).get(key)
        return f"{entry.value.decode()} {entry.revision}"

    async def watch(bucket):
        watcher = await (await stream.key_value(bucket)).watchall()
        found = []
        async for entry in watcher:
            if entry is None:
                break
            found.append(f"{entry.key}={entry.value.decode()}")
        await watcher.stop()
        return " ".join(found)

    async def ask(subject, data):
        answer = await connection.request(subject, data.encode(), timeout=5, headers={"Word": "x"})
        return f"{answer.data.decode()} {(answer.headers or {}).get('Seen')}"

    async def store(subject, data, number):
        done = await stream.publish(subject, data.encode(), headers={"Nats-Msg-Id": number})
        return f"{done.stream} {done.seq} {bool(done.duplicate)}"

    async def pull(name, durable):
        consumer = await stream.pull_subscribe_bind(durable, name)
        (message,) = await consumer.fetch(1, timeout=5)
        await message.ack_sync()
        return f"{message.data.decode()} {message.metadata.num_delivered}"

    async def make(bucket):
        await stream.create_key_value(api.KeyValueConfig(bucket=bucket, history=3, storage=api.StorageType.MEMORY))
        return bucket

    calls = {call.__name__: call for call in (put, get, watch, ask, store, pull, make)}
    await connection.subscribe("peer.echo", cb=echo)
    await connection.flush()
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        word, *arguments = line.split()
        print(await calls[word](*arguments), flush=True)
    await connection.close()


asyncio.run(main(sys.argv[1]))
