"""The rows of `scripts/bench data`: the costs of calls of runloop.redis, .postgres and .sqlite beside C, redis-py and
asyncpg.

Each program of data/ prints a line for each row: its label and a number, mostly the microseconds of processor time of a
call. The peers take turns, with one server; the medians of the rounds count."""
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent / "data"
SINGLE, TASKS, BATCH = "GET, one after the other", "GET by 50 tasks", "GET in a batch of 100"
KEY, ROW = "select by key, one after the other", "a row of 4 columns by rows()"
AWAITED, INSERT = "select by key, awaited", "an insert of 1000 by 100 tasks, time"
WRONG, BEYOND = "wrong answers beside cancelled calls", "connections beyond size, then"
LEFT = "kB more memory in the second half of them"
CANCELLED = [(WRONG, None, 0), (BEYOND, None, 0), (LEFT, None, 128)]
# For each database: (row, peer and its row, goal for the ratio). Without a peer, the goal is for the number itself.
GOALS = {
    "redis": [(SINGLE, ("hiredis", SINGLE), 1.6), (TASKS, ("rlhost", SINGLE), 0.6), (BATCH, ("hiredis", BATCH), 3)],
    "postgres": [(KEY, ("libpq", KEY), 1.25), (KEY, ("asyncpg", KEY), 0.5), (ROW, ("asyncpg", ROW), 0.6),
                 ("kB more memory while it reads rows", None, 4096)],
    "sqlite": [(AWAITED + ", time", ("rlhost", AWAITED + ", by perform"), 0.7),
               ("select by key by 50 tasks, CPU", ("sqlite3", "select by key by 50 tasks, CPU"), 1.6),
               (INSERT, ("sqlite3", INSERT), 1.25), ("ms of the longest callback", None, 1)],
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(command, port):
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server
        except OSError:
            time.sleep(0.02)
    server.kill()
    raise SystemExit(f"{command[0]} does not start")


def start_redis(port, directory):
    return start(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory], port)


def start_postgres(port, directory):
    """PostgreSQL refuses to run as root. Under root, it runs as the user postgres."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not versions:
        raise SystemExit("postgres is not installed (apt install postgresql)")
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
    if user:
        shutil.chown(directory, "postgres")
    data = directory + "/data"
    subprocess.run(user + [f"{versions[-1]}/initdb", "-D", data, "-U", "postgres", "--auth=trust", "-N"],
                   check=True, stdout=subprocess.DEVNULL)
    server = start(user + [f"{versions[-1]}/postgres", "-D", data, "-p", str(port), "-k", directory, "-c", "fsync=off"],
                   port)
    time.sleep(1)
    return server


def compile_peer(directory, name, *libraries):
    """`name`: of a file in data/, or with another folder before it."""
    program = f"{directory}/{Path(name).name}"
    source = HERE.parent / name if "/" in name else HERE / name
    subprocess.run(["clang", "-O2", "-o", program, f"{source}.c", *libraries], check=True)
    return program


# The Python that has the distribution's modules; another Python may be first in PATH.
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


def redis_peers(options, directory, port, count):
    program = compile_peer(directory, "redis", "-lhiredis")
    return {
        "rlhost": [options.host, str(HERE / "redis.lua"), f"redis://127.0.0.1:{port}/0", count],
        "hiredis": [program, str(port), count],
        "redis-py": [PYTHON, str(HERE / "redis_asyncio.py"), str(port), count],
    }


def postgres_peers(options, directory, port, count):
    program = compile_peer(directory, "postgres", "-lpq")
    url, rows = f"postgres://postgres@127.0.0.1:{port}/postgres", "10000" if options.quick else "100000"
    return {
        "rlhost": [options.host, str(HERE / "postgres.lua"), url, count, rows],
        "libpq": [program, url, count, rows],
        "asyncpg": [PYTHON, str(HERE / "postgres_asyncpg.py"), url, count, rows],
    }


def sqlite_peers(options, directory, _, count):
    program = compile_peer(directory, "sqlite", "-lsqlite3")
    file = directory + "/bench.db"
    return {"rlhost": [options.host, str(HERE / "sqlite.lua"), file, count], "sqlite3": [program, file, count]}


def cancelled_peer(options, name, port, directory):
    """The program that cancels calls: run once, since its rows are counts."""
    where = {"redis": f"redis://127.0.0.1:{port}/0", "postgres": f"postgres://postgres@127.0.0.1:{port}/postgres",
             "sqlite": directory + "/cancelled.db"}[name]
    return {"rlhost": [options.host, str(HERE / "cancelled.lua"), name, where, "1000" if options.quick else "10000"]}


DATABASES = {"redis": (start_redis, redis_peers), "postgres": (start_postgres, postgres_peers),
             "sqlite": (None, sqlite_peers)}


def run_round(peers, samples):
    """Runs each peer once. Returns 1 if a peer fails."""
    status = 0
    for peer, command in peers.items():
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            print(f"{peer}: {run.stderr.strip()}", file=sys.stderr)
            # The clients in Python may be missing.
            status = status or int(command[0] != PYTHON)
        for line in run.stdout.splitlines():
            label, number = line.split("\t")
            samples.setdefault((peer, label), []).append(float(number))
    return status


def show(name, samples):
    """Prints the rows of a database."""
    medians = {key: statistics.median(values) for key, values in samples.items()}
    for label, peer, goal in GOALS[name] + CANCELLED:
        if ("rlhost", label) not in medians or peer and peer not in medians:
            continue
        own, other = medians["rlhost", label], medians[peer] if peer else 0
        ratio = own / other if peer else own
        beside = f"{other:.2f} ({'perform' if 'perform' in peer[1] else peer[0]})" if peer else ""
        mark = "✓" if ratio <= goal else "✗"
        print(f"{name + ': ' + label:48} {own:9.2f} {beside:>20} {ratio:8.2f}  {mark} {goal:g}")


def measure(options):
    """Prints the table. Returns an exit status: 1 if a program fails."""
    status, count = 0, "2000" if options.quick else "40000"
    print(f"{'µs of CPU where nothing else is said':48} {'rlhost':>9} {'beside':>20} {'ratio':>8}  goal")
    for name, (start_server, peers_of) in DATABASES.items():
        samples, server, port = {}, None, free_port()
        with tempfile.TemporaryDirectory() as directory:
            try:
                server = start_server(port, directory) if start_server else None
                peers = peers_of(options, directory, port, count)
                for _ in range(1 if options.quick else 3):
                    status = run_round(peers, samples) or status
                status = run_round(cancelled_peer(options, name, port, directory), samples) or status
            finally:
                if server:
                    server.terminate()
                    server.wait()
        show(name, samples)
    return status
