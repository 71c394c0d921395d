"""Measures how long headless Chromium takes to open the page of a recording, and to draw it while a user zooms."""
import array
import base64
import gzip
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, root + "/Tests/Modules/trace/Recording/Page")
from browser import Browser  # noqa: E402

NAMES = [
    ("other", "default", ""),
    ("timer", 'timer "poll"', "app.lua:12"),
    ("port", 'port "socket"', "app.lua:20"),
    ("request", "request", "app.lua:33"),
    ("observer", 'observer "redraw"', "app.lua:40"),
    ("other", "perform", "")]


def records(count):
    """Yields the records of four loops: timers, some of them late; descriptors; observers; requests between loops."""
    pack = struct.Struct("<QBBHIQII").pack
    chance = random.Random(1)
    clocks, written, flow = [10**12] * 4, 0, 0
    for thread in range(4):
        yield pack(clocks[thread], 3, 0, thread, 1, 0, 0, 0)
    while written < count:
        thread = chance.randrange(4)
        t = clocks[thread]
        due = t + chance.randrange(2_000_000)
        yield pack(t, 5, 0, thread, 1, 0, 0, 0)
        yield pack(t + 200, 14, 0, thread, 0, 2, 0, 0)
        yield pack(t + 300, 12, 0, thread, 5, 2000, 0, 0)
        yield pack(t + 3000, 7, 0, thread, 0, due, 0, 0)
        t = due + chance.randrange(100_000) + (chance.random() < 0.01) * 8_000_000
        yield pack(t, 8, 0, thread, 2, 1, 0, 0)
        yield pack(t + 500, 1, 0, thread, 2, due, 0, 0)
        t += chance.randrange(200_000)
        flow += 1
        yield pack(t, 9, 0, thread, 6, 0, flow, 0)
        yield pack(t + 500, 2, 0, thread, 2, 0, 0, 0)
        other = (thread + 1) % 4
        yield pack(max(t, clocks[other]) + 900, 12, 0, other, 4, 20_000, flow, 0)
        clocks[other] = max(t, clocks[other]) + 30_000
        yield pack(t + 1000, 6, 0, thread, 1, 0, 0, 0)
        clocks[thread] = max(clocks[thread], t + 2000)
        written += 10


def page(rlhost, path, count):
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/empty.json", "w") as file:
            file.write("[]")
        subprocess.run([rlhost, "trace", folder + "/empty.json", "-o", folder + "/empty.html"], check=True)
        empty = open(folder + "/empty.html").read().split('<script type="text/x-rlhost">')[0]
    names = ",".join(
        "[%d,%s]" % (n + 1, ",".join('"%s"' % part.replace('"', '\\"') for part in name))
        for n, name in enumerate(NAMES))
    data = b"".join(records(count))

    def chunk(kind, content):
        return f'<script type="text/x-rlhost">z{kind}{base64.b64encode(gzip.compress(content, 6)).decode()}</script>\n'

    with open(path, "w") as file:
        file.write(
            empty
            + chunk(
                "n",
                (
                    '{"names":[%s],"threads":[%s]}' % (names, ",".join('[%d,"loop %d"]' % (n, n) for n in range(4)))
                ).encode(),
            ))
        for start in range(0, len(data), 8192 * 32):
            file.write(chunk("e", columns(data[start:start + 8192 * 32])))
    return len(data) // 32


def columns(data):
    """Encodes records as a page stores them: word by word, each time as the difference from the one before."""
    words = array.array("I", data)
    times = [low | high << 32 for low, high in zip(words[0::8], words[1::8])]
    passed = [(time - before) % 2**64 for time, before in zip(times, [0] + times)]
    parts = [
        array.array("I", [time & 0xFFFFFFFF for time in passed]),
        array.array("I", [time >> 32 for time in passed])]
    return b"".join(part.tobytes() for part in parts + [words[n::8] for n in range(2, 8)])


def measure(rlhost, records):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/page.html"
        count = page(rlhost, path, records)
        print(f"{count} records, {os.path.getsize(path) / 1e6:.1f} MB")
        with Browser(1400, 800) as browser:
            time.sleep(1)  # a browser that has just been started is busy with itself
            start = time.monotonic()
            shown = browser.open("file://" + path)
            shown.wait("document.documentElement.dataset.state !== undefined", 120)
            wall = time.monotonic() - start
            shown.call("Performance.enable")
            metrics = {one["name"]: one["value"] for one in shown.call("Performance.getMetrics")["metrics"]}
            # On a busy machine, only processor time is meaningful.
            print(
                f"open: {wall:.2f} s, of it {shown.evaluate('performance.now()') / 1000:.2f} s in the page, "
                f"{metrics['ProcessTime']:.2f} s of the processor; load {os.getloadavg()[0]:.0f}")
            times = shown.evaluate("""(async () => {
              const times = [];
              for (const factor of [...Array(40).fill(.75), ...Array(40).fill(1 / .75)]) {
                zoom(factor);
                const start = performance.now();
                draw();
                times.push(performance.now() - start);
                await new Promise(requestAnimationFrame);
              }
              return times;
            })()""")
            print(f"a frame while zooming: median {statistics.median(times):.1f} ms, longest {max(times):.1f} ms")
            times = shown.evaluate(
                """[() => next(isLate), () => next(isSlow), () => toggleTable(),
                    () => { toggleArrows(); draw(); }].map(f => {
              const start = performance.now(); f(); return performance.now() - start; })"""
            )
            print("next late %.0f ms, next slow %.0f ms, table %.0f ms, all arrows %.0f ms" % tuple(times))
