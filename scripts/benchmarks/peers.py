"""Finds, compiles and runs the peers. A peer is called as COMMAND WORKLOAD SIZE COUNT and answers with a JSON line."""

import fcntl
import json
import os
import shutil
import socket
import subprocess
import termios
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / ".build" / "benchmarks"
NO_SUCH_WORKLOAD = 69
TIME_LIMIT = 120  # seconds


class Missing(Exception):
    """A peer that is not installed."""


class Failed(Exception):
    """A peer that failed."""


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def compile_c(compiler, source, target, *flags):
    BUILD.mkdir(parents=True, exist_ok=True)
    command = [compiler, "-std=gnu17", "-O2", "-o", str(BUILD / target), str(HERE / source), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"{source} does not compile: {done.stderr.strip().splitlines()[:1]}")
    return str(BUILD / target)


def tool(name):
    found = shutil.which(name)
    if not found:
        raise Missing(f"no {name}")
    return found


def lua_module(name):
    lua = tool("lua5.4")
    # Runs in the build directory, since the current directory may contain a script of the same name.
    if subprocess.run([lua, "-e", f"require '{name}'"], cwd=BUILD, capture_output=True).returncode:
        raise Missing(f"no Lua module {name}")
    return lua


class Peer:
    """A host.

    command: runs a workload; WORKLOAD SIZE COUNT is appended
    empty: starts, does nothing, ends
    starts: the same as `empty` with a library, by the name of the workload
    variables: for its environment
    """

    def __init__(self, command, empty, starts=None, **variables):
        self.command, self.empty, self.variables = command, empty, variables
        self.starts = {"start": empty, **(starts or {})}

    def with_variables(self, **variables):
        return Peer(self.command, self.empty, self.starts, **self.variables, **variables)


def script(name):
    return str(HERE / name)


def core_foundation():
    """The Swift toolchain contains CoreFoundation, and the clang that can read its headers."""
    swiftc = tool("swiftc")
    info = json.loads(output_of(swiftc, "-print-target-info"))
    headers, libraries = info["paths"]["runtimeResourcePath"], info["paths"]["runtimeLibraryPaths"][0]
    clang = Path(os.path.realpath(swiftc)).with_name("clang")
    program = compile_c(str(clang), "corefoundation.c", "corefoundation", "-fblocks", "-w", "-I", headers,
                        "-L", libraries, "-lFoundation", "-lBlocksRuntime", f"-Wl,-rpath,{libraries}", "-lpthread")
    return Peer([program], [program, "start"])


def find(host):
    """Returns the peers that are installed, and for each other peer the reason why it is missing."""
    lua_flags = output_of(tool("pkg-config"), "--cflags", "--libs", "lua5.4").split()
    compile_c("gcc", "support/posix.c", "posix.so", "-shared", "-fPIC", *lua_flags)
    compile_c("gcc", "support/load.c", "load")
    compile_c("gcc", "support/start.c", "start")
    fds = compile_c("gcc", "support/fds.c", "fds")
    floor = compile_c("gcc", "floor.c", "floor", *lua_flags, "-Wl,-E", "-lpthread")
    tasks = compile_c("gcc", "floor.c", "floor-tasks", "-DTASKS", *lua_flags, "-Wl,-E", "-lpthread")
    nothing = BUILD / "empty.lua"
    nothing.write_text("")
    (BUILD / "empty.mjs").write_text("")
    for module in ("runloop", "runloop.net"):
        (BUILD / f"{module}.lua").write_text(f'require "{module}"\n')

    def node():
        node = tool("node")
        # The collector has to be callable for the memory rows.
        return Peer([node, "--expose-gc", script("node.mjs")], [node, str(BUILD / "empty.mjs")],
                    {"first-answer": [node, script("net/first_answer.mjs")]})

    def rlhost():
        if not Path(host).exists():
            raise Missing(f"{os.path.relpath(host)} is not built: swift build -c release")
        program = str(Path(host).resolve())
        starts = {name: [program, str(BUILD / f"{module}.lua")] for name, module in (
            ("require", "runloop"), ("calls", "runloop"), ("require-net", "runloop.net"))}
        return Peer([program, script("rlhost.lua")], [program, str(nothing)],
                    {**starts, "first-answer": [program, script("net/first_answer.lua")]})

    def in_lua(module, run):
        lua = lua_module(module)
        empty = [lua, "-e", run]
        return Peer([lua, script(f"{module}.lua")], empty, dict.fromkeys(("require", "require-net", "calls"), empty))

    makers = {
        "C": lambda: Peer([floor], [floor, "start"]),
        "C+Lua": lambda: Peer([floor, script("floor.lua")], [floor, str(nothing)]),
        "C+task": lambda: Peer([tasks, script("floor.lua")], [tasks, str(nothing)]),
        "luv": lambda: in_lua("luv", "require('luv').run()"),
        "node": node,
        "cqueues": lambda: in_lua("cqueues", "require('cqueues').new():loop()"),
        "CF": core_foundation,
        "rlhost": rlhost,
    }
    peers, missing = {}, {}
    for name, make in makers.items():
        try:
            peers[name] = make()
        except Missing as reason:
            missing[name] = str(reason)
    if "node" in peers:
        peers["node"].fds = fds
    return peers, missing


def environment(peer):
    """The peers' modules come first, then the distribution's. The caller's LUA_PATH does not count."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LUA_")}
    return kept | {"LUA_PATH": f"{HERE}/support/?.lua;;", "LUA_CPATH": f"{BUILD}/?.so;;"} | peer.variables


def one_core():
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def inherited(peer, workload, size):
    """Node cannot make pipes and socket pairs, so a launcher opens them for it."""
    pairs = {"pingpong": ("sockets", size), "idle": ("pipes", size), "memory-fd": ("sockets", size)}.get(workload)
    return [peer.fds, pairs[0], str(pairs[1])] if pairs and hasattr(peer, "fds") else []


def type_keys(peer, command, count):
    """Types `count` keys into the peer's terminal, each one after the peer has reported the previous key."""
    master, slave = os.openpty()

    def take_terminal():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    child = subprocess.Popen(
        command,
        cwd=BUILD,
        env=environment(peer),
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(slave,),
        preexec_fn=take_terminal)
    os.close(slave)
    try:
        seen = child.stdout.read(1)
        for _ in range(count):
            if not seen:
                break
            os.write(master, b"a")
            seen = os.read(child.stdout.fileno(), 1)
        output, errors = child.communicate(timeout=TIME_LIMIT)
    finally:
        child.kill()
        child.wait()
        os.close(master)
    if child.returncode == NO_SUCH_WORKLOAD:
        return None
    lines = [line for line in output.decode().splitlines() if line.startswith("{")]
    if child.returncode or not lines:
        raise Failed((errors.decode().strip().splitlines() or [f"status {child.returncode}"])[0])
    return json.loads(lines[-1])


def first_answers(command, count):
    """Starts a server `count` times, and sends one request each time. The server writes its port, answers, and ends."""
    cpu = 0
    began = time.monotonic()
    for _ in range(count):
        server = subprocess.Popen(command, cwd=BUILD, stdout=subprocess.PIPE)
        with socket.create_connection(("127.0.0.1", int(server.stdout.readline())), TIME_LIMIT) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: client.recv(65536), b""))
        _, status, usage = os.wait4(server.pid, 0)
        server.stdout.close()
        server.returncode = status
        if status or not answer.endswith(b"hello"):
            raise Failed(f"status {status}, answer {answer!r}")
        cpu += usage.ru_utime + usage.ru_stime
    return {"ops": count, "cpu": cpu, "wall": time.monotonic() - began}


def system_calls(command):
    """Counts the system calls of a program and its threads."""
    out = BUILD / "calls"
    done = subprocess.run([tool("strace"), "-f", "-c", "-U", "calls,name", "-o", str(out), *command], cwd=BUILD,
                          capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr.strip())
    return {"ops": 1, "calls": int(out.read_text().split()[-2])}


def run(peer, workload, size, count, wrapper=()):
    """Runs a workload once. Returns the peer's answer, or None if it has no such workload."""
    if workload in ("require", "require-net", "first-answer", "calls") and workload not in peer.starts:
        return None
    if workload == "first-answer":
        return first_answers(peer.starts[workload], count)
    if workload == "calls":
        return system_calls(peer.starts[workload])
    if workload in peer.starts:
        command = [str(BUILD / "start"), str(count), *peer.starts[workload]]
    else:
        command = [*wrapper, *inherited(peer, workload, size), *peer.command, workload, str(size), str(count)]
    # Two threads on two cores measure the machine's wake-up time more than the loop's.
    pinned = one_core if workload == "wake" else None
    if workload == "keys":
        return type_keys(peer, command, count)
    child = subprocess.Popen(command, cwd=BUILD, env=environment(peer), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, preexec_fn=pinned)
    load = None
    try:
        if workload == "echo":
            port = child.stdout.readline().strip()
            if port:
                load = subprocess.Popen([str(BUILD / "load"), port, str(size), str(count)])
        output, errors = child.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise Failed(f"not done after {TIME_LIMIT} s") from None
    finally:
        if load:
            load.kill()
            load.wait()
    if child.returncode == NO_SUCH_WORKLOAD:
        return None
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if child.returncode or not lines:
        raise Failed((errors.strip().splitlines() or [f"status {child.returncode}"])[0])
    return json.loads(lines[-1])


def without_debug_information(peer):
    """Copies the program without debug information, which older versions of valgrind cannot read if it is newer."""
    stripped = BUILD / f"{Path(peer.command[0]).name}.stripped"
    subprocess.run([tool("strip"), "--strip-debug", "-o", str(stripped), peer.command[0]], check=True)
    return Peer([str(stripped), *peer.command[1:]], peer.empty, peer.starts, **peer.variables)


def instructions(peer, workload, size, count):
    """Returns the instructions of one run under callgrind, or None if the peer has no such workload."""
    peer = without_debug_information(peer)
    out = BUILD / "callgrind.out"
    out.unlink(missing_ok=True)
    callgrind = [tool("valgrind"), "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}"]
    if workload in peer.starts:
        command = [*callgrind, peer.command[0], *peer.starts[workload][1:]]
        if subprocess.run(command, cwd=BUILD, env=environment(peer), capture_output=True).returncode:
            raise Failed("the empty script failed")
    elif run(peer, workload, size, count, wrapper=callgrind) is None:
        return None
    for line in out.read_text().splitlines():
        if line.startswith(("summary:", "totals:")):
            return int(line.split()[1])
    raise Failed("callgrind wrote no summary")


def versions(peers):
    """Returns the names and versions of the peers, for the head of the table."""
    ask = {
        "luv": [["lua5.4", "-e", "print(require('luv').version_string())"], "luv on libuv {}"],
        "node": [["node", "--version"], "Node {}"],
        "cqueues": [["lua5.4", "-e", "print(require('cqueues').VERSION)"], "cqueues {}"],
        "CF": [["swiftc", "--version"], "CoreFoundation of {}"],
    }
    found = [output_of("lua5.4", "-v").split("  ")[0]] if shutil.which("lua5.4") else []
    for name, (command, text) in ask.items():
        if name in peers:
            done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True)
            found.append(text.format(done.stdout.strip().splitlines()[0]))
    return found
