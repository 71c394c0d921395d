"""The rows of `scripts/bench --network`: runloop.net, .http and .json beside luv, cqueues, Node, nginx, lua-cjson and
C.

Other programs (load.c, wrk, openssl, curl) generate the load over the loopback interface. A row reports the processor
time of the server, or of the client if the row is about a client. Each round runs all peers in turn, and the median of
the rounds counts. Read the ratios."""
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "net")
TICKS = os.sysconf("SC_CLK_TCK")
NGINX = """daemon off; worker_processes 1; pid {directory}/pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000;
  client_body_temp_path {directory}; proxy_temp_path {directory}; fastcgi_temp_path {directory}; uwsgi_temp_path {directory};
  scgi_temp_path {directory};
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ default_type text/plain; return 200 "hello world"; }}
    location /json {{ default_type application/json; return 200 '{{"id":7,"name":"item 7","tags":["a","b","c"],"price":9.5}}'; }} }} }}
"""


class Network:
    def __init__(self, options):
        self.options = options
        self.directory = tempfile.mkdtemp()
        # These ports are below those that the system gives to clients.
        self.port = 10000 + os.getpid() % 20000
        self.load = self.compile("load")
        self.rounds = 1 if options.quick else min(options.rounds, 3)
        self.share = 10 if options.quick else 1
        certificate = ["-keyout", self.directory + "/key.pem", "-out", self.directory + "/cert.pem"]
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=localhost",
                *certificate,
            ],
            check=True,
            stderr=subprocess.DEVNULL)
        programs = {"rlhost": [options.host, HERE + "/server.lua"], "C": [self.compile("server")],
                    "C+Lua": [self.compile("server_floor", lua()), HERE + "/server_floor.lua"],
                    "luv": ["lua5.4", HERE + "/server_luv.lua"], "cqueues": ["lua5.4", HERE + "/server_cqueues.lua"],
                    "node": ["node", HERE + "/server.mjs"], "nginx": [shutil.which("nginx") or "nginx"]}
        wanted = options.peers.split(",") if options.peers else list(programs)
        self.servers = {}
        for name, command in programs.items():
            if name not in wanted:
                continue
            modules = {"luv": "luv", "cqueues": "cqueues"}
            there = shutil.which(command[0]) and (name not in modules or subprocess.run(
                ["lua5.4", "-e", f"require '{modules[name]}'"], stderr=subprocess.DEVNULL).returncode == 0)
            if there:
                self.servers[name] = command
            else:
                print(f"skipped {name}: not installed", file=sys.stderr)

    def compile(self, name, flags=()):
        out = f"{self.directory}/{name}"
        subprocess.run(["cc", "-O2", "-w", "-o", out, f"{HERE}/{name}.c", *flags], check=True)
        return out

    def start(self, name, workload):
        self.port += 1
        command = self.servers[name] + [workload, str(self.port), self.directory]
        if name == "nginx":
            path = f"{self.directory}/nginx.conf"
            with open(path, "w") as file:
                file.write(NGINX.format(directory=self.directory, port=self.port) + "master_process off;\n")
            command = self.servers[name] + ["-c", path, "-p", self.directory]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                time.sleep(0.05)
        time.sleep(0.1)
        return server

    def row(self, label, unit, peers, measure, more_is_better=False):
        """`measure(name)` returns one number, or None if it could not measure."""
        if self.options.only and self.options.only not in label:
            return
        found = {name: [] for name in peers if name in self.servers}
        for _ in range(self.rounds):
            for name in found:
                try:
                    value = measure(name)
                except (OSError, subprocess.SubprocessError, ValueError, AttributeError) as problem:
                    print(f"failed: {name}: {label}: {problem}", file=sys.stderr)
                    continue
                if value:
                    found[name].append(value)
        medians = {name: statistics.median(values) for name, values in found.items() if values}
        own = medians.get("rlhost")
        cells = [
            f"{value:,.2f}" + (f" ({own / value:.2f})" if own and name != "rlhost" else "")
            for name, value in medians.items()]
        print(
            f"| {label}, {unit} | " + " · ".join(f"{name} {cell}" for name, cell in zip(medians, cells)) + " |",
            flush=True)

    def loaded(self, workload, connections, total, size, scale=1e6, per=None, wall=False):
        """Measures the server's processor time for each message, or the wall time, which includes the load's."""
        total = max(connections, total // self.share)

        def measure(name):
            server = self.start(name, workload)
            try:
                before, start = processor_time(server.pid), time.monotonic()
                subprocess.run(
                    [self.load, workload, str(self.port), str(connections), str(total), str(size)],
                    check=True,
                    timeout=300)
                if wall:
                    return (time.monotonic() - start) / ((per or 1) * total) * scale
                return (processor_time(server.pid) - before) / ((per or 1) * total) * scale
            finally:
                stop(server)
        return measure

    def idle(self, workload, connections):
        def measure(name):
            server = self.start(name, workload)
            before = memory(server.pid)
            clients = subprocess.Popen(
                [self.load, "idle", str(self.port), str(connections), "0", "1"], stdout=subprocess.PIPE)
            try:
                clients.stdout.readline()
                time.sleep(1)
                return (memory(server.pid) - before) * 1024 / connections
            finally:
                stop(clients)
                stop(server)
        return measure

    def wrk(self, workload, path):
        def measure(name):
            server = self.start(name, workload)
            try:
                before = processor_time(server.pid)
                out = subprocess.run(
                    [
                        "wrk",
                        "-t1",
                        "-c50",
                        f"-d{1 if self.options.quick else 3}s",
                        f"http://127.0.0.1:{self.port}{path}",
                    ],
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=60,
                ).stdout
                return (processor_time(server.pid) - before) / int(re.search(r"(\d+) requests in", out).group(1)) * 1e6
            finally:
                stop(server)
        return measure

    def handshakes(self, name):
        server = self.start(name, "tls_answer")
        try:
            before = processor_time(server.pid)
            out = subprocess.run(["openssl", "s_time", "-new", "-time", "1" if self.options.quick else "3", "-connect",
                                  f"127.0.0.1:{self.port}"], capture_output=True, text=True, timeout=60).stdout
            return (processor_time(server.pid) - before) / int(re.search(r"(\d+) connections in", out).group(1)) * 1e6
        finally:
            stop(server)

    def tls_bulk(self, name):
        server = self.start(name, "tls_source")
        try:
            before = processor_time(server.pid)
            subprocess.run(
                f"openssl s_client -quiet -connect 127.0.0.1:{self.port} </dev/null 2>/dev/null | head -c 250000000 "
                f">/dev/null",
                shell=True,
                timeout=120)
            return (processor_time(server.pid) - before) * 1e3
        finally:
            stop(server)

    def client(self, script):
        """Measures the processor time of a client for each of its requests, 50 at a time, to the server in C."""
        def measure(name):
            count = 20000 // self.share
            server = self.start("C", "http")
            try:
                program = (
                    [self.options.host, f"{HERE}/{script}.lua"]
                    if name == "rlhost"
                    else ["node", f"{HERE}/{script}.mjs"])
                return (
                    float(
                        subprocess.run(
                            program + [str(self.port), str(count)],
                            check=True,
                            capture_output=True,
                            text=True,
                            timeout=120,
                        ).stdout
                    )
                    / count
                    * 1e6)
            finally:
                stop(server)
        return measure

    def websocket(self, name):
        server = self.start(name, "websocket")
        count = 40000 // self.share
        try:
            before = processor_time(server.pid)
            subprocess.run(
                [self.options.host, HERE + "/websocket_load.lua", str(self.port), str(count)], check=True, timeout=120)
            return (processor_time(server.pid) - before) / count * 1e6
        finally:
            stop(server)

    def json(self):
        if self.options.only and self.options.only not in "JSON":
            return
        out = subprocess.run(
            [self.options.host, HERE + "/json.lua", str(self.share)], capture_output=True, text=True, timeout=120)
        print(out.stdout or out.stderr, end="", flush=True)

    def run(self):
        streams, tls, http = (
            ["rlhost", "C", "C+Lua", "luv", "cqueues", "node"],
            ["rlhost", "node"],
            ["rlhost", "nginx", "node"])
        print(f"Network, {self.rounds} rounds; in brackets: rlhost's share of it\n\n| workload | |\n|---|---|")
        self.row("echo, 64 bytes, 50 connections", "µs", streams, self.loaded("echo", 50, 200000, 64))
        self.row("echo, 64 bytes, 1,000 connections", "µs", streams, self.loaded("echo", 1000, 200000, 64))
        self.row("lines of 100 bytes, 50 connections", "µs", streams, self.loaded("lines", 50, 200000, 100))
        self.row(
            "bulk, 1 GB", "ms", streams, self.loaded("sink", 1, 1 << 30, 1 << 20, scale=1e3 * (1 << 30) / self.share))
        self.row(
            "bulk, 1 GB, from beginning to end",
            "ms",
            streams,
            self.loaded("sink", 1, 1 << 30, 1 << 20, 1e3 * (1 << 30) / self.share, wall=True))
        self.row("accepted, answered, closed", "µs", streams, self.loaded("answer", 1, 20000, 10))
        self.row(
            "chat, 1,000 clients, a line to each",
            "µs",
            ["rlhost", "luv", "node"],
            self.loaded("chat", 1000, 200, 100, per=1000))
        self.row("memory of an idle connection in a task", "bytes", streams, self.idle("idle", 5000))
        self.row(
            "memory of an idle connection, callbacks", "bytes", ["rlhost", "luv", "node"], self.idle("idle_data", 5000))
        self.row("TLS handshake", "µs", tls, self.handshakes)
        self.row("TLS, 250 MB", "ms", tls, self.tls_bulk)
        if shutil.which("wrk"):
            self.row("HTTP hello world, wrk -c 50", "µs", http, self.wrk("http", "/"))
            self.row("HTTP, a small JSON answer, wrk -c 50", "µs", http, self.wrk("http", "/json"))
        else:
            print("wrk is not installed: skipped", file=sys.stderr)
        self.row("HTTP client, 50 at a time", "µs", tls, self.client("client"))
        self.row("WebSocket echo, 64 bytes, 50 connections", "µs", ["rlhost"], self.websocket)
        self.json()
        shutil.rmtree(self.directory)
        return 0


def lua():
    out = subprocess.run(["pkg-config", "--cflags", "--libs", "lua5.4"], capture_output=True, text=True)
    return out.stdout.split() or ["-I/usr/include/lua5.4", "-llua5.4"]


def processor_time(process):
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory(process):
    """Counts anonymous memory only, since further connections share the pages of code that the first ones touch."""
    with open(f"/proc/{process}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Anonymous"):
                return int(line.split()[1])
    raise OSError("the server has ended")


def stop(process):
    process.kill()
    process.wait()
