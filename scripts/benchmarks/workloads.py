"""The workloads, and the goals of rlhost for each."""

from dataclasses import dataclass, field

# The peers in the order of the table. rlhost's goals are multiples of the numbers of BASES.
PEERS = ["C", "C+Lua", "C+task", "luv", "node", "cqueues", "CF", "rlhost"]
BASES = ("C+Lua", "C+task", "luv")


@dataclass(frozen=True)
class Row:
    """One row of the table: the arguments WORKLOAD SIZE COUNT of every peer, and the counted field of its answer."""

    label: str
    workload: str
    size: int
    count: int
    unit: str = "µs"
    metric: str = "cpu"  # cpu, p99, delivered, bytes, resident, calls
    floor_goal: float | None = None  # at most this multiple of C+Lua
    tasks_goal: float | None = None  # at most this multiple of C+task
    rival_goal: float | None = None  # at most this multiple of luv
    without: tuple = field(default=())  # peers that would take minutes

    @property
    def goals(self):
        return zip(BASES, (self.floor_goal, self.tasks_goal, self.rival_goal))

    @property
    def run(self):
        return (self.workload, self.size, self.count)

    @property
    def higher_is_better(self):
        return self.metric == "delivered"


SLOW_WITH_A_MILLION = ("cqueues", "CF")

ROWS = [
    Row('start-up, `require "runloop"`', "require", 0, 20, "ms", rival_goal=1.0),
    Row('… `require "runloop.net"`', "require-net", 0, 20, "ms", rival_goal=1.3),
    Row("… empty script", "start", 0, 20, "ms", floor_goal=2.2, rival_goal=0.85),
    Row("… first answer of an HTTP server", "first-answer", 0, 10, "ms"),
    Row('system calls of a start, `require "runloop"`', "calls", 0, 1, "", "calls"),
    Row("fire 10k one-shot timers, 0–200 ms", "timers", 10_000, 200, floor_goal=1.8, rival_goal=0.5),
    Row("fire 100k", "timers", 100_000, 200, floor_goal=2.2, tasks_goal=1.3, rival_goal=0.4),
    Row("fire 1M", "timers", 1_000_000, 200, floor_goal=2.2, rival_goal=0.3, without=SLOW_WITH_A_MILLION),
    Row("create and cancel a 30 s timer, 10k pending", "cancel", 10_000, 100_000, floor_goal=3.3, rival_goal=0.3),
    Row("move a deadline, 10k pending", "move", 10_000, 100_000, floor_goal=1.8, rival_goal=0.5),
    Row("1,000 repeating timers of 1–10 ms, per fire", "repeat", 1_000, 2_000, floor_goal=1.5, rival_goal=0.6),
    Row("… lateness p99", "lateness", 1_000, 1_000, metric="p99", floor_goal=1.3, rival_goal=0.15),
    Row("… share of due fires delivered", "repeat", 1_000, 2_000, "", "delivered", floor_goal=1.0),
    Row("socketpair ping-pong, per hop", "pingpong", 1, 50_000, floor_goal=1.1, rival_goal=1.0),
    Row("one of 1,000 idle fds becomes ready", "idle", 1_000, 50_000, floor_goal=1.15, rival_goal=1.0),
    Row("one of 9,800", "idle", 9_800, 50_000, floor_goal=1.15, rival_goal=0.95),
    Row("wake another thread's loop and get the answer", "wake", 1, 20_000, floor_goal=1.1),
    Row("callbacks posted in a burst of 10^6", "burst", 1, 1_000_000, floor_goal=3.8, tasks_goal=1.25, rival_goal=3.6),
    Row("… one per pass, each posting the next", "chain", 1, 200_000, floor_goal=0.7, rival_goal=0.85),
    Row("TCP echo, 64 bytes, 50 connections: server, per request", "echo", 50, 50_000, floor_goal=1.06, rival_goal=1.0),
    Row("… 1,000 connections", "echo", 1_000, 50_000, floor_goal=1.06, rival_goal=0.95),
    Row("signal a custom source, per pass", "signal", 1, 200_000),
    Row("task switch, 10 tasks", "switch", 10, 200_000),
    Row("run /bin/true, its output read, and reap it", "spawn", 1, 500),
    Row("read a program's output, per MB", "output", 1, 200),
    Row("see a file change, of 2,000 written at full speed", "changes", 1, 2_000),
    Row("a key of a terminal to its callback", "keys", 1, 5_000),
    Row("JSON: encode, per record of 110 bytes", "json-encode", 1_000, 100, rival_goal=1.0),
    Row("… decode", "json-decode", 1_000, 100, rival_goal=1.0),
    Row("memory per idle timer", "memory-timer", 50_000, 1, "bytes", "bytes", rival_goal=0.9),
    Row("memory per idle connection (fd port)", "memory-fd", 4_000, 1, "bytes", "bytes", rival_goal=0.8),
    Row("memory per task", "memory-task", 10_000, 1, "bytes", "bytes"),
    Row("memory per thread", "memory-thread", 20, 1, "kB", "bytes"),
    Row("burst of 50,000 tasks: memory after 2 s", "memory-burst", 50_000, 1, "kB", "resident"),
    Row("memory of an empty script", "start", 0, 20, "kB", "resident"),
]

# Answers are in seconds and bytes.
SCALE = {"µs": 1e6, "ms": 1e3, "kB": 1 / 1024, "bytes": 1, "": 1}


@dataclass(frozen=True)
class Curve:
    """Cost against size: the arguments WORKLOAD SIZE COUNT for each size."""

    title: str
    axis: str
    workload: str
    sizes: tuple
    count: int
    unit: str = "µs"
    peers: tuple = ("C+Lua", "luv", "node", "rlhost")


CURVES = [
    Curve("One-shot timers, create and fire", "timers", "timers", (1_000, 10_000, 100_000, 1_000_000), 200),
    Curve("Create and cancel a timer", "timers pending", "cancel", (1_000, 10_000, 100_000, 1_000_000), 100_000),
    Curve("One fd becomes ready", "fds watched", "idle", (10, 100, 1_000, 9_800), 20_000),
    Curve(
        "Wake one thread after the other",
        "threads",
        "wake",
        (1, 4, 16, 64),
        10_000,
        peers=("C+Lua", "cqueues", "CF", "rlhost"),
    ),
    Curve(
        "A pass with observers", "observers called", "observers", (1, 10, 100, 1_000), 10_000, peers=("CF", "rlhost")
    ),
    Curve("A pass beside other modes", "modes", "modes", (1, 10, 100, 1_000), 50_000, peers=("CF", "rlhost"))]


@dataclass(frozen=True)
class Path:
    """A hot path for instruction counts: of one run, or of two runs that take the path a different number of times."""

    label: str
    workload: str
    few: tuple  # SIZE, COUNT; or None
    many: tuple
    times: int  # how much more often in the second


PATHS = [
    Path('`require "runloop"`', "require", None, (0, 1), 1),
    Path("an empty script", "start", None, (0, 1), 1),
    Path("one-shot timer: create, fire, collect", "timers", (2_000, 0), (12_000, 0), 10_000),
    Path("create and cancel a timer", "cancel", (1_000, 2_000), (1_000, 12_000), 10_000),
    Path("fd event (read and write included)", "pingpong", (1, 1_000), (1, 6_000), 5_000),
    Path("posted callback", "burst", (1, 2_000), (1, 12_000), 10_000),
    Path("… one per pass", "chain", (1, 2_000), (1, 12_000), 10_000),
    Path("signal", "signal", (1, 2_000), (1, 12_000), 10_000),
    Path("the time", "now", (1, 2_000), (1, 12_000), 10_000),
    Path("task switch", "switch", (10, 2_000), (10, 12_000), 10_000),
]
INSTRUCTION_PEERS = ("C", "C+Lua", "luv", "cqueues", "rlhost")
