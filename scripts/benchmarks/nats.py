"""The rows of `scripts/bench nats`: the costs of calls of runloop.nats beside libnats, nats.go and nats.py.

Each program of nats/ gets a server's address, a workload and a count, and prints lines of a name and a number. The
peers take turns at one server; the medians of the rounds count. Messages have 16 bytes. For all peers, the publisher of
received messages is libnats, and the process that answers requests is rlhost."""
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.data import PYTHON, compile_peer, free_port, start

HERE = Path(__file__).resolve().parent / "nats"
# (label, workload, operations, what is printed, peer for the ratio, goal). Without a peer, the goal is for the number
# itself. Memory is measured at counts that are powers of two, when tables are full.
ROWS = [
    ("receive, CPU", "receive", 200_000, "cpu", "libnats", 1.7),
    ("publish, CPU", "publish", 200_000, "cpu", "libnats", 2.5),
    ("request after request, time", "request", 10_000, "wall", "nats.go", 1.0),
    ("request after request, CPU", "request", 10_000, "cpu", "nats.go", 1.0),
    ("requests by 100 tasks, CPU", "request100", 50_000, "cpu", "nats.go", 1.0),
    ("send of a port, CPU", "port", 200_000, "cpu", None, 4),
    ("send of a port, time", "port", 200_000, "wall", None, 25),
    ("bytes of Lua for a bus", "buses", 512, "bytes", None, 6000),
    ("bytes of Lua for a subscription with a function", "subscriptions", 8192, "bytes", None, 600),
    ("bytes of Lua for a request that waits", "waiting", 8192, "bytes", None, 3000),
    ("resident bytes of a bus", "buses", 512, "resident", None, None),
    ("resident bytes of a subscription", "subscriptions", 8192, "resident", None, None),
    ("resident bytes of a request that waits", "waiting", 8192, "resident", None, None),
    ("ms of require", "require", 1, "ms", None, 3),
]
SHARED = "work shared by two processes, speed beside one"


def compile_go(directory):
    """Debian's libraries for Go are below /usr/share/gocode."""
    program = f"{directory}/nats-go"
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": f"{directory}/cache"}
    subprocess.run(["go", "build", "-o", program, str(HERE / "nats.go")], check=True, env=environment,
                   capture_output=True)
    return program


def find_peers(options, directory):
    """Returns the commands by peer; says which are missing."""
    peers = {"rlhost": [options.host, str(HERE / "nats.lua")]}

    def add(name, make, remedy):
        try:
            peers[name] = make()
        except (OSError, subprocess.CalledProcessError):
            print(f"skipped {name}: {remedy}", file=sys.stderr)

    def python():
        subprocess.run([PYTHON, "-c", "import nats"], check=True, capture_output=True)
        return [PYTHON, str(HERE / "nats_asyncio.py")]

    add("libnats", lambda: [compile_peer(directory, "nats/libnats", "-lnats", "-lpthread")], "apt install libnats-dev")
    add("nats.go", lambda: [compile_go(directory)], "apt install golang-go golang-github-nats-io-go-nats-dev")
    add("nats.py", python, "pip install nats-py")
    return peers


def begin(command, *arguments):
    """Starts a program, and returns when it reports that it is ready."""
    program = subprocess.Popen([*command, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if program.stdout.readline() != "ready\n":
        program.kill()
        raise SystemExit(f"{command[0]} does not begin: {' '.join(map(str, arguments))}")
    return program


def numbers(text):
    return {name: float(value) for name, value in (line.split("\t") for line in text.splitlines())}


def run(peers, peer, url, workload, count):
    """Returns the output of a peer; nothing if it has no such workload."""
    if workload == "receive":
        program = begin(peers[peer], url, workload, count)
        subprocess.run([*peers.get("libnats", peers["rlhost"]), url, "publish", str(count)], check=True,
                       capture_output=True)
        try:
            return numbers(program.communicate(timeout=100)[0])
        except subprocess.TimeoutExpired:
            # On a busy machine the server may cut off a client that reads slowly.
            program.kill()
            print(f"{peer}: {workload} did not end", file=sys.stderr)
            return {}
    done = subprocess.run([*peers[peer], url, workload, str(count)], capture_output=True, text=True, timeout=300)
    if done.returncode == 3:
        return {}
    if done.returncode:
        raise SystemExit(f"{peer}: {workload}: {done.stderr.strip()}")
    return numbers(done.stdout)


def share(peers, url, count):
    """Returns the factor by which two processes are faster than one."""
    walls = []
    for processes in (1, 2):
        workers = [begin(peers["rlhost"], url, "worker", 1) for _ in range(processes)]
        walls.append(run(peers, "rlhost", url, "share", count)["wall"])
        for worker in workers:
            worker.kill()
            worker.wait()
    return walls[0] / walls[1]


def run_round(peers, url, options, samples):
    for workload, count in dict.fromkeys((row[1], row[2]) for row in ROWS):
        is_own = all(row[4] is None for row in ROWS if row[1] == workload)
        for peer in ["rlhost"] if is_own else peers:
            amount = max(100, count // 10) if options.quick and count > 1 else count
            for name, number in run(peers, peer, url, workload, amount).items():
                samples.setdefault((workload, name, peer), []).append(number)
    samples.setdefault((SHARED, "", "rlhost"), []).append(share(peers, url, 200 if options.quick else 2000))


def show(peers, samples):
    medians = {key: statistics.median(values) for key, values in samples.items()}
    head = "".join(f"{name:>10}" for name in peers)
    print(f"{'microseconds where nothing else is said':48}{head}   ratio  goal")
    for label, workload, _, what, beside, goal in ROWS:
        found = [medians.get((workload, what, name)) for name in peers]
        cells = "".join(f"{number:10.2f}" if number is not None else f"{'–':>10}" for number in found)
        if beside and (workload, what, beside) not in medians:
            print(f"{label:48}{cells}       –  {goal:g}")
            continue
        ratio = found[0] / (medians[workload, what, beside] if beside else 1)
        shown = f"{ratio:8.2f}" if beside else " " * 8
        verdict = "" if goal is None else f"  {'✓' if ratio <= goal else '✗'} {goal:g}"
        print(f"{label:48}{cells}{shown}{verdict}")
    speed = medians[SHARED, "", "rlhost"]
    print(f"{SHARED:48}{speed:10.2f}{' ' * 10 * (len(peers) - 1)}{' ' * 8}  {'✓' if speed >= 1.6 else '✗'} 1.6")


def measure(options):
    """Prints the table. Returns an exit status."""
    samples = {}
    with tempfile.TemporaryDirectory() as directory:
        peers = find_peers(options, directory)
        port = free_port()
        server = start(["nats-server", "-a", "127.0.0.1", "-p", str(port)], port)
        url = f"nats://127.0.0.1:{port}"
        echo = begin(peers["rlhost"], url, "echo", 1)
        try:
            for _ in range(1 if options.quick else 3):
                run_round(peers, url, options, samples)
        finally:
            echo.kill()
            server.terminate()
            server.wait()
    show(peers, samples)
    return 0
