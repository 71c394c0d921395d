"""The rows of `scripts/bench data`: what calls of runloop.redis cost beside hiredis, and redis-py if it is there.

Each program of data/ prints a line for each row: its label and the microseconds of processor time of a call. The peers
take turns, with one server; the medians of the rounds count."""
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent / "data"
SINGLE, TASKS, BATCH = "GET, one after the other", "GET by 50 tasks", "GET in a batch of 100"
# By row: the peer and its row, and the goal for the ratio.
GOALS = {SINGLE: ("hiredis", SINGLE, 1.6), TASKS: ("rlhost", SINGLE, 0.6), BATCH: ("hiredis", BATCH, 3)}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start_server(port, directory):
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory],
        stdout=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server
        except OSError:
            time.sleep(0.02)
    server.kill()
    raise SystemExit("redis-server does not start")


def run_round(peers, samples):
    """Runs each peer once. Returns 1 if one of them fails."""
    status = 0
    for peer, command in peers.items():
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            print(f"{peer}: {run.stderr.strip()}", file=sys.stderr)
            # redis-py may be missing.
            status = status or int(peer != "redis-py")
        for line in run.stdout.splitlines():
            label, microseconds = line.split("\t")
            samples.setdefault((peer, label), []).append(float(microseconds))
    return status


def measure(options):
    """Prints the table. Returns an exit status: 1 if a program fails."""
    samples, status, count = {}, 0, "2000" if options.quick else "40000"
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        program = directory + "/hiredis"
        subprocess.run(["clang", "-O2", "-o", program, str(HERE / "redis.c"), "-lhiredis"], check=True)
        server = start_server(port, directory)
        try:
            peers = {
                "rlhost": [options.host, str(HERE / "redis.lua"), f"redis://127.0.0.1:{port}/0", count],
                "hiredis": [program, str(port), count],
                "redis-py": [sys.executable, str(HERE / "redis_asyncio.py"), str(port), count],
            }
            for _ in range(1 if options.quick else 3):
                status = run_round(peers, samples) or status
        finally:
            server.kill()
            server.wait()
    medians = {key: statistics.median(values) for key, values in samples.items()}
    print(f"{'µs of CPU':26} {'rlhost':>8} {'hiredis':>8} {'redis-py':>9} {'ratio':>6}  goal")
    for label, (peer, row, goal) in GOALS.items():
        if ("rlhost", label) not in medians or (peer, row) not in medians:
            continue
        ratio = medians["rlhost", label] / medians[peer, row]
        cells = [f"{medians[name, label]:.2f}" if (name, label) in medians else "–" for name in peers]
        mark = "✓" if ratio <= goal else "✗"
        print(f"{label:26} {cells[0]:>8} {cells[1]:>8} {cells[2]:>9} {ratio:6.2f}  {mark} {goal:g}")
    return status
