"""Holds a message port over NATS in Python, by the wire of docs/message-ports.md.

  pip install nats-py
  python3 port_holder.py NAME [ADDRESS]

It answers as `rlhost ports.lua hold NAME [ADDRESS]` does.
"""
import asyncio
import json
import os
import re
import socket
import sys

import nats

MOST_MESSAGES, MOST_BYTES = 256, 64 << 20


class Holder:
    """Receives messages under a name. `handle(id, data)`, a coroutine, returns the answer."""

    def __init__(self, client, name, handle, prefix="rl"):
        self.client, self.name, self.handle, self.prefix = client, name, handle, prefix
        self.held, self.bytes = {}, 0

    async def start(self):
        # A message goes to one of the processes that hold the name; a question goes to all of them.
        await self.client.subscribe(f"{self.prefix}.port.{self.name}", queue="rl", cb=self.take)
        await self.client.subscribe(f"{self.prefix}.who.{self.name}", cb=self.tell)
        await self.client.flush()

    async def tell(self, question):
        """Answers "1" to a question about a message that is here, and an empty question with this process's place."""
        text = question.data.decode()
        if not text:
            place = {"host": socket.gethostname(), "pid": os.getpid()}
            await question.respond(json.dumps(place).encode())
        elif text in self.held:
            await question.respond(b"1")

    async def take(self, message):
        headers = message.headers or {}
        id, kind = headers.get("Rl-Id", "0"), headers.get("Rl-Kind", "request")
        size = len(message.data)
        if not re.fullmatch(r"-?\d+", id) or not -1 << 31 <= int(id) < 1 << 31:
            return await self.answer(message, "0", "failure", b"Rl-Id is not an integer of 32 bits")
        if kind not in ("request", "send"):
            return await self.answer(message, id, "failure", b"Rl-Kind is neither request nor send")
        if len(self.held) >= MOST_MESSAGES or self.bytes + size > MOST_BYTES:
            return await self.answer(message, id, "failure", b"busy")
        # While this message waits for its answer, the loop handles others.
        key = message.reply or object()
        self.held[key], self.bytes = asyncio.create_task(self.work(message, key, id, kind)), self.bytes + size

    async def work(self, message, key, id, kind):
        try:
            answer = await self.handle(int(id), message.data)
            if kind == "send":
                await self.answer(message, id, "done", b"")
            else:
                await self.answer(message, id, "reply", answer or b"")
        except Exception as error:
            await self.answer(message, id, "failure", f"its callback raised an error: {error}".encode()[:1000])
        finally:
            del self.held[key]
            self.bytes -= len(message.data)

    async def answer(self, message, id, kind, data):
        if not message.reply:
            return
        size = len(data) + 100
        if size > self.client.max_payload:
            kind, data = "failure", f"the answer is too long: {size} bytes".encode()
        await self.client.publish(message.reply, data, headers={"Rl-Id": id, "Rl-Kind": kind})


async def services(id, data):
    print(f"got {id}\t{data[:100].decode()}", flush=True)
    if id == 1:
        return data.upper()
    if id == 2:
        await asyncio.sleep(float(data))
        return b"slept " + data
    if id == 3:
        raise ValueError(data.decode())
    if id == 5:
        return data * 3


async def main(name, address="nats://localhost:4222"):
    client = await nats.connect(address, max_reconnect_attempts=-1)
    await Holder(client, name, services).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
